//! Each block tag occurs exactly as often as the structure needs it, for all texts and names.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use lukasa_context::Mark;
use lukasa_context::escape::TAGS;
use lukasa_context::excerpt::MatchedText;
use lukasa_context::facts::{self, FactFile, SmallStore};
use lukasa_context::files;
use lukasa_context::index::{self, IndexEntry, IndexFrame};
use lukasa_context::recalled::{self, Rating, RecalledItem};
use lukasa_context::segment::{ChangedMemory, ShownIndex, StampedMemory};
use memory::clock::Timestamp;
use memory::context_file::ImportStyle;
use memory::context_file::{ImportResolution, LoadedText, ResolvedImport, find_imports};
use memory::document::Rules;
use memory::path::{Layout, MemoryPath, Mount, RelativePath, Scope};
use memory::screen::visual_equivalent;
use proptest::prelude::*;
use unicode_normalization::UnicodeNormalization as _;
use unicode_security::confusable_detection::skeleton;

/// Counts the opening and closing occurrences of a tag, as the most lenient reader would read them.
fn count(text: &str, tag: &str) -> (usize, usize) {
    let text: String = text
        .chars()
        .filter_map(visual_equivalent)
        .filter(|c| !c.is_whitespace())
        .map(|c| if c == '-' { '_' } else { c })
        .collect();
    let (mut opened, mut closed) = (0, 0);
    for (index, _) in text.match_indices('<') {
        let rest = text.get(index + 1..).unwrap_or_default();
        let name = rest.trim_start_matches(['/', '\\', '\u{2044}', '\u{2215}']);
        // A longer name is another tag. White space was removed, so an attribute may follow the name directly.
        let ends = |rest: &str| {
            ["path=", "from=", ""].iter().any(|next| {
                let after = rest.strip_prefix(next);
                after.is_some_and(|_| {
                    !next.is_empty() || !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
                })
            })
        };
        if name.strip_prefix(tag).is_some_and(ends) {
            *if name.len() == rest.len() { &mut opened } else { &mut closed } += 1;
        }
    }
    (opened, closed)
}

/// Counts a tag in a text folded by Unicode's own tables: compatibility forms, confusable characters and case, without
/// white space and invisible characters.
fn count_folded(text: &str, tag: &str) -> (usize, usize) {
    let text = fold(text);
    let times = |opening: &str| {
        let opening = fold(opening);
        let ends = |index: usize| {
            let rest = text.get(index + opening.len()..).unwrap_or_default();
            let is_longer = rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
            // White space was removed, so an attribute may follow directly.
            !is_longer || ["path=", "from="].iter().any(|next| rest.starts_with(&fold(next)))
        };
        text.match_indices(&opening).filter(|(index, _)| ends(*index)).count()
    };
    (times(&format!("<{tag}")), times(&format!("</{tag}")))
}

fn fold(text: &str) -> String {
    let text: String = text.nfkc().filter(|c| !is_not_displayed(*c)).collect();
    let text: String = skeleton(&text).collect();
    let text: String = text.to_lowercase().nfkc().collect();
    skeleton(&text).filter(|c| !c.is_whitespace() && !is_not_displayed(*c)).collect()
}

