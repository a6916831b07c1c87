//! Dream: what says the same goes, days get their names, and a person is asked about the rest.
//!
//! An entry goes only when another one says the same, word for word, in the same place. Entries that may repeat,
//! replace or contradict each other, that ended, or that are private and lie in a repository become proposals.
//! Memories with markers of a merge conflict are left alone and named.

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

/// The most memories that one dream changes: a person can still read what it did.
const CHANGED_MAX: usize = 20;

/// By how much all memories together may grow, in percent.
const GROWTH_PERCENT_MAX: usize = 2;

/// The most proposals that one dream makes.
const DREAM_PROPOSALS_MAX: usize = 50;

/// A word that more entries have pairs nothing: those entries share a subject, and not a statement.
const PAIRING_ENTRIES_MAX: usize = 30;

/// The fewest words that two entries share to be compared.
const SHARED_WORDS_MIN: usize = 2;

/// Decides what a dream does.
pub fn dream(snapshot: &Snapshot) -> DreamReport {
    let conflicts: Vec<&MemoryPath> = snapshot
        .memories
        .iter()
        .filter(|stored| conflict_line(&stored.text).is_some())
        .map(|stored| &stored.path)
        .collect();
    let memories: Vec<&StoredMemory> =
        snapshot.memories.iter().filter(|stored| !conflicts.contains(&&stored.path)).collect();
    let mut work = DreamPlan {
        snapshot,
        texts: BTreeMap::new(),
        counts: DreamCounts::default(),
        changes: Vec::new(),
    };
    let merged = merge_duplicates(&memories, &mut work);
    let grown =
        memories.iter().map(|stored| stored.text.len()).sum::<usize>() * GROWTH_PERCENT_MAX / 100;
    let mut room = grown + work.counts.saved_bytes;
    for stored in &memories {
        work.resolve_dates(stored, &mut room);
    }
    for stored in &memories {
        work.describe(stored, &mut room);
    }
    let proposals = all_proposals(&memories, &merged, snapshot);
    work.finish(&memories, proposals, &conflicts)
}

#[derive(Default)]
struct DreamCounts {
    merged: usize,
    dated: usize,
    described: usize,
    deferred: usize,
    /// The bytes that merging made free.
    saved_bytes: usize,
}

/// A dream on its way: the decisions so far.
struct DreamPlan<'a> {
    snapshot: &'a Snapshot,
    /// The texts that memories get.
    texts: BTreeMap<&'a MemoryPath, String>,
    counts: DreamCounts,
    changes: Vec<EntryOutcome>,
}

/// Entries by their memory and their place in it.
type EntryIndex = (usize, usize);

