//! Import plans for any folder: every planned path is valid and unique, and no text
//! is over the size limit.
//!
//! An input is a list of files: blocks separated by a zero byte, each with the path on its first line.

#![no_main]

use std::collections::BTreeSet;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use memory::limits::MEMORY_BYTES_MAX;
use memory::path::RelativePath;

use crate::engine::import::{Format, SourceFile, plan};

/// The one module of the engine that depends on `memory` alone. The whole crate would bring in SQLite
/// and take minutes to build.
#[path = "../../crates/engine/src"]
mod engine {
    pub mod import;
}

fuzz_target!(|bytes: &[u8]| {
    let files: Vec<SourceFile> = bytes.split(|byte| *byte == 0).map(file).collect();
    let detected = Format::detect(Path::new("notes"), &files);
    for format in [detected, Format::Folder, Format::ServerMemory] {
        let mut paths = BTreeSet::new();
        for planned in plan(format, files.clone()).memories {
            assert!(RelativePath::parse(&planned.path).is_ok(), "{}", planned.path);
            assert!(planned.text.len() <= MEMORY_BYTES_MAX);
            assert!(paths.insert(planned.path), "two memories at one path");
        }
    }
});

fn file(block: &[u8]) -> SourceFile {
    let mut parts = block.splitn(2, |byte| *byte == b'\n');
    let path = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    SourceFile { path, bytes: parts.next().unwrap_or_default().to_vec() }
}
