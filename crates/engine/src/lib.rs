//! The engine: the single entry point to memories for the CLI, the daemon, the MCP server and the
//! library. Programs that embed Lukasa use the crate `lukasa`, which is built on this one.
//!
//! [`Engine`] opens the store and the state from a [`Config`]. It hands out [`Memories`], the
//! memories that one caller may use, and the services around them: lanes that run tasks, feeds,
//! conversations, recall, proposals.
//!
//! A protocol crate decodes a request, calls this crate and encodes the result. Nothing here reads
//! settings files, the environment or a wire format.
//!
//! ```
//! # async fn example(folder: std::path::PathBuf) -> Result<(), Box<dyn std::error::Error>> {
//! use lukasa_engine::{BaseFolders, BindingRequest, CallContext, Caller, Config, Engine};
//! use memory::command::{MemoryCommand, Reply};
//! use memory::path::{Layout, MemoryPath};
//!
//! let folders = BaseFolders { data: folder.clone(), state: folder.join("state") };
//! let engine = Engine::open(Config::new(folders))?;
//! let memories = engine.memories(&BindingRequest::default(), Caller::person("example"));
//! let path = MemoryPath::parse("/memories/global/tea.md", Layout::Scoped)?;
//! let file_text = "- Darjeeling, no milk\n".to_owned();
//! match memories.apply(MemoryCommand::Create { path, file_text }, &CallContext::default()).await? {
//!     Reply::Done { text, .. } => println!("{text}"),
//!     Reply::Refused(refusal) => return Err(refusal.into()),
//! }
//! engine.close().await;
//! # Ok(())
//! # }
//! ```

mod config;

mod engine;

mod task;

mod host_workspaces;

mod workspace;

mod runner;

mod lane;

mod stage;

mod proposal_queue;

pub mod feed;

mod sessions;

mod retriever;

mod prefetch;

mod conversation;

mod backoff;

mod encoder_file;
mod recall_service;

mod services;

pub mod import;
pub mod quipu_state;

mod review;

mod query;

mod runs;

mod models;

mod reranker;

mod segment;

pub use ::context::Mark;
pub use ::context::recalled::age_text;
pub use ::context::segment::{ContextPart, PartKind, Segment, ShownIndex};
pub use ::memory::context_file::ImportStyle;
pub use ::model::TokenUsage;
pub use agents::{
    ContextMode, Curator, EntryAction, EntryCandidate, EntryOutcome, FindingSkipReason,
    ForgetRequest, ForgottenEntry, Ledger, MemoryTopic, MessageRole, RememberError,
    RememberRequest, ReviewMessage, ReviewRequest, ReviewTrigger, RunReport,
};
pub use config::{Config, ENCODER_FILE, Embeddings};
pub use conversation::{
    BadConversationId, ContextSegment, Conversation, ConversationError, ConversationId,
    Conversations, OpenedConversation, SegmentRequest,
};
pub use encoder_file::{EncoderFileError, EncoderStatus, prepare_encoder_file};
pub use engine::{Engine, EngineError, Storage, UntrustedContent};
pub use feed::{Feed, FeedError, Feeds, ManagedChange, NullFeed};
pub use host_workspaces::{HostWorkspace, WorkspaceRemoval, WorkspaceRemovalError};
pub use lane::{
    CancelOutcome, DreamSchedule, LaneDeps, LaneSettings, Lanes, ModelSpending, NextDream,
    StageError, SubmitError, TaskFilter, TaskPreview, TaskPreviewError, Viewer,
};
pub use model::{
    Address, ApiKey, Chat, ChatError, ChatProtocol, EmbeddingEndpoint, ParseAddressError,
    PlaintextReach,
};
pub use models::{
    AgentModels, Fallback, ModelCheck, ModelJob, ModelWork, ModelWorkPage, UnknownFallback,
    check_model,
};
pub use proposal_queue::{
    DecisionError, PendingPage, PendingProposal, ProposalDecision, ProposalQueue,
};
pub use query::{
    BadCursor, LastWrite, ListPage, ListQuery, MemoryDetails, Order, PageCursor, SearchHit,
    SearchResult, last_write, list_page, search, stale_memories,
};
pub use recall_service::RecallService;
pub use reranker::Reranker;
pub use retriever::{
    DuplicateMemory, RecallBlock, RecallOrigin, RecallQuery, ResidentEntries, RetrieveError,
    RetrievedMemory, Retriever,
};
pub use review::{ReviewSettings, TurnReport};
pub use runner::{Job, LocalRunner, RunError, Runner, error_chain};
pub use runs::{HistoryRun, RunPage, RunSource, runs};
pub use segment::{
    ContextText, FactCount, FactExclusion, FactSource, SegmentReport, ShownFile, StoreSize,
};
pub use services::RunningServices;
pub use sessions::{BadSessionId, BeginSessionError, Session, SessionId, SessionRegistry};
pub use stage::{
    ImportRejection, StagedAttempt, StagedEdit, apply_staged_edits, delete_if, import_memory,
    parse_memory_path, path_escape_error,
};
pub use state::{
    OutsideReaders, PruneReport, Retention, StateError, StateRepair, Stats, TaskCount,
    set_aside_databases,
};
pub use store::backend::BackendError;
pub use store::{
    BaseFolders, Binding, BindingRequest, CallContext, Caller, ChangeEvent, ChangeInOtherRoot,
    ChangesQuery, Checkout, CompletionEntry, ConnectError, ContextCache, ContextFile,
    ContextFileError, ContextFiles, ContextListing, ContextScope, ContextSettings, Depth, Draft,
    DraftEdit, DryRun, FileDiff, Health, HealthFinding, HealthFindingKind, InvalidRemoteFolder,
    InvalidWorkspaceId, Listing, LoadOptions, LoadScope, LoadSkipReason, Memories, MemoryEntry,
    MemoryText, MountState, OutsideReadFlag, PendingReview, Precondition, ProjectFolder,
    ProjectRoot, RemoteFolder, RemoteHost, RepairReport, RootHealth, SavedContextFile, SavedMemory,
    SkippedContextSource, SshSettings, StoreError, TextOrigin, TrustError, TrustedFolders,
    UndoConflict, UndoReport, UndoTarget, Unreviewed, Watch, WorkspaceChoice, WorkspaceId,
};
pub use task::{
    BadClientId, BadTaskId, ClientId, CuratorRequest, Requester, Status, Task, TaskDetails,
    TaskError, TaskErrorCode, TaskId, TaskKind, TaskProposals, TaskResult, TaskState,
    redact_for_display,
};
pub use workspace::{FeatureSwitches, Workspace};
