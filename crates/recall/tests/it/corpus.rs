//! Rankings of small corpora: matches, reasons, answers and abstentions.
//!
//! Most prompts are asked of a bakery's memories in four languages.

use std::collections::HashMap;

use lukasa_recall::{
    Corpus, DenseScores, MemoryHit, RankOptions, Reason, SimilarityScale, Threshold, Vector,
};
use memory::path::MemoryPath;
use memory::screen::Screen;

use crate::{corpus, names, path};

/// A bakery and its software.
const BAKERY: [(&str, &str, &str); 12] = [
    (
        "ovens",
        "Ovens",
        "- The deck oven needs 40 minutes to reach 250 degrees\n- Steam only on the left one",
    ),
    (
        "flour",
        "Flour deliveries",
        "- Rye comes on Thursdays from Mill Brandt\n- Wheat is ordered by fax",
    ),
    (
        "till",
        "Till software",
        "- The till prints receipts through cups_bridge\n- Restart it after `E_DRAWER_OPEN`",
    ),
    (
        "allergens",
        "Allergen labels",
        "- Sesame is printed in capitals\n- Labels are checked by Oda",
    ),
    ("wages", "Wages", "- Paid on the 27th, night shifts get 25 percent more"),
    ("shop-test", "Test shop", "- The test shop is reset each night at 03:15"),
    ("sourdough", "Starter", "- Feed the starter twice a day, 1:5:5"),
    ("vans", "Delivery vans", "- Van two has a broken tail lift\n- Winter tires go on in October"),
    (
        "kasse",
        "Kassenschluss",
        "- Die Kasse wird um 18 Uhr gezählt\n- Der Tresorschlüssel hängt im Büro",
    ),
    ("ja", "店舗の決まり", "- 開店は朝七時\n- 定休日は水曜日"),
    ("uk", "Печь", "- Печь чистят каждую субботу"),
    ("reviews", "Code reviews", "- Two people look at a change of prices"),
];

#[test]
fn words_of_any_script_find_their_memory() {
    let corpus = corpus(&BAKERY);
    let check = |prompt: &str, name: &str| {
        assert_eq!(names(&corpus, prompt).first().map(String::as_str), Some(name), "{prompt}");
    };
    check("how long until the deck oven is hot?", "ovens");
    check("who delivers the rye flour", "flour");
    check("定休日はいつですか", "ja");
    check("когда чистят печь", "uk");
    check("Wann wird die Kasse gezählt?", "kasse");
    check("when is the test shop reset", "shop-test");
}

#[test]
fn identifiers_and_misspelled_words_find_their_memory() {
    let corpus = corpus(&BAKERY);
    let check = |prompt: &str, name: &str| {
        assert_eq!(names(&corpus, prompt).first().map(String::as_str), Some(name), "{prompt}");
    };
    check("E_DRAWER_OPEN", "till");
    check("what is cups_bridge for", "till");
    check("alergen lables", "allergens");
    check("sourdoguh stater feeding", "sourdough");
}

#[test]
fn the_entry_with_an_identifier_comes_before_entries_that_are_near() {
    let commits = "- 4f2a91c: the parser accepts an empty name of a ferry\n\
                   - 4f2a19c: the parser rejects an empty name of a pier\n- `tide_table` is dropped";
    let notes = "- Reverting a commit of the parser needs a review\n- HAL-2214 was a wrong pier";
    let corpus = corpus(&[("commits", "Commits", commits), ("notes", "Reverting", notes)]);
    let first = |prompt: &str| {
        let hit = corpus.rank_entries(prompt, &RankOptions::default(), None).remove(0);
        (hit.path.relative().unwrap().file_name().to_owned(), hit.ordinal)
    };
    assert_eq!(first("can I revert the commit 4f2a19c"), ("commits.md".to_owned(), 1));
    assert_eq!(first("4f2a91c0d94a7f33, which parser is it"), ("commits.md".to_owned(), 0));
    assert_eq!(first("may I rename tide_table"), ("commits.md".to_owned(), 2));
    assert_eq!(first("HAL-2214: what did the parser do?"), ("notes.md".to_owned(), 1));
}

