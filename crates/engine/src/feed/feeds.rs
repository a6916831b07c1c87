//! The feeds of a daemon: for each workspace one of its tasks, which sessions listen to, and one of all
//! that changes in the memories that it gives access to.
//!
//! What a task did is told once, by the lane, in the task's workspace. Everything else that changes is
//! heard from the store, and so is what a task did where other workspaces have the same memories: the
//! global ones are everybody's, those of a project are those of all its workspaces.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use memory::change::{Provenance, RootKey};
use memory::clock::Clock;
use memory::limits::{CHANGES_WAITING_MAX, EVENT_BATCH_INTERVAL, EVENTS_PUBLISHED_PER_BATCH};
use memory::path::{MemoryPath, Mount, RelativePath, Scope};
use parking_lot::Mutex;
use state::TaskStore;
use store::{ChangeEvent, ContextScope, Memories, PinEvent, ProposalStatusEvent, Watch};
use tokio::sync::OnceCell;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::bus::{Bounds, Epoch, EventBus, EventCursor, StreamContext, SubscribeError};
use super::event::{FeedChange, FeedEvent};
use super::ring::Ring;
use super::subscription::Subscription;
use crate::task::TaskKind;

use super::{Feed, FeedError, ManagedChange};

/// All feeds of a daemon.
#[derive(Debug)]
pub struct Feeds {
    context: StreamContext,
    workspaces: Mutex<BTreeMap<String, FeedSlot>>,
}

/// What there is of a workspace.
#[derive(Debug)]
enum FeedSlot {
    Open(Arc<WorkspaceFeed>),
    /// The numbers that its events had last: of tasks, of all. No number is given twice in an epoch.
    Closed(u64, u64),
}

/// The feeds of a workspace.
#[derive(Debug)]
struct WorkspaceFeed {
    workspace: Arc<str>,
    memories: Memories,
    /// Whether other worktrees of its project are told of its changes.
    is_trusted: bool,
    /// What its tasks did, and what became of context files.
    task_events: Arc<Ring>,
    /// Windows on that, by session.
    sessions: Mutex<BTreeMap<String, Arc<EventBus>>>,
    /// All that changes.
    all_events: Arc<EventBus>,
    /// Hears of what others change, from the first reader on.
    watch: OnceCell<Watch>,
}

