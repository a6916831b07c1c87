//! What holds for any text and any prompt.

use lukasa_recall::{Corpus, RankOptions};
use memory::screen::Screen;
use proptest::prelude::*;

use crate::path;

const OPTIONS: RankOptions = RankOptions { limit: 8, abstain: false, use_vectors: true };

/// What may happen to a corpus.
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
        3 => (0_usize..6, text()).prop_map(|(at, text)| CorpusOp::Put(at, text)),
        1 => (0_usize..6).prop_map(CorpusOp::Remove),
    ]
}

fn file(at: usize) -> memory::path::MemoryPath {
    path(&format!("folder/file-{at}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_and_any_prompt_are_taken(text in any::<String>(), prompt in any::<String>()) {
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
    fn a_corpus_that_followed_changes_answers_like_one_made_anew(
        steps in prop::collection::vec(corpus_op(), 1..16),
        prompt in text(),
    ) {
        let mut followed = Corpus::new(Screen::default());
        let mut last = std::collections::BTreeMap::new();
        for step in steps {
            match step {
                CorpusOp::Put(at, text) => {
                    followed.put(&file(at), &text, None);
                    last.insert(at, text);
                }
                CorpusOp::Remove(at) => {
                    followed.remove(&file(at));
                    last.remove(&at);
                }
            }
            // Whatever is kept between prompts is kept here too.
            drop(followed.rank(&prompt, &OPTIONS));
        }
        let mut anew = Corpus::new(Screen::default());
        for (at, text) in &last {
            anew.put(&file(*at), text, None);
        }
        prop_assert_eq!(followed.entries(), anew.entries());
        prop_assert_eq!(followed.rank(&prompt, &OPTIONS), anew.rank(&prompt, &OPTIONS));
        prop_assert_eq!(
            followed.rank_entries(&prompt, &OPTIONS),
            anew.rank_entries(&prompt, &OPTIONS)
        );
    }
}
