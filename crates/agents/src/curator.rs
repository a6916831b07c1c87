//! The rules on stored memories: what they decide is entered into a draft.

use std::collections::{BTreeMap, HashSet};

use jiff::tz::TimeZone;
use memory::access::Access;
use memory::change::Trust;
use memory::clock::Clock;
use memory::command::{CommandError, MemoryCommand, Reply};
use memory::document::{self, Revision};
use memory::path::{MemoryPath, Mount};
use memory::screen::Screen;
use parking_lot::{Mutex, MutexGuard};
use store::{Draft, MEMORY_LIST, Memories, MountState, ScannedMemory, StoreError, Unreviewed};
use strum::VariantArray as _;

use crate::cache::ParsedTextCache;
use crate::model_curator::{AgentError, quotes_prompt};
use crate::request::{
    CuratorEdit, DreamReport, ForgetReport, ForgetRequest, MemoryTopic, RememberError,
    RememberReport, RememberRequest,
};
use crate::review::{ReviewReport, ReviewRequest};
use crate::rules::{
    self, EntryDates, ParsedText, ReviewDecision, Snapshot, StoredMemory, TextChecks,
};

/// Why a curator did not finish. Nothing that its draft holds may be committed then.
#[derive(Debug, thiserror::Error)]
pub enum CurateError {
    /// The request itself cannot be met.
    #[error(transparent)]
    Refused(#[from] RememberError),
    /// Memories cannot be read, or an edit is not allowed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A model did not do it, or would have done harm.
    #[error(transparent)]
    Agent(#[from] AgentError),
}

/// Returns the names of new memories' folders at which something else stands, such as a link: what a clone brings keeps
/// nothing from being remembered.
async fn blocked_topic_folders(memories: &Memories, writable: &[Mount]) -> Vec<MemoryPath> {
    let mut found = Vec::new();
    for mount in writable {
        for topic in MemoryTopic::VARIANTS {
            let Ok(path) = MemoryPath::Root(*mount).join(topic.as_ref()) else { continue };
            if memories.is_not_a_folder(&path).await {
                found.push(path);
            }
        }
    }
    found
}

/// The curator of rules and shared words.
#[derive(Debug)]
pub struct RuleCurator<C> {
    screen: Screen,
    clock: C,
    time_zone: TimeZone,
    cache: Mutex<ParsedTextCache>,
}

impl<C: Clock> RuleCurator<C> {
    /// Returns a curator that screens by these policies, tells the time by this clock, and takes `tomorrow` for the day
    /// after this one in this time zone.
    pub fn new(screen: Screen, clock: C, time_zone: TimeZone) -> Self {
        Self { screen, clock, time_zone, cache: Mutex::default() }
    }

    /// Returns the screening rules.
    pub(crate) const fn screen(&self) -> &Screen {
        &self.screen
    }

    fn cache(&self) -> MutexGuard<'_, ParsedTextCache> {
        // What is kept is whole at every moment.
        self.cache.lock()
    }

    /// Reads everything that may be decided on. What is no text, or too large, or gone since it was found,
    /// is passed over.
    pub(crate) async fn snapshot(&self, memories: &Memories) -> Result<Snapshot, StoreError> {
        let mounts = memories.mounts();
        let writable: Vec<Mount> = mounts
            .iter()
            .filter(|mount| mount.unavailable.is_none() && mount.access == Access::ReadWrite)
            .map(|mount| mount.mount)
            .collect();
        let mut surveyed = Box::pin(memories.scan_roots()).await?;
        let paths: Vec<MemoryPath> = surveyed.iter().map(|one| one.path.clone()).collect();
        surveyed.retain(|one| !one.exceeds_untrusted_limit);
        let mut stored: Vec<StoredMemory> = Vec::with_capacity(surveyed.len());
        let mut unsearched = Vec::new();
        for MountState { mount, key, .. } in mounts {
            let place = key.map(|key| key.place).unwrap_or_default();
            let (here, rest) =
                surveyed.into_iter().partition(|one| one.path.mount() == Some(mount));
            surveyed = rest;
            stored.extend(Box::pin(self.read_root(memories, &place, here, &mut unsearched)).await);
        }
        let read: HashSet<&MemoryPath> = stored.iter().map(|one| &one.path).collect();
        let unread = paths.into_iter().filter(|path| !read.contains(path));
        let in_the_way = blocked_topic_folders(memories, &writable).await;
        let unread = unread.chain(in_the_way).collect();
        // What nobody here reviewed decides nothing, and only what travels with a repository may be such.
        set_trust(memories, &mut stored, |stored| stored.path.is_shared()).await?;
        for waiting in memories.pending_reviews().await? {
            for one in stored.iter_mut().filter(|one| one.path == waiting.path) {
                match waiting.reason {
                    Unreviewed::Background => one.written_by_review = true,
                    _ => one.influenced = true,
                }
            }
        }
        let (now, time_zone) = (self.clock.now(), self.time_zone.clone());
        Ok(Snapshot {
            memories: stored,
            occupied_paths: unread,
            failed_reads: unsearched,
            writable,
            now,
            time_zone,
        })
    }

    /// Reads the memories of one root, those on the shelf from there. One that the machine fails to read does not
    /// keep the others from being decided on; it is added to `unsearched`.
    async fn read_root(
        &self,
        memories: &Memories,
        place: &str,
        surveyed: Vec<ScannedMemory>,
        unsearched: &mut Vec<MemoryPath>,
    ) -> Vec<StoredMemory> {
        let known: Vec<Option<ParsedText>> = {
            let mut read_before = self.cache();
            let find = |one: &ScannedMemory| read_before.get(place, &one.path, one.stamp?);
            surveyed.iter().map(find).collect()
        };
        let unknown = surveyed.iter().zip(&known).filter(|(_, known)| known.is_none());
        let unknown: Vec<_> = unknown.map(|(one, _)| &one.path).collect();
        let mut read = memories.read_many(&unknown).await.into_iter();
        let mut stored = Vec::with_capacity(surveyed.len());
        let mut kept = Vec::with_capacity(surveyed.len());
        for (ScannedMemory { path, stamp, pinned, .. }, known) in surveyed.into_iter().zip(known) {
            let text = match known {
                Some(text) => text,
                None => match read.next().expect("what is unknown is read") {
                    Ok(read) => ParsedText::from(read.text),
                    Err(StoreError::Refused(_)) => continue,
                    Err(_) => {
                        unsearched.push(path);
                        continue;
                    }
                },
            };
            // A listing that was generated says nothing that its memories do not.
            if path.relative().is_some_and(|relative| relative.as_str() == MEMORY_LIST)
                && document::is_generated_list(&text)
            {
                continue;
            }
            kept.extend(stamp.map(|stamp| (path.clone(), stamp, text.clone())));
            let (written, trust) = (EntryDates::Unknown, Trust::Outside);
            stored.push(StoredMemory {
                path,
                text,
                pinned,
                entry_dates: written,
                trust,
                influenced: false,
                written_by_review: false,
            });
        }
        self.cache().insert_root(place, kept);
        stored
    }

    /// Lets go of a snapshot when everything is decided.
    fn release_snapshot(&self, snapshot: Snapshot) {
        drop(snapshot);
        self.cache().drop_tokens();
    }
}

impl<C: Clock> RuleCurator<C> {
    /// Takes a text in.
    pub(crate) async fn remember(
        &self,
        memories: &Memories,
        draft: &mut Draft,
        request: &RememberRequest,
    ) -> Result<RememberReport, CurateError> {
        let snapshot = self.snapshot(memories).await?;
        let remembered = rules::remember(&snapshot, request, &self.screen)?;
        apply_edits(draft, &snapshot, &remembered.edits).await?;
        self.release_snapshot(snapshot);
        Ok(remembered)
    }

