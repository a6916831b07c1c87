//! The feeds of a daemon. A workspace has one stream of task events, read by its sessions, and one
//! of all changes to the memories that it can access.
//!
//! A lane publishes the end of a task once, in the task's workspace. All other changes come from
//! the store. So do a task's changes in other workspaces that share the memories: global memories
//! are shared by all workspaces, those of a project by all its worktrees.

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

/// The feeds of a workspace, open or closed.
#[derive(Debug)]
enum FeedSlot {
    Open(Arc<WorkspaceFeed>),
    /// The last event numbers: of task events, of all events. A number is never reused within an
    /// epoch.
    Closed(u64, u64),
}

/// The feeds of a workspace.
#[derive(Debug)]
struct WorkspaceFeed {
    workspace: Arc<str>,
    memories: Memories,
    /// Whether its changes are published to other worktrees of its project.
    is_trusted: bool,
    /// Ends of tasks, and writes of context files.
    task_events: Arc<Ring>,
    /// Windows on `task_events`, by session.
    sessions: Mutex<BTreeMap<String, Arc<EventBus>>>,
    /// All changes.
    all_events: Arc<EventBus>,
    /// The watch for external edits, started with the first reader.
    watch: OnceCell<Watch>,
}

impl Feeds {
    /// Returns feeds without a workspace, with an epoch of their own.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_bounds(clock, Bounds::default())
    }

    /// Does the same, with other bounds.
    pub fn with_bounds(clock: Arc<dyn Clock>, bounds: Bounds) -> Self {
        let context = StreamContext { epoch: Epoch::new(), clock, bounds };
        Self { context, workspaces: Mutex::default() }
    }

    /// Returns the epoch of all streams.
    pub fn epoch(&self) -> &Epoch {
        &self.context.epoch
    }

    /// Opens the feeds of a workspace, unless they are open. Its events are limited to memories
    /// that are visible through `memories`.
    pub fn open(&self, workspace: &str, memories: &Memories) {
        self.open_with(workspace, memories, true);
    }

    /// Opens the feeds of an untrusted workspace: its changes are not published to other worktrees
    /// of its project.
    pub fn open_untrusted(&self, workspace: &str, memories: &Memories) {
        self.open_with(workspace, memories, false);
    }

    fn open_with(&self, workspace: &str, memories: &Memories, is_trusted: bool) {
        let mut workspaces = self.workspaces.lock();
        let slot = workspaces.entry(workspace.to_owned()).or_insert(FeedSlot::Closed(0, 0));
        if let FeedSlot::Closed(tasks, all) = *slot {
            let ring = |last| Arc::new(Ring::starting_after(last, self.context.bounds));
            let readers_max = self.context.bounds.workspace_streams_max;
            *slot = FeedSlot::Open(Arc::new(WorkspaceFeed {
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

    /// Returns the number of subscribers of the streams of a workspace.
    pub fn readers_of(&self, workspace: &str) -> usize {
        self.workspace_feed(workspace).map_or(0, |feed| feed.readers())
    }

    /// Closes the feeds of a workspace and ends all its streams.
    pub fn close(&self, workspace: &str) {
        if let Some(slot) = self.workspaces.lock().get_mut(workspace) {
            slot.close();
        }
    }

    /// Closes all feeds.
    pub fn close_all(&self) {
        self.workspaces.lock().values_mut().for_each(FeedSlot::close);
    }

    /// Opens the stream of a session, with the events from now on.
    pub fn begin_session(&self, workspace: &str, session: &str) {
        if let Some(feed) = self.workspace_feed(workspace) {
            let base = feed.task_events.with_state(|ring| ring.last());
            feed.open_session(&self.context, session, base);
        }
    }

    /// Ends the stream of a session.
    pub fn end_session(&self, workspace: &str, session: &str) {
        let feed = self.workspace_feed(workspace);
        if let Some(bus) = feed.and_then(|feed| feed.sessions.lock().remove(session)) {
            bus.close();
        }
    }

    /// Returns the stream of a session; `None` if the workspace is not open. The stream of a
    /// session that began before this daemon has all its events.
    pub fn session(&self, workspace: &str, session: &str) -> Option<Arc<EventBus>> {
        Some(self.workspace_feed(workspace)?.open_session(&self.context, session, 0))
    }

    /// Checks whether the stream of a session has subscribers.
    pub fn session_has_subscribers(&self, workspace: &str, session: &str) -> bool {
        self.workspace_feed(workspace).is_some_and(|feed| {
            feed.sessions.lock().get(session).is_some_and(|bus| bus.readers() > 0)
        })
    }

    /// Subscribes to all changes in the memories of a workspace, made by any process. The first
    /// reader starts a watch on its folders.
    pub async fn subscribe(
        &self,
        workspace: &str,
        cursor: Option<&EventCursor>,
    ) -> Result<Subscription, SubscribeError> {
        let feed = self.workspace_feed(workspace).ok_or(SubscribeError::Closed)?;
        let subscription = feed.all_events.subscribe(cursor)?;
        feed.ensure_watching().await;
        // Changes in sibling worktrees are published here too, so they need a watch as well.
        for other in self.open_feeds(Some(workspace)) {
            if other.is_trusted && other.memories.is_sibling_of(&feed.memories) {
                other.ensure_watching().await;
            }
        }
        Ok(subscription)
    }

    /// Starts a watch for external edits of a workspace, for its readers and for subscribers of the
    /// store. Does nothing if the workspace is not open.
    pub async fn ensure_watching(&self, workspace: &str) {
        if let Some(feed) = self.workspace_feed(workspace) {
            feed.ensure_watching().await;
        }
    }

    /// Publishes the write of a context file: one of a project in its workspace, a global one in
    /// all. Does not detect writes by other processes.
    pub fn publish_context_file(&self, workspace: &str, event: FeedEvent) {
        let FeedChange::ContextFile { scope, .. } = &event.change else { return };
        let is_global = *scope == ContextScope::Global;
        let (event, now) = (Arc::new(event), self.context.clock.now());
        let own = self.workspace_feed(workspace);
        let others = if is_global { self.open_feeds(Some(workspace)) } else { Vec::new() };
        for feed in own.into_iter().chain(others) {
            feed.task_events.push(Arc::clone(&event), now);
            feed.all_events.ring().push(Arc::clone(&event), now);
        }
    }

    /// Publishes all changes that the store announces, until it closes. The workspace of a task is
    /// looked up in `tasks`; changes announced meanwhile are buffered. A burst is published in
    /// parts, so that it does not make readers look slow.
    pub async fn follow(&self, mut notices: Receiver<ChangeEvent>, tasks: &dyn TaskStore) {
        let (sender, mut next) = mpsc::channel(CHANGES_WAITING_MAX);
        let receive = async move {
            loop {
                let received = match notices.recv().await {
                    Ok(notice) => Some(notice),
                    Err(RecvError::Lagged(lost)) => {
                        tracing::info!(lost, "error: too many changes at once; events dropped");
                        None
                    }
                    Err(RecvError::Closed) => return,
                };
                if sender.send(received).await.is_err() {
                    return;
                }
            }
        };
        let publish = async {
            let mut task_workspaces = TaskWorkspaceCache::default();
            let mut throttle = Throttle::new();
            while let Some(received) = next.recv().await {
                if let Some(notice) = received {
                    let task_workspace = task_workspaces.workspace(&notice, tasks).await;
                    self.publish_change(&notice, task_workspace);
                } else {
                    for feed in self.open_feeds(None) {
                        feed.all_events.ring().push_gap();
                    }
                }
                throttle.acquire().await;
            }
        };
        tokio::join!(receive, publish);
    }

    /// Publishes a change in each workspace that has the memory and in sibling worktrees, except in
    /// the task's workspace, where the lane publishes it.
    fn publish_change(&self, notice: &ChangeEvent, task_workspace: Option<&str>) {
        let now = self.context.clock.now();
        let by = Arc::new(notice.provenance.clone());
        let all = self.open_feeds(None);
        let mut rendered = Vec::new();
        for feed in all.iter().filter(|feed| Some(&*feed.workspace) != task_workspace) {
            let view = RootsView::of(notice, &feed.memories, &all);
            let known =
                rendered.iter().find(|(of, _)| *of == view).map(|(_, events)| Arc::clone(events));
            let events = known.unwrap_or_else(|| {
                let events: Arc<[_]> = change_events((notice, &by), &feed.memories, &all).collect();
                rendered.push((view, Arc::clone(&events)));
                events
            });
            feed.all_events.ring().push_all(&events, now);
        }
    }

    /// Publishes all pins set or removed through this process, in each workspace that has the
    /// memory.
    pub async fn follow_pins(&self, pins: Receiver<PinEvent>) {
        for_each_notice(pins, "error: too many pin changes at once; events dropped", |pin| {
            self.publish_pin(&pin);
        })
        .await;
    }

    fn publish_pin(&self, notice: &PinEvent) {
        let now = self.context.clock.now();
        let by = Arc::new(notice.provenance.clone());
        let all = self.open_feeds(None);
        for feed in &all {
            // Worktrees of a project share its pins.
            let visible = visible_path(&feed.memories, &notice.root, &notice.path, &all);
            let Some((path, _)) = visible else { continue };
            let change = FeedChange::Pin { path, pinned: notice.pinned, by: Arc::clone(&by) };
            feed.all_events.ring().push(Arc::new(FeedEvent { originator: None, change }), now);
        }
    }

    /// Publishes all proposals made or decided through this process, in each workspace that has all
    /// memories they name.
    pub async fn follow_proposals(&self, proposals: Receiver<ProposalStatusEvent>) {
        let lagged = "error: too many proposal changes at once; events dropped";
        for_each_notice(proposals, lagged, |notice| self.publish_proposals(notice)).await;
    }

    fn publish_proposals(&self, notice: ProposalStatusEvent) {
        let now = self.context.clock.now();
        let ProposalStatusEvent { ids, status, roots, task, change, provenance } = notice;
        let (ids, by) = (ids.into(), Arc::new(provenance));
        let change = FeedChange::Proposals { ids, status, task, change, by };
        let event = Arc::new(FeedEvent { originator: None, change });
        for feed in self.open_feeds(None) {
            let own_roots = feed.memories.roots();
            if roots.iter().all(|root| own_roots.contains(root)) {
                feed.all_events.ring().push(Arc::clone(&event), now);
            }
        }
    }

    fn workspace_feed(&self, workspace: &str) -> Option<Arc<WorkspaceFeed>> {
        self.workspaces.lock().get(workspace)?.open()
    }

    /// Returns the open feeds of all workspaces except one.
    fn open_feeds(&self, except: Option<&str>) -> Vec<Arc<WorkspaceFeed>> {
        let workspaces = self.workspaces.lock();
        let others = workspaces.iter().filter(|(workspace, _)| Some(workspace.as_str()) != except);
        others.filter_map(|(_, slot)| slot.open()).collect()
    }
}

impl FeedSlot {
    fn open(&self) -> Option<Arc<WorkspaceFeed>> {
        match self {
            Self::Open(feed) => Some(Arc::clone(feed)),
            Self::Closed(..) => None,
        }
    }

    fn close(&mut self) {
        if let Self::Open(feed) = self {
            feed.close();
            let last = |ring: &Ring| ring.with_state(|ring| ring.last());
            *self = Self::Closed(last(&feed.task_events), last(feed.all_events.ring()));
        }
    }
}

impl WorkspaceFeed {
    fn open_session(&self, context: &StreamContext, session: &str, base: u64) -> Arc<EventBus> {
        let mut sessions = self.sessions.lock();
        let bus = sessions.entry(session.to_owned()).or_insert_with(|| {
            let readers_max = context.bounds.session_streams_max;
            EventBus::new(context.clone(), Arc::clone(&self.task_events), base, readers_max)
        });
        Arc::clone(bus)
    }

    fn readers(&self) -> usize {
        let of_sessions: usize = self.sessions.lock().values().map(|bus| bus.readers()).sum();
        self.all_events.readers() + of_sessions
    }

    /// Starts the watch, unless it runs. If that fails, the next reader tries again.
    async fn ensure_watching(&self) {
        if let Err(error) = self.watch.get_or_try_init(|| self.memories.watch()).await {
            tracing::warn!(%error, "error while starting a watch; external edits are not published");
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
    /// Publishes to the sessions of the workspace and to readers of all its changes. Does nothing
    /// if the workspace is not open, because it then has no subscribers.
    async fn publish(&self, change: ManagedChange) -> Result<(), FeedError> {
        let ManagedChange { workspace, source, task, scopes, originator, saved } = change;
        if let Some(feed) = self.workspace_feed(&workspace) {
            let change = match source {
                TaskKind::Review => FeedChange::Review { task, saved, scopes },
                TaskKind::Remember | TaskKind::Forget | TaskKind::Dream => {
                    FeedChange::Task { task, kind: source, scopes }
                }
            };
            let event = Arc::new(FeedEvent { originator, change });
            let now = self.context.clock.now();
            feed.task_events.push(Arc::clone(&event), now);
            feed.all_events.ring().push(event, now);
        }
        Ok(())
    }
}

/// Calls `publish` for each notice until the channel closes.
async fn for_each_notice<N: Clone>(mut notices: Receiver<N>, lagged: &str, publish: impl Fn(N)) {
    loop {
        match notices.recv().await {
            Ok(notice) => publish(notice),
            Err(RecvError::Lagged(lost)) => tracing::info!(lost, "{lagged}"),
            Err(RecvError::Closed) => return,
        }
    }
}

/// The mounts at which a workspace sees the roots of a change, and whether they belong to a sibling
/// worktree. Workspaces with an equal view share the same event values.
#[derive(Debug, PartialEq, Eq)]
struct RootsView(Vec<Option<(Mount, bool)>>);

impl RootsView {
    fn of(notice: &ChangeEvent, memories: &Memories, all: &[Arc<WorkspaceFeed>]) -> Self {
        let roots: BTreeMap<_, _> =
            notice.files.iter().map(|file| (&file.root, &file.path)).collect();
        let view = |(root, path)| {
            let (path, is_sibling) = visible_path(memories, root, path, all)?;
            Some((path.mount()?, is_sibling))
        };
        Self(roots.into_iter().map(view).collect())
    }
}

/// Returns the path of a memory as seen through `memories`, and whether it belongs to a sibling
/// worktree. Memories of an untrusted worktree are not visible in its siblings.
fn visible_path(
    memories: &Memories,
    root: &RootKey,
    path: &RelativePath,
    all: &[Arc<WorkspaceFeed>],
) -> Option<(MemoryPath, bool)> {
    if let Some(path) = memories.virtual_path(root, path) {
        return Some((path, false));
    }
    let sibling_path = memories.sibling_path(root, path)?;
    let mut owners =
        all.iter().filter(|feed| feed.memories.virtual_path(root, path).is_some()).peekable();
    let is_hidden = owners.peek().is_some() && owners.all(|owner| !owner.is_trusted);
    (!is_hidden).then_some((sibling_path, true))
}

/// Returns the events of a change for a workspace with these memories, one per file.
fn change_events(
    (notice, by): (&ChangeEvent, &Arc<Provenance>),
    memories: &Memories,
    all: &[Arc<WorkspaceFeed>],
) -> impl Iterator<Item = Arc<FeedEvent>> {
    notice.files.iter().filter_map(move |file| {
        let (path, is_sibling) = visible_path(memories, &file.root, &file.path, all)?;
        let moved_to = |path| Some(visible_path(memories, &file.root, path, all)?.0);
        let is_global = path.mount() == Some(Mount::Scope(Scope::Global));
        let mut owners = all.iter().filter(|feed| {
            !is_global && feed.memories.virtual_path(&file.root, &file.path).is_some()
        });
        let change = FeedChange::File {
            path,
            moved_to: file.moved_to.as_ref().and_then(moved_to),
            kind: notice.kind,
            by: Arc::clone(by),
            trust: file.trust,
            revision: file.after,
            change: notice.change,
            // If several workspaces have the memory, the change belongs to none of them in
            // particular.
            workspace: owners
                .next()
                .filter(|_| is_sibling || owners.next().is_none())
                .map(|owner| Arc::clone(&owner.workspace)),
        };
        Some(Arc::new(FeedEvent { originator: None, change }))
    })
}

/// The workspace whose lane publishes a task. Caches the last task, because its changes arrive in a
/// row.
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
                tracing::warn!(%error, task, "error while looking up the workspace of a task");
                None
            });
            self.task = Some(task.clone());
            self.workspace = row.map(|row| row.workspace);
        }
        self.workspace.as_deref()
    }
}

/// A token bucket: a burst passes at once, further changes wait for the next interval.
#[derive(Debug)]
pub(super) struct Throttle {
    window_start: Instant,
    count: usize,
}

impl Throttle {
    pub(super) fn new() -> Self {
        Self { window_start: Instant::now(), count: 0 }
    }

    /// Counts an event, and waits if the burst is used up.
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
