//! A packed corpus is decoded as it was, and any other bytes do no harm.
//!
//! Changed and random bytes are decoded too: they are refused, or give a corpus that can be used.

use memory::path::{Layout, MemoryPath};
use memory::screen::Policy;
use proptest::prelude::*;

use super::*;
use crate::rank::{RankOptions, Threshold};

const ALL: RankOptions = RankOptions { limit: 8, threshold: Threshold::None, use_vectors: true };

const TEXTS: [&str; 5] = [
    "---\nname: Harbour rules\ndescription: who moors where\ndate: 2031-04-05\n---\n\n# Piers\n\n- Olga: the \
     ferry moors at pier_nine\n- Is the ferry late? Ask Olga\n- Olga: the ferry the ferry the ferry\n",
    "- 開店は朝七時\n- 定休日は水曜日 3.75 toPort\n",
    "",
    "- Sailing ships and rowing boats\n\nUnder no roof at all, since 2031-02-03 or yesterday.\n",
    "---\nname: nothing but a head\n---\n",
];

fn path(name: &str) -> MemoryPath {
    MemoryPath::parse(&format!("/memories/{name}.md"), Layout::Scoped).unwrap()
}

fn corpus() -> Corpus {
    let mut corpus = Corpus::new(Screen::default());
    corpus.put(&path("global/gone"), "- words that nobody has any more\n", None);
    for (at, text) in TEXTS.iter().enumerate() {
        let scope = ["global", "project", "workspace"][at % 3];
        corpus.put(&path(&format!("{scope}/folder/note-{at}")), text, None);
    }
    corpus.remove(&path("global/gone"));
    corpus
}

fn unpack(bytes: &[u8]) -> Option<(Corpus, Vec<u8>)> {
    Corpus::unpack(Screen::default(), bytes)
}

fn packed() -> Vec<u8> {
    corpus().pack(b"about").unwrap()
}

/// Exercises all operations of a corpus.
fn exercise(mut corpus: Corpus) {
    let prompts = ["the ferry of Olga at the pier in April", "定休日", "boat", "feryr saling"];
    for prompt in prompts {
        for hit in corpus.rank(prompt, &ALL) {
            assert!(hit.entries.len() <= 3);
        }
        drop(corpus.rank_entries(prompt, &ALL, None));
    }
    corpus.put(&path("global/folder/note-0"), TEXTS[3], None);
    let paths: Vec<MemoryPath> = corpus.paths().cloned().collect();
    assert_eq!(paths.len(), corpus.memories());
    drop(corpus.pack(b""));
    for path in paths {
        assert!(corpus.remove(&path));
    }
    assert_eq!((corpus.entries(), corpus.memories()), (0, 0));
}

#[test]
fn an_unpacked_corpus_ranks_like_the_original_and_can_be_updated() {
    let original = corpus();
    let (mut unpacked, about) = unpack(&packed()).unwrap();
    assert_eq!(about, b"about");
    assert!(unpacked.paths().eq(original.paths()));
    assert_eq!(unpacked.entries(), original.entries());
    for prompt in
        ["who moors where in April?", "定休日はいつですか", "what does Olga say of ships", "feryr"]
    {
        assert_eq!(unpacked.rank(prompt, &ALL), original.rank(prompt, &ALL), "{prompt}");
        assert_eq!(
            unpacked.rank_entries(prompt, &ALL, None),
            original.rank_entries(prompt, &ALL, None),
            "{prompt}"
        );
    }
    assert_eq!(unpacked.pack(b"about"), Some(packed()), "packing it again gives the same bytes");
    unpacked.put(
        &path("project/folder/note-1"),
        "- The dock has a crane for sailing yachts\n",
        None,
    );
    let mut rebuilt = corpus();
    rebuilt.put(
        &path("project/folder/note-1"),
        "- The dock has a crane for sailing yachts\n",
        None,
    );
    for prompt in ["crane at the dock", "定休日はいつですか", "yachts that sail"] {
        assert_eq!(unpacked.rank(prompt, &ALL), rebuilt.rank(prompt, &ALL), "{prompt}");
    }
    exercise(unpacked);
}