/// Removes entries that say the same as another one, and returns them.
fn merge_duplicates<'a>(
    memories: &[&'a StoredMemory],
    work: &mut DreamPlan<'a>,
) -> BTreeSet<EntryIndex> {
    let mut by_form: HashMap<&NormalizedText, Vec<EntryIndex>> = HashMap::new();
    let reviewed = memories.iter().enumerate().filter(|(_, stored)| !stored.is_unreviewed());
    for (at, stored) in reviewed {
        for (index, note) in stored.text.parsed().entries.iter().enumerate() {
            by_form.entry(&note.normalized).or_default().push((at, index));
        }
    }
    let entry =
        |(at, index): EntryIndex| (memories[at], &memories[at].text.parsed().entries[index]);
    let mut gone: BTreeSet<EntryIndex> = BTreeSet::new();
    for places in by_form.values().filter(|places| places.len() > 1) {
        let mut order = places.clone();
        // The one to keep comes first: accepted, pinned, then the most trusted, then that of the file without a number. What a
        // review wrote may be rejected yet, pinned or not, and nothing may be lost with it.
        order.sort_by_key(|&(at, index)| {
            let StoredMemory { path, pinned, trust, written_by_review: by_review, .. } =
                memories[at];
            (*by_review, !pinned, std::cmp::Reverse(*trust), path.to_string().len(), at, index)
        });
        let mut kept: Vec<EntryIndex> = Vec::new();
        for one in order {
            let same = kept.iter().any(|&kept| is_duplicate(entry(kept), entry(one)));
            if same && work.snapshot.may_edit(memories[one.0]) {
                gone.insert(one);
            } else {
                kept.push(one);
            }
        }
    }
    let mut done = BTreeSet::new();
    for (at, stored) in memories.iter().enumerate() {
        let of_memory: Vec<usize> =
            gone.range((at, 0)..(at + 1, 0)).map(|(_, index)| *index).collect();
        // What a memory says of itself must not go with its last entry.
        let goes = of_memory.len() == stored.text.parsed().entries.len();
        if goes && has_own_metadata(stored) {
            continue;
        }
        if of_memory.is_empty() || !work.can_change_more() {
            work.counts.deferred += usize::from(!of_memory.is_empty());
            continue;
        }
        let notes = &stored.text.parsed().entries;
        let text = stored.text_without(of_memory.iter().map(|index| &notes[*index]));
        work.counts.saved_bytes += stored.text.len() - text.len();
        work.counts.merged += of_memory.len();
        for index in of_memory {
            work.changes.push(entry_outcome(
                &stored.path,
                EntryAction::Merged,
                notes[index].full_text(),
            ));
            done.insert((at, index));
        }
        work.texts.insert(&stored.path, text);
    }
    done
}

/// Tells whether a memory would take something with it: a description or fields that are not made of its entries.
pub(crate) fn has_own_metadata(stored: &StoredMemory) -> bool {
    let head = &stored.text.parsed().header;
    let is_own = !head.description.is_empty() && !has_generated_description(stored);
    document::has_other_fields(&stored.text) || is_own
}

impl<'a> DreamPlan<'a> {
    fn can_change_more(&self) -> bool {
        self.texts.len() < CHANGED_MAX
    }

    /// Returns a memory with the text that it has by now, if that may be changed further.
    fn current(&self, stored: &'a StoredMemory) -> Option<StoredMemory> {
        let changed = self.texts.get(&stored.path);
        if !self.snapshot.may_edit(stored) {
            return None;
        }
        let text =
            changed.map_or_else(|| stored.text.clone(), |text| ParsedText::from(text.as_str()));
        Some(StoredMemory { text, ..stored.clone() })
    }

    /// Puts a text in place of a memory's, if there is room for that; a memory without entries is left out.
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

    /// Names the days that the entries of a memory point at, by the time when each was written.
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
            if let Some(with_day) = replace_entry(&text, &old.entry, &new) {
                text = with_day;
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
        let mut done = DreamReport {
            merged_entries: counts.merged,
            deferred: counts.deferred,
            changes,
            ..DreamReport::default()
        };
        for stored in memories {
            let Some(text) = texts.get(&stored.path) else { continue };
            let path = stored.path.clone();
            done.topics.insert(MemoryTopic::declared_or_default(
                stored.text.parsed().header.kind.as_deref(),
                &path,
            ));
            done.scopes.extend(path.mount());
            let is_empty = document::entries(text).is_empty();
            done.edits.push(if is_empty {
                CuratorEdit::Remove { path }
            } else {
                CuratorEdit::Write { path, text: text.clone() }
            });
        }
        done.summary = summary(&counts, done.edits.len(), conflicts);
        done.proposals = proposals;
        done
    }
}

/// How the summary of a dream begins, as that of the product whose task API this is.
pub(crate) const DREAM_COMPLETED: &str = "Managed auto-memory dream completed.";

