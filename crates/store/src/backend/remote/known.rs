//! The list of a remote root as this side knows it, kept current by notices of the far side.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use memory::path::RelativePath;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::backend::{FileKind, FileList, Stamp};

/// Maximum age of a stamp that is used again. Where the far side sends notices, a change is mostly known much earlier.
const RECENT_AGE_MAX: Duration = Duration::from_secs(1);

/// Number of known stamps above which they are forgotten.
const KNOWN_STAMPS_MAX: usize = 4_096;

/// Maximum number of paths whose kind is known.
const KNOWN_KINDS_MAX: usize = 1_024;

/// The facts about a root that this side knows without asking. A notice says that they may have changed, and not how.
#[derive(Debug)]
pub(super) struct KnownRoot {
    state: Mutex<KnownState>,
    /// Number of changes that were noticed.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct KnownState {
    /// The connection that sends notices about the root.
    followed: Option<u64>,
    counts: EventCounts,
    /// The connection and the numbers of the last notice.
    noticed: Option<(u64, u64, Option<u64>)>,
    list: Option<KnownList>,
    writes: Option<KnownWrites>,
    /// The kinds of paths that the holder of the lock asked for in this epoch.
    kinds: HashMap<RelativePath, KnownKind>,
    /// The stamps of files that were read in this epoch, with the time of the request.
    stamps: HashMap<RelativePath, (Instant, Stamp)>,
}

/// Numbers of events after which an answer to an older question may be outdated.
#[derive(Clone, Copy, Debug, Default)]
struct EventCounts {
    /// Grows with each notice of something new, and with each write of this process.
    epoch: u64,
    /// Number of lists that were kept.
    lists: u64,
    notices: u64,
    /// Number of times that this process acquired the lock.
    locks: u64,
    /// Number of steps of writes of this process.
    steps: u64,
}

impl KnownState {
    fn start_epoch(&mut self) {
        self.counts.epoch += 1;
        self.writes = None;
        self.kinds.clear();
        self.stamps.clear();
    }
}

/// A list, and its number at the far side.
#[derive(Clone, Debug)]
pub(super) struct KnownList {
    /// The connection on which it was requested.
    pub(super) session: u64,
    pub(super) asked: AskedAt,
    pub(super) number: u64,
    pub(super) list: Arc<FileList>,
}

/// The state in which a question was asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedAt {
    counts: EventCounts,
    time: Instant,
}

/// The number of writes, as the far side counts them; `None` during a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownWrites {
    pub(super) session: u64,
    pub(super) count: Option<u64>,
}

/// The kind of the thing at a path; `None` if nothing was there.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownKind(pub(super) Option<FileKind>);

impl KnownRoot {
    pub(super) fn new() -> Self {
        Self { state: Mutex::default(), changes: watch::Sender::new(0) }
    }

    /// Returns a receiver that is notified of each change.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Checks whether a caller waits for changes.
    pub(super) fn is_watched(&self) -> bool {
        self.changes.receiver_count() > 0
    }

    /// Notes that a connection sends notices from now on. Returns `false` if it does already.
    pub(super) fn start_following(&self, session: u64) -> bool {
        let mut state = self.state.lock();
        let is_new = state.followed.replace(session) != Some(session);
        if is_new {
            // What was known before may have changed without a notice.
            state.start_epoch();
        }
        is_new
    }

    /// Returns the present state, to be read before a question is sent.
    pub(super) fn ask(&self) -> AskedAt {
        AskedAt { counts: self.state.lock().counts, time: Instant::now() }
    }

    /// Notes that this process acquired the lock. Its holder asks again: what was known may be as old as a notice.
    pub(super) fn locked(&self) {
        let mut state = self.state.lock();
        state.counts.locks += 1;
        state.kinds.clear();
    }

    /// Notes a step of a write of this process.
    pub(super) fn written(&self) {
        let mut state = self.state.lock();
        state.counts.steps += 1;
        state.start_epoch();
    }

    /// Notes that a write of this process begins. The files are as they were.
    pub(super) fn begun(&self) {
        let mut state = self.state.lock();
        state.counts.steps += 1;
        state.writes = None;
    }

    /// Returns the last list that was requested on a connection, current or not.
    pub(super) fn last_list(&self, session: u64) -> Option<KnownList> {
        self.state.lock().list.clone().filter(|known| known.session == session)
    }

    /// Returns the list, if neither a notice nor a write of this process says that it may have changed. For the holder of the
    /// lock it must have been asked for since the lock was acquired.
    pub(super) fn current_list(&self, session: u64, is_locked: bool) -> Option<Arc<FileList>> {
        let state = self.state.lock();
        let is_current = |known: &&KnownList| {
            known.session == session
                && known.asked.counts.epoch == state.counts.epoch
                && (!is_locked || known.asked.counts.locks == state.counts.locks)
        };
        state.list.as_ref().filter(is_current).map(|known| Arc::clone(&known.list))
    }