#[test]
fn nothing_is_returned_when_nothing_fits() {
    let corpus = corpus(&BAKERY);
    for prompt in [
        "",
        "go on",
        "thanks!",
        "What is a monad?",
        "Explain TCP slow start",
        "??? --- ;",
        "素数とは何ですか",
    ] {
        assert_eq!(names(&corpus, prompt), [""; 0], "{prompt}");
    }
    let all = RankOptions { threshold: Threshold::None, ..RankOptions::default() };
    assert!(!corpus.rank("winter holidays", &all).is_empty(), "without abstaining there are hits");
}

#[test]
fn a_hit_has_its_reasons() {
    let corpus = corpus(&BAKERY);
    let hit = corpus.rank("alergen labels", &RankOptions::default()).remove(0);
    let pair = |query: &str, memory: &str| (query.to_owned(), memory.to_owned());
    let (misspelled, corrected) = pair("alergen", "allergen");
    let (query_word, memory_word) = pair("labels", "labels");
    assert_eq!(
        hit.reasons,
        [
            Reason::Misspelled { query_word: misspelled, memory_word: corrected },
            Reason::ExactWord { query_word, memory_word }
        ]
    );
}

#[cfg(feature = "embedder")]
#[test]
fn a_synonym_finds_a_memory() {
    let mut memories = BAKERY.to_vec();
    memories.push(("cars", "Company automobiles", "- Parked behind the house"));
    let corpus = corpus(&memories);
    let options = RankOptions { threshold: Threshold::None, ..RankOptions::default() };
    let first = corpus.rank("where does the vehicle stand", &options).remove(0);
    assert_eq!(first.path, path("cars"));
    let near = |reason: &Reason| matches!(reason, Reason::SimilarWord { query_word, .. } if query_word == "vehicle");
    assert!(first.reasons.iter().any(near), "{:?}", first.reasons);
    let by_words = RankOptions { use_vectors: false, ..options };
    let hits = corpus.rank("vehicle", &by_words);
    assert_eq!(hits, [], "without vectors nothing matches");
}

#[cfg(feature = "embedder")]
#[test]
fn a_paraphrased_prompt_is_answered_by_its_meaning_as_a_whole() {
    let corpus = corpus(&BAKERY);
    // The strict threshold hides most prompts that share no word with their answer.
    let lenient = RankOptions { threshold: Threshold::Lenient, ..RankOptions::default() };
    let check = |prompt: &str, name: &str| {
        let first = corpus.rank(prompt, &lenient).into_iter().next().map(|hit| hit.path);
        assert_eq!(first, Some(path(name)), "{prompt}");
    };
    check("when do we get our salary", "wages");
    check("which of our cars may I not load from behind", "vans");
    for prompt in ["how does a car engine work", "write a function that computes a salary"] {
        assert_eq!(names(&corpus, prompt), [""; 0], "{prompt}");
    }
}

#[cfg(feature = "embedder")]
#[test]
fn a_shared_word_does_not_answer_a_general_question() {
    let corpus = corpus(&BAKERY);
    for prompt in [
        "explain the difference between an oven and a kiln",
        "who invented the fax?",
        "what does the word sesame stand for in a fairy tale",
    ] {
        assert_eq!(names(&corpus, prompt), [""; 0], "{prompt}");
    }
}

#[cfg(feature = "embedder")]
#[test]
fn a_runner_up_covers_the_rest_of_the_prompt_or_fits_as_well_as_the_best() {
    let bakery = corpus(&BAKERY);
    let mut both =
        names(&bakery, "which day do the rye deliveries come and when is the test shop reset");
    both.sort();
    assert_eq!(both, ["flour", "shop-test"]);
    assert_eq!(names(&bakery, "who delivers the rye flour"), ["flour"]);
    let twins = [BAKERY[5], ("twin", BAKERY[5].1, BAKERY[5].2), BAKERY[7]];
    let mut both = names(&corpus(&twins), "when is the test shop reset");
    both.sort();
    assert_eq!(both, ["shop-test", "twin"]);
}

#[test]
fn a_memory_whose_text_is_all_refused_is_not_found_by_its_name() {
    let token = format!("ghp_{}", "a1B2c3D4e5".repeat(4).get(..36).unwrap());
    let secret = format!("- The safe opens with {token}");
    let corpus = corpus(&[("safe", "Safe", &secret), BAKERY[0]]);
    assert_eq!(names(&corpus, "how do I unlock the safe?"), [""; 0]);
}

