//! The hosted roots of a home: those that belong to no checkout. Copies of their files.
//!
//! These are the global memories, those of workspaces, and those of projects that are kept beside the global ones. A
//! home has them in folders, a shared database has them as rows. A [`HostedRoot`] is one of either. [`copy_files`]
//! copies the memories of one to another, and [`digest_files`] reads them again for a comparison.
//!
//! Files are copied as they are: what history knows of them makes no difference.

mod incoming;

pub use incoming::{IncomingHome, IncomingHomeError};

use std::io;
use std::path::Path;
use std::sync::Arc;

use memory::change::RootKey;
use memory::limits::HEAD_BYTES_MAX;
use memory::path::{Mount, RelativePath, Scope};
use memory::screen::Screen;
use state::transfer::ContentDigest;
use state::{HistoryStore, Retention};

use crate::backend::local::{LocalBackend, Privacy, RootDir};
use crate::backend::{Backend, BackendError, Expect, Extent, SkippedEntry, Walk, WalkedFile};
use crate::binding::root_spec;
use crate::binding::{BaseFolders, RootFiles, RootSpec, WorkspaceId, global, project_on_host};
use crate::clock::SystemClock;
use crate::error::StoreError;
use crate::memory_list::{MEMORY_LIST, is_generated_list};
use crate::root::Root;
use crate::store::{Store, StoreSettings};

/// The largest file that is copied, in bytes. A database takes larger ones only with difficulty, and no memory is near.
const COPIED_FILE_BYTES_MAX: usize = 64 << 20;

/// Most bytes of files that are in memory together, unless one file alone has more.
const BATCH_BYTES_MAX: u64 = 8 << 20;

/// Most files that are read together.
const BATCH_FILES_MAX: usize = 256;

/// A root that belongs to no checkout.
#[derive(Clone, Debug)]
pub struct HostedRoot {
    mount: Mount,
    key: RootKey,
    backend: Arc<dyn Backend>,
    /// Whether it is a folder, which may have a generated index.
    is_folder: bool,
}

impl HostedRoot {
    /// Returns the root of an identity whose files are in a shared database. `None` for an identity that no hosted root
    /// has.
    pub fn shared(identity: &str, backend: Arc<dyn Backend>) -> Option<Self> {
        let (scope, _) = parse_identity(identity)?;
        let key = RootKey { identity: identity.to_owned(), place: identity.to_owned() };
        Some(Self { mount: Mount::Scope(scope), key, backend, is_folder: false })
    }

    /// Returns the identity.
    pub fn identity(&self) -> &str {
        &self.key.identity
    }

    /// Counts the memories, their bytes, and the entries that are no memories.
    pub async fn count(&self) -> Result<HostedRootSize, StoreError> {
        let walk = self.walk().await?;
        let (files, bytes) = (walk.files_total, walk.bytes_total);
        Ok(HostedRootSize { files, bytes, skipped: walk.skipped })
    }

    async fn walk(&self) -> Result<Walk, StoreError> {
        let walk = self.backend.walk(None, Extent::ALL).await;
        let mut walk = walk.map_err(|error| self.error(error))?;
        if walk.incomplete || walk.files_total > walk.files.len() {
            let source = io::Error::other("there are too many files");
            return Err(self.error(BackendError::Io { doing: "list all memories", source }));
        }
        self.leave_out_index(&mut walk).await;
        Ok(walk)
    }

    /// Leaves out the generated index of a folder, which is made again.
    async fn leave_out_index(&self, walk: &mut Walk) {
        let is_index = |file: &WalkedFile| file.path.as_str() == MEMORY_LIST;
        let Some(index) = walk.files.iter().position(is_index).filter(|_| self.is_folder) else {
            return;
        };
        let read = self.backend.read(&walk.files[index].path, HEAD_BYTES_MAX).await;
        if read.is_ok_and(|read| is_generated_list(&read.bytes)) {
            let file = walk.files.remove(index);
            walk.files_total -= 1;
            walk.bytes_total -= file.stat.bytes;
        }
    }

    fn error(&self, error: BackendError) -> StoreError {
        StoreError::backend_error(self.mount)(error)
    }

