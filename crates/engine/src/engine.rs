//! Opening the library and closing it again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agents::{Curator, CuratorModels, RuleCurator};
use context::Mark;
use context::segment::{ContextPart, ShownIndex};
use jiff::tz::TimeZone;
use memory::clock::Clock;
use memory::context_file::ImportStyle;
use memory::feature::Feature;
use memory::limits::{VECTORS_FILE_BYTES_MAX, VECTORS_FILES_MAX, VECTORS_KEPT_FOR};
use memory::screen::{Screen, UnknownRule};
use recall::limits::{CORPUS_FILE_BYTES_MAX, CORPUS_FILES_MAX, CORPUS_KEPT_FOR};
use state::{SqliteState, StateError, StateRepair, TaskStore as _};
use store::{
    BaseFolders, Binding, BindingRequest, CacheDir, CacheDirLimits, Caller, ChangeEvent,
    ContextCache, ContextFiles, ContextSettings, LoadSkipReason, Memories, MemoryEntry, Store,
    StoreError, StoreSettings, TrustedFolders, Unreviewed,
};
use tokio::sync::broadcast;

use crate::config::Config;
use crate::conversation::{Conversations, ReviewMode};
use crate::feed::{Feed, Feeds};
use crate::lane::{DreamSchedule, LaneDeps, LaneSettings, Lanes};
use crate::models::{AgentModels, Fallback, ModelJob, ModelWork, ModelWorkPage};
use crate::proposal_queue::ProposalQueue;
use crate::recall_service::RecallService;
use crate::reranker::Reranker;
use crate::retriever::{RecallBlock, Retriever};
use crate::review::{ReviewScheduler, ReviewSettings};
use crate::runner::{LocalRunner, Runner};
use crate::segment::{self, ContextText, CurrentIndex, SegmentReport};
use crate::sessions::SessionRegistry;
use crate::workspace::{FeatureSwitches, Workspace};

/// The name of the state database in the state folder.
const STATE_FILE: &str = "lukasa.db";

/// The folder of the state that corpora are kept in.
const CORPORA_FOLDER: &str = "corpora";

/// The folder of the state that vectors are kept in, and the turn of whoever asks for them.
const VECTORS_FOLDER: &str = "vectors";

/// Why the library could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The settings name a screening rule that does not exist.
    #[error("the settings for screening are wrong")]
    Screening(#[from] UnknownRule),
}

/// What of an untrusted project is kept from models, and would reach them unasked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UntrustedContent {
    /// The context files.
    pub files: Vec<PathBuf>,
    /// The memories that nobody here reviewed.
    pub memories: Vec<MemoryEntry>,
}

/// The library, opened. Cheap to clone; all clones share roots, caches and the state.
#[derive(Clone, Debug)]
pub struct Engine {
    recaller: Arc<RecallService>,
    reranker: Option<Reranker>,
    pub(crate) store: Arc<Store>,
    pub(crate) state: Arc<SqliteState>,
    pub(crate) folders: BaseFolders,
    clock: Arc<dyn Clock>,
    context: Arc<ContextSettings>,
    context_cache: Arc<ContextCache>,
    imports: ImportStyle,
    screen: Screen,
    tasks_kept_for: Duration,
    dream: Option<DreamSchedule>,
    review: ReviewSettings,
    models: Arc<AgentModels>,
    switches: FeatureSwitches,
}

impl Engine {
    /// Opens the library. Touches no file: roots and the state are opened when first needed.
    pub fn open(config: Config) -> Result<Self, EngineError> {
        let state = SqliteState::new(config.folders.state.join(STATE_FILE));
        Self::open_with(config, state)
    }

    /// Opens the library for a glance that nobody asked for: a state that is damaged, or has to be
    /// migrated, is left as it is and reads as empty or as a failure.
    pub fn open_read_only(config: Config) -> Result<Self, EngineError> {
        let state = SqliteState::new(config.folders.state.join(STATE_FILE)).read_only();
        Self::open_with(config, state)
    }

