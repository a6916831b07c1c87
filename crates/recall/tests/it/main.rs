//! Recall through its public API: which memories answer a prompt, why, and when it abstains.

#![expect(clippy::unwrap_used, reason = "the helpers of these tests panic on an invalid name")]

mod corpus;
mod properties;

use lukasa_recall::{Corpus, RankOptions};
use memory::path::{Layout, MemoryPath};
use memory::screen::Screen;

/// Returns the path of a memory of the project.
fn path(name: &str) -> MemoryPath {
    MemoryPath::parse(&format!("/memories/project/{name}.md"), Layout::Scoped).unwrap()
}

/// Returns a corpus of memories, each a name, a description and a body.
fn corpus(memories: &[(&str, &str, &str)]) -> Corpus {
    let mut corpus = Corpus::new(Screen::default());
    for (name, description, body) in memories {
        let text = format!("---\nname: {name}\ndescription: {description}\n---\n\n{body}\n");
        corpus.put(&path(name), &text, None);
    }
    corpus
}

/// Returns the names of the memories that answer a prompt.
fn names(corpus: &Corpus, prompt: &str) -> Vec<String> {
    let hits = corpus.rank(prompt, &RankOptions::default());
    hits.iter().map(|hit| hit.path.relative().unwrap().file_name().replace(".md", "")).collect()
}
