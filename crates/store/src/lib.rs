//! Where memories live.
//!
//! The only crate that names files. It hands out [`Memories`]: the memories one caller may touch, as
//! a value; holding it is the permission. Every command goes access → screen → caps → contain →
//! edit → record → write → announce, written once here whatever the backend. Files are the truth:
//! an edit made outside is noticed, recorded and never overwritten unseen.

mod binding;

mod memories;

mod caller;

mod store;

mod apply;

mod view;

mod came;
mod commit;

mod checks;

mod draft;

mod history;

mod context_files;

mod notice;

mod health;

mod root;

mod cache;

mod hold;

mod host;

mod derived;

mod objection;

mod unreviewed;

mod glance;

mod settle;

mod recovery;

mod memory_list;

mod workspace;

mod checkout_record;

mod watch;

mod error;

pub mod backend;

pub mod clock;

pub use binding::{
    BadWorkspaceId, Binding, BindingRequest, Checkout, Folders, ProjectRoot, WorkspaceChoice,
    WorkspaceId, folder_slug, resolved as real_path,
};
pub use caller::{Call, Caller, Expected, OutsideRead};
pub use context_files::{
    ContextCache, ContextFile, ContextFileError, ContextFiles, ContextListing, ContextSaved,
    ContextScope, ContextSettings, LoadOptions, LoadScope, Loaded, NotLoaded, Origin, PassedOver,
    Skipped, TrustError, TrustedFolders,
};
pub use derived::{DerivedFiles, DerivedLimits};
pub use draft::{Draft, DraftedEdit};
pub use error::{Blocked, StoreError};
pub use glance::Glanced;
pub use health::{Depth, Finding, FindingKind, Health, Repaired, RootHealth};
pub use history::{ChangesQuery, Dry, Elsewhere, FileDiff, UndoTarget, Undone};
pub use memories::{Listed, Listing, Memories, MemoryText, MountState, Saved, Surveyed};
pub use memory_list::MEMORY_LIST;
pub use root::FILES_READ_AT_ONCE;
pub use store::{Notice, PinNotice, ProposalNotice, Settings, Store};
pub use unreviewed::{Influenced, Unreviewed};
pub use watch::Watch;
