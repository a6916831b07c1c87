//! Tests of which files of a Quipu folder are memories.

use super::*;
use crate::import::{Format, SourceFile, plan};

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), bytes: text.as_bytes().to_vec() }
}

#[test]
fn every_text_of_a_folder_is_a_memory_but_its_listing() {
    let list = format!("{LIST_MARK}\n- [a](a.md)\n");
    let files = vec![
        file("MEMORY.md", &list),
        file("deep/MEMORY.md", "# My own\n"),
        file("a.md", "a\n"),
        file("data.json", "{}"),
        file("plain", "text\n"),
        file(".hidden.md", "x\n"),
        file("nul.md", "\0"),
    ];
    let plan = plan(Format::Quipu, files);
    let paths: Vec<_> = plan.memories.iter().map(|one| (&*one.path, &*one.source)).collect();
    let expected = [
        ("a.md", "a.md"),
        ("data.json", "data.json"),
        ("deep/MEMORY.md", "deep/MEMORY.md"),
        ("plain", "plain"),
    ];
    assert_eq!(paths, expected);
    let skipped: Vec<_> = plan.skipped.iter().map(|one| (&*one.source, one.is_loss)).collect();
    assert_eq!(skipped, [(".hidden.md", false), ("MEMORY.md", false), ("nul.md", true)]);
}