#[test]
fn neighbors_and_subjects_distinguish_entries() {
    let talk = |lines: &[&str]| format!("- {}\n", lines.join("\n- "));
    let mut corpus = Corpus::new(Screen::default());
    let first = talk(&[
        "Ines: How was the regatta?",
        "Tomas: Wonderful, we came second",
        "Ines: My sister kept bees once",
        "Tomas: We lost the anchor on the way",
    ]);
    let second = talk(&["Tomas: I sold the old piano", "Ines: I came second in chess"]);
    corpus.put(&path("talk-1"), &first, Some(jiff::civil::date(2031, 3, 2)));
    corpus.put(&path("talk-2"), &second, Some(jiff::civil::date(2031, 8, 9)));
    let best = |prompt: &str| {
        let hit = corpus.rank_entries(prompt, &RankOptions::default(), None).remove(0);
        (hit.path, hit.ordinal)
    };
    assert_eq!(best("Which place did Tomas reach in the regatta?"), (path("talk-1"), 1));
    assert_eq!(best("Who came second in August?"), (path("talk-2"), 1));
    assert_eq!(best("What did Tomas lose?"), (path("talk-1"), 3));
}

#[test]
fn what_comes_after_a_question_is_taken_for_its_answer() {
    let talk = |mark: &str| {
        let before = "- Ada: The ferry was late\n- Ben: Poor you\n";
        let asked = format!("- Ada: Which instrument are you practising{mark}\n");
        format!("{before}{asked}- Ben: Mostly the cello\n- Ada: Lovely\n- Ben: See you soon\n")
    };
    let answer = |text: &str| {
        let corpus = corpus(&[("talk", "Talk", text)]);
        let found =
            corpus.ranking("Which instrument is being practised?", &RankOptions::default(), None);
        let of = |entry: usize| {
            let mut hits = found.entries.iter().filter(|(hit, _)| hit.ordinal == entry);
            hits.next().map(|(hit, _)| hit.score).expect("an entry that was looked at")
        };
        of(3) - of(1)
    };
    assert!(answer(&talk("?")) > answer(&talk(".")));
    assert!(answer(&talk("? [shared a picture: a hall]")) > answer(&talk(".")));
    let address = answer(&talk(" https://ada.example/list?a=b"));
    assert!((address - answer(&talk(" https://ada.example/list/a=b"))).abs() < 0.01, "{address}");
}

#[test]
fn a_changed_memory_is_found_by_its_new_text_and_a_removed_one_is_not() {
    let mut corpus = corpus(&BAKERY);
    let count = corpus.memories();
    corpus.put(&path("ovens"), "- Replaced by a tunnel kiln\n", None);
    assert_eq!(names(&corpus, "deck steam degrees"), [""; 0]);
    assert_eq!(names(&corpus, "tunnel kiln"), ["ovens"]);
    assert!(corpus.remove(&path("ovens")));
    assert!(!corpus.remove(&path("ovens")));
    assert_eq!(names(&corpus, "tunnel kiln"), [""; 0]);
    assert_eq!(corpus.memories(), count - 1);
}

#[test]
fn a_corpus_of_one_memory_answers_and_abstains_like_a_larger_one() {
    let corpus = corpus(&BAKERY[..1]);
    assert_eq!(names(&corpus, "how hot is the deck oven, in degrees?"), ["ovens"]);
    assert_eq!(names(&corpus, "how hot is the sun?"), [""; 0]);
}

#[test]
fn text_that_screening_refuses_is_never_found() {
    let key = format!("ghp_{}", "a1B2c3D4e5".repeat(4).get(..36).unwrap());
    let body = format!("- The parcel robot is called Otto\n- parcel robot token {key}");
    let corpus = corpus(&[("robot", "Parcel robot", &body), ("other", "Other", "- nothing")]);
    let hits = corpus.rank(
        "parcel robot token",
        &RankOptions { threshold: Threshold::None, ..RankOptions::default() },
    );
    let texts: Vec<usize> = hits[0].entries.iter().map(|entry| entry.ordinal).collect();
    assert_eq!(texts, [0], "the entry with the token is not indexed");
    assert_eq!(corpus.entries(), 2);
}