fn summary(counts: &DreamCounts, changed: usize, conflicts: &[&MemoryPath]) -> String {
    let mut said = DREAM_COMPLETED.to_owned();
    let _ = match changed {
        0 => said.write_str(" Nothing to tidy up."),
        1 => said.write_str(" Changed 1 memory."),
        _ => write!(said, " Changed {changed} memories."),
    };
    if changed > 0 {
        let _ = write!(said, " Repeated entries merged: {}", counts.merged);
        for (what, count) in
            [("days named", counts.dated), ("descriptions written", counts.described)]
        {
            if count > 0 {
                let _ = write!(said, ", {what}: {count}");
            }
        }
        said.push('.');
    }
    if counts.deferred > 0 {
        let _ = write!(
            said,
            " Left for another dream, which may change {CHANGED_MAX} memories and add {GROWTH_PERCENT_MAX} %: {}.",
            counts.deferred
        );
    }
    if !conflicts.is_empty() {
        let paths: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
        let _ = write!(said, " Left alone, because of merge conflicts: {}.", paths.join(", "));
    }
    said
}

/// Finds what a person should decide, the surest first.
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
        .flat_map(|(at, stored)| {
            stored
                .text
                .parsed()
                .entries
                .iter()
                .enumerate()
                .map(move |(index, note)| ((at, index), *stored, note))
        })
        .filter(|(at, ..)| !merged.contains(at))
        .collect();
    let today = snapshot.local_date(snapshot.now);
    let mut proposals: Vec<Proposal> = Vec::new();
    for &(_, stored, note) in &all {
        proposals.extend(propose_expiry(stored, note, today));
        proposals.extend(propose_move(stored, note, snapshot));
    }
    proposals.extend(propose_pairs(&all));
    proposals.retain(|one| one.changes.iter().all(|change| !is_pinned(memories, &change.path)));
    // A stable sort: what is found first stays first.
    proposals.sort_by_key(|one| std::cmp::Reverse(one.score));
    // An entry goes once, and none goes that another proposal relies on.
    let (mut goes, mut stays): (Vec<EntryReference>, Vec<EntryReference>) =
        (Vec::new(), Vec::new());
    proposals.retain(|one| {
        let going: Vec<EntryReference> = one
            .changes
            .iter()
            .filter_map(|change| {
                Some(EntryReference { path: change.path.clone(), text: change.old.clone()? })
            })
            .collect();
        let is_free = going.iter().all(|entry| !goes.contains(entry) && !stays.contains(entry))
            && one.relies_on.iter().all(|entry| !goes.contains(entry));
        if is_free {
            goes.extend(going);
            stays.extend(one.relies_on.iter().cloned());
        }
        is_free
    });
    proposals.truncate(DREAM_PROPOSALS_MAX);
    proposals
}

fn is_pinned(memories: &[&StoredMemory], path: &MemoryPath) -> bool {
    memories.iter().any(|stored| stored.path == *path && stored.pinned)
}

fn entry_reference(stored: &StoredMemory, note: &ParsedEntry) -> EntryReference {
    EntryReference { path: stored.path.clone(), text: note.full_text().to_owned() }
}

/// Compares entries of one scope that share words that few have.
fn propose_pairs(all: &[(EntryIndex, &StoredMemory, &ParsedEntry)]) -> Vec<Proposal> {
    let weights = DocumentFrequencies::from_entries(all.iter().map(|(.., note)| *note));
    let mut with: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut first_of: HashMap<&NormalizedText, usize> = HashMap::new();
    let mut found = Vec::new();
    for (index, (_, stored, note)) in all.iter().enumerate() {
        let mut shared: BTreeMap<usize, usize> = BTreeMap::new();
        if let Some(equal) = first_of.get(&note.normalized) {
            shared.insert(*equal, SHARED_WORDS_MIN);
        } else {
            first_of.insert(&note.normalized, index);
        }
        for (key, _) in similarity::content_keys(note.tokenized()) {
            let others = with.entry(key).or_default();
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
            let is_comparable = |note: &ParsedEntry| !note.is_step && !has_blocks(note.full_text());
            if count < SHARED_WORDS_MIN
                || !is_one_scope
                || !is_comparable(note)
                || !is_comparable(other_note)
            {
                continue;
            }
            found.extend(compare_pair((other_stored, other_note), (stored, note), &weights));
        }
    }
    found
}