    fn open_with(config: Config, state: SqliteState) -> Result<Self, EngineError> {
        let screen = Screen::new(&config.screening, &config.screening_allowed)?;
        let state = Arc::new(state);
        let settings = StoreSettings {
            files_max: config.files_max,
            retention: config.retention,
            memory_list: config.memory_list,
        };
        let store = Store::new(
            Arc::<SqliteState>::clone(&state),
            config.folders.clone(),
            screen.clone(),
            Arc::clone(&config.clock),
            settings,
        );
        let Config {
            folders,
            clock,
            tasks_kept_for,
            dream,
            review,
            models,
            context,
            imports,
            features,
            ..
        } = config;
        let models = Some(models).filter(|_| features.has(Feature::Models)).unwrap_or_default();
        let dream = dream.filter(|_| features.has(Feature::ScheduledDreams));
        let embeddings = config.embeddings.filter(|_| features.has(Feature::Models));
        let limits = CacheDirLimits {
            bytes_max: CORPUS_FILE_BYTES_MAX,
            files_max: CORPUS_FILES_MAX,
            max_age: CORPUS_KEPT_FOR,
        };
        let corpora = CacheDir::new(&folders, CORPORA_FOLDER, limits);
        let mut recaller = RecallService::new(screen.clone(), Some(corpora));
        if let Some(embeddings) = embeddings {
            let limits = CacheDirLimits {
                bytes_max: VECTORS_FILE_BYTES_MAX,
                files_max: VECTORS_FILES_MAX,
                max_age: VECTORS_KEPT_FOR,
            };
            let vectors = CacheDir::new(&folders, VECTORS_FOLDER, limits);
            let lock = folders.lock(VECTORS_FOLDER);
            recaller = recaller.with_embeddings(embeddings, vectors, lock);
        }
        let recaller = Arc::new(recaller);
        let reranker = models.of(ModelJob::Recall).map(|chat| {
            let tasks = Arc::<SqliteState>::clone(&state);
            let found_by = (Arc::clone(&recaller), screen.clone());
            Reranker::new(found_by, chat.clone(), tasks, Arc::clone(&clock))
        });
        Ok(Self {
            recaller,
            reranker,
            store,
            state,
            folders,
            clock,
            context: Arc::new(context),
            context_cache: Arc::default(),
            imports,
            screen,
            tasks_kept_for,
            dream,
            review,
            models: Arc::new(models),
            switches: FeatureSwitches::new(features, config.workspace_features),
        })
    }

    /// Returns the memories that a host's request leads to, as `caller` may touch them.
    pub fn memories(&self, request: &BindingRequest, caller: Caller) -> Memories {
        let memories = self.store.memories(Binding::resolve(request, &self.folders), caller);
        memories.with_features(self.switches.for_request(request))
    }

    /// Returns which features are on.
    pub const fn switches(&self) -> &FeatureSwitches {
        &self.switches
    }

    /// Returns the context files for the folder of a workspace, as `caller` may touch them.
    pub fn context_files(&self, workspace: &Workspace, caller: Caller) -> ContextFiles {
        let (folders, settings) = (self.folders.clone(), Arc::clone(&self.context));
        let cwd = workspace.cwd.clone();
        let files = ContextFiles::new(folders, settings, self.screen.clone(), cwd, caller)
            .with_cache(Arc::clone(&self.context_cache))
            .with_features(self.switches.for_workspace(workspace));
        if workspace.binding.read_only { files.read_only() } else { files }
    }

    /// Returns what a model that works in a folder is given at the beginning of a segment, and why. Nothing of
    /// it counts as a use.
    pub async fn segment(
        &self,
        memories: &Memories,
        files: &ContextFiles,
    ) -> Result<SegmentReport, StoreError> {
        self.segment_within(memories, files, usize::MAX).await
    }

    /// The same in at most so many bytes, for a host that shows no more: as much of the index as fits, then the
    /// hot set and the context files, each as a whole or not at all.
    pub async fn segment_within(
        &self,
        memories: &Memories,
        files: &ContextFiles,
        bytes_max: usize,
    ) -> Result<SegmentReport, StoreError> {
        segment::gather(memories, files, (self.imports, bytes_max), self.clock.now()).await
    }

    /// Returns the context files of a folder as a model is shown them, without anything else.
    pub async fn context_text(&self, files: &ContextFiles) -> ContextText {
        segment::context_text(files, self.imports).await
    }

