//! The dream of the rule curator: tidies memories, and proposes uncertain changes to a person.
//!
//! It merges duplicates, resolves relative dates and writes missing descriptions. An entry is removed only if another
//! one has the same normalized text below the same headings, in the same file or in one whose name differs by a number.
//! A memory without entries left is removed. Entries that may repeat, replace or contradict each other, that expired, or
//! that are private in a shared repository become proposals. Memories with merge conflict markers are not changed; the
//! summary names them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use jiff::civil::Date;
use memory::change::Trust;
use memory::document::{self, conflict_line, replace_entry};
use memory::path::{MemoryPath, Mount, Scope};
use memory::proposal::{EntryChange, EntryReference, Proposal, ProposalKind};

use super::classify;
use super::dates;
use super::duplicate::{NormalizedText, has_blocks, is_duplicate, is_fragment};
use super::frontmatter::{first_words, has_generated_description, with_missing_description};
use super::lexicon::Class;
use super::remember::entry_outcome;
use super::similarity::{self, DocumentFrequencies, EntryRelation};
use super::snapshot::{ParsedEntry, ParsedText, Snapshot, StoredMemory};
use crate::request::{CuratorEdit, DreamReport, EntryAction, EntryOutcome, MemoryTopic};

/// Maximum number of memories that one dream changes, so that a person can review the dream.
const CHANGED_MAX: usize = 20;

/// Maximum net growth of all memories together, in percent.
const GROWTH_PERCENT_MAX: usize = 2;

/// Maximum number of proposals of one dream.
const DREAM_PROPOSALS_MAX: usize = 50;

/// Entries are not paired by a word that more than this number of others have: it shows a shared subject, not a shared
/// statement.
const PAIRING_ENTRIES_MAX: usize = 30;

/// Minimum number of shared words for two entries to be compared.
const SHARED_WORDS_MIN: usize = 2;

/// Decides the edits and proposals of a dream.
pub fn dream(snapshot: &Snapshot) -> DreamReport {
    let conflicts: Vec<&MemoryPath> = snapshot
        .memories
        .iter()
        .filter(|stored| conflict_line(&stored.text).is_some())
        .map(|stored| &stored.path)
        .collect();
    let memories: Vec<&StoredMemory> =
        snapshot.memories.iter().filter(|stored| !conflicts.contains(&&stored.path)).collect();
    let mut plan = DreamPlan {
        snapshot,
        texts: BTreeMap::new(),
        counts: DreamCounts::default(),
        changes: Vec::new(),
    };
    let merged = merge_duplicates(&memories, &mut plan);
    let growth_max =
        memories.iter().map(|stored| stored.text.len()).sum::<usize>() * GROWTH_PERCENT_MAX / 100;
    let mut room = growth_max + plan.counts.saved_bytes;
    for stored in &memories {
        plan.resolve_dates(stored, &mut room);
    }
    for stored in &memories {
        plan.describe(stored, &mut room);
    }
    let proposals = all_proposals(&memories, &merged, snapshot);
    plan.finish(&memories, proposals, &conflicts)
}

#[derive(Default)]
struct DreamCounts {
    merged: usize,
    dated: usize,
    described: usize,
    deferred: usize,
    /// Bytes saved by merging.
    saved_bytes: usize,
}

/// The decisions of a dream so far.
struct DreamPlan<'a> {
    snapshot: &'a Snapshot,
    /// New texts of memories.
    texts: BTreeMap<&'a MemoryPath, String>,
    counts: DreamCounts,
    changes: Vec<EntryOutcome>,
}

/// Index of a memory and of an entry in it.
type EntryIndex = (usize, usize);