impl Feeds {
    /// Returns feeds without a workspace, in a numbering of their own.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_bounds(clock, Bounds::default())
    }

    /// Returns such feeds with other bounds.
    pub fn with_bounds(clock: Arc<dyn Clock>, bounds: Bounds) -> Self {
        let common = StreamContext { epoch: Epoch::new(), clock, bounds };
        Self { context: common, workspaces: Mutex::default() }
    }

    /// Returns the numbering of all streams.
    pub fn epoch(&self) -> &Epoch {
        &self.context.epoch
    }

    /// Opens the feeds of a workspace, unless they are open. Its events are about what can be seen
    /// through these memories.
    pub fn open(&self, workspace: &str, memories: &Memories) {
        self.open_with(workspace, memories, true);
    }

    /// Opens the feeds of a workspace that is not trusted: other worktrees of its project are told nothing of it.
    pub fn open_untrusted(&self, workspace: &str, memories: &Memories) {
        self.open_with(workspace, memories, false);
    }

    fn open_with(&self, workspace: &str, memories: &Memories, is_trusted: bool) {
        let mut workspaces = self.workspaces.lock();
        let place = workspaces.entry(workspace.to_owned()).or_insert(FeedSlot::Closed(0, 0));
        if let FeedSlot::Closed(tasks, all) = *place {
            let ring = |last| Arc::new(Ring::starting_after(last, self.context.bounds));
            let readers_max = self.context.bounds.workspace_streams_max;
            *place = FeedSlot::Open(Arc::new(WorkspaceFeed {
                workspace: workspace.into(),
                memories: memories.clone(),
                is_trusted,
                task_events: ring(tasks),
                sessions: Mutex::default(),
                all_events: EventBus::new(self.context.clone(), ring(all), 0, readers_max),
                watch: OnceCell::new(),
            }));
        }
    }

    /// Closes the feeds of a workspace: every stream of it ends.
    pub fn close(&self, workspace: &str) {
        if let Some(place) = self.workspaces.lock().get_mut(workspace) {
            place.close();
        }
    }

    /// Closes all feeds.
    pub fn close_all(&self) {
        self.workspaces.lock().values_mut().for_each(FeedSlot::close);
    }

    /// Begins the stream of a session: its events are those that come from now on.
    pub fn begin_session(&self, workspace: &str, session: &str) {
        if let Some(feeding) = self.workspace_feed(workspace) {
            let base = feeding.task_events.with_state(|shelf| shelf.last());
            feeding.open_session(&self.context, session, base);
        }
    }

    /// Ends the stream of a session.
    pub fn end_session(&self, workspace: &str, session: &str) {
        let feeding = self.workspace_feed(workspace);
        if let Some(bus) = feeding.and_then(|feeding| feeding.sessions.lock().remove(session)) {
            bus.close();
        }
    }

    /// Returns the stream of a session; `None` if the workspace is not open. That of a session that
    /// began before this daemon has all its events.
    pub fn session(&self, workspace: &str, session: &str) -> Option<Arc<EventBus>> {
        Some(self.workspace_feed(workspace)?.open_session(&self.context, session, 0))
    }

    /// Tells whether anybody listens to the stream of a session.
    pub fn session_has_subscribers(&self, workspace: &str, session: &str) -> bool {
        self.workspace_feed(workspace).is_some_and(|feeding| {
            feeding.sessions.lock().get(session).is_some_and(|bus| bus.readers() > 0)
        })
    }

    /// Subscribes to all that changes in the memories of a workspace, through whatever process. The
    /// first reader has its folders watched from then on.
    pub async fn subscribe(
        &self,
        workspace: &str,
        cursor: Option<&EventCursor>,
    ) -> Result<Subscription, SubscribeError> {
        let feeding = self.workspace_feed(workspace).ok_or(SubscribeError::Closed)?;
        let subscription = feeding.all_events.subscribe(cursor)?;
        feeding.ensure_watching().await;
        // What happens in other worktrees of the project is told here too.
        for other in self.open_feeds(Some(workspace)) {
            if other.is_trusted && other.memories.is_sibling_of(&feeding.memories) {
                other.ensure_watching().await;
            }
        }
        Ok(subscription)
    }

    /// Sees to it that what other processes do in a workspace is heard of, by its readers and by who follows
    /// the store. Nothing, if the workspace is not open.
    pub async fn ensure_watching(&self, workspace: &str) {
        if let Some(feeding) = self.workspace_feed(workspace) {
            feeding.ensure_watching().await;
        }
    }

    /// Tells that a context file was written: those of a project to its workspace, the person's own to all.
    /// Hears nothing of what other processes write there.
    pub fn publish_context_file(&self, workspace: &str, news: FeedEvent) {
        let FeedChange::ContextFile { scope, .. } = &news.change else { return };
        let everybody = *scope == ContextScope::Global;
        let (news, now) = (Arc::new(news), self.context.clock.now());
        let mine = self.workspace_feed(workspace);
        let others = if everybody { self.open_feeds(Some(workspace)) } else { Vec::new() };
        for feeding in mine.into_iter().chain(others) {
            feeding.task_events.push(Arc::clone(&news), now);
            feeding.all_events.ring().push(Arc::clone(&news), now);
        }
    }

    /// Tells of everything that the store announces, until it is gone. What a task did is known by its
    /// row in `tasks`; while that is looked up, what is announced meanwhile is taken in and waits. A burst is told
    /// in parts, so that no reader who keeps up is taken for a slow one.
    pub async fn follow(&self, mut notices: Receiver<ChangeEvent>, tasks: &dyn TaskStore) {
        let (waiting, mut next) = mpsc::channel(CHANGES_WAITING_MAX);
        let take_in = async move {
            loop {
                let heard = match notices.recv().await {
                    Ok(notice) => Some(notice),
                    Err(RecvError::Lagged(lost)) => {
                        tracing::info!(lost, "more changed at once than can be told");
                        None
                    }
                    Err(RecvError::Closed) => return,
                };
                if waiting.send(heard).await.is_err() {
                    return;
                }
            }
        };
        let tell = async {
            let mut told_by_lane = TaskWorkspaceCache::default();
            let mut pace = Throttle::new();
            while let Some(heard) = next.recv().await {
                if let Some(notice) = heard {
                    let lane = told_by_lane.workspace(&notice, tasks).await;
                    self.publish_change(&notice, lane);
                } else {
                    for feeding in self.open_feeds(None) {
                        feeding.all_events.ring().push_gap();
                    }
                }
                pace.acquire().await;
            }
        };
        tokio::join!(take_in, tell);
    }

    /// Tells of a change in every workspace that has the memory, and in those of other worktrees of its
    /// project, except in the one whose lane does.
    fn publish_change(&self, notice: &ChangeEvent, told_by_lane: Option<&str>) {
        let now = self.context.clock.now();
        let by = Arc::new(notice.provenance.clone());
        let all = self.open_feeds(None);
        let mut made = Vec::new();
        for feeding in all.iter().filter(|one| Some(&*one.workspace) != told_by_lane) {
            let seen = RootsView::of(notice, &feeding.memories, &all);
            let known = made.iter().find(|(of, _)| *of == seen).map(|(_, news)| Arc::clone(news));
            let news = known.unwrap_or_else(|| {
                let news: Arc<[_]> =
                    change_events((notice, &by), &feeding.memories, &all).collect();
                made.push((seen, Arc::clone(&news)));
                news
            });
            feeding.all_events.ring().push_all(&news, now);
        }
    }

    /// Tells of every pin that is set or taken away through this process, in every workspace that has the
    /// memory.
    pub async fn follow_pins(&self, pins: Receiver<PinEvent>) {
        for_each_notice(pins, "more pins changed at once than can be told", |pin| {
            self.publish_pin(&pin);
        })
        .await;
    }

    fn publish_pin(&self, notice: &PinEvent) {
        let now = self.context.clock.now();
        let by = Arc::new(notice.provenance.clone());
        let all = self.open_feeds(None);
        for feeding in &all {
            // Worktrees of a project share its pins.
            let seen = visible_path(&feeding.memories, &notice.root, &notice.path, &all);
            let Some((path, _)) = seen else { continue };
            let changed = FeedChange::Pin { path, pinned: notice.pinned, by: Arc::clone(&by) };
            feeding
                .all_events
                .ring()
                .push(Arc::new(FeedEvent { originator: None, change: changed }), now);
        }
    }

    /// Tells of every proposal that is made or decided through this process, in every workspace that has all
    /// memories that it names.
    pub async fn follow_proposals(&self, proposals: Receiver<ProposalStatusEvent>) {
        let lagged = "more proposals changed at once than can be told";
        for_each_notice(proposals, lagged, |notice| self.publish_proposals(notice)).await;
    }

    fn publish_proposals(&self, notice: ProposalStatusEvent) {
        let now = self.context.clock.now();
        let ProposalStatusEvent { ids, status, roots, task, change, provenance } = notice;
        let (ids, by) = (ids.into(), Arc::new(provenance));
        let changed = FeedChange::Proposals { ids, status, task, change, by };
        let news = Arc::new(FeedEvent { originator: None, change: changed });
        for feeding in self.open_feeds(None) {
            let here = feeding.memories.roots();
            if roots.iter().all(|root| here.contains(root)) {
                feeding.all_events.ring().push(Arc::clone(&news), now);
            }
        }
    }

    fn workspace_feed(&self, workspace: &str) -> Option<Arc<WorkspaceFeed>> {
        self.workspaces.lock().get(workspace)?.open()
    }

    /// Returns what is open, but for one workspace.
    fn open_feeds(&self, but: Option<&str>) -> Vec<Arc<WorkspaceFeed>> {
        let workspaces = self.workspaces.lock();
        let others = workspaces.iter().filter(|(workspace, _)| Some(workspace.as_str()) != but);
        others.filter_map(|(_, place)| place.open()).collect()
    }
}

