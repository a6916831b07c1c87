//! Tests of the merge, with tables and with random memories.

use super::*;

mod properties;

const MARKERS: MarkerStyle<'_> = MarkerStyle { length: 7, ours: "ours", theirs: "theirs" };

fn merged(base: &str, ours: &str, theirs: &str) -> Result<MergedMemory, MergeError> {
    merge(&MergeInput { base, ours, theirs }, &MARKERS)
}

/// Checks a merge without conflicts, and that the lines are the same with the sides exchanged.
#[track_caller]
fn check(base: &str, ours: &str, theirs: &str, expected: &str) {
    let result = merged(base, ours, theirs).unwrap();
    assert_eq!((result.text.as_str(), result.conflicts), (expected, 0));
    let exchanged = merged(base, theirs, ours).unwrap();
    assert_eq!(sorted_lines(&exchanged.text), sorted_lines(expected), "{}", exchanged.text);
    for side in [ours, theirs] {
        assert_eq!(merged(base, expected, side).unwrap().text, expected, "merged again");
    }
}

/// Checks a merge with conflicts.
#[track_caller]
fn check_conflicts(base: &str, ours: &str, theirs: &str, expected: (&str, usize)) {
    let result = merged(base, ours, theirs).unwrap();
    assert_eq!((result.text.as_str(), result.conflicts), expected);
    assert!(conflict_line(&result.text).is_some());
    assert_eq!(merged(base, theirs, ours).unwrap().conflicts, expected.1);
}

/// Returns the lines of a text in order, without bullets, blank lines and conflict markers.
fn sorted_lines(text: &str) -> Vec<&str> {
    let is_marker = |line: &&str| {
        ["<<<<<<<", "=======", ">>>>>>>"].iter().any(|marker| line.starts_with(marker))
    };
    let lines = text.lines().filter(|line| !is_marker(line));
    let lines = lines.map(|line| without_bullet(line).trim()).filter(|line| !line.is_empty());
    let mut lines: Vec<_> = lines.collect();
    lines.sort_unstable();
    lines
}

#[test]
fn additions_of_both_sides_stay() {
    check("- a\n", "- a\n- b\n", "- a\n- c\n", "- a\n- b\n- c\n");
    check("- a\n", "- b\n- a\n", "- c\n- a\n", "- b\n- c\n- a\n");
    check("", "- a\n", "- b\n", "- a\n- b\n");
    check("", "# A\n\n- a\n", "# B\n\n- b\n", "# A\n\n- a\n\n# B\n\n- b\n");
    check("# T\n", "# T\n\none\n", "# T\n\ntwo\n", "# T\n\none\n\ntwo\n");
    check("one\n", "zero\n\none\n", "none\n\none\n", "zero\n\nnone\n\none\n");
    check(
        "- a\n",
        "- a\n  - deep\n  - er\n- b\n",
        "- a\n- c\n",
        "- a\n  - deep\n  - er\n- b\n- c\n",
    );
    let fence = "- a\n\n```sh\n- no bullet\n# no heading\n```\n";
    check("- a\n", fence, "- a\n- b\n", "- a\n\n```sh\n- no bullet\n# no heading\n```\n\n- b\n");
}

#[test]
fn equal_additions_stay_once() {
    check("- a\n", "- a\n- b\n", "- a\n- b\n- c\n", "- a\n- b\n- c\n");
    check("- a\n", "- b\n- a\n", "- a\n- b\n- c\n", "- b\n- c\n- a\n");
    check("- a\n", "- a\n* b\n- x\n", "- a\n- b\n", "- a\n* b\n- x\n");
    check("- a\n", "- a\n- b\n- b\n", "- a\n- b\n- c\n", "- a\n- b\n- b\n- c\n");
    check("", "# T\n\n- a\n- b\n", "# T\n\n- a\n- c\n", "# T\n\n- a\n- b\n- c\n");
    // Below two headings they are two facts.
    check(
        "# A\n- 1\n# B\n- 2\n",
        "# A\n- 1\n- none\n# B\n- 2\n",
        "# A\n- 1\n# B\n- 2\n- none\n",
        "# A\n- 1\n- none\n# B\n- 2\n- none\n",
    );
    // One side edits an entry to what the other side adds.
    check("- tea\n- x\n", "- green tea\n- x\n", "- tea\n- x\n- green tea\n", "- green tea\n- x\n");
}

