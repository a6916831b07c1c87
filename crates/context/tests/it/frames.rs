//! Each of our tags occurs exactly as often as the structure needs it, whatever the texts and names are.

use context::escape::TAGS;
use context::files;
use context::hot_set::{self, Body};
use context::index::{self, Entry};
use context::recalled::{self, Item};
use context::segment::{Seen, Told};
use memory::clock::Timestamp;
use memory::context_file::ImportStyle;
use memory::context_file::{Import, Source, Target, imports};
use memory::path::{Layout, MemoryPath, Mount, RelativePath, Scope};
use memory::screen::taken_for;
use proptest::prelude::*;

/// Returns how often a tag is read in a text, opening and closing, by a reader who overlooks everything.
fn count(text: &str, tag: &str) -> (usize, usize) {
    let seen: String = text
        .chars()
        .filter_map(taken_for)
        .filter(|c| !c.is_whitespace())
        .map(|c| if c == '-' { '_' } else { c })
        .collect();
    let (mut opened, mut closed) = (0, 0);
    for (at, _) in seen.match_indices('<') {
        let rest = seen.get(at + 1..).unwrap_or_default();
        let name = rest.trim_start_matches(['/', '\\', '\u{2044}', '\u{2215}']);
        // A longer name is another one, but here white space is gone: our own attributes follow at once.
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

fn check(text: &str, expected: &[(&str, usize)]) -> Result<(), TestCaseError> {
    for tag in TAGS {
        let wanted =
            expected.iter().find(|(known, _)| *known == tag).map_or(0, |(_, times)| *times);
        prop_assert_eq!(count(text, tag), (wanted, wanted), "`{}` in {}", tag, text);
    }
    Ok(())
}

/// Texts that try to get out.
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
        .chain(["HOT_Memories", "ｉｍｐｏｒｔｅｄ", "memory\u{ad}_file", "memory-index", "x"])
        .collect();
    let ends = prop::sample::select(vec![">", " path=\"x\">", "＞", "\n", "", "/>"]);
    let tag = (opens, prop::sample::select(names), ends).prop_map(|(a, b, c)| format!("{a}{b}{c}"));
    let piece = prop_oneof![
        tag,
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
        RelativePath::parse("a.md").unwrap_or_else(|_| unreachable!("it is a name")),
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
        let entry = Entry { path: &path, description: &line, pinned: true, from_repository: true };
        check(&index::block(&[entry, entry], 3, usize::MAX), &[("memory_index", 1)])?;

        let body = Body { path: &path, text: &text, bytes: text.len(), notice: None, pinned: false };
        let hot = hot_set::fill(&[body, body], usize::MAX).unwrap();
        check(&hot.text, &[("hot_memories", 1), ("memory_file", 2)])?;

        let now = Timestamp::UNIX_EPOCH;
        let item = Item { path: &path, title: &line, text: &text, saved_at: now, from_repository: true };
        let recalled = recalled::block(&[item], 10_000, now).unwrap();
        check(&recalled.text, &[("recalled_memories", 1), ("memory_file", 1)])?;

        let delta = Told::default().delta(&[Seen { entry, bytes: 1, modified_at: now }], &[]).unwrap();
        check(&delta.text, &[("memory_changes", 1)])?;
    }

    #[test]
    fn files_stay_in_their_borders(a in hostile(), b in hostile(), name in hostile()) {
        let find = |text: &str| {
            let of = |asked: memory::context_file::Asked| {
                let reading = asked.readings.into_iter().find(|each| each.path == "b.md")?;
                Some(Import { range: reading.range, path: reading.path, target: Target::Source(1) })
            };
            imports(text).0.into_iter().filter_map(of).collect::<Vec<_>>()
        };
        let sources = [
            Source { shown: name.clone(), text: a.as_str().into(), imports: find(&a) },
            Source { shown: name, text: b.as_str().into(), imports: find(&b) },
        ];
        for style in [ImportStyle::Tree, ImportStyle::Flat] {
            let files = files::text(&sources, &[0], style);
            let imported = files.text.matches("<imported from=\"").count();
            check(&files.text, &[("imported", imported)])?;
            let borders = files.text.lines().filter(|line| line.starts_with("---") && line.contains("ontext from:"));
            prop_assert_eq!(borders.count(), 2 * files.shown.len());
            if style == ImportStyle::Flat {
                prop_assert_eq!(imported, 0);
            }
        }
    }
}
