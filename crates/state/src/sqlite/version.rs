//! Which version of the database is current, without a message to SQLite's thread.
//!
//! Every transaction, of whatever process, ends by changing the header of the wal-index: the file beside
//! the log that all who have the database open share (<https://sqlite.org/walformat.html>, section 2.1).
//! The header holds a count of the transactions and a checksum of the log. Here its bytes are compared
//! and not understood: while they are the same, whatever was read before would be read again.
use std::path::Path;
use std::sync::Mutex;

use crate::sqlite::file::{self, FileId};

/// The header, which stands there twice: whoever changes it writes one after the other.
const HEADER_BYTES: usize = 48;

/// Where the header says that it is in use.
const IS_IN_USE: usize = 12;

/// What the database held at some moment: where two are equal, it has not changed in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    database: FileId,
    index: FileId,
    header: [u8; HEADER_BYTES],
}

/// The wal-index of a database, from when it was first asked.
#[derive(Debug, Default)]
pub(super) struct WalIndex(Mutex<Option<Open>>);

#[derive(Clone, Copy, Debug)]
struct Open {
    database: FileId,
    index: FileId,
    /// Closing any descriptor of this file would drop the locks that SQLite has on it in this process, and
    /// when SQLite is done with it is not known. So it is never closed.
    #[cfg(unix)]
    file: &'static std::fs::File,
}

impl WalIndex {
    /// Returns the version of the database at `path`; `None` where nobody has it open, or somebody is
    /// changing it just now.
    #[cfg(unix)]
    pub(super) fn version(&self, path: &Path) -> Option<Version> {
        use std::os::unix::fs::FileExt as _;
        let Open { database, index, file } = self.open(path)?;
        let mut both = [[0; HEADER_BYTES]; 2];
        file.read_exact_at(both.as_flattened_mut(), 0).ok()?;
        let [header, again] = both;
        let is_whole = header == again && header.get(IS_IN_USE) == Some(&1);
        is_whole.then_some(Version { database, index, header })
    }

    /// Elsewhere the file may be locked against whoever reads it.
    #[cfg(not(unix))]
    pub(super) fn version(&self, _path: &Path) -> Option<Version> {
        None
    }

    /// Returns the open file, if it is still that of the database at `path`, or opens the one that is.
    #[cfg(unix)]
    fn open(&self, path: &Path) -> Option<Open> {
        use std::os::unix::fs::MetadataExt as _;
        let database = file::identity(path).ok()??;
        let mut open = self.0.lock().ok()?;
        // Whoever closes the database last removes the file, and healing sets both aside.
        let known = open.filter(|known| {
            known.database == database && known.file.metadata().is_ok_and(|facts| facts.nlink() > 0)
        });
        if known.is_none() {
            let (file, index) = file::open_wal_index(path).ok()?;
            *open = Some(Open { database, index, file: Box::leak(Box::new(file)) });
        }
        *open
    }
}