/// Removes entries that another one repeats, and returns their indexes.
fn merge_duplicates<'a>(
    memories: &[&'a StoredMemory],
    plan: &mut DreamPlan<'a>,
) -> BTreeSet<EntryIndex> {
    let mut by_text: HashMap<&NormalizedText, Vec<EntryIndex>> = HashMap::new();
    let reviewed = memories.iter().enumerate().filter(|(_, stored)| !stored.is_unreviewed());
    for (memory, stored) in reviewed {
        for (index, note) in stored.text.parsed().entries.iter().enumerate() {
            by_text.entry(&note.normalized).or_default().push((memory, index));
        }
    }
    let entry = |(memory, index): EntryIndex| {
        (memories[memory], &memories[memory].text.parsed().entries[index])
    };
    let mut duplicates: BTreeSet<EntryIndex> = BTreeSet::new();
    for indexes in by_text.values().filter(|indexes| indexes.len() > 1) {
        let mut order = indexes.clone();
        // The entry to keep comes first: accepted, pinned, most trusted, with the shortest path. A memory
        // that a review wrote can still be rejected, even if pinned, so it must not hold the only copy.
        order.sort_by_key(|&(memory, index)| {
            let StoredMemory { path, pinned, trust, written_by_review: by_review, .. } =
                memories[memory];
            (*by_review, !pinned, std::cmp::Reverse(*trust), path.to_string().len(), memory, index)
        });
        let mut kept: Vec<EntryIndex> = Vec::new();
        for index in order {
            let is_same = kept.iter().any(|&kept| is_duplicate(entry(kept), entry(index)));
            if is_same && plan.snapshot.may_edit(memories[index.0]) {
                duplicates.insert(index);
            } else {
                kept.push(index);
            }
        }
    }
    let mut merged = BTreeSet::new();
    for (memory, stored) in memories.iter().enumerate() {
        let of_memory: Vec<usize> =
            duplicates.range((memory, 0)..(memory + 1, 0)).map(|(_, index)| *index).collect();
        // Metadata that is not derived from entries must not be removed with the last one.
        let is_emptied = of_memory.len() == stored.text.parsed().entries.len();
        if is_emptied && has_own_metadata(stored) {
            continue;
        }
        if of_memory.is_empty() || !plan.can_change_more() {
            plan.counts.deferred += usize::from(!of_memory.is_empty());
            continue;
        }
        let entries = &stored.text.parsed().entries;
        let text = stored.text_without(of_memory.iter().map(|index| &entries[*index]));
        plan.counts.saved_bytes += stored.text.len() - text.len();
        plan.counts.merged += of_memory.len();
        for index in of_memory {
            plan.changes.push(entry_outcome(
                &stored.path,
                EntryAction::Merged,
                entries[index].full_text(),
            ));
            merged.insert((memory, index));
        }
        plan.texts.insert(&stored.path, text);
    }
    merged
}

/// Checks whether a memory has a description or fields that are not derived from its entries.
pub(crate) fn has_own_metadata(stored: &StoredMemory) -> bool {
    let head = &stored.text.parsed().header;
    let is_own = !head.description.is_empty() && !has_generated_description(stored);
    document::has_other_fields(&stored.text) || is_own
}

impl<'a> DreamPlan<'a> {
    fn can_change_more(&self) -> bool {
        self.texts.len() < CHANGED_MAX
    }

    /// Returns a memory with its current text, if it may be edited.
    fn current(&self, stored: &'a StoredMemory) -> Option<StoredMemory> {
        let changed = self.texts.get(&stored.path);
        if !self.snapshot.may_edit(stored) {
            return None;
        }
        let text =
            changed.map_or_else(|| stored.text.clone(), |text| ParsedText::from(text.as_str()));
        Some(StoredMemory { text, ..stored.clone() })
    }

    /// Sets the text of a memory, if the limits allow it. Returns whether they do.
    fn set_text(
        &mut self,
        stored: &'a StoredMemory,
        before: usize,
        text: String,
        room: &mut usize,
    ) -> bool {
        let grown = text.len().saturating_sub(before);
        if (!self.can_change_more() && !self.texts.contains_key(&stored.path)) || grown > *room {
            self.counts.deferred += 1;
            return false;
        }
        *room -= grown;
        self.texts.insert(&stored.path, text);
        true
    }