    /// Returns what would reach models unasked if the project of these memories were trusted; nothing if it is.
    pub async fn untrusted_content(
        &self,
        files: &ContextFiles,
        memories: &Memories,
    ) -> Result<UntrustedContent, StoreError> {
        let skipped = self.context_text(files).await.skipped;
        let untrusted = skipped.into_iter().filter(|one| one.reason == LoadSkipReason::Untrusted);
        let files = untrusted.map(|one| one.path).collect();
        let mut listed = memories.list(None).await?.memories;
        let paths: Vec<_> = listed.iter().map(|one| (&one.path, None)).collect();
        let unreviewed = memories.unreviewed(&paths).await;
        listed.retain(|one| unreviewed.get(&one.path) == Some(&Unreviewed::Silent));
        Ok(UntrustedContent { files, memories: listed })
    }

    /// Returns what changed since a model was told which memories there are, as a short part for the tail, and
    /// takes it for told; `None` if nothing did. What it was given before stays as it is.
    pub async fn delta(
        &self,
        memories: &Memories,
        told: &mut ShownIndex,
    ) -> Result<Option<ContextPart>, StoreError> {
        Ok(CurrentIndex::new(memories, told).await?.delta(told))
    }

    /// Returns the models that do the work of agents.
    pub fn models(&self) -> &AgentModels {
        &self.models
    }

    /// Returns what models did for a workspace or for all, at most so many pieces of work below a number.
    pub async fn model_work(
        &self,
        workspace: Option<&str>,
        before: Option<u64>,
        max: usize,
    ) -> Result<ModelWorkPage, StateError> {
        let rows = self.state.model_work(workspace, before, max).await?;
        let next = rows.last().map(|row| row.number).filter(|_| rows.len() == max);
        Ok(ModelWorkPage {
            works: rows.into_iter().filter_map(ModelWork::from_row).collect(),
            next,
        })
    }

    /// Returns when conversations are reviewed in the background.
    pub const fn review(&self) -> ReviewSettings {
        self.review
    }

    /// Returns the screening rules, with a person's choices.
    pub fn screen(&self) -> &Screen {
        &self.screen
    }

    /// Returns the folders whose context files may be shown to models.
    pub fn trusted_folders(&self) -> TrustedFolders {
        TrustedFolders::new(&self.folders)
    }

    /// Returns the settings of lanes, with what the [`Config`] says about tasks.
    pub fn lane_settings(&self) -> LaneSettings {
        let mut settings = LaneSettings::default();
        settings.limits.finished_max_age = self.tasks_kept_for;
        settings.dream = self.dream;
        settings.reviews = self.review.interval > 0;
        settings.review_verbose = self.review.verbose;
        settings.background_tokens_max = self.models.background_tokens;
        settings
    }

    /// Returns what does tasks in this process: the models of the settings, and rules where there is none.
    pub fn runner(&self) -> Arc<dyn Runner> {
        let rules =
            RuleCurator::new(self.screen.clone(), Arc::clone(&self.clock), TimeZone::system());
        let of = |job| self.models.of(job).cloned();
        let models = CuratorModels {
            remember: of(ModelJob::Remember),
            forget: of(ModelJob::Forget),
            dream: of(ModelJob::Dream),
            review: of(ModelJob::Review),
            falls_back_to_rules: self.models.fallback == Fallback::Rules,
        };
        let runner = LocalRunner::new(Curator::new(rules, models));
        Arc::new(runner.with_review_wait(self.review.wait))
    }

    /// Returns lanes whose tasks are done in this process. What they did is told to `feed`. Whoever closes the engine
    /// drains them first.
    pub fn lanes(&self, settings: LaneSettings, feed: Arc<dyn Feed>) -> Lanes {
        self.lanes_with(self.runner(), settings, feed)
    }

    /// Returns lanes whose tasks this runner does.
    pub fn lanes_with(
        &self,
        runner: Arc<dyn Runner>,
        settings: LaneSettings,
        feed: Arc<dyn Feed>,
    ) -> Lanes {
        let parts = LaneDeps {
            store: Arc::clone(&self.store),
            folders: self.folders.clone(),
            tasks: Arc::<SqliteState>::clone(&self.state),
            clock: Arc::clone(&self.clock),
            screen: self.screen.clone(),
            runner,
            feed,
            switches: self.switches.clone(),
        };
        Lanes::new(parts, settings)
    }

    /// Returns the queue of proposals.
    pub fn proposal_queue(&self) -> ProposalQueue {
        let tasks = Arc::<SqliteState>::clone(&self.state);
        ProposalQueue::new(Arc::clone(&self.store), tasks, Arc::clone(&self.clock))
    }

    /// Returns feeds in a numbering of their own, with no workspace open yet.
    pub fn feeds(&self) -> Arc<Feeds> {
        Arc::new(Feeds::new(Arc::clone(&self.clock)))
    }

