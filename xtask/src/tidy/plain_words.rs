//! Habits of prose that make readers read twice, each compared with a recorded number of places.
//!
//! The numbers stand in `xtask/tidy.toml` and may only fall. A habit with fewer places than recorded
//! is a finding too, so that the record is lowered. `cargo xtask tidy --verbose` lists all places.

use std::collections::BTreeMap;
use std::iter;

use crate::tidy::allowed::{self, RepeatedType};
use crate::tidy::finding::TidyFinding;
use crate::tidy::prose::{self, Passage};
use crate::tidy::rust::{self, RustSource};
use crate::tidy::tree::SourceTree;

/// The name of the check. Each of its findings is one place of a habit until they are counted.
const CHECK: &str = "plain-words";

/// Habits that are words, with the phrases of each in lower case.
const PHRASES: [(&str, &[&str]); 7] = [
    ("somebody", &["somebody", "nobody", "whoever", "anybody", "everybody"]),
    ("so-many", &["so many"]),
    ("anew", &["anew"]),
    ("at-hand", &["at hand"]),
    ("let-go-of", &["let go of", "lets go of"]),
    ("told", &["is told", "are told", "was told", "were told", "be told", "been told"]),
    ("as-good-as", &["as good as"]),
];
const DOC_OPENING: &str = "doc-opening";
const LONG_SENTENCE: &str = "long-sentence";
const REPEATED_TYPE: &str = "repeated-type";

/// First words of docs that are neither a noun nor a verb.
const OPENINGS: [&str; 6] = ["What", "Who", "Whoever", "Where", "Which", "How"];

/// A longer sentence is a place of `long-sentence`.
const SENTENCE_WORDS_MAX: usize = 30;

/// More type definitions of one name are a place of `repeated-type`.
const DEFINITIONS_MAX: usize = 2;

/// The number of places that a finding names.
const NAMED_PLACES: usize = 10;

/// The number of characters around a phrase in an excerpt.
const EXCERPT_BEFORE: usize = 50;
const EXCERPT_AFTER: usize = 70;

/// Finds every place of every habit.
pub(super) fn places(
    tree: &SourceTree,
    sources: &[RustSource<'_>],
    repeated: &[RepeatedType],
) -> Vec<TidyFinding> {
    let passages = prose::read(tree, sources);
    let mut places = [
        phrases(tree, &passages),
        doc_openings(sources),
        long_sentences(&passages),
        repeated_types(sources, repeated),
    ]
    .concat();
    places.sort();
    places
}

fn place(habit: &str, path: &str, index: usize, excerpt: &str) -> TidyFinding {
    let remedy = "write it in plain words";
    TidyFinding::file(CHECK, path, format!("{habit}: {excerpt}"), remedy).at(index)
}

fn phrases(tree: &SourceTree, passages: &[Passage<'_>]) -> Vec<TidyFinding> {
    let mut places = Vec::new();
    for passage in passages {
        for (habit, phrases) in PHRASES {
            for phrase in phrases {
                for index in passage.lines_with(phrase) {
                    let excerpt = excerpt(line(tree, passage.path, index), phrase);
                    places.push(place(habit, passage.path, index, &excerpt));
                }
            }
        }
    }
    places
}

fn line<'a>(tree: &'a SourceTree, path: &str, index: usize) -> &'a str {
    tree.text(path).and_then(|text| text.lines().nth(index)).unwrap_or_default().trim()
}

/// Cuts a line to the part around the phrase. A phrase that continues on the next line is not in it.
fn excerpt(line: &str, phrase: &str) -> String {
    let start = line.to_ascii_lowercase().find(phrase).unwrap_or_default();
    let before = line.get(..start).unwrap_or_default().chars().count();
    let from = before.saturating_sub(EXCERPT_BEFORE);
    let around: String = line.chars().skip(from).take(before - from + EXCERPT_AFTER).collect();
    around.trim().to_owned()
}