/// Compares two entries, of which it is not known which one is older.
fn compare_pair(
    first: (&StoredMemory, &ParsedEntry),
    second: (&StoredMemory, &ParsedEntry),
    weights: &DocumentFrequencies,
) -> Option<Proposal> {
    let (a, b) = (entry_reference(first.0, first.1), entry_reference(second.0, second.1));
    if a == b {
        // One memory has the same line twice: neither can be told from the other.
        return None;
    }
    if first.1.normalized == second.1.normalized {
        if is_fragment(first.1.statement()) || first.1.context != second.1.context {
            return None;
        }
        let likeness =
            EntryRelation { kind: ProposalKind::Repetition, score: 90, removes_older: false };
        return Some(similarity::relation_proposal(likeness, &a, &b));
    }
    if is_fragment(first.1.statement()) || is_fragment(second.1.statement()) {
        return None;
    }
    // The same statement, once with its reasons: those stay.
    if NormalizedText::new(first.1.statement()) == NormalizedText::new(second.1.statement()) {
        let older_goes = !first.1.has_reasons();
        let likeness =
            EntryRelation { kind: ProposalKind::Repetition, score: 85, removes_older: older_goes };
        return Some(similarity::relation_proposal(likeness, &a, &b));
    }
    let (older, newer) = ((first, &a), (second, &b));
    // Where neither says that it is the later one, the order in the memory tells nothing.
    [(older, newer), (newer, older)].into_iter().find_map(|((older, a), (newer, b))| {
        let likeness = similarity::compare_statements(older.1.into(), newer.1.into(), weights)?;
        (!(likeness.removes_older && older.1.has_reasons()) || newer.1.has_reasons())
            .then(|| similarity::relation_proposal(likeness, a, b))
    })
}

/// Proposes to remove an entry that says no more than that something ended on a day in the past.
fn propose_expiry(stored: &StoredMemory, note: &ParsedEntry, today: Date) -> Option<Proposal> {
    let text = note.tokenized();
    let last = text.tokens.last()?;
    // `Did not work until …` says since when it works.
    let is_one_clause = last.clause == 0 && !note.has_reasons() && !text.has(Class::Not);
    let ends = |class: Class| {
        text.tokens.iter().any(|token| token.is(class) && !token.word.ends_with("ed"))
    };
    let days = dates::explicit_dates(text);
    let latest = days.iter().map(|day| day.date).max()?;
    let is_over = latest < today && (ends(Class::Until) || ends(Class::Ends));
    (is_one_clause && is_over).then(|| Proposal {
        kind: ProposalKind::Expiry,
        reason: format!("\u{201C}{}\u{201D} ended on {latest}.", first_words(note.full_text())),
        score: 70,
        changes: vec![EntryChange {
            path: stored.path.clone(),
            old: Some(note.full_text().to_owned()),
            new: None,
        }],
        relies_on: Vec::new(),
        review: None,
    })
}

/// Proposes to move what is private out of a repository that others read.
fn propose_move(
    stored: &StoredMemory,
    note: &ParsedEntry,
    snapshot: &Snapshot,
) -> Option<Proposal> {
    let global = Mount::Scope(Scope::Global);
    if !stored.path.is_shared()
        || !note.context.is_empty()
        || stored.trust == Trust::Outside
        || !snapshot.writable.contains(&global)
        || !classify::is_private(note.statement())
    {
        return None;
    }
    let relative = stored.path.relative()?.clone();
    let target = MemoryPath::inside(global, relative).ok()?;
    let known = snapshot.memories.iter().find(|one| one.path == target);
    let has_place = known.is_none_or(|one| one.text.parsed().can_append())
        && !snapshot.occupied_paths.contains(&target);
    let whole = note.full_text().to_owned();
    has_place.then(|| Proposal {
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
