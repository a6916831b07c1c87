//! Properties for any text and any prompt.
//!
//! An updated corpus must rank like one rebuilt from scratch.

use lukasa_recall::{Corpus, RankOptions, Threshold};
use memory::screen::Screen;
use proptest::prelude::*;

use crate::path;

const OPTIONS: RankOptions =
    RankOptions { limit: 8, threshold: Threshold::None, use_vectors: true };

/// A change of a corpus.
#[derive(Clone, Debug)]
enum CorpusOp {
    Put(usize, String),
    Remove(usize),
}

fn text() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "harbor",
        "harbour",
        "ship",
        "boats",
        "Anna:",
        "2031-04-05",
        "snake_case",
        "港",
        "船が",
        "корабль",
        "\n\n# Pier\n\n",
        "\n- ",
        "why",
        "sails",
        "sailing",
        "?",
    ]);
    prop::collection::vec(word, 0..24).prop_map(|words| words.join(" "))
}

fn corpus_op() -> impl Strategy<Value = CorpusOp> {
    prop_oneof![
        3 => (0_usize..6, text()).prop_map(|(index, text)| CorpusOp::Put(index, text)),
        1 => (0_usize..6).prop_map(CorpusOp::Remove),
    ]
}

fn file(index: usize) -> memory::path::MemoryPath {
    path(&format!("folder/file-{index}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_and_any_prompt_are_accepted(text in any::<String>(), prompt in any::<String>()) {
        let mut corpus = Corpus::new(Screen::default());
        corpus.put(&file(0), &text, None);
        corpus.put(&file(1), &prompt, None);
        for hit in corpus.rank(&prompt, &OPTIONS) {
            for entry in hit.entries {
                let whole = if hit.path == file(0) { &text } else { &prompt };
                prop_assert!(whole.get(entry.range).is_some());
            }
        }
    }

    #[test]
    fn a_corpus_after_changes_ranks_like_a_rebuilt_one(
        steps in prop::collection::vec(corpus_op(), 1..16),
        prompt in text(),
    ) {
        let mut changed = Corpus::new(Screen::default());
        let mut last = std::collections::BTreeMap::new();
        for step in steps {
            match step {
                CorpusOp::Put(at, text) => {
                    changed.put(&file(at), &text, None);
                    last.insert(at, text);
                }
                CorpusOp::Remove(at) => {
                    changed.remove(&file(at));
                    last.remove(&at);
                }
            }
            // Ranking fills the caches, which the next changes must keep correct.
            drop(changed.rank(&prompt, &OPTIONS));
        }
        let mut rebuilt = Corpus::new(Screen::default());
        for (at, text) in &last {
            rebuilt.put(&file(*at), text, None);
        }
        prop_assert_eq!(changed.entries(), rebuilt.entries());
        prop_assert_eq!(changed.rank(&prompt, &OPTIONS), rebuilt.rank(&prompt, &OPTIONS));
        prop_assert_eq!(
            changed.rank_entries(&prompt, &OPTIONS, None),
            rebuilt.rank_entries(&prompt, &OPTIONS, None)
        );
    }
}