/// Returns the dense scores of a corpus whose memories have their vector by name; an empty one is none.
fn dense_scores(corpus: &Corpus, prompt: &[f32], of: impl Fn(&str) -> Vec<f32>) -> DenseScores {
    scores_of_scale(SimilarityScale::Unknown, corpus, prompt, of)
}

fn scores_of_scale(
    scale: SimilarityScale,
    corpus: &Corpus,
    prompt: &[f32],
    of: impl Fn(&str) -> Vec<f32>,
) -> DenseScores {
    let vectors: HashMap<MemoryPath, Vector> = corpus
        .paths()
        .filter_map(|path| {
            Some((path.clone(), Vector::from_numbers(&of(path.relative()?.file_name()))?))
        })
        .collect();
    let vectors = corpus.entry_vectors(|path| vec![vectors.get(path)]);
    let prompt = Vector::from_numbers(prompt).unwrap();
    corpus.dense_scores(&prompt, &vectors, scale)
}

fn ranked_paths(corpus: &Corpus, prompt: &str, dense: &DenseScores) -> Vec<(String, Vec<Reason>)> {
    let hits = corpus.rank_with(prompt, &RankOptions::default(), Some(dense), |_| true);
    let name = |hit: &MemoryHit| hit.path.relative().unwrap().file_name().to_owned();
    hits.into_iter().map(|hit| (name(&hit), hit.reasons)).collect()
}

const SHORE: [(&str, &str, &str); 3] = [
    ("harbour", "Harbour", "- The harbour master is called Olga."),
    ("bread", "Bread", "- The sourdough rests for eleven hours."),
    ("tests", "Tests", "- Integration tests need the variable TARN_URL."),
];

#[test]
fn a_memory_whose_vector_stands_out_is_found_without_a_shared_word() {
    let corpus = corpus(&SHORE);
    let prompt = "wer leitet den Kai?";
    assert_eq!(names(&corpus, prompt), [] as [&str; 0]);
    let near = |name: &str| if name == "harbour.md" { vec![1.0, 0.1] } else { vec![0.0, 1.0] };
    let found = ranked_paths(&corpus, prompt, &dense_scores(&corpus, &[1.0, 0.0], near));
    let [(name, reasons)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(name, "harbour.md");
    assert!(
        matches!(reasons.as_slice(), [Reason::SimilarText { similarity }] if *similarity > 0.9)
    );
}

#[test]
fn a_memory_as_similar_as_all_others_is_not_found() {
    let corpus = corpus(&SHORE);
    let all = dense_scores(&corpus, &[1.0, 0.0], |_| vec![1.0, 0.1]);
    assert_eq!(ranked_paths(&corpus, "wer leitet den Kai?", &all), []);
    let alone = crate::corpus(&SHORE[..1]);
    let alone_is = dense_scores(&alone, &[1.0, 0.0], |_| vec![1.0, 0.1]);
    assert_eq!(
        ranked_paths(&alone, "wer leitet den Kai?", &alone_is),
        [],
        "one memory has nothing to stand out from"
    );
}

#[test]
fn words_and_vectors_are_weighed_together() {
    let corpus = corpus(&SHORE);
    let prompt = "how long does the sourdough rest?";
    let near = |name: &str| if name == "harbour.md" { vec![1.0, 0.1] } else { vec![0.0, 1.0] };
    let found = ranked_paths(&corpus, prompt, &dense_scores(&corpus, &[1.0, 0.0], near));
    let mut found: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, ["bread.md", "harbour.md"], "both kinds of match are shown");
}

#[test]
fn vectors_that_cannot_be_compared_change_nothing() {
    let corpus = corpus(&SHORE);
    for prompt in ["who is the harbour master?", "wer leitet den Kai?"] {
        let longer = dense_scores(&corpus, &[1.0, 0.0], |_| vec![1.0, 0.0, 0.0]);
        let without = corpus.rank(prompt, &RankOptions::default());
        let rank_with = |dense: &DenseScores| {
            corpus.rank_with(prompt, &RankOptions::default(), Some(dense), |_| true)
        };
        assert_eq!(rank_with(&longer), without);
        let none = DenseScores::default();
        assert_eq!(rank_with(&none), without);
    }
}

/// Returns a vector with this similarity to `[1.0, 0.0]`.
fn with_similarity(similarity: f32) -> Vec<f32> {
    vec![similarity, (1.0 - similarity * similarity).sqrt()]
}

