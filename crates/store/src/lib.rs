//! Storage of memories: files, history of changes, and access.
//!
//! This crate reads and writes the files of all scopes. No other crate names memory files.
//! [`Store`] opens roots and hands out [`Memories`]: the memories that one caller may use. Holding
//! that value is the permission.
//!
//! Every command takes the same steps, whatever the backend: access, screening, limits, path
//! containment, edit, record, write, publish. The files are authoritative. An edit made outside is
//! detected and recorded, and is never overwritten unseen.

mod binding;
mod remote_folder;

mod memories;

mod caller;

mod store;

mod apply;

mod view;

mod commit;
mod entry_dates;

mod checks;

mod draft;

mod history;

mod context_files;

mod marks;

mod external_edits;

mod health;

mod root;

mod cache;

mod root_lock;

mod host_fs;
mod os;

mod cache_dir;

mod screen_on_read;
mod screening;

mod unreviewed;

mod completion;

mod checkpoint;

mod recovery;

mod memory_list;

mod workspace;

mod hosted;

mod checkout_record;

mod watch;

mod error;

pub mod backend;

pub mod clock;

pub use backend::remote::{ConnectError, SshSettings};
pub use binding::{
    BaseFolders, Binding, BindingRequest, Checkout, InvalidWorkspaceId, ProjectFolder, ProjectRoot,
    WorkspaceChoice, WorkspaceId, folder_slug, resolve_links as real_path,
};
pub use cache::TextFindings;
pub use cache_dir::{CacheDir, CacheDirLimits};
pub use caller::{CallContext, Caller, OutsideReadFlag, Precondition};
pub use commit::TextOrigin;
pub use completion::CompletionEntry;
pub use context_files::{
    ContextCache, ContextFile, ContextFileError, ContextFileSet, ContextFiles, ContextListing,
    ContextScope, ContextSettings, LoadOptions, LoadScope, LoadSkipReason, RemoteProjectFiles,
    SavedContextFile, SkippedContextFile, SkippedContextSource, SourceOrigin, TrustError,
    TrustedFolders,
};
pub use draft::{Draft, DraftEdit};
pub use error::{StoreError, UndoConflict};
pub use health::{Depth, Health, HealthFinding, HealthFindingKind, RepairReport, RootHealth};
pub use history::{ChangeInOtherRoot, ChangesQuery, DryRun, FileDiff, UndoReport, UndoTarget};
pub use hosted::{
    HostedRoot, HostedRootSize, IncomingHome, IncomingHomeError, complete_interrupted_writes,
    copy_files, digest_files,
};
pub use memories::{
    ChangedMemory, Listing, Memories, MemoriesVersion, MemoryEntry, MemoryText, MountState,
    SavedMemory, ScannedMemory,
};
pub use memory_list::MEMORY_LIST;
pub use os::lower_thread_priority;
pub use remote_folder::{InvalidRemoteFolder, RemoteFolder, RemoteHost};
pub use store::{ChangeEvent, Store, StoreSettings};
pub use unreviewed::{PendingReview, Unreviewed};
pub use watch::Watch;