    /// Returns the callers whose sessions the state keeps and whose streams are among these feeds.
    pub fn sessions(&self, feeds: Arc<Feeds>) -> SessionRegistry {
        let tasks = Arc::<SqliteState>::clone(&self.state);
        SessionRegistry::new(tasks, feeds, Arc::clone(&self.clock), self.folders.clone())
    }

    /// Returns what finds memories that fit a prompt; the same for all that this engine serves. Whoever wants
    /// edits from outside seen at once follows what [changes](Self::subscribe) with it, and watches.
    pub fn recaller(&self) -> Arc<RecallService> {
        Arc::clone(&self.recaller)
    }

    /// Returns what has a model choose among what was found for a prompt, if a person named one for that. It is for
    /// [conversations](Self::conversations) of a process that lives on: one that ends with an answer would leave before the
    /// model has answered, and nothing would be shown.
    pub fn reranker(&self) -> Option<Reranker> {
        self.reranker.clone()
    }

    /// Returns what fits a prompt, as it is shown to a model; `None` when nothing does.
    pub async fn recall(
        &self,
        memories: &Memories,
        prompt: &str,
    ) -> Result<Option<RecallBlock>, StoreError> {
        let found = self.recaller.recall(memories, prompt).await?;
        let recalled = RecallBlock::render(&found, self.clock.now());
        let shown = recalled.iter().flat_map(|recalled| &recalled.memories);
        if shown.into_iter().any(|shown| shown.mark == Some(Mark::Influenced)) {
            memories.note_read(Some(Unreviewed::Influenced));
        }
        Ok(recalled)
    }

    /// Returns the conversations that the state keeps, whose memories are found by `select`.
    pub fn conversations(&self, select: Arc<dyn Retriever>) -> Conversations {
        let is_off = self.review.interval == 0;
        let reviewing = if is_off { ReviewMode::Off } else { ReviewMode::OtherProcess };
        self.conversations_with(select, reviewing)
    }

    /// Returns the same conversations, whose turns are reviewed in these lanes if the [`Config`] says so, where they are of
    /// these workspaces.
    pub fn reviewed_conversations(
        &self,
        select: Arc<dyn Retriever>,
        lanes: &Lanes,
        workspaces: &[Workspace],
    ) -> Conversations {
        for workspace in workspaces {
            lanes.register(workspace);
        }
        if self.review.interval > 0 {
            self.folders.create_state_folder();
        }
        let by_model = self.models.of(ModelJob::Review).is_some();
        let reviews = ReviewScheduler { lanes: lanes.clone(), settings: self.review, by_model };
        self.conversations_with(select, ReviewMode::ThisProcess(reviews))
    }

    fn conversations_with(
        &self,
        select: Arc<dyn Retriever>,
        reviewing: ReviewMode,
    ) -> Conversations {
        let (tasks, clock) = (Arc::<SqliteState>::clone(&self.state), Arc::clone(&self.clock));
        Conversations::with_review_mode(tasks, select, clock, reviewing).with_imports(self.imports)
    }

    /// Tells feeds of everything that changes from now on. Goes on until whoever runs it ends it.
    pub fn follow(&self, feeds: Arc<Feeds>) -> impl Future<Output = ()> + Send + use<> {
        let (notices, state) = (self.store.subscribe(), Arc::clone(&self.state));
        let pins = self.store.subscribe_to_pins();
        let proposals = self.store.subscribe_to_proposals();
        async move {
            tokio::join!(
                feeds.follow(notices, &*state),
                feeds.follow_pins(pins),
                feeds.follow_proposals(proposals)
            );
        }
    }

    /// Returns everything that changes from now on, through this process or seen by a watch.
    pub fn subscribe(&self) -> broadcast::Receiver<ChangeEvent> {
        self.store.subscribe()
    }

    /// Returns where the state database is.
    pub fn state_file(&self) -> &Path {
        self.state.path()
    }

    /// Repairs a damaged state database, or sets it aside and starts an empty one; `None` if nothing was wrong.
    pub async fn repair_state(&self) -> Result<Option<StateRepair>, StateError> {
        self.state.repair().await
    }

    /// Synchronizes files, stores what waits, keeps corpora, closes the state. What is written later opens again.
    pub async fn close(&self) {
        self.recaller.persist().await;
        self.store.close().await;
    }
}