/// Returns the hits of a prompt that is compared with a bakery's memories by the encoder.
fn encoded_hits(
    prompt: &str,
    threshold: Threshold,
    of: impl Fn(&str) -> Vec<f32>,
) -> Vec<(String, MemoryHit)> {
    let corpus = corpus(&BAKERY);
    let scores = scores_of_scale(SimilarityScale::Encoder, &corpus, &[1.0, 0.0], of);
    let options = RankOptions { threshold, ..RankOptions::default() };
    let hits = corpus.rank_with(prompt, &options, Some(&scores), |_| true).into_iter();
    let name = |hit: &MemoryHit| hit.path.relative().unwrap().file_name().replace(".md", "");
    hits.map(|hit| (name(&hit), hit)).collect()
}

/// A prompt that shares no word with the memory that helps.
const PARAPHRASE: &str = "does Bartholomew qualify for it?";

#[test]
fn a_paraphrase_is_found_by_the_encoder_alone() {
    let near = |name: &str| with_similarity(if name == "wages.md" { 0.62 } else { 0.08 });
    let far = |_: &str| with_similarity(0.08);
    let first = |of: &dyn Fn(&str) -> Vec<f32>| {
        encoded_hits(PARAPHRASE, Threshold::Lenient, of).into_iter().next()
    };
    let (name, hit) = first(&near).unwrap();
    assert_eq!(name, "wages");
    let is_similar_text = |reason: &Reason| matches!(reason, Reason::SimilarText { similarity } if (similarity - 0.62).abs() < 0.02);
    assert!(hit.reasons.iter().any(is_similar_text), "{:?}", hit.reasons);
    let by_words = first(&far).map(|(name, _)| name);
    assert_ne!(by_words.as_deref(), Some("wages"), "the words alone do not find it");
}

#[test]
fn an_identifier_counts_more_than_nearness() {
    let near = |name: &str| with_similarity(if name == "till.md" { 0.1 } else { 0.7 });
    let hits = encoded_hits("what to do after `E_DRAWER_OPEN`", Threshold::Strict, near);
    assert_eq!(hits.first().map(|(name, _)| name.as_str()), Some("till"));
}

#[test]
fn an_entry_without_a_vector_is_found_by_its_words() {
    for with_vectors in [&["ovens.md"][..], &["ovens.md", "vans.md", "wages.md"]] {
        let some = |name: &str| {
            if with_vectors.contains(&name) { with_similarity(0.1) } else { Vec::new() }
        };
        let hits = encoded_hits("who delivers the rye flour", Threshold::Strict, some);
        let found: Vec<&str> = hits.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(found.first(), Some(&"flour"), "{with_vectors:?}: {found:?}");
        let reasons = &hits[0].1.reasons;
        let has_similarity =
            reasons.iter().any(|reason| matches!(reason, Reason::SimilarText { .. }));
        assert!(!has_similarity, "an estimate is no reason: {reasons:?}");
    }
}

#[test]
fn an_encoder_without_vectors_changes_nothing() {
    let corpus = corpus(&BAKERY);
    for prompt in ["who delivers the rye flour", "what to do after `E_DRAWER_OPEN`", PARAPHRASE] {
        for threshold in [Threshold::Strict, Threshold::Lenient, Threshold::None] {
            let options = RankOptions { threshold, ..RankOptions::default() };
            let hits: Vec<MemoryHit> = encoded_hits(prompt, threshold, |_| Vec::new())
                .into_iter()
                .map(|(_, hit)| hit)
                .collect();
            assert_eq!(hits, corpus.rank(prompt, &options), "{prompt}");
        }
    }
}

#[test]
fn equally_near_memories_are_in_the_order_of_their_paths() {
    let alike = |_: &str| with_similarity(0.3);
    let hits = encoded_hits("xylophone", Threshold::None, alike);
    let found: Vec<&str> = hits.iter().map(|(name, _)| name.as_str()).collect();
    let mut reversed = Corpus::new(Screen::default());
    for (name, description, body) in BAKERY.iter().rev() {
        let text = format!("---\nname: {name}\ndescription: {description}\n---\n\n{body}\n");
        reversed.put(&path(name), &text, None);
    }
    let scores = scores_of_scale(SimilarityScale::Encoder, &reversed, &[1.0, 0.0], alike);
    let options = RankOptions { threshold: Threshold::None, ..RankOptions::default() };
    let other = reversed.rank_with("xylophone", &options, Some(&scores), |_| true);
    let other: Vec<String> = other
        .iter()
        .map(|hit| hit.path.relative().unwrap().file_name().replace(".md", ""))
        .collect();
    assert_eq!(found, other);
    assert_eq!(found.len(), RankOptions::default().limit);
}