#[test]
fn a_change_of_one_side_holds() {
    check("- a\n- b\n- c\n", "- a\n- c\n", "- a\n- b\n- c\n- d\n", "- a\n- c\n- d\n");
    check("- a\n- b\n- c\n", "- a\n- b!\n- c\n", "- b\n- c\n", "- b!\n- c\n");
    check("- a\n- b\n- c\n", "- c\n- a\n- b\n", "- a\n- b\n- c\n- d\n", "- c\n- d\n- a\n- b\n");
    check("- a\n- b\n- c\n", "- a\n- b\n- c\n- d\n", "- c\n- a\n- b\n", "- c\n- a\n- b\n- d\n");
    check("- a\n- a\n- b\n", "- a\n- b\n", "- a\n- a\n- b\n- c\n", "- a\n- b\n- c\n");
    check("1. a\n2. b\n", "1. z\n2. a\n3. b\n", "1. a\n2. b too\n", "1. z\n2. a\n2. b too\n");
}

#[test]
fn edits_of_both_sides_that_are_alike_are_no_conflict() {
    check(
        "- a b c\n- x\n",
        "- a b d\n- x\n- y\n",
        "- a b d\n- x\n- z\n",
        "- a b d\n- x\n- y\n- z\n",
    );
    check("- a b c\n- x\n", "- a b d  \n- x\n- y\n", "- a b d\n- x\n", "- a b d  \n- x\n- y\n");
}

#[test]
fn an_edit_against_a_deletion_stays() {
    check("- a b c\n- x\n", "- a b d\n- x\n", "- x\n- y\n", "- a b d\n- x\n- y\n");
    check("- a b c\n- x\n", "- x\n- y\n", "- a b d\n- x\n", "- a b d\n- x\n- y\n");
    // With its heading.
    check(
        "# T\n\n## Old\n\n- a b c\n- x\n\n## B\n\n- y\n",
        "# T\n\n## B\n\n- y\n",
        "# T\n\n## Old\n\n- a b d\n- x\n\n## B\n\n- y\n- z\n",
        "# T\n\n## Old\n\n- a b d\n\n## B\n\n- y\n- z\n",
    );
}

#[test]
fn an_addition_stays_in_its_section() {
    let base = "# T\n\n## A\n\n- a\n\n## B\n\n- b\n";
    // The other side deleted, renamed, or extended the section.
    check(
        base,
        "# T\n\n## B\n\n- b\n",
        "# T\n\n## A\n\n- a\n- new\n\n## B\n\n- b\n",
        "# T\n\n## A\n\n- new\n\n## B\n\n- b\n",
    );
    check(
        base,
        "# T\n\n## Other name\n\n- a\n\n## B\n\n- b\n",
        "# T\n\n## A\n\n- a\n- new\n\n## B\n\n- b\n",
        "# T\n\n## Other name\n\n- a\n- new\n\n## B\n\n- b\n",
    );
    check(
        base,
        "# T\n\n## A\n\n- a\n\n### Deep\n\n- deep\n\n## B\n\n- b\n\n## C\n\n- c\n",
        "# T\n\n## A\n\n- a\n- new\n\n## B\n\n- b\n- too\n\n## D\n\n- d\n",
        "# T\n\n## A\n\n- a\n- new\n\n### Deep\n\n- deep\n\n## B\n\n- b\n- too\n\n## C\n\n- c\n\n## D\n\n- d\n",
    );
    // The other side deleted what the addition stands below, or put a heading there.
    check(
        "## A\n\n- a b c\n",
        "## A\n\n- a b d\n",
        "## A\n\n## B\n\n- b\n",
        "## A\n\n- a b d\n\n## B\n\n- b\n",
    );
    // Sections changed places.
    check(
        base,
        "# T\n\n## B\n\n- b\n\n## A\n\n- a\n",
        "# T\n\n## A\n\n- a\n- new\n\n## B\n\n- b\n",
        "# T\n\n## B\n\n- b\n\n## A\n\n- a\n- new\n",
    );
}

