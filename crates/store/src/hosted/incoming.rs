//! A home that is put together in a folder of its own and then moved into place.
//!
//! Memories and state may be on two file systems, so each has a folder for incoming files beside its final place. When
//! all is complete and verified, a mark is written, and the parts are renamed, the database last. A process that ends
//! in between leaves the mark, and the next one goes on. Nothing that exists is overwritten.
#![expect(
    clippy::disallowed_methods,
    reason = "whole folders of a home are moved here, before any root is opened in them"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use state::private_files::{create_private_file, create_private_folder, sync_parent};

use crate::binding::BaseFolders;
use crate::host_fs::remove_empty_folders;
use crate::os;

/// The folder of incoming files, in the folder of memories and in that of the state.
const FOLDER: &str = ".lukasa-incoming";
/// The mark that all incoming files are complete, in the folder of the state's.
const COMPLETE: &str = "complete";

/// The reason why a home cannot be put in place.
#[derive(Debug, thiserror::Error)]
pub enum IncomingHomeError {
    /// Something is where a part of the home belongs.
    #[error("`{0}` already exists")]
    Occupied(PathBuf),
    /// The file system failed.
    #[error("cannot use `{path}`")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The folders in which a home is put together.
#[derive(Debug)]
pub struct IncomingHome {
    home: BaseFolders,
    incoming: BaseFolders,
}

impl IncomingHome {
    /// Begins a home, in empty folders. Removes what an earlier attempt left. Returns an error if the home has memories
    /// or a state.
    pub fn begin(home: BaseFolders) -> Result<Self, IncomingHomeError> {
        let this = Self::new(home);
        this.check_free()?;
        this.remove()?;
        for folder in [&this.incoming.data, &this.incoming.state] {
            create_private_folder(folder).map_err(|error| failed(folder, error))?;
        }
        Ok(this)
    }

    /// Moves a home into place that was complete when an earlier process ended. Returns whether there was one.
    pub fn resume(home: BaseFolders) -> Result<bool, IncomingHomeError> {
        let this = Self::new(home);
        let is_complete = is_there(&this.mark());
        if is_complete {
            this.move_all()?;
        }
        Ok(is_complete)
    }

    fn new(home: BaseFolders) -> Self {
        let (data, state) = (home.data.join(FOLDER), home.state.join(FOLDER));
        Self { home, incoming: BaseFolders { data, state } }
    }

    /// Returns the folders to write the home to.
    pub const fn folders(&self) -> &BaseFolders {
        &self.incoming
    }

    /// Moves the home into place.
    pub fn publish(self) -> Result<(), IncomingHomeError> {
        self.check_free()?;
        let mark = self.mark();
        let written = create_private_file(&mark).and_then(|file| file.sync_all());
        written.and_then(|()| sync_parent(&mark)).map_err(|error| failed(&mark, error))?;
        self.move_all()
    }

    /// Removes the files that were written.
    pub fn discard(self) -> Result<(), IncomingHomeError> {
        self.remove()
    }

    fn mark(&self) -> PathBuf {
        self.incoming.state.join(COMPLETE)
    }

    fn check_free(&self) -> Result<(), IncomingHomeError> {
        for path in contents_of(&self.home) {
            if has_files(&path).map_err(|error| failed(&path, error))? {
                return Err(IncomingHomeError::Occupied(path));
            }
        }
        Ok(())
    }

    /// Moves the parts that are still here. The database comes last, and the mark goes after it.
    fn move_all(&self) -> Result<(), IncomingHomeError> {
        for (from, to) in contents_of(&self.incoming).iter().zip(contents_of(&self.home)) {
            if is_there(from) {
                move_into_place(from, &to)?;
            }
        }
        let mark = self.mark();
        fs::remove_file(&mark).and_then(|()| sync_parent(&mark)).map_err(|e| failed(&mark, e))?;
        self.remove()
    }