#[test]
fn dense_scores_of_another_corpus_do_no_harm() {
    let (corpus, smaller) = (corpus(&SHORE), crate::corpus(&SHORE[..1]));
    let near = |name: &str| if name == "tests.md" { vec![1.0, 0.1] } else { vec![0.0, 1.0] };
    let of_more = dense_scores(&corpus, &[1.0, 0.0], near);
    assert_eq!(ranked_paths(&smaller, "wer leitet den Kai?", &of_more), []);
}

#[test]
fn the_lenient_threshold_adds_weak_hits_after_those_of_the_strict_one() {
    let corpus = corpus(&BAKERY);
    let lenient = RankOptions { threshold: Threshold::Lenient, ..RankOptions::default() };
    let mut weak_count = 0;
    for prompt in ["who delivers the rye flour", "how does an oven work", "go on", "winter"] {
        let strict = corpus.rank(prompt, &RankOptions::default());
        let all = corpus.rank(prompt, &lenient);
        let (clear, weak): (Vec<MemoryHit>, Vec<MemoryHit>) =
            all.iter().cloned().partition(|hit| !hit.is_weak);
        assert_eq!(clear, strict, "{prompt}");
        weak_count += weak.len();
        assert_eq!([clear, weak].concat(), all, "{prompt}");
        let is_consistent = |hit: &MemoryHit| (hit.confidence < 0.5) == hit.is_weak;
        assert!(all.iter().all(is_consistent), "{prompt}");
        assert!(all.is_sorted_by(|a, b| a.confidence >= b.confidence), "{prompt}");
    }
    assert!(weak_count > 0);
}

// Without the table, `oven` may be a typo of `open` in the corpus that lacks it.
#[cfg(feature = "embedder")]
#[test]
fn a_memory_that_is_no_candidate_has_no_influence_on_the_others() {
    let (all, without) = (corpus(&BAKERY), corpus(&BAKERY[1..]));
    let best = path(BAKERY[0].0);
    let prompt = "how hot is the deck oven, in degrees?";
    let found = |corpus: &Corpus| {
        let options = RankOptions::default();
        let hits = corpus.rank_with(prompt, &options, None, |path| *path != best);
        hits.into_iter().map(|hit| hit.path).collect::<Vec<_>>()
    };
    assert_eq!(all.rank(prompt, &RankOptions::default())[0].path, best);
    assert_eq!(found(&all), found(&without));
}

#[cfg(feature = "embedder")]
#[test]
fn a_question_in_other_words_is_answered_and_an_unrelated_one_is_not() {
    let notes = [
        ("style", "Style", "- I prefer tabs over spaces"),
        ("deploy", "Deploy", "- Deploy with `just ship`, never on Fridays"),
        ("db", "Database", "- The tests need PostgreSQL 16 on port 5433"),
        ("me", "Person", "- My name is Ada and I live in Lisbon"),
    ];
    let lenient = RankOptions { threshold: Threshold::Lenient, ..RankOptions::default() };
    for corpus in [corpus(&notes), corpus(&notes[..1])] {
        for prompt in ["how should I indent?", "how should I indent this file?"] {
            let hits = corpus.rank(prompt, &lenient);
            let found: Vec<_> = hits.iter().map(|hit| hit.path.clone()).collect();
            assert_eq!(found, [path("style")], "{prompt}");
            assert_eq!(hits[0].is_weak, hits[0].confidence < 0.5, "{prompt}");
        }
        for prompt in [
            "",
            "go on",
            "What is a monad?",
            "what's the weather in Paris?",
            "what is the capital of France",
            "write a haiku about autumn",
            "explain TCP slow start",
            "translate this to German",
        ] {
            assert_eq!(corpus.rank(prompt, &lenient), [], "{prompt}");
        }
    }
}