#[test]
fn an_entry_that_moved_to_another_section_and_was_edited_stays_in_both_forms() {
    check(
        "## A\n- a b c\n- x\n## B\n- y\n",
        "## A\n- x\n## B\n- y\n- a b c\n",
        "## A\n- a b d\n- x\n## B\n- y\n",
        "## A\n- a b d\n- x\n## B\n- y\n- a b c\n",
    );
}

#[test]
fn two_edits_of_one_entry_are_a_conflict() {
    check_conflicts(
        "- the port is 80\n- x\n",
        "- the port is 81\n- x\n- y\n",
        "- the port is 82\n- x\n- z\n",
        (
            "<<<<<<< ours\n- the port is 81\n=======\n- the port is 82\n>>>>>>> theirs\n- x\n- y\n- z\n",
            1,
        ),
    );
    // Also if they have nothing in common.
    check_conflicts(
        "- a\n",
        "- qq\n",
        "- zz",
        ("<<<<<<< ours\n- qq\n=======\n- zz\n>>>>>>> theirs\n", 1),
    );
    check_conflicts(
        "# A b\n- x\n",
        "# A c\n- x\n",
        "# A d\n- x\n",
        ("<<<<<<< ours\n# A c\n=======\n# A d\n>>>>>>> theirs\n- x\n", 1),
    );
    check_conflicts(
        "a\r\n\r\nb\r\n",
        "a 1\r\n\r\nb 1\r\n",
        "a 2\r\n\r\nb 2\r\n",
        (
            "<<<<<<< ours\r\na 1\r\n=======\r\na 2\r\n>>>>>>> theirs\r\n\r\n<<<<<<< ours\r\nb \
             1\r\n=======\r\nb 2\r\n>>>>>>> theirs\r\n",
            2,
        ),
    );
}

#[test]
fn fields_merge_by_key() {
    let base = "---\nname: a\ndescription: one\n---\n- x\n";
    check(
        base,
        "---\nname: a\ndescription: two\n---\n- x\n",
        "---\nname: b\ndescription: one\ntype: user\n---\n- x\n- y\n",
        "---\nname: b\ndescription: two\ntype: user\n---\n- x\n- y\n",
    );
    check(
        base,
        "---\nname: a\n---\n- x\n",
        "---\nname: a\ndescription: one\ntags:\n  - q\n# note\n---\n- x\n",
        "---\nname: a\ntags:\n  - q\n# note\n---\n- x\n",
    );
    // Only one side has frontmatter, or has none any more.
    check("- x\n", "---\nname: a\n---\n\n- x\n", "- x\n- y\n", "---\nname: a\n---\n\n- x\n- y\n");
    check(base, "- x\n", "---\nname: a\ndescription: one\n---\n- x\n- y\n", "- x\n- y\n");
    check(
        base,
        "- x\n",
        "---\nname: a\ndescription: two\n---\n- x\n",
        "---\ndescription: two\n---\n- x\n",
    );
    check_conflicts(
        base,
        "---\nname: a\ndescription: two\n---\n- x\n- y\n",
        "---\nname: a\ndescription: three\n---\n- x\n- z\n",
        (
            "---\nname: a\n<<<<<<< ours\ndescription: two\n=======\ndescription: three\n>>>>>>> \
             theirs\n---\n- x\n- y\n- z\n",
            1,
        ),
    );
    // Both created the memory.
    check_conflicts(
        "",
        "---\nname: a\ntype: user\n---\n- x\n",
        "---\nname: b\ntype: user\n---\n- x\n- y\n",
        (
            "---\n<<<<<<< ours\nname: a\n=======\nname: b\n>>>>>>> theirs\ntype: user\n---\n- x\n- y\n",
            1,
        ),
    );
}

#[test]
fn broken_frontmatter_merges_by_key_too() {
    check(
        "---\nname: a\ndescription: note: this\n---\n- x\n",
        "---\nname: b\ndescription: note: this\n---\n- x\n",
        "---\nname: a\ndescription: note: that\n---\n- x\n- y\n",
        "---\nname: b\ndescription: note: that\n---\n- x\n- y\n",
    );
}

