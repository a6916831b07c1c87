//! [`Engine`]: opens the store and the state from a [`Config`], and builds the services that share
//! them.
//!
//! This file only wires parts together: which model does which work, which caches exist, which
//! features are on. The parts themselves live in their own modules.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agents::{Curator, CuratorModels, RuleCurator};
use context::Mark;
use context::segment::{ContextPart, ShownIndex};
use jiff::tz::TimeZone;
use memory::clock::Clock;
use memory::feature::Feature;
use memory::limits::{VECTORS_FILE_BYTES_MAX, VECTORS_FILES_MAX, VECTORS_KEPT_FOR};
use memory::path::MemoryPath;
use memory::screen::{Screen, UnknownRule};
use recall::limits::{CORPUS_FILE_BYTES_MAX, CORPUS_FILES_MAX, CORPUS_KEPT_FOR};
use state::{EventLog, Locks, OutsideReaders, SqliteState, State, StateError, StateRepair};
use store::backend::HostedRoots;
use store::{
    BaseFolders, Binding, BindingRequest, CacheDir, CacheDirLimits, Caller, ChangeEvent,
    ConnectError, ContextCache, ContextFiles, ContextSettings, LoadSkipReason, Memories,
    MemoryEntry, ProjectFolder, RemoteFolder, Store, StoreError, StoreSettings, TrustedFolders,
    Unreviewed,
};
use tokio::sync::{Semaphore, broadcast};

use crate::config::Config;
use crate::conversation::{Conversations, ReviewMode, StartSettings};
use crate::encoder_file::{EncoderStatus, encoder_status, installed_encoder};
use crate::feed::{Feed, Feeds, SharedLog};
use crate::lane::{DreamSchedule, LaneDeps, LaneSettings, Lanes};
use crate::models::{AgentModels, Fallback, ModelJob, ModelWork, ModelWorkPage};
use crate::proposal_queue::ProposalQueue;
use crate::recall_service::{RecallService, VectorSource};
use crate::reranker::Reranker;
use crate::retriever::{RecallBlock, RecallOrigin, ResidentEntries, Retriever};
use crate::review::{ReviewScheduler, ReviewSettings};
use crate::runner::{LocalRunner, Runner};
use crate::segment::{self, ContextText, CurrentIndex, SegmentLimits, SegmentReport};
use crate::sessions::SessionRegistry;
use crate::workspace::{FeatureSwitches, Workspace};

/// File name of the state database in the state folder.
const STATE_FILE: &str = "lukasa.db";

/// Folder of cached corpora, in the state folder.
const CORPORA_FOLDER: &str = "corpora";

/// Folder of cached vectors, in the state folder; also the name of the lock of the process that
/// computes them.
const VECTORS_FOLDER: &str = "vectors";

/// An error in the settings that keeps the engine from opening.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The settings name a screening rule that does not exist.
    #[error("the settings for screening are wrong")]
    Screening(#[from] UnknownRule),
}

/// The files and memories of an untrusted project that are withheld from models, and that models
/// would be given unasked if it were trusted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UntrustedContent {
    /// The context files.
    pub files: Vec<PathBuf>,
    /// The memories that were not reviewed on this host.
    pub memories: Vec<MemoryEntry>,
}

/// The storage that several daemons share.
#[derive(Clone, Debug)]
pub struct Storage {
    /// History, tasks and all else that outlives a restart.
    pub state: Arc<dyn State>,
    /// The locks between the daemons.
    pub locks: Arc<dyn Locks>,
    /// The roots that belong to no checkout; `None` if they are folders of this host.
    pub roots: Option<Arc<dyn HostedRoots>>,
    /// The log of their events; `None` if this process counts its events itself.
    pub events: Option<Arc<dyn EventLog>>,
    /// The agents that have read unreviewed text; `None` if this process alone serves them.
    pub outside_readers: Option<Arc<dyn OutsideReaders>>,
    /// Permits for the tasks of all engines of this process that share them; `None` for no limit beside that of each engine.
    pub process_slots: Option<Arc<Semaphore>>,
}

/// The opened engine. Cheap to clone; all clones share roots, caches and the state.
#[derive(Clone, Debug)]
pub struct Engine {
    recaller: Arc<RecallService>,
    /// The file of the encoder.
    encoder: Arc<Path>,
    reranker: Option<Reranker>,
    pub(crate) store: Arc<Store>,
    pub(crate) storage: Storage,
    /// The state, if it is a file of this host.
    local_state: Option<Arc<SqliteState>>,
    pub(crate) folders: BaseFolders,
    clock: Arc<dyn Clock>,
    context: Arc<ContextSettings>,
    context_cache: Arc<ContextCache>,
    start: StartSettings,
    screen: Screen,
    tasks_kept_for: Duration,
    dream: Option<DreamSchedule>,
    review: ReviewSettings,
    models: Arc<AgentModels>,
    switches: FeatureSwitches,
}