    /// Removes what is asked for.
    pub(crate) async fn forget(
        &self,
        memories: &Memories,
        draft: &mut Draft,
        request: &ForgetRequest,
    ) -> Result<ForgetReport, CurateError> {
        let snapshot = self.snapshot(memories).await?;
        let forgotten = rules::forget(&snapshot, request);
        apply_edits(draft, &snapshot, &forgotten.edits).await?;
        self.release_snapshot(snapshot);
        Ok(forgotten)
    }

    /// Tidies up.
    pub(crate) async fn dream(
        &self,
        memories: &Memories,
        draft: &mut Draft,
    ) -> Result<DreamReport, CurateError> {
        let mut snapshot = self.snapshot(memories).await?;
        set_trust(memories, &mut snapshot.memories, |_| true).await?;
        if snapshot.memories.iter().any(|stored| !stored.entries_with_relative_dates().is_empty()) {
            // Recorded once for all memories: when an entry was written is read from history.
            memories.record_external_edits().await?;
        }
        for stored in &mut snapshot.memories {
            stored.entry_dates = entry_dates(memories, stored).await?;
        }
        let dreamt = rules::dream(&snapshot);
        apply_edits(draft, &snapshot, &dreamt.edits).await?;
        self.release_snapshot(snapshot);
        Ok(dreamt)
    }

