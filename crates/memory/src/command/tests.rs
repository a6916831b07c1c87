//! The exact texts and codes of replies and refusals.

use super::*;
use crate::path::Layout;
use crate::screen::{Screen, TextAuthor};

fn path(text: &str) -> MemoryPath {
    MemoryPath::parse(text, Layout::Scoped).unwrap()
}

fn check(refusal: &CommandError, text: &str, code: MemoryErrorCode) {
    assert_eq!((refusal.to_string().as_str(), refusal.code()), (text, code));
}

/// Returns the digest of a finding.
fn digest() -> ValueDigest {
    let text = "\u{202e}";
    let found = Screen::default().check(text, TextAuthor::Agent);
    ValueDigest::new(found.first().unwrap(), text)
}

const A: &str = "/memories/global/a.md";

#[test]
fn refusals_of_paths_have_their_exact_texts() {
    let (a, b) = (path(A), path("/memories/project/b.md"));
    let root = path("/memories/workspace");
    check(
        &CommandError::Path(MemoryPath::parse("x", Layout::Scoped).unwrap_err()),
        "Path must start with /memories, got: x",
        MemoryErrorCode::InvalidPath,
    );
    check(
        &CommandError::NotFound { path: a.clone() },
        "The path /memories/global/a.md does not exist. Please provide a valid path.",
        MemoryErrorCode::NotFound,
    );
    check(
        &CommandError::NothingThere { path: a.clone() },
        "The path /memories/global/a.md does not exist",
        MemoryErrorCode::NotFound,
    );
    check(
        &CommandError::AlreadyExists { path: a.clone() },
        "File /memories/global/a.md already exists",
        MemoryErrorCode::AlreadyExists,
    );
    check(
        &CommandError::DestinationExists { path: b.clone() },
        "The destination /memories/project/b.md already exists",
        MemoryErrorCode::AlreadyExists,
    );
    check(
        &CommandError::NotAFile { path: root.clone() },
        "The path /memories/workspace is not a file.",
        MemoryErrorCode::NotAFile,
    );
    check(
        &CommandError::CannotDeleteRoot { path: root },
        "Cannot delete the /memories/workspace directory itself",
        MemoryErrorCode::InvalidPath,
    );
    check(
        &CommandError::CannotRenameRoot { path: MemoryPath::Top },
        "Cannot rename the /memories directory itself",
        MemoryErrorCode::InvalidPath,
    );
    check(
        &CommandError::AcrossScopes { old_path: a, new_path: b },
        "Cannot rename /memories/global/a.md to /memories/project/b.md, across scopes. Create it \
         in the target scope instead, then delete the old one.",
        MemoryErrorCode::InvalidPath,
    );
}

#[test]
fn refusals_of_access_have_their_exact_texts() {
    check(
        &CommandError::ScopeUnavailable {
            scope: Scope::Project,
            reason: "no project is associated with this session".to_owned(),
        },
        "Project memory is unavailable: no project is associated with this session",
        MemoryErrorCode::ScopeUnavailable,
    );
    check(
        &CommandError::ReadOnly { mount: Mount::Scope(Scope::Project) },
        "The project memory scope is read-only for this agent; only 'view' is allowed.",
        MemoryErrorCode::ReadOnly,
    );
    check(
        &CommandError::ReadOnly { mount: Mount::Flat },
        "The memory folder /memories is read-only for this agent; only 'view' is allowed.",
        MemoryErrorCode::ReadOnly,
    );
    check(
        &CommandError::NotWritable {
            mount: Mount::Scope(Scope::Project),
            reason: "permission denied".to_owned(),
        },
        "The project memory scope cannot be written on this machine: permission denied. Nothing was \
         changed; 'view' still works.",
        MemoryErrorCode::ReadOnly,
    );
    check(
        &CommandError::Screened {
            family: "secrets",
            rule: "github-token",
            line: 3,
            digest: digest(),
        },
        "Nothing was written: line 3 matches the secrets rule `github-token`. Leave that out; a \
         person can allow it by setting the rule `github-token` to warn or off.",
        MemoryErrorCode::Screened,
    );
    let current = Some(Revision::digest(b""));
    check(
        &CommandError::Conflict { path: path(A), current },
        "The file /memories/global/a.md has changed since it was read (its revision is \
         e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855). Read it again, then \
         save.",
        MemoryErrorCode::Conflict,
    );
}

