//! The engine: one front door to memories for every skin. Programs that embed Lukasa use the crate `lukasa`, which
//! is built on this one.
//!
//! Opens the store and the state from a [`Config`], and hands out [`Memories`]: what one caller may
//! touch. Protocols decode, call this, encode. Nothing here reads settings, the environment, or a
//! wire format.
//!
//! ```
//! # async fn example(folder: std::path::PathBuf) -> Result<(), Box<dyn std::error::Error>> {
//! use lukasa_engine::{BindingRequest, Call, Caller, Config, Engine, Folders};
//! use memory::command::{Command, Reply};
//! use memory::path::{Layout, MemoryPath};
//!
//! let folders = Folders { data: folder.clone(), state: folder.join("state") };
//! let engine = Engine::open(Config::new(folders))?;
//! let memories = engine.memories(&BindingRequest::default(), Caller::person("example"));
//! let path = MemoryPath::parse("/memories/global/tea.md", Layout::Scoped)?;
//! let file_text = "- Darjeeling, no milk\n".to_owned();
//! match memories.apply(Command::Create { path, file_text }, &Call::default()).await? {
//!     Reply::Done { text, .. } => println!("{text}"),
//!     Reply::Refused(refusal) => return Err(refusal.into()),
//! }
//! engine.close().await;
//! # Ok(())
//! # }
//! ```

mod config;

mod open;

mod task;

mod host_workspaces;

mod workspace;

mod runner;

mod lane;

mod stage;

mod pending;

pub mod feed;

mod callers;

mod select;

mod prefetch;

mod conversation;

mod backoff;

mod recaller;

mod serving;

pub mod import;

mod review;

mod query;

mod runs;

mod models;

mod reranker;

mod segment;

pub use ::context::Mark;
pub use ::context::segment::{ContextPart, PartKind, Segment, ShownIndex};
pub use ::memory::context_file::ImportStyle;
pub use ::model::TokenUsage;
pub use agents::{
    ContextMode, Curator, EntryAction, EntryCandidate, EntryOutcome, FindingSkipReason,
    ForgetRequest, ForgottenEntry, Ledger, MemoryTopic, MessageRole, RememberError,
    RememberRequest, ReviewMessage, ReviewRequest, ReviewTrigger, RunReport,
};
pub use callers::{BadSessionId, BeginError, Callers, Session, SessionId};
pub use config::{Config, Embeddings};
pub use conversation::{
    BadConversationId, Beginning, Begun, Conversation, ConversationError, ConversationId,
    Conversations, Opened,
};
pub use feed::{Feed, FeedError, Feeds, ManagedChange, Unheard};
pub use host_workspaces::{HostWorkspace, WorkspaceRemoval, WorkspaceRemovalError};
pub use lane::{
    Cancelled, DreamSchedule, LaneParts, LaneSettings, Lanes, NextDream, Rehearsal, RehearsalError,
    Spent, StageError, SubmitError, TaskFilter, Viewer,
};
pub use model::{
    Address, ApiKey, Chat, ChatError, ChatProtocol, EmbeddingEndpoint, ParseAddressError,
    PlaintextReach,
};
pub use models::{
    Checked, Fallback, ModelJob, ModelWork, ModelWorkPage, Models, UnknownFallback, check,
};
pub use open::{Engine, EngineError, Speaking};
pub use pending::{Decision, DecisionError, Pending, PendingPage, PendingProposal};
pub use query::{
    BadCursor, Browse, Cursor, Hit, Hits, Known, LastWrite, Order, Page, browse, last_write,
    search, stale,
};
pub use recaller::Recaller;
pub use reranker::Reranker;
pub use review::{ReviewSettings, TurnTold};
pub use runner::{InProcess, Job, RunError, Runner, chain};
pub use runs::{Run, RunOf, RunPage, runs};
pub use segment::{ContextText, FileShown, HotShown, Showing};
pub use select::{Recalled, Select, SelectError, Selected, Selecting, Shown};
pub use serving::Serving;
pub use stage::{
    NotEntered, Staged, StagedEdit, delete_expected, enter, enter_staged, escape, inside,
};
pub use state::{
    PruneReport, Retention, StateError, StateRepair, Stats, TaskCount, set_aside_databases,
};
pub use store::backend::BackendError;
pub use store::{
    BaseFolders, Binding, BindingRequest, CallContext, Caller, ChangeEvent, ChangeInOtherRoot,
    ChangesQuery, Checkout, CompletionEntry, ContextCache, ContextFile, ContextFileError,
    ContextFiles, ContextListing, ContextScope, ContextSettings, Depth, Draft, DraftEdit, DryRun,
    FileDiff, Health, HealthFinding, HealthFindingKind, InvalidWorkspaceId, Listing, LoadOptions,
    LoadScope, LoadSkipReason, Memories, MemoryEntry, MemoryText, MountState, OutsideReadFlag,
    PendingReview, Precondition, ProjectRoot, ProposalStatusEvent, RepairReport, RootHealth,
    SavedContextFile, SavedMemory, SkippedContextSource, StoreError, TrustError, TrustedFolders,
    UndoConflict, UndoReport, UndoTarget, Unreviewed, Watch, WorkspaceChoice, WorkspaceId,
};
pub use task::{
    Asker, BadClientId, BadTaskId, ClientId, Request, Status, Task, TaskDetails, TaskError,
    TaskErrorCode, TaskId, TaskKind, TaskProposals, TaskResult, TaskState, tellable,
};
pub use workspace::{Switches, Workspace};
