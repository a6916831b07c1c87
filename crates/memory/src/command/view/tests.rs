//! The exact output of views, and the promise that no line is left out.

use proptest::prelude::*;

use super::*;
use crate::path::Layout;

fn path(text: &str) -> MemoryPath {
    MemoryPath::parse(text, Layout::Scoped).unwrap()
}

fn file() -> MemoryPath {
    path("/memories/global/a.md")
}

/// Views a part of a text and returns the lines below the header.
fn part(text: &str, lines: ViewRange) -> Result<String, CommandError> {
    let view = view_file(&file(), text, &lines)?;
    let header = "Here's the content of /memories/global/a.md with line numbers:\n";
    Ok(view.strip_prefix(header).unwrap().to_owned())
}

fn range(first: i64, last: i64) -> ViewRange {
    ViewRange::Range { first, last }
}

fn page(offset: i64, limit: Option<i64>) -> ViewRange {
    ViewRange::Page { offset, limit }
}

#[test]
fn a_file_is_shown_with_its_lines_numbered() {
    insta::assert_snapshot!(view_file(&file(), "one\n\ttwo\n", &ViewRange::Whole).unwrap(), @"
    Here's the content of /memories/global/a.md with line numbers:
         1	one
         2		two
         3	
    ");
    let check = |text, expected: &str| assert_eq!(part(text, ViewRange::Whole).unwrap(), expected);
    check("", "     1\t");
    check("a", "     1\ta");
    check("a\n", "     1\ta\n     2\t");
    check("\u{feff}a\r\nb\r\n", "     1\ta\n     2\tb\n     3\t");
}

#[test]
fn a_range_is_inclusive_and_clipped() {
    let check = |lines, expected: &str| assert_eq!(part("a\nb\nc\nd", lines).unwrap(), expected);
    check(range(2, 3), "     2\tb\n     3\tc");
    check(range(4, 4), "     4\td");
    check(range(3, -1), "     3\tc\n     4\td");
    check(range(3, 99), "     3\tc\n     4\td");
    check(range(1, i64::MAX), "     1\ta\n     2\tb\n     3\tc\n     4\td");
    check(page(2, Some(2)), "     2\tb\n     3\tc");
    check(page(3, None), "     3\tc\n     4\td");
    check(page(4, Some(i64::MAX)), "     4\td");
}

#[test]
fn an_invalid_range_is_refused_with_the_valid_one() {
    for (first, last) in [(0, 2), (-1, 2), (3, 2), (5, 6), (5, -1), (1, 0), (1, -2), (i64::MIN, 1)]
    {
        assert_eq!(
            part("a\nb\nc\nd", range(first, last)),
            Err(CommandError::InvalidRange { first, last, max: 4 })
        );
    }
    let refusal = |field, value| Err(CommandError::InvalidPage { field, value });
    assert_eq!(part("a", page(0, None)), refusal("offset", 0));
    assert_eq!(part("a", page(-3, None)), refusal("offset", -3));
    assert_eq!(part("a", page(1, Some(0))), refusal("limit", 0));
    assert_eq!(part("a", page(1, Some(-1))), refusal("limit", -1));
}

#[test]
fn an_offset_past_the_end_is_refused_with_the_number_of_lines() {
    let check = |text, offset, lines| {
        assert_eq!(
            part(text, page(offset, None)),
            Err(CommandError::OffsetPastEnd { path: file(), offset, lines })
        );
    };
    check("a\nb\nc", 4, 3);
    check("a\nb\nc\n", 5, 3);
    check("", 2, 0);
    check(&"\n".repeat(VIEW_LINES_MAX + 5), 1_000_000, VIEW_LINES_MAX);
}

#[test]
fn the_last_line_that_can_be_numbered_is_the_last_shown() {
    let text = "\n".repeat(VIEW_LINES_MAX + 5);
    assert_eq!(part(&text, range(999_999, -1)).unwrap(), "999999\t");
    assert_eq!(part(&text, page(999_998, None)).unwrap(), "999998\t\n999999\t");
}

#[test]
fn an_outgrown_file_is_shown_only_in_part() {
    let text = format!("first\n{}\nlast", "x".repeat(MEMORY_BYTES_MAX));
    let refusal = Err(CommandError::OutgrewCap { path: file(), bytes: text.len() });
    assert_eq!(part(&text, ViewRange::Whole), refusal);
    assert_eq!(part(&text, range(1, 3)), refusal);
    assert_eq!(part(&text, range(1, 1)).unwrap(), "     1\tfirst");
    assert_eq!(part(&text, page(3, None)).unwrap(), "     3\tlast");
}

#[test]
fn a_file_with_a_nul_is_not_shown() {
    assert_eq!(part("a\0", ViewRange::Whole), Err(CommandError::NotText { path: file() }));
}

#[test]
fn a_folder_is_shown_in_order_with_sizes() {
    let row = |bytes, path: &str, note: Option<&str>| FolderRow {
        bytes,
        path: path.to_owned(),
        note: note.map(str::to_owned),
    };
    let rows = [
        row(0, "/memories/workspace/", None),
        row(0, "/memories/project/", Some("unavailable: no project")),
        row(1_536, "/memories/global/", None),
        row(12, "/memories/global/sub/", None),
        row(1_524, "/memories/global/a.md", None),
        row(0, "/memories/global/a-b.md", None),
    ];
    insta::assert_snapshot!(view_folder(&MemoryPath::Top, 1_536, &rows, 3), @"
    Here're the files and directories up to 2 levels deep in /memories, excluding hidden items:
    1.5K	/memories
    1.5K	/memories/global/
    0B	/memories/global/a-b.md
    1.5K	/memories/global/a.md
    12B	/memories/global/sub/
    0B	/memories/project/	(unavailable: no project)
    0B	/memories/workspace/
    (3 more not shown; view a subfolder)
    ");
    insta::assert_snapshot!(view_folder(&path("/memories/global"), 0, &[], 0), @"
    Here're the files and directories up to 2 levels deep in /memories/global, excluding hidden items:
    0B	/memories/global
    ");
}

#[test]
fn sizes_are_short() {
    const K: u64 = 1024;
    for (bytes, expected) in [
        (0, "0B"),
        (1, "1B"),
        (K - 1, "1023B"),
        (K, "1K"),
        (K + 51, "1K"),
        (K + 52, "1.1K"),
        (1_536, "1.5K"),
        (102_400, "100K"),
        (K * K - 1, "1M"),
        (K * K - 52, "1023.9K"),
        (K * K, "1M"),
        (5 * K * K / 2, "2.5M"),
        (K * K * K, "1G"),
        (2_000 * K * K * K, "2000G"),
        (u64::MAX, "17179869184G"),
    ] {
        assert_eq!(human_size(bytes), expected, "{bytes}");
    }
}

proptest! {
    #[test]
    fn every_line_is_shown_once(lines in prop::collection::vec("[^\n\r\0\u{feff}]{0,8}", 1..20)) {
        let expected: Vec<_> = lines
            .iter()
            .enumerate()
            .map(|(index, line)| format!("{:>6}\t{line}", index + 1))
            .collect();
        prop_assert_eq!(part(&lines.join("\n"), ViewRange::Whole).unwrap(), expected.join("\n"));
        prop_assert_eq!(part(&lines.join("\r\n"), ViewRange::Whole).unwrap(), expected.join("\n"));
    }

    #[test]
    fn any_part_is_the_same_lines_of_the_whole(
        text in "[ab\n]{0,20}", first in -2_i64..12, second in -2_i64..12,
    ) {
        let whole = part(&text, ViewRange::Whole).unwrap();
        for lines in [range(first, second), page(first, Some(second))] {
            if let Ok(part) = part(&text, lines) {
                prop_assert!(whole.contains(&part));
                let number = format!("{first:>6}\t");
                prop_assert!(part.starts_with(&number));
            }
        }
    }
}
