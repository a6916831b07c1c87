//! The rule curator on stored memories: it reads a snapshot, runs the rules, and enters their edits into a draft.
//!
//! Parsed memories are cached between tasks, by file stamp. A memory that changes between the snapshot and the edit
//! is a conflict, and nothing of the draft may be committed then. The decisions themselves are in [`rules`].

use std::collections::{BTreeMap, HashMap};

use jiff::tz::TimeZone;
use memory::access::Access;
use memory::change::Trust;
use memory::clock::Clock;
use memory::command::{CommandError, MemoryCommand, Reply};
use memory::document;
use memory::path::{MemoryPath, Mount};
use memory::screen::Screen;
use parking_lot::{Mutex, MutexGuard};
use store::backend::Stamp;
use store::{Draft, MEMORY_LIST, Memories, MountState, ScannedMemory, StoreError, Unreviewed};
use strum::VariantArray as _;

use crate::cache::{CachedText, ParsedTextCache};
use crate::model_curator::{AgentError, quotes_prompt};
use crate::request::{
    CuratorEdit, DreamReport, ForgetReport, ForgetRequest, MemoryTopic, RememberError,
    RememberReport, RememberRequest,
};
use crate::review::{ReviewReport, ReviewRequest};
use crate::rules::{
    self, EntryDates, ParsedText, ReviewDecision, Snapshot, StoredMemory, TextChecks,
};