    /// Reviews a conversation.
    pub(crate) async fn review(
        &self,
        memories: &Memories,
        draft: &mut Draft,
        request: &ReviewRequest,
    ) -> Result<ReviewReport, CurateError> {
        let snapshot = self.snapshot(memories).await?;
        let found = rules::review(&request.messages, snapshot.now, &snapshot.time_zone);
        let found = found.into_iter().map(ReviewDecision::New).collect();
        let checks = TextChecks { screen: &self.screen, quotes_prompt };
        let reviewed = rules::apply_findings(&snapshot, request, found, (checks, BTreeMap::new()));
        apply_edits(draft, &snapshot, &reviewed.edits).await?;
        draft.set_note(reviewed.evidence_note.clone());
        self.release_snapshot(snapshot);
        Ok(reviewed)
    }

    /// Lets go of what is kept only so that the next one takes less time.
    pub(crate) fn clear_cache(&self) {
        *self.cache() = ParsedTextCache::default();
    }
}

/// Sets how far some of these memories may be trusted.
async fn set_trust(
    memories: &Memories,
    stored: &mut [StoredMemory],
    is_wanted: impl Fn(&StoredMemory) -> bool,
) -> Result<(), StoreError> {
    let wanted: Vec<&mut StoredMemory> = stored.iter_mut().filter(|one| is_wanted(one)).collect();
    let revision = |stored: &StoredMemory| Revision::digest(stored.text.as_bytes());
    let texts: Vec<_> = wanted.iter().map(|stored| (&stored.path, revision(stored))).collect();
    let trusted = memories.trust_levels(&texts).await?;
    for (stored, trust) in wanted.into_iter().zip(trusted) {
        stored.trust = trust;
    }
    Ok(())
}

/// When those entries of a memory were written that point at a day without naming it.
async fn entry_dates(memories: &Memories, stored: &StoredMemory) -> Result<EntryDates, StoreError> {
    let entries = stored.entries_with_relative_dates();
    if entries.is_empty() {
        return Ok(EntryDates::Unknown);
    }
    let came = match memories.entry_dates(&stored.path, &entries).await {
        Ok(came) => came,
        // It is gone or has become unreadable since; what is decided on it is a conflict anyway.
        Err(StoreError::Refused(_)) => return Ok(EntryDates::Unknown),
        Err(error) => return Err(error),
    };
    let known = entries.into_iter().zip(came);
    Ok(EntryDates::PerEntry(
        known.filter_map(|(entry, at)| Some((entry.to_owned(), at?))).collect(),
    ))
}

/// Enters the edits into the draft, if each memory is still as the decision knew it.
pub(crate) async fn apply_edits(
    draft: &mut Draft,
    snapshot: &Snapshot,
    edits: &[CuratorEdit],
) -> Result<(), StoreError> {
    for edit in edits {
        let path = edit.path();
        let known = snapshot.memories.iter().find(|stored| stored.path == *path);
        if draft.text_of(path).await?.as_deref() != known.map(|stored| &*stored.text) {
            return Err(CommandError::Conflict { path: path.clone(), current: None }.into());
        }
        match edit {
            CuratorEdit::Write { path, text } => draft.set_text(path, text).await?,
            CuratorEdit::Remove { path } => {
                let reply = draft.apply(MemoryCommand::Delete { path: path.clone() }).await?;
                if let Reply::Refused(refusal) = reply {
                    return Err(refusal.into());
                }
            }
        }
    }
    Ok(())
}
