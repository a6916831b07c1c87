//! One root as this process knows it: its backend, and what is remembered of it between commands.
//!
//! Nothing remembered is the truth. It is used only while the root is held and the count of writes
//! says that no other process of Quipu wrote, and brought up to date from the state otherwise; what
//! an editor or git did is found by looking at the files.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memory::change::{ChangeId, RootKey, Trust};
use memory::clock::Timestamp;
use memory::command::{CommandError, Warning};
use memory::document::Revision;
use memory::limits::{CENSUS_AGE_MAX, HEAD_BYTES_MAX, LOCK_WAIT, MEMORY_BYTES_MAX};
use memory::path::{MemoryPath, Mount, RelativePath};
use state::{ChangeQuery, Head};

use crate::backend::{Backend, BackendError, Extent, Held, Kind, LastWrite, Stamp};
use crate::commit;
use crate::error::StoreError;
use crate::memories::{Answering, Store};
use crate::view::FileHead;
use crate::workspace::CheckoutRecord;

/// The name of the generated listing at the top of a root that has one.
pub const MEMORY_LIST: &str = "MEMORY.md";

/// How many changes of others are read at once.
const ANNOUNCED_AT_ONCE: i64 = 128;

/// One root.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) mount: Mount,
    pub(crate) key: RootKey,
    pub(crate) backend: Arc<dyn Backend>,
    /// Whether `MEMORY.md` at its top is generated.
    pub(crate) has_list: bool,
    /// The record of the checkout that a workspace belongs to.
    checkout: Option<CheckoutRecord>,
    known: Mutex<Known>,
    /// Whether this process has looked for a write that did not end.
    looked: AtomicBool,
    /// Counts the looks that watchers had begun; one looks at a time.
    looks: AtomicU64,
    pub(crate) looking: tokio::sync::Mutex<()>,
}

/// What is remembered of a root.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The count of writes up to which `heads` and `census` are right.
    generation: Option<u64>,
    /// The last change in `heads`.
    last: ChangeId,
    /// The change up to which those who listen need not be told of others' changes: they were, or nobody
    /// had looked yet.
    told: Option<ChangeId>,
    /// What was last recorded of each memory.
    heads: HashMap<RelativePath, Head>,
    census: Option<Census>,
    /// Descriptions, by the version of the file that they were read from.
    pub(crate) documents: HashMap<RelativePath, (Stamp, Arc<FileHead>)>,
    /// What screening objects to, by the version of the file that it was found in.
    pub(crate) objections: HashMap<RelativePath, (Stamp, Arc<[Warning]>)>,
    /// Revisions, by the version of the file that they were worked out from.
    pub(crate) revisions: HashMap<RelativePath, (Stamp, Revision)>,
}

/// The names in a root, for what only a look at all of them can tell.
#[derive(Debug)]
struct Census {
    taken_at: Timestamp,
    /// How long it may be believed: counting may take a fiftieth of the time at most.
    lasts: Duration,
    /// Every file and folder by its case-folded path.
    folded: HashMap<String, RelativePath>,
}

impl Census {
    fn is_fresh(&self, now: Timestamp) -> bool {
        let age = now.duration_since(self.taken_at);
        !age.is_negative() && age.unsigned_abs() < self.lasts
    }

    fn add(&mut self, path: &RelativePath) {
        let mut at = Some(path.clone());
        while let Some(path) = at {
            at = path.parent();
            self.folded.entry(path.folded()).or_insert(path);
        }
    }

    fn remove(&mut self, path: &RelativePath) {
        self.folded.remove(&path.folded());
    }

    /// Returns whether everything at or below `path` leaves: each file itself, each folder with a file in it.
    fn empties(&self, path: &RelativePath, leaving: &[&RelativePath]) -> bool {
        let mut below = self.folded.values().filter(|known| known.is_within(path));
        below.all(|known| leaving.iter().any(|left| known.is_within(left) || left.is_within(known)))
    }
}