impl FeedSlot {
    fn open(&self) -> Option<Arc<WorkspaceFeed>> {
        match self {
            Self::Open(feeding) => Some(Arc::clone(feeding)),
            Self::Closed(..) => None,
        }
    }

    fn close(&mut self) {
        if let Self::Open(feeding) = self {
            feeding.close();
            let last = |ring: &Ring| ring.with_state(|shelf| shelf.last());
            *self = Self::Closed(last(&feeding.task_events), last(feeding.all_events.ring()));
        }
    }
}

impl WorkspaceFeed {
    fn open_session(&self, common: &StreamContext, session: &str, base: u64) -> Arc<EventBus> {
        let mut sessions = self.sessions.lock();
        let bus = sessions.entry(session.to_owned()).or_insert_with(|| {
            let readers_max = common.bounds.session_streams_max;
            EventBus::new(common.clone(), Arc::clone(&self.task_events), base, readers_max)
        });
        Arc::clone(bus)
    }

    /// Watches the folders, unless that is done. Where it cannot be done now, the next reader tries again.
    async fn ensure_watching(&self) {
        if let Err(error) = self.watch.get_or_try_init(|| self.memories.watch()).await {
            tracing::warn!(%error, "edits from outside go untold");
        }
    }

    fn close(&self) {
        self.all_events.close();
        for bus in std::mem::take(&mut *self.sessions.lock()).into_values() {
            bus.close();
        }
    }
}