    /// Resolves the relative dates in a memory's entries, by the time each was written.
    fn resolve_dates(&mut self, stored: &'a StoredMemory, room: &mut usize) {
        let Some(current) = self.current(stored) else { return };
        let (mut text, mut changes) = (current.text.to_string(), Vec::new());
        for old in current.text.parsed().entries.iter().rev() {
            let Some(written) = stored.entry_dates.written_at(old.full_text()) else { continue };
            let new =
                dates::resolve_relative_dates(old.full_text(), self.snapshot.local_date(written));
            if new == old.full_text() {
                continue;
            }
            if let Some(with_date) = replace_entry(&text, &old.entry, &new) {
                text = with_date;
                changes.push(entry_outcome(&stored.path, EntryAction::Dated, &new));
            }
        }
        if !changes.is_empty() && self.set_text(stored, current.text.len(), text, room) {
            self.counts.dated += changes.len();
            self.changes.extend(changes);
        }
    }

    fn describe(&mut self, stored: &'a StoredMemory, room: &mut usize) {
        let Some(current) = self.current(stored) else { return };
        if let Some(text) = with_missing_description(&current)
            && self.set_text(stored, current.text.len(), text, room)
        {
            self.counts.described += 1;
        }
    }

    fn finish(
        self,
        memories: &[&'a StoredMemory],
        proposals: Vec<Proposal>,
        conflicts: &[&MemoryPath],
    ) -> DreamReport {
        let Self { texts, counts, changes, .. } = self;
        let mut report = DreamReport {
            merged_entries: counts.merged,
            deferred: counts.deferred,
            changes,
            ..DreamReport::default()
        };
        for stored in memories {
            let Some(text) = texts.get(&stored.path) else { continue };
            let path = stored.path.clone();
            report.topics.insert(MemoryTopic::declared_or_default(
                stored.text.parsed().header.kind.as_deref(),
                &path,
            ));
            report.scopes.extend(path.mount());
            let is_empty = document::entries(text).is_empty();
            report.edits.push(if is_empty {
                CuratorEdit::Remove { path }
            } else {
                CuratorEdit::Write { path, text: text.clone() }
            });
        }
        report.summary = summary(&counts, report.edits.len(), conflicts);
        report.proposals = proposals;
        report
    }
}

/// Beginning of a dream's summary; the published task API has the same.
pub(crate) const DREAM_COMPLETED: &str = "Managed auto-memory dream completed.";

fn summary(counts: &DreamCounts, changed: usize, conflicts: &[&MemoryPath]) -> String {
    let mut text = DREAM_COMPLETED.to_owned();
    let _ = match changed {
        0 => text.write_str(" Nothing to tidy up."),
        1 => text.write_str(" Changed 1 memory."),
        _ => write!(text, " Changed {changed} memories."),
    };
    if changed > 0 {
        let _ = write!(text, " Repeated entries merged: {}", counts.merged);
        for (what, count) in
            [("days named", counts.dated), ("descriptions written", counts.described)]
        {
            if count > 0 {
                let _ = write!(text, ", {what}: {count}");
            }
        }
        text.push('.');
    }
    if counts.deferred > 0 {
        let _ = write!(
            text,
            " Left for another dream, which may change {CHANGED_MAX} memories and add {GROWTH_PERCENT_MAX} %: {}.",
            counts.deferred
        );
    }
    if !conflicts.is_empty() {
        let paths: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
        let _ = write!(text, " Left alone, because of merge conflicts: {}.", paths.join(", "));
    }
    text
}

/// Returns the proposals for a person to decide, highest score first.
fn all_proposals(
    memories: &[&StoredMemory],
    merged: &BTreeSet<EntryIndex>,
    snapshot: &Snapshot,
) -> Vec<Proposal> {
    let all: Vec<(EntryIndex, &StoredMemory, &ParsedEntry)> = memories
        .iter()
        .enumerate()
        .filter(|(_, stored)| !stored.is_unreviewed())
        .filter(|(_, stored)| {
            stored.path.mount().is_some_and(|mount| snapshot.writable.contains(&mount))
        })
        .flat_map(|(memory, stored)| {
            stored
                .text
                .parsed()
                .entries
                .iter()
                .enumerate()
                .map(move |(index, note)| ((memory, index), *stored, note))
        })
        .filter(|(index, ..)| !merged.contains(index))
        .collect();
    let today = snapshot.local_date(snapshot.now);
    let mut proposals: Vec<Proposal> = Vec::new();
    for &(_, stored, note) in &all {
        proposals.extend(propose_expiry(stored, note, today));
        proposals.extend(propose_move(stored, note, snapshot));
    }
    proposals.extend(propose_pairs(&all));
    proposals.retain(|proposal| {
        proposal.changes.iter().all(|change| !is_pinned(memories, &change.path))
    });
    // The sort is stable, so equal scores keep their order.
    proposals.sort_by_key(|proposal| std::cmp::Reverse(proposal.score));
    // Each entry is removed by one proposal only, and by none if another proposal relies on it.
    let (mut removed, mut required): (Vec<EntryReference>, Vec<EntryReference>) =
        (Vec::new(), Vec::new());
    proposals.retain(|proposal| {
        let removals: Vec<EntryReference> = proposal
            .changes
            .iter()
            .filter_map(|change| {
                Some(EntryReference { path: change.path.clone(), text: change.old.clone()? })
            })
            .collect();
        let is_free =
            removals.iter().all(|entry| !removed.contains(entry) && !required.contains(entry))
                && proposal.relies_on.iter().all(|entry| !removed.contains(entry));
        if is_free {
            removed.extend(removals);
            required.extend(proposal.relies_on.iter().cloned());
        }
        is_free
    });
    proposals.truncate(DREAM_PROPOSALS_MAX);
    proposals
}

fn is_pinned(memories: &[&StoredMemory], path: &MemoryPath) -> bool {
    memories.iter().any(|stored| stored.path == *path && stored.pinned)
}

fn entry_reference(stored: &StoredMemory, entry: &ParsedEntry) -> EntryReference {
    EntryReference { path: stored.path.clone(), text: entry.full_text().to_owned() }
}

/// Compares the entries of one scope that share rare words.
fn propose_pairs(all: &[(EntryIndex, &StoredMemory, &ParsedEntry)]) -> Vec<Proposal> {
    let frequencies = DocumentFrequencies::from_entries(all.iter().map(|(.., entry)| *entry));
    let mut entries_with: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut first_of: HashMap<&NormalizedText, usize> = HashMap::new();
    let mut proposals = Vec::new();
    for (index, (_, stored, entry)) in all.iter().enumerate() {
        let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
        if let Some(equal) = first_of.get(&entry.normalized) {
            shared.insert(*equal, SHARED_WORDS_MIN);
        } else {
            first_of.insert(&entry.normalized, index);
        }
        for (key, _) in similarity::content_keys(entry.tokenized()) {
            let others = entries_with.entry(key).or_default();
            if others.len() <= PAIRING_ENTRIES_MAX {
                for other in others.iter() {
                    *shared.entry(*other).or_default() += 1;
                }
                others.push(index);
            }
        }
        for (other, count) in shared {
            let (_, other_stored, other_note) = &all[other];
            let is_one_scope = stored.path.mount() == other_stored.path.mount();
            let is_comparable =
                |entry: &ParsedEntry| !entry.is_step && !has_blocks(entry.full_text());
            if count < SHARED_WORDS_MIN
                || !is_one_scope
                || !is_comparable(entry)
                || !is_comparable(other_note)
            {
                continue;
            }
            proposals.extend(compare_pair(
                (other_stored, other_note),
                (stored, entry),
                &frequencies,
            ));
        }
    }
    proposals
}

/// Compares two entries whose order of age is unknown.
fn compare_pair(
    first: (&StoredMemory, &ParsedEntry),
    second: (&StoredMemory, &ParsedEntry),
    weights: &DocumentFrequencies,
) -> Option<Proposal> {
    let (a, b) = (entry_reference(first.0, first.1), entry_reference(second.0, second.1));
    if a == b {
        // The same line twice in one memory: a proposal cannot say which one it means.
        return None;
    }
    if first.1.normalized == second.1.normalized {
        if is_fragment(first.1.statement()) || first.1.context != second.1.context {
            return None;
        }
        let relation =
            EntryRelation { kind: ProposalKind::Repetition, score: 90, removes_older: false };
        return Some(similarity::relation_proposal(relation, &a, &b));
    }
    if is_fragment(first.1.statement()) || is_fragment(second.1.statement()) {
        return None;
    }
    // The same statement, once with reasons: keep that one.
    if NormalizedText::new(first.1.statement()) == NormalizedText::new(second.1.statement()) {
        let older_goes = !first.1.has_reasons();
        let relation =
            EntryRelation { kind: ProposalKind::Repetition, score: 85, removes_older: older_goes };
        return Some(similarity::relation_proposal(relation, &a, &b));
    }
    let (older, newer) = ((first, &a), (second, &b));
    // Unless one says that it is the later one, the order in the memory means nothing.
    [(older, newer), (newer, older)].into_iter().find_map(|((older, a), (newer, b))| {
        let relation = similarity::compare_statements(older.1.into(), newer.1.into(), weights)?;
        (!(relation.removes_older && older.1.has_reasons()) || newer.1.has_reasons())
            .then(|| similarity::relation_proposal(relation, a, b))
    })
}

/// Proposes to remove an entry that only says that something ended on a past day.
fn propose_expiry(stored: &StoredMemory, entry: &ParsedEntry, today: Date) -> Option<Proposal> {
    let text = entry.tokenized();
    let last = text.tokens.last()?;
    // `Did not work until …` says since when it works.
    let is_one_clause = last.clause == 0 && !entry.has_reasons() && !text.has(Class::Not);
    let ends = |class: Class| {
        text.tokens.iter().any(|token| token.is(class) && !token.word.ends_with("ed"))
    };
    let dates = dates::explicit_dates(text);
    let latest = dates.iter().map(|mention| mention.date).max()?;
    let is_over = latest < today && (ends(Class::Until) || ends(Class::Ends));
    (is_one_clause && is_over).then(|| Proposal {
        kind: ProposalKind::Expiry,
        reason: format!("\u{201C}{}\u{201D} ended on {latest}.", first_words(entry.full_text())),
        score: 70,
        changes: vec![EntryChange {
            path: stored.path.clone(),
            old: Some(entry.full_text().to_owned()),
            new: None,
        }],
        relies_on: Vec::new(),
        review: None,
    })
}

/// Proposes to move a private entry out of a shared repository.
fn propose_move(
    stored: &StoredMemory,
    entry: &ParsedEntry,
    snapshot: &Snapshot,
) -> Option<Proposal> {
    let global = Mount::Scope(Scope::Global);
    if !stored.path.is_shared()
        || !entry.context.is_empty()
        || stored.trust == Trust::Outside
        || !snapshot.writable.contains(&global)
        || !classify::is_private(entry.statement())
    {
        return None;
    }
    let relative = stored.path.relative()?.clone();
    let target = MemoryPath::inside(global, relative).ok()?;
    let existing = snapshot.memories.iter().find(|stored| stored.path == target);
    let can_move = existing.is_none_or(|stored| stored.text.parsed().can_append())
        && !snapshot.occupied_paths.contains(&target);
    let whole = entry.full_text().to_owned();
    can_move.then(|| Proposal {
        kind: ProposalKind::Misplacement,
        reason: format!(
            "\u{201C}{}\u{201D} is private, and the repository is shared.",
            first_words(&whole)
        ),
        score: 60,
        changes: vec![
            EntryChange { path: stored.path.clone(), old: Some(whole.clone()), new: None },
            EntryChange { path: target, old: None, new: Some(whole) },
        ],
        relies_on: Vec::new(),
        review: None,
    })
}