impl Root {
    pub(crate) fn new(
        mount: Mount,
        key: RootKey,
        backend: Arc<dyn Backend>,
        has_list: bool,
    ) -> Self {
        Self {
            mount,
            key,
            backend,
            has_list,
            checkout: None,
            known: Mutex::default(),
            looked: AtomicBool::new(false),
            looks: AtomicU64::new(0),
            looking: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the same root, which records the checkout that it belongs to when it is written to.
    pub(crate) fn recording(self, checkout: Option<CheckoutRecord>) -> Self {
        Self { checkout, ..self }
    }

    /// Writes that record, if there is one.
    pub(crate) fn record_checkout(&self) {
        if let Some(checkout) = &self.checkout {
            checkout.write();
        }
    }

    /// Returns what is remembered. Only for a moment: never over an `.await`.
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that there is no root, with what was last recorded of it.
    pub(crate) fn note_missing(&self, heads: Vec<Head>) {
        let mut known = self.known();
        for head in heads {
            known.take_head(head);
        }
        known.told = Some(known.last);
    }

    /// Sees to it, once in the life of this process, that a write which somebody did not end is ended
    /// before anybody reads. What keeps that from happening must not keep anybody from reading, and a writer that is at
    /// work, or was stopped in the middle of it, is not waited for.
    pub(crate) async fn make_whole(self: &Arc<Self>, store: &Store) {
        if self.looked.swap(true, Ordering::Relaxed) || !self.may_be_interrupted(store).await {
            return;
        }
        match self.hold_if_free(store).await {
            Ok(Some(_)) => {}
            // Who reads next looks again.
            Ok(None) => self.looked.store(false, Ordering::Relaxed),
            Err(error) => {
                tracing::warn!(%error, "an interrupted write could not be completed before reading");
            }
        }
    }

    /// Returns whether a write may not have ended, or a power cut may have taken what was written.
    pub(crate) async fn may_be_interrupted(&self, store: &Store) -> bool {
        match self.backend.last_write().await {
            LastWrite::Ended => false,
            LastWrite::Interrupted => true,
            LastWrite::Unknown => {
                let open = store.state.open_changes(&self.key.place).await;
                open.is_ok_and(|open| !open.is_empty())
            }
        }
    }

    /// Returns how many looks watchers had.
    #[cfg(test)]
    pub(crate) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Looks for what was changed outside, unless somebody who began after this was called has: however many
    /// watch a root, what happens there is looked at once, or once more.
    pub(crate) async fn look(self: &Arc<Self>, store: &Store) -> Result<usize, StoreError> {
        let begun = self.looks.load(Ordering::Relaxed);
        let _turn = self.looking.lock().await;
        if self.looks.load(Ordering::Relaxed) > begun {
            return Ok(0);
        }
        self.looks.fetch_add(1, Ordering::Relaxed);
        crate::notice::notice(store, self).await
    }

    /// Returns the revision of a memory; its file is read only if that is not known of this version of it. `None` if it is
    /// larger than a memory may be.
    pub(crate) async fn revision(
        &self,
        path: &RelativePath,
        stamp: Option<Stamp>,
    ) -> Result<Option<Revision>, BackendError> {
        let known = self.known().revisions.get(path).copied();
        if let Some((of, revision)) = known
            && Some(of) == stamp
        {
            return Ok(Some(revision));
        }
        let read = self.backend.read(path, MEMORY_BYTES_MAX).await?;
        if !read.is_whole() {
            return Ok(None);
        }
        let revision = Revision::of(&read.bytes);
        if !read.stat.recent {
            self.known().revisions.insert(path.clone(), (read.stat.stamp, revision));
        }
        Ok(Some(revision))
    }

    /// Returns whether a path is that of the generated listing.
    pub(crate) fn is_list(&self, path: &RelativePath) -> bool {
        self.has_list && path.as_str() == MEMORY_LIST
    }

    /// Returns whether there is a file at the path of the generated listing.
    pub(crate) async fn has_own_list(&self) -> Result<bool, BackendError> {
        let Some(path) = RelativePath::parse(MEMORY_LIST).ok().filter(|_| self.has_list) else {
            return Ok(false);
        };
        Ok(self.backend.kind(&path).await? == Some(Kind::File))
    }

    /// Checks that a path is not that of the generated listing. A file of somebody's own by that name,
    /// without the mark that a generated one begins with, is a memory like any other.
    pub(crate) async fn check_no_list(
        &self,
        path: &MemoryPath,
        relative: &RelativePath,
    ) -> Result<(), StoreError> {
        if !self.is_list(relative) {
            return Ok(());
        }
        match self.backend.read(relative, HEAD_BYTES_MAX).await {
            Ok(read) if !crate::settle::is_our_list(&read.bytes) => Ok(()),
            // Where there is none, one is about to be made.
            Ok(_) | Err(_) => Err(CommandError::Generated { path: path.clone() }.into()),
        }
    }

    /// Holds the root for writing. A write that somebody did not end is ended first.
    pub(crate) fn hold<'a>(self: &'a Arc<Self>, store: &'a Store) -> Answering<'a, HeldRoot> {
        Box::pin(async {
            self.make_state(store);
            let held = self.backend.lock(LOCK_WAIT).await.map_err(StoreError::at(self.mount))?;
            self.held(store, held).await
        })
    }

    /// The same, if nobody else holds it.
    fn hold_if_free<'a>(self: &'a Arc<Self>, store: &'a Store) -> Answering<'a, Option<HeldRoot>> {
        Box::pin(async {
            self.make_state(store);
            let held = self.backend.lock_if_free().await.map_err(StoreError::at(self.mount))?;
            let Some(held) = held else { return Ok(None) };
            self.held(store, held).await.map(Some)
        })
    }

    fn make_state(&self, store: &Store) {
        if self.backend.folder().is_none() {
            // No lock file of this machine makes the folder on its way.
            store.folders.make_state();
        }
    }

    async fn held(
        self: &Arc<Self>,
        store: &Store,
        held: Box<dyn Held>,
    ) -> Result<HeldRoot, StoreError> {
        let mut held = HeldRoot { root: Arc::clone(self), held };
        if held.held.was_interrupted() {
            crate::settle::recover(store, &mut held).await?;
        }
        held.refresh(store).await?;
        Ok(held)
    }
}

/// A root held for writing.
#[derive(Debug)]
pub(crate) struct HeldRoot {
    pub(crate) root: Arc<Root>,
    pub(crate) held: Box<dyn Held>,
}

impl HeldRoot {
    /// Brings what is remembered up to date with what other processes recorded.
    pub(crate) async fn refresh(&self, store: &Store) -> Result<(), StoreError> {
        let generation = self.held.generation();
        let last = {
            let known = self.root.known();
            if known.generation == Some(generation) {
                return Ok(());
            }
            known.last
        };
        let heads = store.state.heads(&self.root.key.place, last).await?;
        if last == ChangeId(0) && heads.is_empty() {
            // The root is new, or the state that knew it is lost; it had given numbers then.
            if let Some(given) = store.highest_completed().await {
                store.state.number_above(given).await?;
            }
        }
        let (told, newest) = {
            let mut known = self.root.known();
            for head in heads {
                known.take_head(head);
            }
            (known.told, known.last)
        };
        match told {
            Some(told) if store.is_heard() => self.announce(store, told, newest).await?,
            _ => self.root.known().told = Some(newest),
        }
        self.root.known().generation = Some(generation);
        Ok(())
    }

    /// Tells those who listen of the changes that other processes made after one, in order. Heads would not
    /// do: a memory that was changed twice has one.
    async fn announce(
        &self,
        store: &Store,
        mut after: ChangeId,
        newest: ChangeId,
    ) -> Result<(), StoreError> {
        while after < newest {
            let end = ChangeId(newest.0.min(after.0.saturating_add(ANNOUNCED_AT_ONCE)));
            let query = ChangeQuery {
                places: vec![self.root.key.place.clone()],
                after: Some(after),
                before: Some(ChangeId(end.0.saturating_add(1))),
                max: usize::MAX,
                ..ChangeQuery::default()
            };
            for mut change in store.state.changes(&query).await?.into_iter().rev() {
                change.files.retain(|file| file.root == self.root.key);
                commit::announce(store, change.id, change.kind, &change.provenance, &change.files);
            }
            after = end;
            self.root.known().told = Some(after);
        }
        Ok(())
    }

    /// Takes in what this process has just written and recorded.
    pub(crate) fn wrote(&self, heads: impl IntoIterator<Item = Head>) {
        let mut known = self.root.known();
        for head in heads {
            known.take_head(head);
        }
        known.told = Some(known.last);
        known.generation = Some(self.held.generation());
    }

    /// Forgets what is remembered, but not what was told: the next command looks again.
    pub(crate) fn forget(&self) {
        let mut known = self.root.known();
        *known = Known { told: known.told, ..Known::default() };
    }

    /// Returns what was last recorded of a memory.
    pub(crate) fn head(&self, path: &RelativePath) -> Option<Head> {
        self.root.known().heads.get(path).cloned()
    }

    /// Returns how far the text of a memory may be trusted; what nobody recorded came from outside.
    pub(crate) fn trust(&self, path: &RelativePath) -> Trust {
        self.head(path).map_or(Trust::Outside, |head| head.trust)
    }

    /// Returns a path that differs from `path`, or from a folder on its way, only in case. Paths that leave
    /// with the same change do not count.
    pub(crate) async fn differs_only_in_case(
        &self,
        store: &Store,
        path: &RelativePath,
        leaving: &[&RelativePath],
    ) -> Result<Option<RelativePath>, StoreError> {
        self.take_census(store, Look::Remembered).await?;
        if self.alike(path, leaving).is_none() {
            return Ok(None);
        }
        // What is remembered may be a folder that is gone: look before refusing.
        self.take_census(store, Look::Again).await?;
        Ok(self.alike(path, leaving))
    }

    fn alike(&self, path: &RelativePath, leaving: &[&RelativePath]) -> Option<RelativePath> {
        let known = self.root.known();
        let census = known.census.as_ref()?;
        let mut at = Some(path.clone());
        while let Some(path) = at {
            at = path.parent();
            if let Some(other) = census.folded.get(&path.folded())
                && *other != path
                && !census.empties(other, leaving)
            {
                return Some(other.clone());
            }
        }
        None
    }

    async fn take_census(&self, store: &Store, look: Look) -> Result<(), StoreError> {
        let started = store.clock.now();
        let fresh = self.root.known().census.as_ref().is_some_and(|c| c.is_fresh(started));
        if fresh && look == Look::Remembered {
            return Ok(());
        }
        let walk = self.root.backend.walk(None, Extent::ALL).await;
        let walk = walk.map_err(StoreError::at(self.root.mount))?;
        let cost = store.clock.now().duration_since(started).unsigned_abs();
        let mut census = Census {
            taken_at: started,
            lasts: CENSUS_AGE_MAX.max(cost.saturating_mul(50)),
            folded: HashMap::with_capacity(walk.files.len()),
        };
        for folder in walk.folders {
            census.folded.insert(folder.path.folded(), folder.path);
        }
        for file in walk.files.iter().filter(|file| !self.root.is_list(&file.path)) {
            census.add(&file.path);
        }
        self.root.known().census = Some(census);
        Ok(())
    }
}

/// Whether to believe what is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// As long as it is fresh.
    Remembered,
    /// Look again.
    Again,
}

impl Known {
    fn take_head(&mut self, head: Head) {
        self.last = self.last.max(head.change);
        let known = self.heads.get(&head.path);
        if known.is_some_and(|known| known.change > head.change) {
            return;
        }
        let was_there = known.is_some_and(|known| known.revision.is_some());
        if let Some(census) = &mut self.census {
            match (&head.revision, was_there) {
                (Some(_), false) => {
                    if census.folded.get(&head.path.folded()) != Some(&head.path) {
                        census.add(&head.path);
                    }
                }
                (None, _) => census.remove(&head.path),
                (Some(_), true) => {}
            }
        }
        self.heads.insert(head.path.clone(), head);
    }

    /// Returns every memory that was last recorded as being there.
    pub(crate) fn recorded(&self) -> impl Iterator<Item = &Head> {
        self.heads.values().filter(|head| head.revision.is_some())
    }

    /// Returns what was last recorded of a memory, be it there or gone.
    pub(crate) fn head(&self, path: &RelativePath) -> Option<&Head> {
        self.heads.get(path)
    }
}