#[test]
fn line_endings_and_the_end_of_the_text_merge_too() {
    check("- a\n", "- a\r\n- b\r\n", "- a\n- c\n", "- a\r\n- b\r\n- c\r\n");
    check("- a\r\n", "- a\r\n- b\r\n", "- a\n- c\n", "- a\n- b\n- c\n");
    check("- a", "- a\n- b", "- a\n- c", "- a\n- b\n- c");
    check("- a\n", "- a\n- b", "- a\n- c\n", "- a\n- b\n- c");
    check("- a", "- a\n- b\n", "- a\n- c", "- a\n- b\n- c\n");
    check("- a\n", "\u{FEFF}- a\n- b\n", "- a\n- c\n", "\u{FEFF}- a\n- b\n- c\n");
    check(
        "\u{FEFF}---\nname: a\n---\n",
        "---\nname: a\n---\n\n- b\n",
        "\u{FEFF}---\nname: c\n---\n",
        "---\nname: c\n---\n\n- b\n",
    );
    check(
        "---\nname: a\n---",
        "---\nname: a\n---\n- b",
        "---\nname: c\n---",
        "---\nname: c\n---\n- b",
    );
}

#[test]
fn markers_have_the_length_and_the_names_that_were_asked_for() {
    let input = MergeInput { base: "- a\n", ours: "- b\n", theirs: "- c\n" };
    let text =
        |length, ours, theirs| merge(&input, &MarkerStyle { length, ours, theirs }).unwrap().text;
    let nine = "<<<<<<<<< HEAD\n- b\n=========\n- c\n>>>>>>>>>\n";
    assert_eq!(text(9, "HEAD", ""), nine);
    assert_eq!(conflict_line(nine), Some(1));
    // A shorter one would not be noticed, and a name is one line.
    let seven = "<<<<<<< a\n- b\n=======\n- c\n>>>>>>> c\n";
    assert_eq!(text(1, "a\nb", "c\r\n"), seven);
    assert!(text(usize::MAX, "", "").len() < 5_000);
}

#[test]
fn what_cannot_be_merged_by_entry_is_an_error() {
    let check = |base: &str, ours: &str, theirs: &str, expected| {
        assert_eq!(merged(base, ours, theirs), Err(expected), "{base:?} {ours:?} {theirs:?}");
        assert_eq!(merged(base, theirs, ours), Err(expected), "{base:?} {theirs:?} {ours:?}");
    };
    let conflict = "<<<<<<< a\n- b\n=======\n- c\n>>>>>>> c\n";
    check("- a\n", conflict, "- a\n- d\n", MergeError::Unresolved);
    check(
        &conflict.replace('<', "<<").replace('=', "==").replace('>', ">>"),
        "- a\n",
        "- b\n",
        MergeError::Unresolved,
    );
    let large = "- a\n".repeat(MEMORY_BYTES_MAX / 4 + 1);
    check("- a\n", &large, "- a\n- d\n", MergeError::TooLarge);
    // Nothing can follow code without an end.
    check("- a\n", "- a\n\n```\nb\n", "- a\n\n```\nc\n", MergeError::NotSeparable);
    // An indented example of a conflict is no conflict.
    let example = conflict.trim_end().replace('\n', "\n ");
    let example = format!("- a\n\n```\n {example}\n```\n");
    assert_eq!(merged("- a\n", &example, "- b\n- a\n").unwrap().text, format!("- b\n{example}"));
}

#[test]
fn the_gap_above_an_entry_is_that_of_its_kind() {
    let base = "## the gate\n\ntea\nand tea\n\n- tea\n";
    let (ours, theirs) =
        ("## the gate\n\n- bees\n- tea\n", "## the gate\n\ntea\nand tea\n\n> tea\n");
    let text = "## the gate\n\n- bees\n\n> tea\n";
    for [ours, theirs] in
        [[ours, theirs], [theirs, ours], [text, ours], [ours, text], [text, theirs]]
    {
        assert_eq!(merged(base, ours, theirs).unwrap().text, text, "{ours:?} {theirs:?}");
    }
}

#[test]
fn a_large_memory_is_merged() {
    let lines = |from: usize, to: usize| {
        let lines: Vec<_> = (from..to).map(|n| format!("- fact {n}\n")).collect();
        lines.concat()
    };
    let (base, ours, theirs) = (lines(0, 5_000), lines(0, 6_000), lines(7_000, 12_000));
    let text = merged(&base, &ours, &theirs);
    assert!(text.is_ok_and(|merged| merged.text.contains("- fact 11999\n")));
}