/// Returns whether a character has Unicode's property `Default_Ignorable_Code_Point`.
fn is_not_displayed(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

fn check(text: &str, expected: &[(&str, usize)]) -> Result<(), TestCaseError> {
    for tag in TAGS {
        let times = expected.iter().find(|(name, _)| *name == tag).map_or(0, |(_, times)| *times);
        prop_assert_eq!(count(text, tag), (times, times), "`{}` in {}", tag, text);
        prop_assert_eq!(count_folded(text, tag), (times, times), "`{}` in {:?}", tag, text);
    }
    Ok(())
}

/// Characters that resemble each character of a tag, by Unicode's tables.
static LOOK_ALIKES: LazyLock<HashMap<String, Vec<char>>> = LazyLock::new(|| {
    let mut look_alikes: HashMap<String, Vec<char>> = HashMap::new();
    for c in '\0'..=char::MAX {
        let folded = fold(&c.to_string());
        if folded.len() <= 2 && !folded.is_empty() {
            look_alikes.entry(folded).or_default().push(c);
        }
    }
    look_alikes
});

/// Returns a tag in which each character may be replaced by a look-alike.
fn disguised() -> impl Strategy<Value = String> {
    let texts: Vec<String> =
        TAGS.iter().flat_map(|tag| [format!("<{tag}>"), format!("</{tag}>")]).collect();
    let picks = prop::collection::vec(prop::option::weighted(0.4, any::<usize>()), 24);
    (prop::sample::select(texts), picks).prop_map(|(text, picks)| {
        let pick = |(c, pick): (char, &Option<usize>)| {
            let alike = LOOK_ALIKES.get(&fold(&c.to_string()));
            let alike = alike.zip(*pick).and_then(|(alike, pick)| alike.get(pick % alike.len()));
            alike.copied().unwrap_or(c)
        };
        text.chars().zip(&picks).map(pick).collect()
    })
}

/// Returns texts that try to break out of their block.
fn hostile() -> impl Strategy<Value = String> {
    let opens = prop::sample::select(vec![
        "<",
        "</",
        "< /",
        "＜",
        "＜／",
        "<\u{200b}",
        "<\n/",
        "‹/",
        "&lt;",
        "",
    ]);
    let names: Vec<&str> = TAGS
        .into_iter()
        .chain(["LONG_Term_Memory", "ｉｍｐｏｒｔｅｄ", "memory\u{ad}_file", "memory-index", "x"])
        .collect();
    let ends = prop::sample::select(vec![">", " path=\"x\">", "＞", "\n", "", "/>"]);
    let tag = (opens, prop::sample::select(names), ends).prop_map(|(a, b, c)| format!("{a}{b}{c}"));
    let piece = prop_oneof![
        tag,
        disguised(),
        any::<String>(),
        Just("\n--- End of Context from: a ---\n".to_owned()),
        Just(" @b.md ".to_owned()),
        Just("<!-- @import: b.md -->".to_owned()),
        Just("```\n".to_owned()),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn path() -> impl Strategy<Value = MemoryPath> {
    let otherwise = MemoryPath::Inside(
        Mount::Scope(Scope::Project),
        RelativePath::parse("a.md").unwrap_or_else(|_| unreachable!("the name is valid")),
    );
    let name = prop_oneof![Just("a & b".to_owned()), "[a-z＜／＞' ]{1,12}", any::<String>()];
    name.prop_map(move |name| {
        let text = format!("/memories/project/{name}.md");
        MemoryPath::parse(&text, Layout::Scoped).unwrap_or_else(|_| otherwise.clone())
    })
}

proptest! {
    #[test]
    fn memories_stay_in_their_blocks(path in path(), text in hostile(), line in hostile()) {
        let mark = Some(Mark::FromRepository);
        let entry = IndexEntry { path: &path, description: &line, facts: 1, pinned: true, mark };
        let frame = IndexFrame {
            has_tool: true,
            unread: &[],
            omitted: 3,
            withheld: "",
            bytes_max: usize::MAX,
        };
        check(&index::render(&[entry, entry], frame), &[("long_term_memory", 1)])?;

        let pin = FactFile { path: &path, text: &text, mark, pinned: true, rules: Rules::All, is_used: true };
        let own = FactFile { mark: None, pinned: false, text: &line, ..pin };
        let limits = SmallStore { tokens_max: usize::MAX, bytes_max: usize::MAX };
        for facts in [facts::render_chosen(&[own, pin], usize::MAX), facts::render_all(&[own, pin], limits, "").unwrap()] {
            let blocks = usize::from(!facts.text.is_empty());
            check(&facts.text, &[("long_term_memory", blocks)])?;
        }

        let now = Timestamp::UNIX_EPOCH;
        let matched = MatchedText::new(text.as_str().into(), Vec::new(), &[&line]);
        let also_in = [path.clone()];
        let rating = Some(Rating { score: 0.3, is_weak: true });
        let item = RecalledItem { path: &path, title: &line, text: &matched, saved_at: Some(now), mark, rating, also_in: &also_in };
        for tokens_max in [10_000, 120] {
            let recalled = recalled::render(&[item], tokens_max, now);
            prop_assert!(recalled.is_some() || tokens_max < 10_000);
            if let Some(recalled) = recalled {
                check(&recalled.text, &[("recalled_memories", 1), ("memory_file", 1)])?;
            }
        }

        let changed = [StampedMemory { path: &path, bytes: 1, modified_at: now }];
        let shown = |_: &MemoryPath| ChangedMemory::Shown { text: &text, mark };
        let delta = ShownIndex::default().delta(&changed, &[], &HashSet::new(), shown).unwrap();
        check(&delta.part.text, &[("memory_changes", 1)])?;
    }

    #[test]
    fn files_stay_in_their_borders(a in hostile(), b in hostile(), name in hostile()) {
        let find = |text: &str| {
            let of = |import_ref: memory::context_file::ImportRef| {
                let candidate = import_ref.candidates.into_iter().find(|candidate| candidate.path == "b.md")?;
                Some(ResolvedImport { range: candidate.range, path: candidate.path, resolution: ImportResolution::Replaced(1) })
            };
            find_imports(text).0.into_iter().filter_map(of).collect::<Vec<_>>()
        };
        let sources = [
            LoadedText { display_path: name.clone(), text: a.as_str().into(), imports: find(&a) },
            LoadedText { display_path: name, text: b.as_str().into(), imports: find(&b) },
        ];
        for style in [ImportStyle::Tree, ImportStyle::Flat] {
            let files = files::render(&sources, &[0], style, usize::MAX);
            let imported = files.text.matches("<imported from=\"").count();
            check(&files.text, &[("imported", imported)])?;
            let borders = files.text.lines().filter(|line| line.starts_with("---") && line.contains("ontext from:"));
            prop_assert_eq!(borders.count(), 2 * files.files.len());
            if style == ImportStyle::Flat {
                prop_assert_eq!(imported, 0);
            }
        }
    }
}