impl Engine {
    /// Opens the engine. Touches no file: roots and the state are opened on first use.
    pub fn open(config: Config) -> Result<Self, EngineError> {
        let state = SqliteState::new(config.folders.state.join(STATE_FILE));
        Self::open_local(config, state)
    }

    /// Opens the engine for a read that must not modify anything. A state that is damaged, or has
    /// to be migrated, stays as it is and reads as empty or as an error.
    pub fn open_read_only(config: Config) -> Result<Self, EngineError> {
        let state = SqliteState::new(config.folders.state.join(STATE_FILE)).read_only();
        Self::open_local(config, state)
    }

    fn open_local(config: Config, state: SqliteState) -> Result<Self, EngineError> {
        let (state, locks) = (Arc::new(state), Arc::new(config.folders.clone()));
        let local = Some(Arc::clone(&state));
        Self::open_on(
            config,
            Storage {
                state,
                locks,
                roots: None,
                events: None,
                outside_readers: None,
                process_slots: None,
            },
            local,
        )
    }

    /// Opens the engine on a database that other daemons use, too. Memories in checkouts stay
    /// files of this host; the folders of `config` hold caches.
    pub fn open_shared(config: Config, storage: Storage) -> Result<Self, EngineError> {
        Self::open_on(config, storage, None)
    }

    fn open_on(
        config: Config,
        storage: Storage,
        local_state: Option<Arc<SqliteState>>,
    ) -> Result<Self, EngineError> {
        let screen = Screen::new(&config.screening, &config.screening_allowed)?;
        let settings = StoreSettings {
            files_max: config.files_max,
            retention: config.retention,
            memory_list: config.memory_list,
            ssh: config.ssh.clone(),
            hosted: storage.roots.clone(),
            events: storage.events.clone(),
        };
        let store = Store::new(
            Arc::<dyn State>::clone(&storage.state),
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
            start_tokens_max,
            features,
            ..
        } = config;
        let models = Some(models).filter(|_| features.has(Feature::Models)).unwrap_or_default();
        let dream = dream.filter(|_| features.has(Feature::ScheduledDreams));
        let embeddings = config.embeddings.filter(|_| features.has(Feature::Models));
        let vectors = match embeddings {
            Some(embeddings) => Some(VectorSource::Endpoint(embeddings)),
            None => installed_encoder(&config.encoder),
        };
        let recaller = recall_service(&folders, screen.clone(), vectors);
        let recaller = Arc::new(recaller);
        let reranker = models.of(ModelJob::Recall).map(|chat| {
            let tasks = Arc::<dyn State>::clone(&storage.state);
            let found_by = (Arc::clone(&recaller), screen.clone());
            Reranker::new(found_by, chat.clone(), tasks, Arc::clone(&clock))
        });
        Ok(Self {
            recaller,
            encoder: config.encoder.into(),
            reranker,
            store,
            storage,
            local_state,
            folders,
            clock,
            context: Arc::new(context),
            context_cache: Arc::default(),
            start: StartSettings { imports, tokens_max: start_tokens_max },
            screen,
            tasks_kept_for,
            dream,
            review,
            models: Arc::new(models),
            switches: FeatureSwitches::new(features, config.workspace_features),
        })
    }

    /// Returns the memories that a host's request is bound to, with the access of `caller`.
    pub fn memories(&self, request: &BindingRequest, caller: Caller) -> Memories {
        let memories = self.store.memories(Binding::resolve(request, &self.folders), caller);
        memories.with_features(self.switches.for_request(request))
    }

    /// Connects to the machine of a remote folder now, unless it is connected. Any call connects by itself; this one tells the
    /// reason of a failure.
    pub async fn connect(&self, folder: &RemoteFolder) -> Result<(), ConnectError> {
        self.store.connect(folder).await
    }

    /// Forgets the identity of the folder at an address, so that another one is accepted there. Returns whether it had
    /// one. Takes effect with the next connection.
    pub fn forget_remote(&self, folder: &RemoteFolder) -> std::io::Result<bool> {
        self.store.forget_remote(folder)
    }

    /// Returns the switches that say which features are on.
    pub const fn switches(&self) -> &FeatureSwitches {
        &self.switches
    }

