//! What a person may set, with its defaults.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use memory::clock::Clock;
use memory::context_file::ImportStyle;
use memory::feature::Features;
use memory::limits::{EMBED_BATCH_DEFAULT, EMBED_WAIT_DEFAULT, TASKS_KEPT_FOR_DEFAULT};
use memory::screen::Policy;
use model::EmbeddingEndpoint;
use state::Retention;
use store::clock::SystemClock;
use store::{BaseFolders, ContextSettings, StoreSettings};

use crate::lane::DreamSchedule;
use crate::models::AgentModels;
use crate::review::ReviewSettings;

/// Everything that an [`Engine`](crate::Engine) is opened with.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where this host keeps things.
    pub folders: BaseFolders,
    /// Tells the time: of changes, tasks, events and use. Files keep the times of their file system.
    pub clock: Arc<dyn Clock>,
    /// How many memories a scope may hold; bounded by `memory::limits::SCOPE_FILES_MAX`.
    pub files_max: usize,
    /// How much history to keep.
    pub retention: Retention,
    /// How long a task that is over can be asked for.
    pub tasks_kept_for: Duration,
    /// When lanes that are kept up dream although nobody asks; never, unless a person says so.
    pub dream: Option<DreamSchedule>,
    /// When conversations are reviewed in the background; never, unless a person says so.
    pub review: ReviewSettings,
    /// Whether roots outside of checkouts carry a generated `MEMORY.md`.
    pub memory_list: bool,
    /// Which context files there are; those of the person lie beside their memories unless that is set.
    pub context: ContextSettings,
    /// How the imports of context files are shown.
    pub imports: ImportStyle,
    /// Who makes vectors of prompts and entries, for recall; nobody, unless a person says so. Texts of memories and
    /// prompts go there.
    pub embeddings: Option<Embeddings>,
    /// Which models do the work of agents; none, unless a person names some. Texts of memories go there.
    pub models: AgentModels,
    /// Which features are on.
    pub features: Features,
    /// Features of single workspaces, by the ids of the workspaces. They only take away.
    pub workspace_features: BTreeMap<String, Features>,
    /// What to do about screening rules and families, by their ids.
    pub screening: BTreeMap<String, Policy>,
    /// Digests of values that a person allowed although a rule objects to them.
    pub screening_allowed: Vec<String>,
}

/// Who makes vectors, and how it is asked.
#[derive(Clone, Debug)]
pub struct Embeddings {
    /// Who is asked.
    pub endpoint: EmbeddingEndpoint,
    /// How long a prompt's vector is waited for, by those who wait at all.
    pub wait: Duration,
    /// How many texts are sent at once, at most; at least one is.
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
        let StoreSettings { files_max, retention, memory_list } = StoreSettings::default();
        Self {
            context: ContextSettings::new(folders.data.clone()),
            folders,
            clock: Arc::new(SystemClock),
            files_max,
            retention,
            tasks_kept_for: TASKS_KEPT_FOR_DEFAULT,
            dream: None,
            review: ReviewSettings::default(),
            memory_list,
            imports: ImportStyle::default(),
            embeddings: None,
            models: AgentModels::default(),
            features: Features::default(),
            workspace_features: BTreeMap::new(),
            screening: BTreeMap::new(),
            screening_allowed: Vec::new(),
        }
    }
}
