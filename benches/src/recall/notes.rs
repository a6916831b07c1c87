//! Memories as agents write them, and prompts that some of them help with, or none.

use std::path::Path;

use memory::path::{Layout, MemoryPath};
use memory::screen::Screen;
use recall::{Corpus, Options};

use crate::recall::{Outputs, read, share, text, texts};
use crate::report::{Line, Target};

/// What came of the prompts.
#[derive(Debug, Default)]
struct Sums {
    answerable: f64,
    found: f64,
    found_always: f64,
    with_top: f64,
    top: f64,
    unanswerable: f64,
    nothing: f64,
}

/// Asks each prompt, with and without the choice to answer nothing.
pub(super) fn measure(corpus: &Path, prompts: &Path, _: &Outputs) -> anyhow::Result<Vec<Line>> {
    let mut memories = Corpus::new(Screen::default());
    for memory in read(corpus)? {
        let path = MemoryPath::parse(text(&memory, "path")?, Layout::Scoped)?;
        memories.put(&path, text(&memory, "text")?, None);
    }
    let mut sums = Sums::default();
    for prompt in read(prompts)? {
        let ask = |abstain: bool| -> Vec<String> {
            let options = Options { abstain, ..Options::default() };
            let hits = memories.rank(prompt["query"].as_str().unwrap_or_default(), &options);
            hits.iter().map(|hit| hit.path.to_string()).collect()
        };
        let (found, always) = (ask(true), ask(false));
        let wanted = texts(&prompt, "relevant");
        let within = |list: &[String]| {
            share(list.iter().filter(|path| wanted.contains(path)).count(), &wanted)
        };
        if wanted.is_empty() {
            sums.unanswerable += 1.0;
            sums.nothing += f64::from(u8::from(found.is_empty()));
            continue;
        }
        sums.answerable += 1.0;
        sums.found += within(&found);
        sums.found_always += within(&always);
        if let Some(top) = prompt["top"].as_str() {
            sums.with_top += 1.0;
            sums.top += f64::from(u8::from(found.first().is_some_and(|first| first == top)));
        }
    }
    let (found, always) = (sums.found / sums.answerable, sums.found_always / sums.answerable);
    Ok(vec![
        Line::share("memories, recall@5", found).target(Target::Share(0.92)),
        Line::share("memories, recall@5 when something must be answered", always),
        Line::share("memories, first is the best", sums.top / sums.with_top)
            .target(Target::Share(0.85)),
        Line::share(
            "prompts without an answer, answered with nothing",
            sums.nothing / sums.unanswerable,
        )
        .target(Target::Share(0.9)),
    ])
}
