//! Runs the conformance suite of the backend port on local folders.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lukasa_store::backend::local::{LocalBackend, Privacy, RootDir};
use memory::path::RelativePath;
use testkit::conformance::backend::{ExternalWriter, Harness, run};
use testkit::{FaultPlan, FaultyBackend};

/// An editor that works on a folder, and an outside folder that must stay unchanged.
#[derive(Debug)]
pub(crate) struct Editor {
    pub(crate) root: PathBuf,
    pub(crate) elsewhere: PathBuf,
}

impl Editor {
    /// Returns the real path of a file, and creates its parent folders.
    fn at(&self, path: &RelativePath) -> PathBuf {
        let at = self.root.join(path.as_str());
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        at
    }
}

impl ExternalWriter for Editor {
    fn write(&self, path: &RelativePath, bytes: &[u8]) {
        fs::write(self.at(path), bytes).unwrap();
    }

    fn remove(&self, path: &RelativePath) {
        fs::remove_file(self.at(path)).unwrap();
    }

    fn link(&self, path: &RelativePath) {
        symlink(&self.elsewhere, self.at(path)).unwrap();
    }

    fn pipe(&self, path: &RelativePath) {
        let made = std::process::Command::new("mkfifo").arg(self.at(path)).status().unwrap();
        assert!(made.success());
    }

    fn temporary(&self, path: &RelativePath) {
        fs::write(self.at(path).with_file_name(".lukasa-0-0.tmp"), "half").unwrap();
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let left = crate::host::texts(&self.elsewhere);
            assert_eq!(
                left,
                crate::host::table(&[("a.md", "SECRET\n")]),
                "the outside folder is unchanged"
            );
        }
    }
}

/// Creates the outside folder.
pub(crate) fn elsewhere(home: &Path) -> PathBuf {
    let elsewhere = home.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("a.md"), "SECRET\n").unwrap();
    elsewhere
}

fn rig(names: &[&str], privacy: Privacy) -> Harness {
    let home = tempfile::tempdir().unwrap();
    let (base, lock) = (home.path().join("base"), home.path().join("state/locks/root.lock"));
    let elsewhere = elsewhere(home.path());
    fs::create_dir(&base).unwrap();
    let backend = || {
        let anchor = RootDir::new(base.clone(), names, privacy);
        Arc::new(LocalBackend::new(anchor, lock.clone()))
    };
    let root = names.iter().fold(base.clone(), |path, name| path.join(name));
    Harness {
        backend: backend(),
        peer: backend(),
        external_writer: Box::new(Editor { root, elsewhere }),
        holds_only_files: false,
        keep_alive: Box::new(home),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_private_folder_conforms_to_the_backend_port() {
    run(|| rig(&["memory"], Privacy::Private)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_in_a_checkout_conforms_to_the_backend_port() {
    run(|| rig(&[".lukasa", "memory"], Privacy::Shared)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_faulty_double_conforms_to_the_backend_port_without_faults() {
    run(|| {
        let rig = rig(&["memory"], Privacy::Private);
        let backend = Arc::new(FaultyBackend::new(rig.backend, Arc::new(FaultPlan::default())));
        Harness { backend, ..rig }
    })
    .await;
}