    /// Returns the context files for the folder of a workspace, with the access of `caller`.
    pub fn context_files(&self, workspace: &Workspace, caller: Caller) -> ContextFiles {
        let (folders, settings) = (self.folders.clone(), Arc::clone(&self.context));
        let cwd = workspace.cwd.local().unwrap_or(Path::new("")).to_owned();
        let mut files = ContextFiles::new(folders, settings, self.screen.clone(), cwd, caller)
            .with_cache(Arc::clone(&self.context_cache))
            .with_features(self.switches.for_workspace(workspace));
        if let ProjectFolder::Remote(folder) = &workspace.cwd {
            files = files.with_remote(self.store.remote_context(folder));
        }
        if workspace.binding.read_only { files.read_only() } else { files }
    }

    /// Returns the context that a model is given at the start of a segment, and the reasons for it.
    /// Does not count as a use of any memory.
    pub async fn segment(
        &self,
        memories: &Memories,
        files: &ContextFiles,
    ) -> Result<SegmentReport, StoreError> {
        self.segment_within(memories, files, usize::MAX).await
    }

    /// Does the same as [`segment`](Self::segment) in at most `bytes_max` bytes: facts first, then the beginnings of
    /// context files, then the index.
    pub async fn segment_within(
        &self,
        memories: &Memories,
        files: &ContextFiles,
        bytes_max: usize,
    ) -> Result<SegmentReport, StoreError> {
        let limits = SegmentLimits {
            bytes_max,
            start_tokens_max: self.start.tokens_max,
            previous_size: None,
        };
        segment::gather(memories, files, self.start.imports, limits, self.clock.now()).await
    }

    /// Returns the number of facts of all memories, by reading them.
    pub async fn count_facts(&self, memories: &Memories) -> Result<usize, StoreError> {
        let mut facts = 0;
        let count = |_: &MemoryPath, text: Result<&str, StoreError>| {
            facts += text.map_or(0, context::facts::count);
            ControlFlow::Continue(())
        };
        memories.visit_texts(None, count).await?;
        Ok(facts)
    }

    /// Returns only the context files of a folder, as a model is shown them.
    pub async fn context_text(&self, files: &ContextFiles) -> ContextText {
        segment::context_text(files, self.start.imports).await
    }

    /// Returns what models would be given unasked if the project of these memories were trusted.
    /// Empty if it is trusted.
    pub async fn untrusted_content(
        &self,
        files: &ContextFiles,
        memories: &Memories,
    ) -> Result<UntrustedContent, StoreError> {
        let skipped = self.context_text(files).await.skipped;
        let untrusted =
            skipped.into_iter().filter(|source| source.reason == LoadSkipReason::Untrusted);
        let files = untrusted.map(|source| source.path).collect();
        let mut listed = memories.list(None).await?.memories;
        let paths: Vec<_> = listed.iter().map(|entry| (&entry.path, None)).collect();
        let unreviewed = memories.unreviewed(&paths).await;
        listed.retain(|entry| unreviewed.get(&entry.path) == Some(&Unreviewed::Silent));
        Ok(UntrustedContent { files, memories: listed })
    }

    /// Returns the changes since the model was shown the index, as a short part to append, and
    /// records them in `shown_index`. `None` if nothing changed. Parts given before stay valid.
    pub async fn delta(
        &self,
        memories: &Memories,
        shown_index: &mut ShownIndex,
    ) -> Result<Option<ContextPart>, StoreError> {
        let current = CurrentIndex::new(memories, shown_index).await?;
        Ok(current.delta(shown_index, &HashSet::new()).map(|delta| delta.part))
    }

    /// Returns the models that do agents' work.
    pub fn models(&self) -> &AgentModels {
        &self.models
    }

    /// Returns the work of models for one workspace or for all: at most `max` entries with a number
    /// below `before`.
    pub async fn model_work(
        &self,
        workspace: Option<&str>,
        before: Option<u64>,
        max: usize,
    ) -> Result<ModelWorkPage, StateError> {
        let rows = self.storage.state.model_work(workspace, before, max).await?;
        let next = rows.last().map(|row| row.number).filter(|_| rows.len() == max);
        Ok(ModelWorkPage {
            works: rows.into_iter().filter_map(ModelWork::from_row).collect(),
            next,
        })
    }

    /// Returns the settings of background reviews.
    pub const fn review(&self) -> ReviewSettings {
        self.review
    }

    /// Returns the screening rules, with a person's overrides.
    pub fn screen(&self) -> &Screen {
        &self.screen
    }