/// Failure of a curator. Nothing in its draft may be committed then.
#[derive(Debug, thiserror::Error)]
pub enum CurateError {
    /// The request cannot be carried out.
    #[error(transparent)]
    Refused(#[from] RememberError),
    /// A memory cannot be read, or an edit is not allowed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A model failed, or its edits would have done harm.
    #[error(transparent)]
    Agent(#[from] AgentError),
}

/// Returns the topic folders whose path is taken by something else, such as a link. A cloned repository that brings
/// one must not keep texts from being remembered.
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

/// The curator that decides by rules and shared words.
#[derive(Debug)]
pub struct RuleCurator<C> {
    screen: Screen,
    clock: C,
    time_zone: TimeZone,
    cache: Mutex<ParsedTextCache>,
}

impl<C: Clock> RuleCurator<C> {
    /// Creates a rule curator with these screening rules and this clock. The time zone decides which day `tomorrow`
    /// is.
    pub fn new(screen: Screen, clock: C, time_zone: TimeZone) -> Self {
        Self { screen, clock, time_zone, cache: Mutex::default() }
    }

    /// Returns the screening rules.
    pub(crate) const fn screen(&self) -> &Screen {
        &self.screen
    }

    fn cache(&self) -> MutexGuard<'_, ParsedTextCache> {
        self.cache.lock()
    }

    /// Reads all memories that rules may decide on. Files that are not text, too large, or deleted in the meantime
    /// are skipped.
    pub(crate) async fn snapshot(&self, memories: &Memories) -> Result<Snapshot, StoreError> {
        let mounts = memories.mounts();
        let writable: Vec<Mount> = mounts
            .iter()
            .filter(|mount| mount.unavailable.is_none() && mount.access == Access::ReadWrite)
            .map(|mount| mount.mount)
            .collect();
        let mut scanned = Box::pin(memories.scan_roots()).await?;
        let mut stored: Vec<StoredMemory> = Vec::with_capacity(scanned.len());
        let (mut occupied_paths, mut failed_reads) = (Vec::new(), Vec::new());
        let mut read_roots = Vec::new();
        for MountState { mount, key, .. } in mounts {
            let root_key = key.map(|key| key.place).unwrap_or_default();
            let (in_mount, rest) =
                scanned.into_iter().partition(|memory| memory.path.mount() == Some(mount));
            scanned = rest;
            let read = Box::pin(self.read_root(memories, &root_key, in_mount)).await;
            read_roots.push((root_key, stored.len(), read.stamps));
            stored.extend(read.memories);
            occupied_paths.extend(read.occupied_paths);
            failed_reads.extend(read.failed);
        }
        occupied_paths.extend(scanned.into_iter().map(|memory| memory.path));
        occupied_paths.extend(blocked_topic_folders(memories, &writable).await);
        // An unreviewed memory decides nothing. Only memories that travel with a repository can be unreviewed.
        set_trust(memories, &mut stored, |stored| stored.path.is_shared()).await?;
        let pending = memories.pending_reviews().await?;
        let reasons: HashMap<&MemoryPath, Unreviewed> =
            pending.iter().map(|waiting| (&waiting.path, waiting.reason)).collect();
        if !reasons.is_empty() {
            for memory in &mut stored {
                match reasons.get(&memory.path) {
                    Some(Unreviewed::Background) => memory.written_by_review = true,
                    Some(_) => memory.influenced = true,
                    None => {}
                }
            }
        }
        // Only now it is known which memories will be needed in parsed form.
        for (root_key, first, stamps) in read_roots {
            let of_root = stored.iter().skip(first).zip(stamps);
            let texts = of_root.filter_map(|(memory, stamp)| Some(CachedText::new(memory, stamp?)));
            let texts = texts.collect();
            self.cache().insert_root(&root_key, texts);
        }
        let (now, time_zone) = (self.clock.now(), self.time_zone.clone());
        Ok(Snapshot { memories: stored, occupied_paths, failed_reads, writable, now, time_zone })
    }

    /// Reads the memories of one root, from the cache where possible. A memory that cannot be read does not stop
    /// the others.
    async fn read_root(
        &self,
        memories: &Memories,
        root_key: &str,
        scanned: Vec<ScannedMemory>,
    ) -> ReadMemories {
        let mut result = ReadMemories::default();
        let (scanned, excess): (Vec<_>, Vec<_>) =
            scanned.into_iter().partition(|memory| !memory.exceeds_untrusted_limit);
        result.occupied_paths.extend(excess.into_iter().map(|memory| memory.path));
        let stamps = scanned.iter().map(|memory| (&memory.path, memory.stamp));
        let cached = self.cache().get_all(root_key, stamps);
        let missing = scanned.iter().zip(&cached).filter(|(_, cached)| cached.is_none());
        let missing: Vec<_> = missing.map(|(memory, _)| &memory.path).collect();
        let mut read = memories.read_many(&missing).await.into_iter();
        result.memories.reserve(scanned.len());
        for (ScannedMemory { path, stamp, pinned, .. }, cached) in scanned.into_iter().zip(cached) {
            let text = match cached {
                Some(text) => text,
                None => match read.next().expect("every memory missing in the cache is read") {
                    Ok(read) => ParsedText::from(read.text),
                    Err(error) => {
                        if !matches!(error, StoreError::Refused(_)) {
                            result.failed.push(path.clone());
                        }
                        result.occupied_paths.push(path);
                        continue;
                    }
                },
            };
            // A generated index repeats its memories.
            if path.relative().is_some_and(|relative| relative.as_str() == MEMORY_LIST)
                && document::is_generated_list(&text)
            {
                result.occupied_paths.push(path);
                continue;
            }
            let memory = StoredMemory {
                path,
                text,
                pinned,
                entry_dates: EntryDates::Unknown,
                trust: Trust::Outside,
                influenced: false,
                written_by_review: false,
            };
            result.memories.push(memory);
            result.stamps.push(stamp);
        }
        result.occupied_paths.sort_unstable();
        result
    }
}

/// The memories of a root that could be read, and the paths of the others.
#[derive(Default)]
struct ReadMemories {
    memories: Vec<StoredMemory>,
    /// Stamps of their files, in their order.
    stamps: Vec<Option<Stamp>>,
    /// Paths of files that are not among the memories.
    occupied_paths: Vec<MemoryPath>,
    /// The paths among them where reading failed and that may hold entries.
    failed: Vec<MemoryPath>,
}

impl<C: Clock> RuleCurator<C> {
    /// Puts the facts of a text into memories.
    pub(crate) async fn remember(
        &self,
        memories: &Memories,
        draft: &mut Draft,
        request: &RememberRequest,
    ) -> Result<RememberReport, CurateError> {
        let snapshot = self.snapshot(memories).await?;
        let remembered = rules::remember(&snapshot, request, &self.screen)?;
        apply_edits(draft, &snapshot, &remembered.edits).await?;
        Ok(remembered)
    }