    fn remove(&self) -> Result<(), IncomingHomeError> {
        for folder in [&self.incoming.data, &self.incoming.state] {
            match fs::remove_dir_all(folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed(folder, error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

/// Returns the paths of all that a home has: the memories, and at last the state.
pub(super) fn contents_of(folders: &BaseFolders) -> [PathBuf; 5] {
    let database = folders.state_database();
    let mut log = database.clone().into_os_string();
    log.push("-wal");
    [
        folders.data.join("memory"),
        folders.data.join("projects"),
        folders.state.join("workspaces"),
        log.into(),
        database,
    ]
}

fn move_into_place(from: &Path, to: &Path) -> Result<(), IncomingHomeError> {
    // Only empty folders may be there.
    if to.is_dir() {
        remove_empty_folders(to).map_err(|error| failed(to, error))?;
    }
    match os::rename_to_free_path(from, to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(IncomingHomeError::Occupied(to.to_owned()));
        }
        // Some file systems cannot rename so. The daemon's lock is held, and the path was free just now.
        Err(error) if os::is_unsupported(&error) => {
            if is_there(to) {
                return Err(IncomingHomeError::Occupied(to.to_owned()));
            }
            fs::rename(from, to).map_err(|error| failed(to, error))?;
        }
        renamed => renamed.map_err(|error| failed(to, error))?,
    }
    sync_parent(to).and_then(|()| sync_parent(from)).map_err(|error| failed(to, error))
}

/// Returns whether a path is a file, or a folder with anything but empty folders in it.
pub(super) fn has_files(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
        Ok(found) if !found.is_dir() => return Ok(true),
        Ok(_) => {}
    }
    for entry in fs::read_dir(path)? {
        if has_files(&entry?.path())? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the names of the folders in a folder. A missing one has none.
pub(super) fn folders_in(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir()
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    Ok(names)
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn failed(path: &Path, source: io::Error) -> IncomingHomeError {
    IncomingHomeError::Io { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(folder: &Path) -> BaseFolders {
        BaseFolders { data: folder.join("data"), state: folder.join("data/state") }
    }

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn fill(incoming: &IncomingHome) {
        for (path, text) in contents_of(incoming.folders()).iter().zip(["a", "b", "c"]) {
            write(&path.join("file"), text);
        }
        write(&incoming.folders().state_database(), "d");
    }

    fn texts(home: &BaseFolders) -> Vec<Option<String>> {
        let [memory, projects, workspaces, _, database] = contents_of(home);
        let files = [memory, projects, workspaces].map(|folder| folder.join("file"));
        files.iter().chain([&database]).map(|path| fs::read_to_string(path).ok()).collect()
    }

    #[test]
    fn a_home_is_moved_into_place_at_whatever_step_it_was_interrupted() {
        for moved in 0..=4 {
            let folder = tempfile::tempdir().unwrap();
            let home = home(folder.path());
            fs::create_dir_all(home.data.join("memory/empty")).unwrap();
            write(&home.state.join("token"), "kept");
            let incoming = IncomingHome::begin(home.clone()).unwrap();
            fill(&incoming);
            write(&incoming.mark(), "");
            let parts = contents_of(incoming.folders());
            let pairs = parts.iter().zip(contents_of(&home)).filter(|(from, _)| is_there(from));
            pairs.take(moved).for_each(|(from, to)| move_into_place(from, &to).unwrap());
            assert!(IncomingHome::resume(home.clone()).unwrap());
            assert_eq!(texts(&home), ["a", "b", "c", "d"].map(|text| Some(text.to_owned())));
            assert!(!is_there(&home.data.join(FOLDER)) && !is_there(&home.state.join(FOLDER)));
            assert!(!IncomingHome::resume(home.clone()).unwrap());
            assert_eq!(fs::read_to_string(home.state.join("token")).unwrap(), "kept");
        }
    }

    #[test]
    fn what_exists_is_not_overwritten() {
        for occupied in 0..5 {
            let folder = tempfile::tempdir().unwrap();
            let home = home(folder.path());
            let incoming = IncomingHome::begin(home.clone()).unwrap();
            fill(&incoming);
            let path = contents_of(&home)[occupied].clone();
            write(&path.join("own"), "mine");
            let refused = incoming.publish();
            assert!(
                matches!(&refused, Err(IncomingHomeError::Occupied(at)) if *at == path),
                "{refused:?}"
            );
            assert!(IncomingHome::begin(home.clone()).is_err());
            assert_eq!(texts(&home), [const { None }; 4]);
            assert_eq!(fs::read_to_string(path.join("own")).unwrap(), "mine");
        }
    }

    #[test]
    fn an_incomplete_home_is_begun_again() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        fill(&IncomingHome::begin(home.clone()).unwrap());
        assert!(!IncomingHome::resume(home.clone()).unwrap());
        let incoming = IncomingHome::begin(home.clone()).unwrap();
        assert_eq!(texts(incoming.folders()), [const { None }; 4]);
        incoming.publish().unwrap();
        assert_eq!(texts(&home), [const { None }; 4]);
    }
}