    /// Returns the folders whose context files may be shown to models.
    pub fn trusted_folders(&self) -> TrustedFolders {
        TrustedFolders::new(&self.folders)
    }

    /// Returns the settings of lanes, with the values that the [`Config`] has for tasks.
    pub fn lane_settings(&self) -> LaneSettings {
        let mut settings = LaneSettings::default();
        settings.limits.finished_max_age = self.tasks_kept_for;
        settings.dream = self.dream;
        settings.reviews = self.review.interval > 0;
        settings.review_verbose = self.review.verbose;
        settings.background_tokens_max = self.models.background_tokens;
        settings
    }

    /// Returns the runner of this process: the configured models, and the rule curator where none
    /// is configured.
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

    /// Returns lanes whose tasks run in this process and publish to `feed`. Drain them before
    /// closing the engine.
    pub fn lanes(&self, settings: LaneSettings, feed: Arc<dyn Feed>) -> Lanes {
        self.lanes_with(self.runner(), settings, feed)
    }

    /// Returns lanes whose tasks are run by `runner`.
    pub fn lanes_with(
        &self,
        runner: Arc<dyn Runner>,
        settings: LaneSettings,
        feed: Arc<dyn Feed>,
    ) -> Lanes {
        let deps = LaneDeps {
            store: Arc::clone(&self.store),
            folders: self.folders.clone(),
            tasks: Arc::<dyn State>::clone(&self.storage.state),
            locks: Arc::clone(&self.storage.locks),
            clock: Arc::clone(&self.clock),
            screen: self.screen.clone(),
            runner,
            feed,
            switches: self.switches.clone(),
            process_slots: self.storage.process_slots.clone(),
        };
        Lanes::new(deps, settings)
    }

    /// Returns the queue of proposals.
    pub fn proposal_queue(&self) -> ProposalQueue {
        let tasks = Arc::<dyn State>::clone(&self.storage.state);
        ProposalQueue::new(Arc::clone(&self.store), tasks, Arc::clone(&self.clock))
    }

    /// Returns the agents that have read unreviewed text, if several daemons serve them.
    pub fn outside_readers(&self) -> Option<Arc<dyn OutsideReaders>> {
        self.storage.outside_readers.clone()
    }

    /// Returns feeds without an open workspace. Their events are those of the log that daemons share,
    /// if there is one, and otherwise those that are published here, with numbers of their own.
    pub fn feeds(&self) -> Arc<Feeds> {
        let clock = Arc::clone(&self.clock);
        Arc::new(match &self.storage.events {
            Some(events) => {
                let review_verbose = self.review.verbose;
                let log = SharedLog { events: Arc::clone(events), review_verbose };
                Feeds::of_log(clock, log)
            }
            None => Feeds::new(clock),
        })
    }

    /// Returns the session registry that is stored in the state and whose streams are in `feeds`.
    pub fn sessions(&self, feeds: Arc<Feeds>) -> SessionRegistry {
        let tasks = Arc::<dyn State>::clone(&self.storage.state);
        SessionRegistry::new(tasks, feeds, Arc::clone(&self.clock), self.folders.clone())
    }

    /// Returns the recall service, shared by all users of this engine. To see external edits at
    /// once, run [`RecallService::follow`] on [changes](Self::subscribe), and a watch.
    pub fn recaller(&self) -> Arc<RecallService> {
        Arc::clone(&self.recaller)
    }

    /// Returns the reranker, if a model is configured for recall. Use it only for
    /// [conversations](Self::conversations) of a process that outlives the request. A process that
    /// ends with its answer would end before the model has answered, and would show nothing.
    pub fn reranker(&self) -> Option<Reranker> {
        self.reranker.clone()
    }

    /// Recalls the memories that fit an explicit question, rendered for a model, with their scores;
    /// `None` if none has any relation to it.
    pub async fn recall(
        &self,
        memories: &Memories,
        prompt: &str,
    ) -> Result<Option<RecallBlock>, StoreError> {
        self.recall_under(memories, prompt, None).await
    }

    /// Like [`recall`](Self::recall), with `under` only among the memories of this folder.
    pub async fn recall_under(
        &self,
        memories: &Memories,
        prompt: &str,
        under: Option<&MemoryPath>,
    ) -> Result<Option<RecallBlock>, StoreError> {
        let memories_found = self.recaller.recall_under(memories, prompt, under).await?;
        let recalled =
            RecallBlock::render(&memories_found, RecallOrigin::Requested, self.clock.now());
        let shown = recalled.iter().flat_map(|recalled| &recalled.memories);
        if shown.into_iter().any(|shown| shown.mark == Some(Mark::Influenced)) {
            memories.note_read(Some(Unreviewed::Influenced)).await?;
        }
        Ok(recalled)
    }