#[async_trait]
impl Feed for Feeds {
    /// Tells the sessions of the workspace, and whoever listens to all of it. Where nobody could have
    /// subscribed, nobody is told.
    async fn publish(&self, change: ManagedChange) -> Result<(), FeedError> {
        let ManagedChange { workspace, source, task, scopes, originator, saved } = change;
        if let Some(feeding) = self.workspace_feed(&workspace) {
            let changed = match source {
                TaskKind::Review => FeedChange::Review { task, saved, scopes },
                TaskKind::Remember | TaskKind::Forget | TaskKind::Dream => {
                    FeedChange::Task { task, kind: source, scopes }
                }
            };
            let news = Arc::new(FeedEvent { originator, change: changed });
            let now = self.context.clock.now();
            feeding.task_events.push(Arc::clone(&news), now);
            feeding.all_events.ring().push(news, now);
        }
        Ok(())
    }
}

/// Tells of each notice until there come no more.
async fn for_each_notice<N: Clone>(mut notices: Receiver<N>, lagged: &str, tell: impl Fn(N)) {
    loop {
        match notices.recv().await {
            Ok(notice) => tell(notice),
            Err(RecvError::Lagged(lost)) => tracing::info!(lost, "{lagged}"),
            Err(RecvError::Closed) => return,
        }
    }
}

/// Under which names the roots of a change are seen, and whether as those of another worktree. Whoever sees
/// them alike is told the same events, which are kept once.
#[derive(Debug, PartialEq, Eq)]
struct RootsView(Vec<Option<(Mount, bool)>>);

