//! Writes that die between taking something out of its place and looking at what it was.

use std::fs;
use std::path::Path;

use memory::path::RelativePath;

use super::super::sweep::sweep;
use super::*;
use crate::backend::SweepReport;

fn path(text: &str) -> RelativePath {
    RelativePath::parse(text).unwrap()
}

fn anchor(home: &Path) -> RootDir {
    RootDir::new(home.to_owned(), &["memory"], Privacy::Private)
}

fn stamp(anchor: &RootDir, at: &str) -> Stamp {
    let path = path(at);
    let folder = anchor.open_parent(&path).unwrap().unwrap();
    open_file(&folder, path.file_name()).unwrap().1.stamp
}

/// Returns every file with its text, hidden ones too.
#[expect(clippy::disallowed_methods, reason = "looks at what is really there")]
fn shown(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(shown(&entry.path()).into_iter().map(|below| format!("{name}/{below}")));
        } else {
            found.push(format!("{name}={}", fs::read_to_string(entry.path()).unwrap()));
        }
    }
    found.sort();
    found
}

/// An editor and a write of ours meet, and our process dies after it has taken away what was there
/// and before it has looked at it. History has `ours` and `one`.
#[expect(clippy::disallowed_methods, reason = "an editor writes by itself")]
fn check(die: impl FnOnce(&RootDir), expected: &[&str]) {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("memory");
    fs::create_dir_all(root.join("d")).unwrap();
    fs::write(root.join("d/a.md"), "one").unwrap();
    fs::write(root.join("d/b.md"), "one").unwrap();
    let anchor = anchor(home.path());
    die(&anchor);
    let in_history = |_: &RelativePath, bytes: &[u8]| [&b"ours"[..], b"one"].contains(&bytes);
    sweep(&anchor, &in_history).unwrap();
    assert_eq!(shown(&root), expected);
    assert_eq!(sweep(&anchor, &in_history).unwrap(), SweepReport::default());
}

#[expect(clippy::disallowed_methods, reason = "an editor writes by itself")]
fn edit(anchor: &RootDir, text: &str) {
    fs::write(anchor.path().join("d/a.md"), text).unwrap();
}

fn swap(anchor: &RootDir, at: &str) {
    let mut staged = stage(anchor, &path(at), b"ours").unwrap();
    staged.swap().unwrap();
    std::mem::forget(staged);
}

fn move_aside(anchor: &RootDir, at: &str) {
    let path = path(at);
    let folder = anchor.open_parent(&path).unwrap().unwrap();
    let aside = backup_name(path.file_name());
    rename_noreplace(&folder, path.file_name(), &folder, &aside).unwrap();
}

#[test]
fn what_a_dead_write_took_away_is_removed_if_history_has_it() {
    check(|anchor| swap(anchor, "d/a.md"), &["d/a.md=ours", "d/b.md=one"]);
    check(|anchor| move_aside(anchor, "d/a.md"), &["d/b.md=one"]);
    check(|anchor| move_aside(anchor, "d"), &[]);
}

#[test]
fn what_an_editor_wrote_into_a_dead_write_is_brought_back() {
    check(
        |anchor| {
            edit(anchor, "theirs");
            swap(anchor, "d/a.md");
        },
        &["d/a.md=ours", "d/a.outside-1.md=theirs", "d/b.md=one"],
    );
    check(
        |anchor| {
            edit(anchor, "theirs");
            move_aside(anchor, "d/a.md");
        },
        &["d/a.md=theirs", "d/b.md=one"],
    );
    check(
        |anchor| {
            edit(anchor, "theirs");
            move_aside(anchor, "d");
        },
        &["d/a.md=theirs", "d/b.md=one"],
    );
}

#[test]
fn a_dead_write_that_had_taken_nothing_away_leaves_nothing() {
    check(
        |anchor| std::mem::forget(stage(anchor, &path("d/a.md"), b"never recorded").unwrap()),
        &["d/a.md=one", "d/b.md=one"],
    );
}

/// While the process lives too: what cannot go back to its place does not stay out of sight.
#[test]
#[expect(clippy::disallowed_methods, reason = "an editor writes by itself")]
fn what_cannot_be_put_back_is_put_beside() {
    check(
        |anchor| {
            let before = stamp(anchor, "d/a.md");
            edit(anchor, "theirs");
            let mut staged = stage(anchor, &path("d/a.md"), b"ours").unwrap();
            staged.swap().unwrap();
            let ours = stamp(anchor, "d/a.md").0[0];
            fs::remove_file(anchor.path().join("d/a.md")).unwrap();
            assert!(!has_stamp(&staged.folder, &staged.temporary, before));
            assert!(matches!(staged.swap_back(ours), Err(BackendError::Changed)));
        },
        &["d/a.md=theirs", "d/b.md=one"],
    );
}
