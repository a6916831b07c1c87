//! The configuration of an engine, with its defaults.
//!
//! Plain values: reading settings files and flags is left to the host. Every option that sends
//! texts to another machine is off by default.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use memory::clock::Clock;
use memory::context_file::ImportStyle;
use memory::feature::Features;
use memory::limits::{
    EMBED_BATCH_DEFAULT, EMBED_WAIT_DEFAULT, START_TOKENS_DEFAULT, TASKS_KEPT_FOR_DEFAULT,
};
use memory::screen::Policy;
use model::EmbeddingEndpoint;
use state::Retention;
use store::clock::SystemClock;
use store::{BaseFolders, ContextSettings, SshSettings, StoreSettings};

use crate::lane::DreamSchedule;
use crate::models::AgentModels;
use crate::review::ReviewSettings;

/// Everything that an [`Engine`](crate::Engine) is opened with.
#[derive(Clone, Debug)]
pub struct Config {
    /// The folders of this host's data.
    pub folders: BaseFolders,
    /// The source of time for changes, tasks, events and usage. Files keep the times of their file
    /// system.
    pub clock: Arc<dyn Clock>,
    /// Maximum number of memories in a scope, at most `memory::limits::SCOPE_FILES_MAX`.
    pub files_max: usize,
    /// The retention of history.
    pub retention: Retention,
    /// Retention of finished tasks.
    pub tasks_kept_for: Duration,
    /// The schedule of dreams in maintained lanes; `None`, the default, disables them.
    pub dream: Option<DreamSchedule>,
    /// The settings of background reviews; disabled by default.
    pub review: ReviewSettings,
    /// Whether roots outside of checkouts carry a generated `MEMORY.md`.
    pub memory_list: bool,
    /// The context files to load. Global ones lie beside the global memories unless set otherwise.
    pub context: ContextSettings,
    /// The style in which imports of context files are shown.
    pub imports: ImportStyle,
    /// Maximum number of tokens of a store whose facts are all given at the start of a conversation, at most
    /// `memory::limits::START_TOKENS_MAX`.
    pub start_tokens_max: usize,
    /// The embedding endpoint for recall, off by default. Texts of memories and prompts are sent to
    /// it. It is used instead of the encoder.
    pub embeddings: Option<Embeddings>,
    /// The file of the encoder for recall, by default [`ENCODER_FILE`] in the data folder. Without
    /// the file, or without the feature `encoder`, recall compares words and word vectors.
    pub encoder: PathBuf,
    /// The models that do agents' work, none by default. Texts of memories are sent to them.
    pub models: AgentModels,
    /// The switches of features.
    pub features: Features,
    /// Features per workspace, by workspace id. They can only switch features off.
    pub workspace_features: BTreeMap<String, Features>,
    /// Settings for reaching other machines.
    pub ssh: SshSettings,
    /// Policies of screening rules and families, by their ids.
    pub screening: BTreeMap<String, Policy>,
    /// Digests of values that the user allowed although a rule objects to them.
    pub screening_allowed: Vec<String>,
}

/// Name of the encoder's file in the data folder.
pub const ENCODER_FILE: &str = "encoder.weights";

/// An embedding endpoint, with its limits.
#[derive(Clone, Debug)]
pub struct Embeddings {
    /// The endpoint.
    pub endpoint: EmbeddingEndpoint,
    /// Maximum time that a caller waits for a prompt's vector.
    pub wait: Duration,
    /// Maximum number of texts per request; at least one is sent.
    pub batch: usize,
}

impl Embeddings {
    /// Returns the defaults for an endpoint.
    pub const fn new(endpoint: EmbeddingEndpoint) -> Self {
        Self { endpoint, wait: EMBED_WAIT_DEFAULT, batch: EMBED_BATCH_DEFAULT }
    }
}

impl Config {
    /// Returns the defaults for these folders.
    pub fn new(folders: BaseFolders) -> Self {
        let StoreSettings { files_max, retention, memory_list, ssh, hosted: _, events: _ } =
            StoreSettings::default();
        Self {
            context: ContextSettings::new(folders.data.clone()),
            encoder: folders.data.join(ENCODER_FILE),
            folders,
            clock: Arc::new(SystemClock),
            files_max,
            retention,
            tasks_kept_for: TASKS_KEPT_FOR_DEFAULT,
            dream: None,
            review: ReviewSettings::default(),
            memory_list,
            ssh,
            imports: ImportStyle::default(),
            start_tokens_max: START_TOKENS_DEFAULT,
            embeddings: None,
            models: AgentModels::default(),
            features: Features::default(),
            workspace_features: BTreeMap::new(),
            screening: BTreeMap::new(),
            screening_allowed: Vec::new(),
        }
    }
}
