//! Writes that die after they moved a file aside and before they checked it.

use std::fs;
use std::path::Path;

use memory::path::RelativePath;

use super::super::sweep::sweep;
use super::*;
use crate::backend::SweepReport;

fn path(text: &str) -> RelativePath {
    RelativePath::parse(text).unwrap()
}

fn root_dir(home: &Path) -> RootDir {
    RootDir::new(home.to_owned(), &["memory"], Privacy::Private)
}

fn stamp(root_dir: &RootDir, at: &str) -> Stamp {
    let path = path(at);
    let folder = root_dir.open_parent(&path).unwrap().unwrap();
    open_file(&folder, path.file_name()).unwrap().1.stamp
}

/// Returns all files with their texts, also hidden ones.
#[expect(clippy::disallowed_methods, reason = "the test reads the real files")]
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

/// Checks the sweep after an editor and a write raced, and the process died after it had moved a file aside and before
/// it checked that file. History has `ours` and `one`.
#[expect(clippy::disallowed_methods, reason = "an editor writes by itself")]
fn check(die: impl FnOnce(&RootDir), expected: &[&str]) {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("memory");
    fs::create_dir_all(root.join("d")).unwrap();
    fs::write(root.join("d/a.md"), "one").unwrap();
    fs::write(root.join("d/b.md"), "one").unwrap();
    let root_dir = root_dir(home.path());
    die(&root_dir);
    let in_history = |_: &RelativePath, bytes: &[u8]| Some([&b"ours"[..], b"one"].contains(&bytes));
    sweep(&root_dir, &in_history).unwrap();
    assert_eq!(shown(&root), expected);
    assert_eq!(sweep(&root_dir, &in_history).unwrap(), SweepReport::default());
}

#[expect(clippy::disallowed_methods, reason = "an editor writes by itself")]
fn edit(root_dir: &RootDir, text: &str) {
    fs::write(root_dir.path().join("d/a.md"), text).unwrap();
}

fn swap(root_dir: &RootDir, at: &str) {
    let mut staged = stage(root_dir, &path(at), b"ours").unwrap();
    staged.swap().unwrap();
    std::mem::forget(staged);
}

fn move_aside(root_dir: &RootDir, at: &str) {
    let path = path(at);
    let folder = root_dir.open_parent(&path).unwrap().unwrap();
    let backup = backup_name(path.file_name());
    rename_noreplace(&folder, path.file_name(), &folder, &backup).unwrap();
}

#[test]
fn a_backup_of_a_dead_write_is_removed_if_history_has_it() {
    check(|root_dir| swap(root_dir, "d/a.md"), &["d/a.md=ours", "d/b.md=one"]);
    check(|root_dir| move_aside(root_dir, "d/a.md"), &["d/b.md=one"]);
    check(|root_dir| move_aside(root_dir, "d"), &[]);
}

#[test]
fn an_external_edit_during_a_dead_write_is_restored() {
    check(
        |root_dir| {
            edit(root_dir, "theirs");
            swap(root_dir, "d/a.md");
        },
        &["d/a.md=ours", "d/a.outside-1.md=theirs", "d/b.md=one"],
    );
    check(
        |root_dir| {
            edit(root_dir, "theirs");
            move_aside(root_dir, "d/a.md");
        },
        &["d/a.md=theirs", "d/b.md=one"],
    );
    check(
        |root_dir| {
            edit(root_dir, "theirs");
            move_aside(root_dir, "d");
        },
        &["d/a.md=theirs", "d/b.md=one"],
    );
}

#[test]
fn a_dead_write_without_a_backup_leaves_no_trace() {
    check(
        |root_dir| std::mem::forget(stage(root_dir, &path("d/a.md"), b"never recorded").unwrap()),
        &["d/a.md=one", "d/b.md=one"],
    );
}

/// Covers a living process, too: a file that cannot be swapped back must not stay hidden.
#[test]
#[expect(clippy::disallowed_methods, reason = "an editor writes by itself")]
fn a_file_that_cannot_be_swapped_back_is_restored() {
    check(
        |root_dir| {
            let before = stamp(root_dir, "d/a.md");
            edit(root_dir, "theirs");
            let mut staged = stage(root_dir, &path("d/a.md"), b"ours").unwrap();
            staged.swap().unwrap();
            let ours = stamp(root_dir, "d/a.md").0[0];
            fs::remove_file(root_dir.path().join("d/a.md")).unwrap();
            assert!(!has_stamp(&staged.folder, &staged.temporary, before));
            assert!(matches!(staged.swap_back(ours), Err(BackendError::Changed)));
        },
        &["d/a.md=theirs", "d/b.md=one"],
    );
}

/// Covers systems and file systems that cannot swap two names.
#[test]
#[expect(clippy::disallowed_methods, reason = "an editor writes by itself")]
fn a_write_without_a_swap_refuses_a_file_that_changed() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join("memory/d")).unwrap();
    let root_dir = root_dir(home.path());
    edit(&root_dir, "one");
    let before = stamp(&root_dir, "d/a.md");
    let mut staged = stage(&root_dir, &path("d/a.md"), b"ours").unwrap();
    staged.replace_by_rename(before).unwrap();
    staged.is_pending = false;
    drop(staged);
    assert_eq!(shown(home.path()), ["memory/d/a.md=ours"]);

    edit(&root_dir, "theirs");
    let staged = stage(&root_dir, &path("d/a.md"), b"late").unwrap();
    assert!(matches!(staged.replace_by_rename(before), Err(BackendError::Changed)));
    drop(staged);
    assert_eq!(shown(home.path()), ["memory/d/a.md=theirs"]);
}

/// Covers systems and file systems without a rename that never replaces.
#[test]
#[expect(clippy::disallowed_methods, reason = "the files are made by hand")]
fn a_rename_in_two_steps_never_replaces() {
    let home = tempfile::tempdir().unwrap();
    for name in ["a", "b", "d/a", "e/a"] {
        fs::create_dir_all(home.path().join(name).parent().unwrap()).unwrap();
        fs::write(home.path().join(name), name).unwrap();
    }
    let folder = Dir::open_ambient_dir(home.path(), cap_std::ambient_authority()).unwrap();
    for (from, to) in [("a", "b"), ("d", "e"), ("a", "e"), ("d", "b")] {
        let error = rename_in_two_steps(&folder, from, &folder, to).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{from} -> {to}");
    }
    assert_eq!(shown(home.path()), ["a=a", "b=b", "d/a=d/a", "e/a=e/a"]);
    rename_in_two_steps(&folder, "a", &folder, "c").unwrap();
    rename_in_two_steps(&folder, "d", &folder, "f").unwrap();
    assert_eq!(shown(home.path()), ["b=b", "c=a", "e/a=e/a", "f/a=d/a"]);
}