    /// Recalls what a session is shown beside its first prompt, if it began with this segment;
    /// `None` if nothing.
    pub async fn recall_beside_prompt(
        &self,
        memories: &Memories,
        prompt: &str,
        start: &SegmentReport,
    ) -> Result<Option<RecallBlock>, StoreError> {
        let resident = ResidentEntries::from_digests(start.digests.iter().copied());
        let found = self.recaller.recall_unrequested(memories, prompt, &resident).await?;
        Ok(RecallBlock::render(&found, RecallOrigin::Unrequested, self.clock.now()))
    }

    /// Returns the conversations stored in the state, which retrieve memories with `retriever`.
    pub fn conversations(&self, retriever: Arc<dyn Retriever>) -> Conversations {
        let is_off = self.review.interval == 0;
        let reviewing = if is_off { ReviewMode::Off } else { ReviewMode::OtherProcess };
        self.conversations_with(retriever, reviewing)
    }

    /// Returns the same conversations for a process that runs lanes. Turns in `workspaces` are
    /// reviewed in `lanes` if the [`Config`] enables reviews.
    pub fn reviewed_conversations(
        &self,
        retriever: Arc<dyn Retriever>,
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
        self.conversations_with(retriever, ReviewMode::ThisProcess(reviews))
    }

    fn conversations_with(
        &self,
        retriever: Arc<dyn Retriever>,
        reviewing: ReviewMode,
    ) -> Conversations {
        let (tasks, clock) =
            (Arc::<dyn State>::clone(&self.storage.state), Arc::clone(&self.clock));
        Conversations::with_review_mode(tasks, retriever, clock, reviewing).with_start(self.start)
    }

    /// Publishes all later changes to `feeds`. Never ends by itself.
    pub fn follow(&self, feeds: Arc<Feeds>) -> impl Future<Output = ()> + Send + use<> {
        let (notices, state) = (self.store.subscribe(), Arc::clone(&self.storage.state));
        let announcements = self.store.subscribe_to_announcements();
        async move {
            tokio::join!(feeds.follow(notices, &*state), feeds.follow_announcements(announcements));
        }
    }

    /// Subscribes to all later changes, made by this process or detected by a watch.
    pub fn subscribe(&self) -> broadcast::Receiver<ChangeEvent> {
        self.store.subscribe()
    }

    /// Returns the path of the encoder's file.
    pub fn encoder_file(&self) -> &Path {
        &self.encoder
    }

    /// Returns the state of the encoder. Reads its file as a whole.
    pub fn encoder_status(&self) -> EncoderStatus {
        match encoder_status(&self.encoder) {
            EncoderStatus::Installed if self.recaller.uses_endpoint() => EncoderStatus::Replaced,
            status => status,
        }
    }

    /// Returns the path of the state database, if it is a file of this host.
    pub fn state_file(&self) -> Option<&Path> {
        self.local_state.as_ref().map(|state| state.path())
    }

    /// Repairs a damaged state database, or sets it aside and starts an empty one; `None` if nothing was wrong. A shared
    /// database is not repaired.
    pub async fn repair_state(&self) -> Result<Option<StateRepair>, StateError> {
        match &self.local_state {
            Some(state) => state.repair().await,
            None => Ok(None),
        }
    }

    /// Flushes open changes and caches, and closes the state. A later write opens it again.
    pub async fn close(&self) {
        self.recaller.persist().await;
        self.store.close().await;
    }
}

/// Returns the recall service, with its caches in the state folder.
fn recall_service(
    folders: &BaseFolders,
    screen: Screen,
    vectors: Option<VectorSource>,
) -> RecallService {
    let limits = CacheDirLimits {
        bytes_max: CORPUS_FILE_BYTES_MAX,
        files_max: CORPUS_FILES_MAX,
        max_age: CORPUS_KEPT_FOR,
    };
    let corpora = CacheDir::new(folders, CORPORA_FOLDER, limits);
    let recaller = RecallService::new(screen, Some(corpora));
    let Some(source) = vectors else { return recaller };
    let limits = CacheDirLimits {
        bytes_max: VECTORS_FILE_BYTES_MAX,
        files_max: VECTORS_FILES_MAX,
        max_age: VECTORS_KEPT_FOR,
    };
    let files = CacheDir::new(folders, VECTORS_FOLDER, limits);
    recaller.with_vectors(source, files, folders.lock(VECTORS_FOLDER))
}