#[test]
fn refusals_of_texts_have_their_exact_texts() {
    check(
        &CommandError::TooLarge { path: path(A), bytes: 102_401 },
        "The file /memories/global/a.md would have 102401 bytes; a memory is limited to 102400 \
         bytes. Shorten it, or split it by topic.",
        MemoryErrorCode::TooLarge,
    );
    check(
        &CommandError::ScopeFull { mount: Mount::Scope(Scope::Global), limit: 1_000 },
        "The global memory scope is full: it is limited to 1000 files. Delete or merge some \
         before adding more.",
        MemoryErrorCode::ScopeFull,
    );
    check(
        &CommandError::TextNotFound { path: path(A), old_str: "a\nb".to_owned() },
        "No replacement was performed, old_str `a\nb` did not appear verbatim in \
         /memories/global/a.md.",
        MemoryErrorCode::TextNotFound,
    );
    check(
        &CommandError::TextNotUnique { old_str: "a".to_owned(), lines: vec![1, 5] },
        "No replacement was performed. Multiple occurrences of old_str `a` in lines: 1, 5. Please \
         ensure it is unique",
        MemoryErrorCode::TextNotUnique,
    );
    check(
        &CommandError::InvalidInsertLine { line: -1, max: 4 },
        "Invalid `insert_line` parameter: -1. It should be within the range [0, 4].",
        MemoryErrorCode::InvalidRange,
    );
}

#[test]
fn a_refusal_repeats_a_bounded_part_of_the_argument() {
    let old_str = "é".repeat(OLD_STR_SHOWN_CHARS_MAX);
    let expected = format!("No replacement was performed, old_str `{old_str}…` did not");
    let refusal = CommandError::TextNotFound { path: path(A), old_str: format!("{old_str}é") };
    assert!(refusal.to_string().starts_with(&expected));
    let lines = vec![1; OCCURRENCES_SHOWN_MAX + 1];
    let refusal = CommandError::TextNotUnique { old_str: "a".to_owned(), lines };
    assert!(refusal.to_string().ends_with("1, 1, …. Please ensure it is unique"));
}

#[test]
fn replies_have_their_exact_texts() {
    let (a, b) = (path(A), path("/memories/global/sub/b.md"));
    assert_eq!(created(&a), "File created successfully at: /memories/global/a.md");
    assert_eq!(deleted(&a), "Successfully deleted /memories/global/a.md");
    assert_eq!(
        renamed(&a, &b),
        "Successfully renamed /memories/global/a.md to /memories/global/sub/b.md"
    );
}

#[test]
fn only_utf8_without_nul_is_text() {
    let refusal = Err(CommandError::NotText { path: path(A) });
    assert_eq!(decode_text(&path(A), "é\r\n".as_bytes()), Ok("é\r\n"));
    assert_eq!(decode_text(&path(A), b"\xff"), refusal);
    assert_eq!(decode_text(&path(A), b"a\0b"), refusal);
    assert_eq!(decode_text(&path(A), b"caf\xc3"), refusal);
}

#[test]
fn a_memory_is_built_up_by_one_edit_after_another() {
    let a = path(A);
    let inserted = edit::insert(&a, "line one\n", 1, "line two").unwrap();
    let replaced = edit::str_replace(&a, &inserted.text, "two", "2").unwrap();
    let shown = view::view_file(&a, &replaced.text, &ViewRange::default()).unwrap();
    assert_eq!(inserted.reply, "The file /memories/global/a.md has been edited.");
    assert_eq!(replaced.text, "line one\nline 2\n");
    assert_eq!(
        shown,
        "Here's the content of /memories/global/a.md with line numbers:\n     1\tline one\n     \
         2\tline 2\n     3\t"
    );
}

#[test]
fn a_command_reports_its_name_its_paths_and_whether_it_is_a_view() {
    let (a, b) = (path(A), path("/memories/global/b.md"));
    let view = MemoryCommand::View { path: a.clone(), lines: ViewRange::Whole };
    let rename = MemoryCommand::Rename { old_path: a.clone(), new_path: b.clone() };
    assert_eq!((view.as_ref(), view.is_view()), ("view", true));
    assert_eq!((rename.as_ref(), rename.is_view()), ("rename", false));
    assert_eq!(view.paths().collect::<Vec<_>>(), [&a]);
    assert_eq!(rename.paths().collect::<Vec<_>>(), [&a, &b]);
}
