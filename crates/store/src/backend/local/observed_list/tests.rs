//! Changes by another program, and the lists after them.

#![expect(clippy::disallowed_methods, reason = "the tests change files as another program does")]

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::backend::local::{Privacy, walk};

struct Rig {
    home: tempfile::TempDir,
    root_dir: RootDir,
    list: ObservedList,
}

impl Rig {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let root_dir = RootDir::new(home.path().to_owned(), &["root"], Privacy::Private);
        fs::create_dir(home.path().join("root")).unwrap();
        Self { home, root_dir, list: ObservedList::new(Arc::default()) }
    }

    /// Returns a rig whose root is observed.
    fn observed() -> Self {
        let rig = Self::new();
        rig.list();
        rig.list();
        assert!(rig.is_observed());
        rig
    }

    fn list(&self) -> Arc<FileList> {
        self.list.list(&self.root_dir, Freshness::Observed).unwrap()
    }

    fn is_observed(&self) -> bool {
        self.list.state.lock().observed.is_some()
    }

    /// Returns when the observed root was walked, which tells whether a list was from memory.
    fn walked_at(&self) -> Option<Instant> {
        self.list.state.lock().observed.as_ref().map(|observed| observed.walked_at)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.home.path().join("root").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    /// Checks the list against a walk. Whether a file is recent depends on the time of the look.
    fn check(&self) {
        let walked = walk::walk(&self.root_dir, None, Extent::ALL).unwrap();
        let facts = |files: &[WalkedFile]| -> Vec<_> {
            files.iter().map(|file| (file.path.clone(), file.stat.bytes, file.stat.stamp)).collect()
        };
        let list = self.list();
        assert_eq!(facts(&list.files), facts(&walked.files));
        assert_eq!(list.files_total, walked.files_total);
    }
}

#[test]
fn a_change_of_a_file_is_in_the_next_list_without_a_walk() {
    let rig = Rig::new();
    rig.write("d/a.md", "one");
    rig.list();
    rig.list();
    let walked_at = rig.walked_at();
    assert!(walked_at.is_some());
    let steps: [&dyn Fn(); 6] = [
        &|| rig.write("d/a.md", "two"),
        &|| rig.write("d/b.md", "new"),
        &|| fs::rename(rig.path("d/b.md"), rig.path("c.md")).unwrap(),
        &|| fs::remove_file(rig.path("c.md")).unwrap(),
        &|| std::os::unix::fs::symlink("/etc/passwd", rig.path("d/link.md")).unwrap(),
        &|| rig.write("d/.hidden", "not a memory"),
    ];
    for (index, step) in steps.iter().enumerate() {
        let before = rig.list().version;
        step();
        rig.check();
        assert_eq!(rig.list().version == before, index >= 4, "step {index}");
    }
    assert_eq!(rig.walked_at(), walked_at, "all lists were from memory");
}

#[test]
fn a_second_write_within_a_tick_of_the_clock_gives_another_version() {
    let rig = Rig::observed();
    for round in 0..200 {
        rig.write("a.md", &format!("{round:03}"));
        let before = rig.list().version;
        rig.write("a.md", &format!("{:03}", round + 300));
        assert_ne!(rig.list().version, before, "round {round}");
    }
}

#[test]
fn a_root_that_was_replaced_or_removed_is_walked_again() {
    let rig = Rig::observed();
    rig.write("a.md", "one");
    rig.check();
    fs::rename(rig.path(""), rig.home.path().join("aside")).unwrap();
    assert_eq!(*rig.list(), FileList::default());
    fs::create_dir(rig.path("")).unwrap();
    rig.write("other.md", "two");
    rig.check();
    // The folder above may be replaced without any notice to the root.
    fs::rename(rig.home.path().join("aside"), rig.home.path().join("again")).unwrap();
    fs::remove_dir_all(rig.path("")).unwrap();
    fs::rename(rig.home.path().join("again"), rig.path("")).unwrap();
    rig.check();
    assert_eq!(rig.list().files.len(), 1);
}

#[test]
fn more_changes_than_are_collected_lead_to_a_walk() {
    let rig = Rig::observed();
    for index in 0..3_000 {
        rig.write(&format!("{index}.md"), "text");
    }
    rig.check();
    assert_eq!(rig.list().files.len(), 3_000);
}

#[test]
fn roots_that_are_no_longer_used_are_no_longer_watched() {
    let observer = Arc::new(Observer::default());
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join("a/b")).unwrap();
    let root_dir = RootDir::new(home.path().to_owned(), &[], Privacy::Private);
    let lists = [0, 1].map(|_| ObservedList::new(Arc::clone(&observer)));
    for _ in 0..2 {
        for list in &lists {
            list.list(&root_dir, Freshness::Observed).unwrap();
        }
    }
    assert_eq!(observer.folders(), 3, "two lists of one root share its watches");
    let [first, second] = lists;
    drop(first);
    fs::write(home.path().join("a/b/c.md"), "text").unwrap();
    assert_eq!(second.list(&root_dir, Freshness::Observed).unwrap().files.len(), 1);
    drop(second);
    assert_eq!(observer.folders(), 0);
}

/// A change by another program. Names are picked from a few, so that they meet.
#[derive(Clone, Debug)]
enum Step {
    Write(usize, u8),
    Replace(usize, usize),
    Remove(usize),
    MakeFolder(usize),
    RemoveFolder(usize),
    MoveFolder(usize, usize),
    Link(usize),
    Look,
}

const FILES: [&str; 6] = ["a.md", "d/a.md", "d/b.md", "d/e/a.md", "e/a.md", "d"];
const FOLDERS: [&str; 4] = ["d", "d/e", "e", "f/g"];

impl Step {
    fn act(&self, root: &Path) {
        // A step may meet something else at its path, and then does nothing.
        let file = |index: usize| root.join(FILES[index]);
        let folder = |index: usize| root.join(FOLDERS[index]);
        let done = match *self {
            Self::Write(name, text) => fs::write(file(name), [text]),
            Self::Replace(from, to) => fs::rename(file(from), file(to)),
            Self::Remove(name) => fs::remove_file(file(name)),
            Self::MakeFolder(name) => fs::create_dir_all(folder(name)),
            Self::RemoveFolder(name) => fs::remove_dir_all(folder(name)),
            Self::MoveFolder(from, to) => fs::rename(folder(from), folder(to)),
            Self::Link(name) => std::os::unix::fs::symlink("a.md", file(name)),
            Self::Look => Ok(()),
        };
        done.unwrap_or_default();
    }
}

fn step() -> impl Strategy<Value = Step> {
    let (file, folder) = (0..FILES.len(), 0..FOLDERS.len());
    prop_oneof![
        4 => (file.clone(), any::<u8>()).prop_map(|(name, text)| Step::Write(name, text)),
        2 => (file.clone(), file.clone()).prop_map(|(from, to)| Step::Replace(from, to)),
        2 => file.clone().prop_map(Step::Remove),
        2 => folder.clone().prop_map(Step::MakeFolder),
        1 => folder.clone().prop_map(Step::RemoveFolder),
        1 => (folder.clone(), folder).prop_map(|(from, to)| Step::MoveFolder(from, to)),
        1 => file.prop_map(Step::Link),
        4 => Just(Step::Look),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_list_equals_a_walk(steps in proptest::collection::vec(step(), 1..40)) {
        let rig = Rig::observed();
        for step in &steps {
            step.act(&rig.path(""));
            if matches!(step, Step::Look) {
                rig.check();
            }
        }
        rig.check();
    }
}
