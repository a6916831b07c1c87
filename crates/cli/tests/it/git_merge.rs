//! Tests of the merge driver with real git: installation, merges of every kind, and random histories of two clones.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use testkit::Random;

use crate::sandbox::{CommandOutput, Sandbox};

mod histories;
mod markers;
mod setup;

/// A memory of the checkout.
const MEMORY: &str = ".lukasa/memory/a.md";

/// Runs git in a folder.
fn git(place: &Sandbox, folder: &Path, args: &[impl AsRef<OsStr>]) -> CommandOutput {
    let mut command = place.program("git");
    command.current_dir(folder).args(args);
    for (name, value) in [
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_EDITOR", "true"),
        ("GIT_AUTHOR_NAME", "a"),
        ("GIT_AUTHOR_EMAIL", "a@localhost"),
        ("GIT_COMMITTER_NAME", "a"),
        ("GIT_COMMITTER_EMAIL", "a@localhost"),
    ] {
        command.env(name, value);
    }
    let output = command.output().unwrap();
    CommandOutput {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: place.stable(&String::from_utf8_lossy(&output.stderr)),
    }
}

#[track_caller]
fn git_ok(place: &Sandbox, folder: &Path, args: &[&str]) -> String {
    let ended = git(place, folder, args);
    assert_eq!(ended.status, 0, "{args:?}: {}", ended.shown());
    ended.stdout
}

fn write(folder: &Path, file: &str, bytes: impl AsRef<[u8]>) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn commit(place: &Sandbox, folder: &Path, files: &[(&str, &[u8])]) {
    for (file, bytes) in files {
        write(folder, file, bytes);
    }
    git_ok(place, folder, &["add", "-A"]);
    git_ok(place, folder, &["commit", "--quiet", "--allow-empty", "-m", "memories"]);
}

/// Returns a sandbox whose checkout has the driver, and commits three versions of a file: `main` has ours, `other` has
/// theirs.
fn three_versions(file: &str, [base, ours, theirs]: [&[u8]; 3]) -> Sandbox {
    let place = Sandbox::new();
    let folder = place.checkout();
    place.run_ok(&["install", "git", "--yes"]);
    git_ok(&place, &folder, &["checkout", "--quiet", "-b", "main"]);
    commit(&place, &folder, &[(file, base)]);
    git_ok(&place, &folder, &["checkout", "--quiet", "-b", "other"]);
    commit(&place, &folder, &[(file, theirs)]);
    git_ok(&place, &folder, &["checkout", "--quiet", "main"]);
    commit(&place, &folder, &[(file, ours)]);
    place
}

/// Merges `other` into `main`, and returns the exit status and the merged file.
fn merge_versions(place: &Sandbox, file: &str) -> (i32, Vec<u8>) {
    let ended = git(place, &place.checkout(), &["merge", "--no-edit", "other"]);
    (ended.status, fs::read(place.checkout().join(file)).unwrap())
}

fn lines(text: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(text);
    text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}