    fn file_error(&self, path: &RelativePath, error: BackendError) -> StoreError {
        match error {
            BackendError::Full(_)
            | BackendError::NotWritable(_)
            | BackendError::Unreachable(_)
            | BackendError::StateUnreachable(_)
            | BackendError::Locked(_) => self.error(error),
            error => {
                let reason = format!("`{path}` of {}: {error}", self.identity());
                let source = io::Error::other(reason);
                self.error(BackendError::Io { doing: "copy a memory", source })
            }
        }
    }

    /// Reads all memories in batches, and passes each to `work`. Returns the digest of all.
    async fn read_all<Running>(
        &self,
        mut work: impl FnMut(Vec<CopiedFile>) -> Running,
    ) -> Result<ContentDigest, StoreError>
    where
        Running: Future<Output = Result<(), StoreError>>,
    {
        let (mut digest, walk) = (ContentDigest::default(), self.walk().await?);
        for batch in batches(&walk.files) {
            let paths: Vec<_> = batch.iter().map(|file| file.path.clone()).collect();
            let mut copied = Vec::with_capacity(paths.len());
            for (path, read) in
                paths.iter().zip(self.backend.read_many(&paths, COPIED_FILE_BYTES_MAX).await)
            {
                let read = read.map_err(|error| self.file_error(path, error))?;
                if !read.is_whole() {
                    let source =
                        io::Error::other(format!("more than {COPIED_FILE_BYTES_MAX} bytes"));
                    let error = BackendError::Io { doing: "copy so large a file", source };
                    return Err(self.file_error(path, error));
                }
                digest.add(
                    &[self.identity().as_bytes(), path.as_str().as_bytes(), &read.bytes].join(&0),
                );
                let (path, modified_at) = (path.clone(), read.stat.modified_at);
                copied.push(CopiedFile { path, bytes: read.bytes.into(), modified_at });
            }
            work(copied).await?;
        }
        Ok(digest)
    }
}

/// The size of a root.
#[derive(Debug, Default)]
pub struct HostedRootSize {
    /// Number of memories.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The first entries that are no memories.
    pub skipped: Vec<SkippedEntry>,
}

/// A memory on its way.
#[derive(Debug)]
struct CopiedFile {
    path: RelativePath,
    bytes: Arc<[u8]>,
    modified_at: memory::clock::Timestamp,
}

/// Copies the memories of a root to one that has none. Calls `on_files` with the number of files of each batch. Returns
/// the digest of what was read, once the copies are durable.
pub async fn copy_files(
    from: &HostedRoot,
    to: &HostedRoot,
    on_files: &(dyn Fn(usize) + Send + Sync),
) -> Result<ContentDigest, StoreError> {
    from.read_all(async |files: Vec<CopiedFile>| {
        let paths: Vec<_> = files.iter().map(|file| file.path.clone()).collect();
        for CopiedFile { path, bytes, modified_at } in files {
            write_file(to, &path, bytes, modified_at)
                .await
                .map_err(|error| to.file_error(&path, error))?;
        }
        to.backend.sync(&paths).await.map_err(|error| to.error(error))?;
        on_files(paths.len());
        Ok(())
    })
    .await
}

async fn write_file(
    to: &HostedRoot,
    path: &RelativePath,
    bytes: Arc<[u8]>,
    modified_at: memory::clock::Timestamp,
) -> Result<(), BackendError> {
    let mut staged = to.backend.stage(path, bytes).await?;
    staged.set_modified(modified_at);
    staged.publish(Expect::Absent).await
}

/// Reads the memories of a root. Calls `on_files` like [`copy_files`].
pub async fn digest_files(
    root: &HostedRoot,
    on_files: &(dyn Fn(usize) + Send + Sync),
) -> Result<ContentDigest, StoreError> {
    root.read_all(async |files: Vec<CopiedFile>| {
        on_files(files.len());
        Ok(())
    })
    .await
}

/// Divides files into batches that fit in memory.
fn batches(files: &[WalkedFile]) -> impl Iterator<Item = &[WalkedFile]> {
    let mut rest = files;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |(index, file): &(usize, &WalkedFile)| {
            bytes += file.stat.bytes;
            *index == 0 || bytes <= BATCH_BYTES_MAX
        };
        let count = rest.iter().take(BATCH_FILES_MAX).enumerate().take_while(fits).count();
        let (batch, others) = rest.split_at(count);
        rest = others;
        (!batch.is_empty()).then_some(batch)
    })
}