fn doc_openings(sources: &[RustSource<'_>]) -> Vec<TidyFinding> {
    let mut places = Vec::new();
    for source in sources {
        for block in prose::comments(source).iter().filter(|block| block.is_doc) {
            let Some(first) = block.lines.first() else { continue };
            let word = first.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            if OPENINGS.contains(&word) {
                places.push(place(DOC_OPENING, source.path, block.first_line, first));
            }
        }
    }
    places
}

fn long_sentences(passages: &[Passage<'_>]) -> Vec<TidyFinding> {
    let mut places = Vec::new();
    for passage in passages.iter().filter(|passage| passage.has_sentences) {
        for sentence in passage.sentences() {
            let words = sentence.words();
            if words > SENTENCE_WORDS_MAX {
                let excerpt = excerpt(&sentence.tokens.join(" "), "");
                let excerpt = format!("{words} words: {excerpt}");
                places.push(place(LONG_SENTENCE, passage.path, sentence.line, &excerpt));
            }
        }
    }
    places
}

fn repeated_types(sources: &[RustSource<'_>], repeated: &[RepeatedType]) -> Vec<TidyFinding> {
    let mut by_name: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for source in sources {
        for (index, line) in source.lines.iter().enumerate().take(source.tests_start()) {
            if let Some(name) = defined_type(&line.code) {
                by_name.entry(name).or_default().push((source.path, index));
            }
        }
    }
    by_name.retain(|_, definitions| definitions.len() > DEFINITIONS_MAX);
    let mut places = Vec::new();
    for (name, definitions) in &by_name {
        let Some((path, index)) = definitions.first() else { continue };
        if !repeated.iter().any(|each| each.name == *name) {
            let paths: Vec<_> = definitions.iter().map(|(path, _)| *path).collect();
            let excerpt = format!("`{name}` is defined in {}", paths.join(", "));
            places.push(place(REPEATED_TYPE, path, *index, &excerpt));
        }
    }
    for each in repeated.iter().filter(|each| !by_name.contains_key(each.name.as_str())) {
        let wrong = format!("`{}` is not defined more than {DEFINITIONS_MAX} times", each.name);
        places.push(TidyFinding::file("allowed", allowed::PATH, wrong, "remove its exception"));
    }
    places
}

/// Returns the name of the type that a line defines at the level of the module.
fn defined_type(code: &str) -> Option<&str> {
    // The formatter indents everything inside a block.
    if code.starts_with(char::is_whitespace) {
        return None;
    }
    let tokens = rust::tokens(code);
    let mut item = match tokens.as_slice() {
        ["pub", "(", rest @ ..] => rest.split(|token| *token == ")").nth(1)?,
        ["pub", rest @ ..] | rest => rest,
    };
    if let ["unsafe", rest @ ..] = item {
        item = rest;
    }
    match item {
        ["struct" | "enum" | "trait" | "type", name, ..] => Some(name),
        _ => None,
    }
}

/// Replaces the places among the findings by the differences between their numbers and the record.
pub(super) fn compare(
    findings: Vec<TidyFinding>,
    record: &BTreeMap<String, usize>,
) -> Vec<TidyFinding> {
    let (places, mut findings): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| finding.check == CHECK);
    for (habit, found) in by_habit(&places) {
        let (number, recorded) = (found.len(), record.get(habit).copied().unwrap_or_default());
        let wrong = format!("the number of `{habit}` is {number}, the record is {recorded}");
        if number > recorded {
            let first = found.iter().take(NAMED_PLACES).map(|each| shown(each));
            let lines: Vec<_> =
                iter::once("write them in plain words".to_owned()).chain(first).collect();
            let remedy = lines.join("\n  ");
            findings.push(TidyFinding::file(CHECK, allowed::PATH, wrong, remedy));
        } else if number < recorded {
            let remedy = "lower the record";
            findings.push(TidyFinding::file(CHECK, allowed::PATH, wrong, remedy));
        }
    }
    for habit in record.keys().filter(|habit| !habits().any(|known| known == **habit)) {
        let wrong = format!("`{habit}` is no habit that is counted");
        findings.push(TidyFinding::file(CHECK, allowed::PATH, wrong, "remove its line"));
    }
    findings
}

/// Returns every place as one line, then the number of places of every habit.
pub(super) fn report(findings: &[TidyFinding]) -> Vec<String> {
    let places: Vec<_> =
        findings.iter().filter(|finding| finding.check == CHECK).cloned().collect();
    let numbers = by_habit(&places).into_iter();
    let numbers = numbers.map(|(habit, found)| format!("{habit} = {}", found.len()));
    places.iter().map(shown).chain(numbers).collect()
}

fn shown(place: &TidyFinding) -> String {
    format!("{}: {}", place.place(), place.wrong)
}

fn habits() -> impl Iterator<Item = &'static str> {
    let phrases = PHRASES.into_iter().map(|(habit, _)| habit);
    phrases.chain([DOC_OPENING, LONG_SENTENCE, REPEATED_TYPE])
}

/// Sorts the places by habit, with an empty list for a habit that has none.
fn by_habit(places: &[TidyFinding]) -> Vec<(&'static str, Vec<&TidyFinding>)> {
    let of = |habit: &str| {
        let is_of = |place: &&TidyFinding| {
            place.wrong.strip_prefix(habit).is_some_and(|rest| rest.starts_with(": "))
        };
        places.iter().filter(is_of).collect()
    };
    habits().map(|habit| (habit, of(habit))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::printed;

    fn found<const N: usize>(files: [(&str, &str); N], repeated: &[RepeatedType]) -> Vec<String> {
        let tree = SourceTree::from(files);
        places(&tree, &rust::sources(&tree), repeated).iter().map(shown).collect()
    }

    #[test]
    fn words_are_found_in_docs_comments_messages_and_documents() {
        let source = "//! Told once: it is\n//! told so.\n// Let go of it, anew.\nconst A: &str = \"Nobody, as good as\";\n\
                      fn nobody() {}\n#[cfg(test)]\nmod tests {\n    const B: &str = \"nobody\"; // whoever\n}\n";
        let expected = [
            "a.md:1: somebody: `anybody` is everybody at hand",
            "a.md:1: at-hand: `anybody` is everybody at hand",
            "a.rs:1: told: //! Told once: it is",
            "a.rs:3: anew: // Let go of it, anew.",
            "a.rs:3: let-go-of: // Let go of it, anew.",
            "a.rs:4: as-good-as: const A: &str = \"Nobody, as good as\";",
            "a.rs:4: somebody: const A: &str = \"Nobody, as good as\";",
            "a.rs:8: somebody: const B: &str = \"nobody\"; // whoever",
            "a.ts:1: so-many: f(); // takes so many",
        ];
        let mut found = found(
            [
                ("a.md", "`anybody` is everybody at hand\n"),
                ("a.rs", source),
                ("a.ts", "f(); // takes so many\n'nobody';\n"),
                ("a.txt", "nobody"),
            ],
            &[],
        );
        found.sort();
        let mut expected = expected.map(str::to_owned);
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_doc_opens_with_a_noun_or_a_verb() {
        let text = "//! What it is.\n\n/// Which one.\n///\n/// More.\nfn a() {}\n/// Whichever.\n\
                    /// How.\nfn b() {}\n// Who\n/// # What\nfn c() {}\n";
        let expected = ["a.rs:1: doc-opening: What it is.", "a.rs:3: doc-opening: Which one."];
        assert_eq!(found([("a.rs", text)], &[]), expected);
    }

    #[test]
    fn a_sentence_of_docs_has_at_most_thirty_words() {
        let (most, more) = ("a ".repeat(30), "a ".repeat(31));
        let text = format!("{most}.\nShort. {more}\n\n- {most}\n- {most}\n\n| {more} |\n|---|\n");
        let source = format!("// {more}\n/// B.\n/// {more}.\nfn a() {{}}\n");
        let expected = [
            format!("a.md:2: long-sentence: 31 words: {}", more.trim()),
            format!("a.rs:3: long-sentence: 31 words: {more}."),
        ];
        assert_eq!(found([("a.md", &text), ("a.rs", &source)], &[]), expected);
    }

    #[test]
    fn a_type_name_is_defined_at_most_twice() {
        let file = "pub(in crate::a) struct A;\nenum B {}\nstruct D;\nimpl C for E {\n    type F = ();\n}\n\
                    #[cfg(test)]\nmod tests {\nstruct G;\n}\n";
        let more = "type A = ();\nunsafe trait D {}\nfn f() { struct B; }\n";
        let files = [("a.rs", file), ("b.rs", file), ("c.rs", more)];
        let expected = [
            "a.rs:1: repeated-type: `A` is defined in a.rs, b.rs, c.rs",
            "a.rs:3: repeated-type: `D` is defined in a.rs, b.rs, c.rs",
        ];
        assert_eq!(found(files, &[]), expected);
        let repeated = ["A", "B", "D"];
        let repeated =
            repeated.map(|name| RepeatedType { name: name.to_owned(), reason: "r".to_owned() });
        let idle = "xtask/tidy.toml: `B` is not defined more than 2 times";
        assert_eq!(found(files, &repeated), [idle]);
    }

    #[test]
    fn a_long_line_is_cut_around_the_phrase() {
        let line = format!("{}é anew {}", "b".repeat(60), "c".repeat(80));
        let expected = format!("{}é anew {}", "b".repeat(48), "c".repeat(65));
        assert_eq!(excerpt(&line, "anew"), expected);
        assert_eq!(excerpt("it is", "is told"), "it is");
    }

    #[test]
    fn the_number_of_places_must_equal_the_recorded_one() {
        let check = |text: &str, record: &[(&str, usize)], expected: &[&str]| {
            let tree = SourceTree::from([("a.md", text)]);
            let record = record.iter().map(|(habit, number)| ((*habit).to_owned(), *number));
            let other = TidyFinding::file("other", "b", "is other", "keep it");
            let places = places(&tree, &[], &[]);
            let found = printed(&compare([places, vec![other]].concat(), &record.collect()));
            assert_eq!(found, [&["b: is other; keep it"], expected].concat(), "{text}");
        };
        check("", &[("anew", 0)], &[]);
        check("anew", &[("anew", 1)], &[]);
        check(
            "anew\nanew",
            &[("anew", 1)],
            &[
                "xtask/tidy.toml: the number of `anew` is 2, the record is 1; write them in plain words\n  \
               a.md:1: anew: anew\n  a.md:2: anew: anew",
            ],
        );
        check(
            "anew",
            &[("anew", 2)],
            &["xtask/tidy.toml: the number of `anew` is 1, the record is 2; lower the record"],
        );
        check(
            "",
            &[("new", 0)],
            &["xtask/tidy.toml: `new` is no habit that is counted; remove its line"],
        );
    }

    #[test]
    fn a_report_has_every_place_and_every_number() {
        let tree = SourceTree::from([("a.md", "anew\nanew")]);
        let report = report(&places(&tree, &[], &[]));
        assert_eq!(report[..3], ["a.md:1: anew: anew", "a.md:2: anew: anew", "somebody = 0"]);
        assert!(report.contains(&"anew = 2".to_owned()));
    }
}