#[test]
fn words_without_a_memory_are_not_packed() {
    let bytes = packed();
    let has = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
    assert!(has(b"ferry") && has(b"rowing"));
    assert!(!has(b"nobody") && !has(b"gone"));
}

#[test]
fn text_that_screening_refuses_is_not_packed() {
    let key = format!("ghp_{}", "a1B2c3D4e5".repeat(4).get(..36).unwrap());
    let mut corpus = corpus();
    corpus.put(&path("global/key"), &format!("- the robot\n- parcel token {key}\n"), None);
    let bytes = corpus.pack(b"").unwrap();
    let has = |word: &str| bytes.windows(word.len()).any(|window| window == word.as_bytes());
    assert!(has("robot"));
    assert!(!has("parcel") && !has("a1b2") && !has("a1B2"));
}

#[test]
fn bytes_of_other_rules_or_formats_and_damaged_bytes_are_refused() {
    let bytes = packed();
    let rules = [("secrets".to_owned(), Policy::Warn)].into();
    let other = Screen::new(&rules, &[]).unwrap();
    assert!(Corpus::unpack(other, &bytes).is_none());
    let allowing = Screen::new(&[].into(), &["ab".repeat(32)]).unwrap();
    assert!(Corpus::unpack(allowing, &bytes).is_none());
    for end in 0..bytes.len() {
        assert!(unpack(&bytes[..end]).is_none(), "cut at {end}");
    }
    for at in 0..bytes.len() {
        let mut other = bytes.clone();
        other[at] ^= 1;
        assert!(unpack(&other).is_none(), "a changed bit at {at}");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(unpack(&longer).is_none());
}

#[test]
fn counts_larger_than_the_bytes_allocate_nothing() {
    let about = PACKED_HEAD_BYTES + 1 + b"about".len();
    for count in [u64::MAX, u64::from(u32::MAX), 1 << 40] {
        let mut bytes = packed()[..about].to_vec();
        bytes.extend(postcard::to_allocvec(&count).unwrap());
        bytes.extend_from_slice(&[0; 64]);
        write_checksum(&mut bytes);
        assert!(unpack(&bytes).is_none());
    }
}

#[test]
fn unknown_tokens_and_terms_are_refused() {
    let check = |change: fn(&mut PackedCorpus<'_>)| {
        let bytes = packed();
        let (head, rest) = bytes.split_at(PACKED_HEAD_BYTES);
        let mut corpus = postcard::from_bytes(rest).unwrap();
        change(&mut corpus);
        let mut bytes = postcard::to_extend(&corpus, head.to_vec()).unwrap();
        write_checksum(&mut bytes);
        unpack(&bytes).is_some()
    };
    assert!(check(|_| {}));
    assert!(!check(|corpus| corpus.terms[0].tokens.push(u32::MAX)));
    assert!(!check(|corpus| corpus.terms[0].stem = 1));
    assert!(!check(|corpus| corpus.memories[0]
        .head
        .push(PackedWeight { step: 1 << 20, quarters: 4 })));
    assert!(!check(|corpus| corpus.memories[0].mount = 4));
    assert!(!check(|corpus| corpus.memories.swap(0, 1)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn changed_bytes_with_a_valid_checksum_are_refused_or_give_a_usable_corpus(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let mut bytes = packed();
        for (at, byte) in changes {
            let at = PACKED_HEAD_BYTES + at.index(bytes.len() - PACKED_HEAD_BYTES);
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(PACKED_HEAD_BYTES + cut.index(bytes.len() - PACKED_HEAD_BYTES));
        }
        write_checksum(&mut bytes);
        if let Some((corpus, _)) = unpack(&bytes) {
            exercise(corpus);
        }
    }

    #[test]
    fn random_bytes_with_a_valid_checksum_are_refused_or_give_a_usable_corpus(
        random in prop::collection::vec(any::<u8>(), 0..512),
    ) {
        let mut bytes = [&packed()[..PACKED_HEAD_BYTES], &random].concat();
        write_checksum(&mut bytes);
        if let Some((corpus, _)) = unpack(&bytes) {
            exercise(corpus);
        }
        prop_assert!(unpack(&random).is_none());
    }
}