    /// Returns the number of writes, if no notice says that it may have changed.
    pub(super) fn current_writes(&self, session: u64) -> Option<KnownWrites> {
        self.state.lock().writes.filter(|known| known.session == session)
    }

    /// Returns the kind of the thing at a path, as it was asked for since this process holds the lock.
    pub(super) fn kind(&self, path: &RelativePath) -> Option<KnownKind> {
        self.state.lock().kinds.get(path).copied()
    }

    pub(super) fn set_list(&self, mut known: KnownList) {
        let mut state = self.state.lock();
        let is_noticed = |(session, list, _)| (session, list) == (known.session, known.number);
        if state.counts.steps == known.asked.counts.steps && state.noticed.is_some_and(is_noticed) {
            // It is the one that the notice was about.
            known.asked.counts.epoch = state.counts.epoch;
        }
        let is_other = |list: &KnownList| list.number != known.number;
        if state.counts.lists != known.asked.counts.lists
            && state.list.as_ref().is_some_and(is_other)
        {
            // Another list came meanwhile. It is unknown which one is newer, so neither counts as current.
            state.start_epoch();
        }
        state.counts.lists += 1;
        state.list = Some(known);
    }

    pub(super) fn set_writes(&self, asked: AskedAt, known: KnownWrites) {
        let mut state = self.state.lock();
        // A notice in between may be newer than the answer, unless it says the same.
        let is_same = |(session, _, count)| (session, count) == (known.session, known.count);
        let is_current =
            state.counts.notices == asked.counts.notices || state.noticed.is_some_and(is_same);
        if state.counts.steps == asked.counts.steps && is_current {
            state.writes = Some(known);
        }
    }

    pub(super) fn set_kind(&self, asked: AskedAt, path: &RelativePath, kind: KnownKind) {
        let mut state = self.state.lock();
        let is_current =
            (state.counts.epoch, state.counts.locks) == (asked.counts.epoch, asked.counts.locks);
        if is_current && state.kinds.len() < KNOWN_KINDS_MAX {
            state.kinds.insert(path.clone(), kind);
        }
    }

    /// Notes the stamps of files that were read.
    pub(super) fn add_stamps<'p>(
        &self,
        asked: AskedAt,
        stamps: impl Iterator<Item = (&'p RelativePath, Stamp)>,
    ) {
        let mut state = self.state.lock();
        if state.counts.epoch != asked.counts.epoch {
            return;
        }
        if state.stamps.len() >= KNOWN_STAMPS_MAX {
            state.stamps.clear();
        }
        state.stamps.extend(stamps.map(|(path, stamp)| (path.clone(), (asked.time, stamp))));
    }

    /// Returns the stamps of files that were read or listed within the last second, if all are known.
    pub(super) fn recent_stamps(&self, paths: &[RelativePath]) -> Option<Vec<Stamp>> {
        let state = self.state.lock();
        let is_recent = |requested_at: Instant| requested_at.elapsed() < RECENT_AGE_MAX;
        let list = state.list.as_ref();
        let list = list.filter(|list| {
            list.asked.counts.epoch == state.counts.epoch && is_recent(list.asked.time)
        });
        let stamp = |path| {
            let read = state.stamps.get(path).filter(|(requested_at, _)| is_recent(*requested_at));
            let listed = || Some(list?.list.file(path)?.stat.stamp);
            read.map(|(_, stamp)| *stamp).or_else(listed)
        };
        paths.iter().map(stamp).collect()
    }

    /// Notes a notice of a connection: the present numbers of the list and of the writes.
    pub(super) fn noticed(&self, session: u64, list: u64, writes: Option<u64>) {
        let mut state = self.state.lock();
        let is_list = |known: &KnownList| known.session == session && known.number == list;
        let is_count = |known: KnownWrites| known.session == session && known.count == writes;
        // A notice about a write of this process mostly arrives after its effect was requested.
        let is_known =
            state.list.as_ref().is_some_and(is_list) && state.writes.is_none_or(is_count);
        let is_new =
            state.noticed.replace((session, list, writes)) != Some((session, list, writes));
        state.counts.notices += 1;
        if !is_known {
            state.start_epoch();
        }
        drop(state);
        if is_new {
            self.notify();
        }
    }

    /// Notes that the connection ended.
    pub(super) fn lost(&self) {
        self.notify();
    }

    fn notify(&self) {
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }
}