/// Completes the writes of roots that a crash interrupted. Returns the number of roots where there was one.
pub async fn complete_interrupted_writes(
    state: Arc<dyn HistoryStore>,
    folders: &BaseFolders,
    roots: &[HostedRoot],
) -> Result<usize, StoreError> {
    // Nothing is written but what recovery writes: no history is dropped, and no index generated.
    let retention = Retention { age: std::time::Duration::MAX, bytes: u64::MAX };
    let settings = StoreSettings { retention, memory_list: false, ..StoreSettings::default() };
    let clock = Arc::new(SystemClock);
    let store = Store::new(state, folders.clone(), Screen::default(), clock, settings);
    let mut completed = 0;
    for HostedRoot { mount, key, backend, is_folder } in roots {
        let root = Arc::new(Root::new(*mount, key.clone(), Arc::clone(backend), *is_folder));
        if root.may_be_interrupted(&store).await {
            drop(root.lock(&store).await?);
            completed += 1;
        }
    }
    Ok(completed)
}

impl BaseFolders {
    /// Returns the hosted root of an identity in these folders. `None` for an identity that no hosted root has.
    pub fn hosted_root(&self, identity: &str) -> Option<HostedRoot> {
        let (scope, spec) = self.hosted_spec(identity)?;
        let RootFiles::Local(root_dir) = spec.files else { return None };
        let lock = self.lock_path(&spec.key.place);
        let backend = Arc::new(LocalBackend::new(root_dir, lock));
        Some(HostedRoot { mount: Mount::Scope(scope), key: spec.key, backend, is_folder: true })
    }

    /// Returns the place in these folders of the hosted root of an identity. `None` for an identity that no hosted root
    /// has.
    pub fn hosted_place(&self, identity: &str) -> Option<String> {
        self.hosted_spec(identity).map(|(_, spec)| spec.key.place)
    }

    fn hosted_spec(&self, identity: &str) -> Option<(Scope, RootSpec)> {
        let (scope, key) = parse_identity(identity)?;
        let spec = match scope {
            Scope::Global => global(self).root.ok()?,
            Scope::Project => project_on_host(key, self),
            Scope::Workspace => {
                let names = ["workspaces", key, "memory"];
                let root_dir = RootDir::new(self.state.clone(), &names, Privacy::Private);
                root_spec(identity.to_owned(), root_dir, true)
            }
        };
        Some((scope, spec))
    }

    /// Returns the identities of the hosted roots that have a folder, sorted.
    pub fn hosted_identities(&self) -> io::Result<Vec<String>> {
        let mut identities = Vec::new();
        for (folder, scope) in [(&self.state, "workspace"), (&self.data, "project")] {
            let names = incoming::folders_in(&folder.join(format!("{scope}s")))?;
            identities.extend(names.into_iter().map(|name| format!("{scope}:{name}")));
        }
        identities.push("global".to_owned());
        identities.retain(|identity| parse_identity(identity).is_some());
        identities.sort();
        Ok(identities)
    }

    /// Returns whether the folders have memories outside of checkouts, or a state database.
    pub fn is_used(&self) -> io::Result<bool> {
        let paths = incoming::contents_of(self);
        paths.iter().try_fold(false, |used, path| Ok(used || incoming::has_files(path)?))
    }

    /// Returns the path of the state database.
    pub fn state_database(&self) -> std::path::PathBuf {
        self.state.join(Path::new(STATE_DATABASE))
    }
}

/// The name of the state database in its folder.
const STATE_DATABASE: &str = "lukasa.db";

/// Returns the scope of an identity, and the name of its folder. The name is checked, since it may come from a database.
fn parse_identity(identity: &str) -> Option<(Scope, &str)> {
    if identity == "global" {
        return Some((Scope::Global, ""));
    }
    let (scope, key) = match identity.split_once(':')? {
        ("workspace", key) => (Scope::Workspace, key),
        ("project", key) => (Scope::Project, key),
        _ => return None,
    };
    let id: WorkspaceId = key.parse().ok()?;
    let is_folder = scope == Scope::Workspace || id.project().is_none();
    is_folder.then_some((scope, key))
}