    /// Removes the entries that a request asks for.
    pub(crate) async fn forget(
        &self,
        memories: &Memories,
        draft: &mut Draft,
        request: &ForgetRequest,
    ) -> Result<ForgetReport, CurateError> {
        let snapshot = self.snapshot(memories).await?;
        let forgotten = rules::forget(&snapshot, request);
        apply_edits(draft, &snapshot, &forgotten.edits).await?;
        Ok(forgotten)
    }

    /// Tidies memories.
    pub(crate) async fn dream(
        &self,
        memories: &Memories,
        draft: &mut Draft,
    ) -> Result<DreamReport, CurateError> {
        let mut snapshot = self.snapshot(memories).await?;
        set_trust(memories, &mut snapshot.memories, |_| true).await?;
        if snapshot.memories.iter().any(|stored| !stored.entries_with_relative_dates().is_empty()) {
            // Recorded once for all memories, because the dates of entries are read from history.
            memories.record_external_edits().await?;
        }
        for stored in &mut snapshot.memories {
            stored.entry_dates = entry_dates(memories, stored).await?;
        }
        let dreamt = rules::dream(&snapshot);
        apply_edits(draft, &snapshot, &dreamt.edits).await?;
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
        let findings = rules::review(&request.messages, snapshot.now, &snapshot.time_zone);
        let decisions = findings.into_iter().map(ReviewDecision::New).collect();
        let checks = TextChecks { screen: &self.screen, quotes_prompt };
        let reviewed =
            rules::apply_findings(&snapshot, request, decisions, (checks, BTreeMap::new()));
        apply_edits(draft, &snapshot, &reviewed.edits).await?;
        draft.set_note(reviewed.evidence_note.clone());
        Ok(reviewed)
    }

    /// Drops the cache.
    pub(crate) fn clear_cache(&self) {
        *self.cache() = ParsedTextCache::default();
    }
}

/// Sets the trust level of the memories that a predicate selects.
async fn set_trust(
    memories: &Memories,
    stored: &mut [StoredMemory],
    is_selected: impl Fn(&StoredMemory) -> bool,
) -> Result<(), StoreError> {
    let selected: Vec<&mut StoredMemory> =
        stored.iter_mut().filter(|memory| is_selected(memory)).collect();
    let texts: Vec<_> =
        selected.iter().map(|stored| (&stored.path, stored.text.revision())).collect();
    let trusted = memories.trust_levels(&texts).await?;
    for (stored, trust) in selected.into_iter().zip(trusted) {
        stored.trust = trust;
    }
    Ok(())
}

/// Returns the dates of those entries of a memory that have a relative date.
async fn entry_dates(memories: &Memories, stored: &StoredMemory) -> Result<EntryDates, StoreError> {
    let entries = stored.entries_with_relative_dates();
    if entries.is_empty() {
        return Ok(EntryDates::Unknown);
    }
    let dates = match memories.entry_dates(&stored.path, &entries).await {
        Ok(dates) => dates,
        // Deleted or unreadable since the snapshot: an edit of it is a conflict anyway.
        Err(StoreError::Refused(_)) => return Ok(EntryDates::Unknown),
        Err(error) => return Err(error),
    };
    let pairs = entries.into_iter().zip(dates);
    Ok(EntryDates::PerEntry(
        pairs.filter_map(|(entry, date)| Some((entry.to_owned(), date?))).collect(),
    ))
}

/// Enters edits into the draft; a memory that changed since the snapshot is a conflict.
pub(crate) async fn apply_edits(
    draft: &mut Draft,
    snapshot: &Snapshot,
    edits: &[CuratorEdit],
) -> Result<(), StoreError> {
    for edit in edits {
        let path = edit.path();
        let stored = snapshot.memories.iter().find(|stored| stored.path == *path);
        if draft.text_of(path).await?.as_deref() != stored.map(|stored| &*stored.text) {
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
