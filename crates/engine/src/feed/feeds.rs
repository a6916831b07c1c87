//! The feeds of a daemon. A workspace has one stream of task events, read by its sessions, and one
//! of all changes to the memories that it can access.
//!
//! With a log that daemons share, the events come from there (`log_reader.rs`). Otherwise they are
//! published here. A lane publishes the end of a task once, in the task's workspace. All other
//! changes come from the store. So do a task's changes in other workspaces that share the memories:
//! global memories are shared by all workspaces, those of a project by all its worktrees.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use memory::clock::Clock;
use memory::limits::CHANGES_WAITING_MAX;
use parking_lot::Mutex;
use state::{Announcement, TaskStore};
use store::{ChangeEvent, ContextScope, Memories};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::bus::{Bounds, Epoch, EventBus, EventCursor, StreamContext, SubscribeError};
use super::event::{FeedChange, FeedEvent};
use super::log_reader::SharedLog;
use super::publishing::{TaskWorkspaceCache, Throttle};
use super::ring::Ring;
use super::subscription::Subscription;
use super::workspace_feed::{RootsView, WorkspaceFeed, change_events, pin_event, proposals_event};
use super::{Feed, FeedError, ManagedChange};

/// All feeds of a daemon.
#[derive(Debug)]
pub struct Feeds {
    context: StreamContext,
    /// The log that the events come from, if daemons share one. Then nothing is published here.
    log: Option<SharedLog>,
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

impl Feeds {
    /// Returns feeds without a workspace, with an epoch of their own.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_bounds(clock, Bounds::default())
    }

    /// Does the same, with other bounds.
    pub fn with_bounds(clock: Arc<dyn Clock>, bounds: Bounds) -> Self {
        let context = StreamContext { epoch: Epoch::new(), clock, bounds };
        Self { context, log: None, workspaces: Mutex::default() }
    }

    /// Returns feeds without a workspace whose events are those of a log.
    pub(crate) fn of_log(clock: Arc<dyn Clock>, log: SharedLog) -> Self {
        let epoch = Epoch::of_log(log.events.epoch());
        let context = StreamContext { epoch, clock, bounds: Bounds::default() };
        Self { context, log: Some(log), workspaces: Mutex::default() }
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
            let served = (workspace, memories, is_trusted);
            *slot = FeedSlot::Open(WorkspaceFeed::new(&self.context, served, (tasks, all)));
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

    /// Opens the stream of a session, with the events from now on. With a log it has all events that
    /// the log keeps, because other daemons do not know when the session began.
    pub fn begin_session(&self, workspace: &str, session: &str) {
        if let Some(feed) = self.workspace_feed(workspace) {
            let last = || feed.task_events.with_state(|ring| ring.last());
            let base = if self.log.is_some() { 0 } else { last() };
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
        if let Some(log) = &self.log {
            feed.read_log(log).await?;
        }
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

    /// Prepares the streams of a workspace for readers: fills them from the log, if there is one, and
    /// starts a watch for external edits. Does nothing if the workspace is not open.
    pub async fn prepare(&self, workspace: &str) -> Result<(), SubscribeError> {
        let Some(feed) = self.workspace_feed(workspace) else { return Ok(()) };
        if let Some(log) = &self.log {
            feed.read_log(log).await?;
        }
        feed.ensure_watching().await;
        Ok(())
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
    /// With a log it does nothing: the log has the changes.
    pub async fn follow(&self, mut notices: Receiver<ChangeEvent>, tasks: &dyn TaskStore) {
        if self.log.is_some() {
            return;
        }
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
                    let task = notice.provenance.task.as_deref();
                    let task_workspace = task_workspaces.workspace(task, tasks).await;
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
                let events = change_events((notice, &by), &feed.memories, &all);
                let events: Arc<[_]> = events.flatten().map(Arc::new).collect();
                rendered.push((view, Arc::clone(&events)));
                events
            });
            feed.all_events.ring().push_all(&events, now);
        }
    }

    /// Publishes all pins and proposals that this process announces, in each workspace that has the
    /// memories.
    pub async fn follow_announcements(&self, mut announcements: Receiver<Announcement>) {
        loop {
            match announcements.recv().await {
                Ok(announcement) => self.publish_announcement(&announcement),
                Err(RecvError::Lagged(lost)) => {
                    tracing::info!(
                        lost,
                        "error: too many pins and proposals at once; events dropped"
                    );
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn publish_announcement(&self, announcement: &Announcement) {
        let now = self.context.clock.now();
        let all = self.open_feeds(None);
        for feed in &all {
            let event = match announcement {
                Announcement::Pin(pin) => pin_event(pin, &feed.memories, &all),
                Announcement::Proposals(proposals) => proposals_event(proposals, &feed.memories),
            };
            if let Some(event) = event {
                feed.all_events.ring().push(Arc::new(event), now);
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

#[async_trait]
impl Feed for Feeds {
    /// Publishes to the sessions of the workspace and to readers of all its changes. Does nothing
    /// if the workspace is not open, because it then has no subscribers.
    async fn publish(&self, change: ManagedChange) -> Result<(), FeedError> {
        if self.log.is_some() {
            return Ok(());
        }
        if let Some(feed) = self.workspace_feed(&change.workspace) {
            let event = Arc::new(FeedEvent::from(change));
            let now = self.context.clock.now();
            feed.task_events.push(Arc::clone(&event), now);
            feed.all_events.ring().push(event, now);
        }
        Ok(())
    }
}
