//! The calls of the system, and the fallbacks for those that it may lack.
#![expect(clippy::disallowed_methods, reason = "the files that are looked at are made by hand")]

use std::fs;
use std::path::Path;

use cap_std::ambient_authority;

use super::unix::fallback;
use super::*;

/// A folder with the files `a` and `b`, which contain their names.
struct Rig {
    place: tempfile::TempDir,
    folder: Dir,
}

impl Rig {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            fs::write(place.path().join(name), name).unwrap();
        }
        let folder = Dir::open_ambient_dir(place.path(), ambient_authority()).unwrap();
        Self { place, folder }
    }

    /// Returns the names and texts of all files.
    fn files(&self) -> Vec<(String, String)> {
        let entries = FolderEntries::of(&self.folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().name().unwrap().to_owned());
        let text = |name: &str| fs::read_to_string(self.place.path().join(name)).unwrap();
        let mut files: Vec<_> = names.map(|name| (name.clone(), text(&name))).collect();
        files.sort();
        files
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.place.path().join(name)
    }
}

fn pairs(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn a_rename_never_replaces() {
    let rig = Rig::new();
    let by_name = rename_to_free(&rig.folder, "a", &rig.folder, "b");
    let by_path = rename_to_free_path(&rig.path("a"), &rig.path("b"));
    for refused in [by_name, by_path] {
        let error = refused.unwrap_err();
        // A file system may lack the call; its error must not look like that of an occupied name.
        assert!(error.kind() == io::ErrorKind::AlreadyExists || is_unsupported(&error), "{error}");
    }
    assert_eq!(rig.files(), pairs(&[("a", "a"), ("b", "b")]));
}

#[test]
fn a_fallback_says_that_it_did_nothing() {
    let rig = Rig::new();
    let (folder, a, b) = (&rig.folder, rig.path("a"), rig.path("b"));
    for result in [
        fallback::exchange_names(folder, "a", "b"),
        fallback::rename_to_free(folder, "a", folder, "c"),
        fallback::rename_to_free_path(&a, &b),
    ] {
        assert!(is_unsupported(&result.unwrap_err()));
    }
    assert!(fallback::hold_file(folder, "a").is_none());
    assert!(!fallback::sync_file_system(folder).unwrap());
    assert!(!fallback::has_no_links(Path::new("/")));
    assert_eq!(fallback::boot_id(), None);
    fallback::lower_thread_priority().unwrap();
    assert!(<fallback::FolderNotices as NoticeQueue>::open().is_none());
    assert_eq!(rig.files(), pairs(&[("a", "a"), ("b", "b")]));
}

#[test]
fn a_pipe_does_not_block_and_a_link_is_followed_only_on_request() {
    let rig = Rig::new();
    std::os::unix::fs::symlink("a", rig.path("link")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(rig.path("pipe")).status().unwrap();
    assert!(made.success());
    assert!(!open_without_blocking(&rig.path("pipe"), true).unwrap().metadata().unwrap().is_file());
    assert!(open_without_blocking(&rig.path("link"), true).is_ok());
    assert!(open_without_blocking(&rig.path("link"), false).is_err());
    let kind = |name: &str| stat_in(&rig.folder, name).unwrap().kind;
    assert_eq!(kind("a"), EntryKind::File);
    assert_eq!(kind("link"), EntryKind::Link);
    assert_eq!(kind("pipe"), EntryKind::Special);
    assert_eq!(stat_path(&rig.path("link")).unwrap().kind, EntryKind::File);
    assert_eq!(stat_path_itself(&rig.path("link")).unwrap().kind, EntryKind::Link);
    let entries = FolderEntries::of(&rig.folder).unwrap().map(Result::unwrap);
    for entry in entries {
        assert_eq!(entry.kind().unwrap(), kind(entry.name().unwrap()));
    }
}
