//! The streams of one workspace, and what it sees of an event.

use std::collections::BTreeMap;
use std::sync::Arc;

use memory::change::{Provenance, RootKey};
use memory::path::{MemoryPath, Mount, RelativePath, Scope};
use parking_lot::Mutex;
use state::{PinEvent, ProposalStatusEvent};
use store::{ChangeEvent, Memories, Watch};
use tokio::sync::OnceCell;

use super::bus::{EventBus, StreamContext, SubscribeError};
use super::event::{FeedChange, FeedEvent};
use super::log_reader::{LogReader, SharedLog};
use super::ring::Ring;

/// The feeds of a workspace.
#[derive(Debug)]
pub(super) struct WorkspaceFeed {
    pub(super) workspace: Arc<str>,
    pub(super) memories: Memories,
    /// Whether its changes are published to other worktrees of its project.
    pub(super) is_trusted: bool,
    /// Ends of tasks, and writes of context files.
    pub(super) task_events: Arc<Ring>,
    /// Windows on `task_events`, by session.
    pub(super) sessions: Mutex<BTreeMap<String, Arc<EventBus>>>,
    /// All changes.
    pub(super) all_events: Arc<EventBus>,
    /// The watch for external edits, started with the first reader.
    watch: OnceCell<Watch>,
    /// Fills the rings from the log, if there is one; started with the first reader.
    log_reader: tokio::sync::Mutex<Option<Arc<LogReader>>>,
}

impl WorkspaceFeed {
    /// Returns the feeds of a workspace. Their events get numbers above those given: of task
    /// events, and of all events.
    pub(super) fn new(
        context: &StreamContext,
        (workspace, memories, is_trusted): (&str, &Memories, bool),
        (tasks, all): (u64, u64),
    ) -> Arc<Self> {
        let ring = |last| Arc::new(Ring::starting_after(last, context.bounds));
        let readers_max = context.bounds.workspace_streams_max;
        Arc::new(Self {
            workspace: workspace.into(),
            memories: memories.clone(),
            is_trusted,
            task_events: ring(tasks),
            sessions: Mutex::default(),
            all_events: EventBus::new(context.clone(), ring(all), 0, readers_max),
            watch: OnceCell::new(),
            log_reader: tokio::sync::Mutex::default(),
        })
    }

    /// Returns the stream of a session. If it is new, it has the events after `base`.
    pub(super) fn open_session(
        &self,
        context: &StreamContext,
        session: &str,
        base: u64,
    ) -> Arc<EventBus> {
        let mut sessions = self.sessions.lock();
        let bus = sessions.entry(session.to_owned()).or_insert_with(|| {
            let readers_max = context.bounds.session_streams_max;
            EventBus::new(context.clone(), Arc::clone(&self.task_events), base, readers_max)
        });
        Arc::clone(bus)
    }

    pub(super) fn readers(&self) -> usize {
        let of_sessions: usize = self.sessions.lock().values().map(|bus| bus.readers()).sum();
        self.all_events.readers() + of_sessions
    }

    /// Starts the watch, unless it runs. If that fails, the next reader tries again.
    pub(super) async fn ensure_watching(&self) {
        if let Err(error) = self.watch.get_or_try_init(|| self.memories.watch()).await {
            tracing::warn!(%error, "error while starting a watch; external edits are not published");
        }
    }

    /// Fills the rings with the events that the log has now, and keeps them up to date.
    pub(super) async fn read_log(self: &Arc<Self>, log: &SharedLog) -> Result<(), SubscribeError> {
        let reader = {
            let mut reader = self.log_reader.lock().await;
            let running = reader.take().filter(|reader| !reader.has_ended());
            let running = match running {
                Some(running) => running,
                None => Arc::new(LogReader::start(log, self).await?),
            };
            Arc::clone(reader.insert(running))
        };
        reader.catch_up(log).await
    }

    /// Forgets all events, and continues with numbers after `last`.
    pub(super) fn restart_after(&self, last: u64) {
        self.task_events.restart_after(last);
        self.all_events.ring().restart_after(last);
    }

    pub(super) fn close(&self) {
        self.all_events.close();
        for bus in std::mem::take(&mut *self.sessions.lock()).into_values() {
            bus.close();
        }
    }
}

/// The mounts at which a workspace sees the roots of a change, and whether they belong to a sibling
/// worktree. Workspaces with an equal view share the same event values.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RootsView(Vec<Option<(Mount, bool)>>);

impl RootsView {
    pub(super) fn of(
        notice: &ChangeEvent,
        memories: &Memories,
        all: &[Arc<WorkspaceFeed>],
    ) -> Self {
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

/// Returns the events of a change for a workspace with these memories: one for each file, or `None`
/// for a file that it does not have.
pub(super) fn change_events(
    (notice, by): (&ChangeEvent, &Arc<Provenance>),
    memories: &Memories,
    all: &[Arc<WorkspaceFeed>],
) -> impl Iterator<Item = Option<FeedEvent>> {
    notice.files.iter().map(move |file| {
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
        Some(FeedEvent { originator: None, change })
    })
}

/// Returns the event of a pin for a workspace with these memories, if it has the memory.
pub(super) fn pin_event(
    notice: &PinEvent,
    memories: &Memories,
    all: &[Arc<WorkspaceFeed>],
) -> Option<FeedEvent> {
    // Worktrees of a project share its pins.
    let (path, _) = visible_path(memories, &notice.root, &notice.path, all)?;
    let by = Arc::new(notice.provenance.clone());
    let change = FeedChange::Pin { path, pinned: notice.pinned, by };
    Some(FeedEvent { originator: None, change })
}

/// Returns the event of proposals for a workspace with these memories, if it has all that they
/// name.
pub(super) fn proposals_event(
    notice: &ProposalStatusEvent,
    memories: &Memories,
) -> Option<FeedEvent> {
    let own_roots = memories.roots();
    let is_visible = notice.roots.iter().all(|root| own_roots.contains(root));
    is_visible.then(|| {
        let ProposalStatusEvent { ids, status, roots: _, task, change, provenance } =
            notice.clone();
        let (ids, by) = (ids.into(), Arc::new(provenance));
        let change = FeedChange::Proposals { ids, status, task, change, by };
        FeedEvent { originator: None, change }
    })
}