impl RootsView {
    fn of(notice: &ChangeEvent, memories: &Memories, all: &[Arc<WorkspaceFeed>]) -> Self {
        let roots: BTreeMap<_, _> =
            notice.files.iter().map(|file| (&file.root, &file.path)).collect();
        let seen = |(root, path)| {
            let (path, is_sibling) = visible_path(memories, root, path, all)?;
            Some((path.mount()?, is_sibling))
        };
        Self(roots.into_iter().map(seen).collect())
    }
}

/// Returns the path of a memory as it is seen through other memories, and whether it is one of another
/// worktree of the project. Of a worktree that is not trusted nothing is seen in the others.
fn visible_path(
    memories: &Memories,
    root: &RootKey,
    path: &RelativePath,
    all: &[Arc<WorkspaceFeed>],
) -> Option<(MemoryPath, bool)> {
    if let Some(path) = memories.virtual_path(root, path) {
        return Some((path, false));
    }
    let path_there = memories.sibling_path(root, path)?;
    let mut owners =
        all.iter().filter(|one| one.memories.virtual_path(root, path).is_some()).peekable();
    let is_hidden = owners.peek().is_some() && owners.all(|owner| !owner.is_trusted);
    (!is_hidden).then_some((path_there, true))
}

/// Returns what there is to tell of a change to somebody who has these memories, memory by memory.
fn change_events(
    (notice, by): (&ChangeEvent, &Arc<Provenance>),
    memories: &Memories,
    all: &[Arc<WorkspaceFeed>],
) -> impl Iterator<Item = Arc<FeedEvent>> {
    notice.files.iter().filter_map(move |file| {
        let (path, is_sibling) = visible_path(memories, &file.root, &file.path, all)?;
        let moved_to = |path| Some(visible_path(memories, &file.root, path, all)?.0);
        let is_everybodys = path.mount() == Some(Mount::Scope(Scope::Global));
        let mut owners = all.iter().filter(|one| {
            !is_everybodys && one.memories.virtual_path(&file.root, &file.path).is_some()
        });
        let changed = FeedChange::File {
            path,
            moved_to: file.moved_to.as_ref().and_then(moved_to),
            kind: notice.kind,
            by: Arc::clone(by),
            trust: file.trust,
            revision: file.after,
            change: notice.change,
            // Where several workspaces have the same memories, it happened in each of them.
            workspace: owners
                .next()
                .filter(|_| is_sibling || owners.next().is_none())
                .map(|owner| Arc::clone(&owner.workspace)),
        };
        Some(Arc::new(FeedEvent { originator: None, change: changed }))
    })
}

/// In which workspace the lane tells what a task did. Remembers the last task: its changes come one
/// after the other.
#[derive(Debug, Default)]
struct TaskWorkspaceCache {
    task: Option<String>,
    workspace: Option<String>,
}

impl TaskWorkspaceCache {
    async fn workspace(&mut self, notice: &ChangeEvent, tasks: &dyn TaskStore) -> Option<&str> {
        let task = notice.provenance.task.as_ref()?;
        if self.task.as_ref() != Some(task) {
            let row = tasks.task(task).await.unwrap_or_else(|error| {
                tracing::warn!(%error, task, "whose task this was cannot be found out");
                None
            });
            self.task = Some(task.clone());
            self.workspace = row.map(|row| row.workspace);
        }
        self.workspace.as_deref()
    }
}

/// Lets so many changes pass at once and has the next wait until their time has come. What comes less often never
/// waits.
#[derive(Debug)]
pub(super) struct Throttle {
    window_start: Instant,
    count: usize,
}

impl Throttle {
    pub(super) fn new() -> Self {
        Self { window_start: Instant::now(), count: 0 }
    }

    /// Counts one that was told, and waits if more were told than at once.
    pub(super) async fn acquire(&mut self) {
        self.count += 1;
        if self.count >= EVENTS_PUBLISHED_PER_BATCH {
            let next = self.window_start + EVENT_BATCH_INTERVAL;
            if Instant::now() < next {
                sleep_until(next).await;
            }
            *self = Self::new();
        }
    }
}
