//! The dream of the rule curator: tidies memories, and proposes uncertain changes to a person.
//!
//! It merges duplicates, resolves relative dates and writes missing descriptions. An entry is removed only if another
//! one has the same normalized text below the same headings, in the same file or in one whose name differs by a number.
//! A memory without entries left is removed. Entries that may repeat, replace or contradict each other, that expired, or
//! that are private in a shared repository become proposals. Memories with merge conflict markers are not changed; the
//! summary names them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::Arc;

use jiff::civil::Date;
use memory::cache::Cache;
use memory::change::Trust;
use memory::document::{self, replace_entry};
use memory::path::{MemoryPath, Mount, Scope};
use memory::proposal::{EntryChange, EntryReference, Proposal, ProposalKind};

use super::classify;
use super::dates;
use super::duplicate::{NormalizedText, has_blocks, is_duplicate, is_fragment, subject_of};
use super::fingerprints::{Fingerprint, FingerprintMap, TokenFingerprint};
use super::frontmatter::{
    first_words, has_generated_description, memory_edit, refresh_frontmatter,
    with_missing_description,
};
use super::lexicon::Class;
use super::remember::entry_outcome;
use super::similarity::{
    self, ComparedStatement, DocumentFrequencies, EntryRelation, RelationFilter,
};
use super::snapshot::{ParsedEntry, ParsedText, Snapshot, StoredMemory};
use super::tokenize::TokenizedText;
use crate::request::{DreamReport, EntryAction, EntryOutcome, MemoryTopic};

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
        .filter(|stored| stored.has_conflict())
        .map(|stored| &stored.path)
        .collect();
    let conflicted: HashSet<&MemoryPath> = conflicts.iter().copied().collect();
    let memories: Vec<&StoredMemory> =
        snapshot.memories.iter().filter(|stored| !conflicted.contains(&stored.path)).collect();
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
        // Only entries about the same subject can be duplicates.
        let mut kept_by_subject: HashMap<_, Vec<EntryIndex>> = HashMap::new();
        for index in order {
            let kept = kept_by_subject.entry(subject_of(&memories[index.0].path)).or_default();
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
        if of_memory.is_empty() {
            continue;
        }
        // Metadata that is not derived from entries must not be removed with the last one.
        let is_emptied = of_memory.len() == stored.text.parsed().entries.len();
        if is_emptied && has_own_metadata(stored) {
            continue;
        }
        if !plan.can_change_more() {
            plan.counts.deferred += 1;
            continue;
        }
        let entries = &stored.text.parsed().entries;
        let text = stored.text_without(of_memory.iter().map(|index| &entries[*index]));
        let text = refresh_frontmatter(&stored.text, text);
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
    let is_own = !head.description.is_empty() && !has_generated_description(&stored.text);
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
        let is_unchanged = !self.texts.contains_key(&stored.path);
        if is_unchanged && stored.entries_with_relative_dates().is_empty() {
            return;
        }
        let Some(current) = self.current(stored) else { return };
        let (mut text, mut changes) = (current.text.to_string(), Vec::new());
        for old in current.text.parsed().entries.iter().rev() {
            if !old.fingerprints().has_relative_date {
                continue;
            }
            let Some(written) = stored.entry_dates.written_at(old.full_text()) else { continue };
            let new =
                dates::resolve_relative_dates(old.full_text(), self.snapshot.local_date(written));
            if new == old.full_text() {
                continue;
            }
            if let Some(with_date) = replace_entry(&text, &old.entry(), &new) {
                text = with_date;
                changes.push(entry_outcome(&stored.path, EntryAction::Dated, &new));
            }
        }
        let text = refresh_frontmatter(&current.text, text);
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
            report.edits.push(memory_edit(stored, text.clone()));
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
    let moves = MoveTargets::new(snapshot);
    let mut possible: Vec<PossibleProposal> = Vec::new();
    for &(_, stored, note) in &all {
        let of_entry = propose_expiry(stored, note, today).into_iter();
        let of_entry = of_entry.chain(moves.propose(stored, note));
        possible.extend(of_entry.map(|proposal| PossibleProposal::OfEntry(Box::new(proposal))));
    }
    possible.extend(related_pairs(&all));
    // The sort is stable, so equal scores keep their order.
    possible.sort_by_key(|proposal| std::cmp::Reverse(proposal.score()));
    let pinned = memories.iter().filter(|stored| stored.pinned);
    let pinned: HashSet<&MemoryPath> = pinned.map(|stored| &stored.path).collect();
    // Each entry is removed by one proposal only, and by none if another proposal relies on it.
    let (mut removed, mut required): (Vec<EntryReference>, Vec<EntryReference>) =
        (Vec::new(), Vec::new());
    let mut proposals = Vec::new();
    for proposal in possible {
        let proposal = proposal.into_proposal(&all);
        if proposal.changes.iter().any(|change| pinned.contains(&change.path)) {
            continue;
        }
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
            proposals.push(proposal);
        }
        if proposals.len() == DREAM_PROPOSALS_MAX {
            break;
        }
    }
    proposals
}

/// A proposal that is made if there is room for it. There may be one for each entry.
enum PossibleProposal {
    /// About one entry.
    OfEntry(Box<Proposal>),
    /// About two entries, by their indexes; the second one is newer as far as that is known.
    OfPair(EntryRelation, [usize; 2]),
}

impl PossibleProposal {
    const fn score(&self) -> u8 {
        match self {
            Self::OfEntry(proposal) => proposal.score,
            Self::OfPair(relation, _) => relation.score,
        }
    }

    fn into_proposal(self, all: &[(EntryIndex, &StoredMemory, &ParsedEntry)]) -> Proposal {
        match self {
            Self::OfEntry(proposal) => *proposal,
            Self::OfPair(relation, pair) => {
                let [older, newer] = pair.map(|index| entry_reference(all[index].1, all[index].2));
                similarity::relation_proposal(relation, &older, &newer)
            }
        }
    }
}

fn entry_reference(stored: &StoredMemory, entry: &ParsedEntry) -> EntryReference {
    EntryReference { path: stored.path.clone(), text: entry.full_text().to_owned() }
}

/// Compares the entries of one scope that share rare words.
fn related_pairs(all: &[(EntryIndex, &StoredMemory, &ParsedEntry)]) -> Vec<PossibleProposal> {
    let entries: Vec<PairedEntry<'_>> =
        all.iter().map(|(_, stored, entry)| PairedEntry::new(stored, entry)).collect();
    let mut comparison = PairComparison {
        frequencies: DocumentFrequencies::from_entries(all.iter().map(|(.., entry)| *entry)),
        tokens: Cache::default(),
    };
    let mut entries_with: FingerprintMap<Fingerprint, Vec<usize>> = FingerprintMap::default();
    let mut first_of: HashMap<&NormalizedText, usize> = HashMap::new();
    // Number of shared words by entry, and the entries that share any.
    let (mut counts, mut others) = (vec![0; entries.len()], Vec::new());
    let mut related = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        if let Some(equal) = first_of.get(&entry.parsed.normalized) {
            counts[*equal] = SHARED_WORDS_MIN;
            others.push(*equal);
        } else {
            first_of.insert(&entry.parsed.normalized, index);
        }
        for key in entry.parsed.fingerprints().significant_keys() {
            let with_key = entries_with.entry(key).or_default();
            // A repeated word counts once.
            if with_key.len() > PAIRING_ENTRIES_MAX || with_key.last() == Some(&index) {
                continue;
            }
            for other in with_key.iter() {
                if counts[*other] == 0 {
                    others.push(*other);
                }
                counts[*other] += 1;
            }
            with_key.push(index);
        }
        let filter = entry.relation_filter();
        others.sort_unstable();
        for other in others.drain(..) {
            let count = std::mem::take(&mut counts[other]);
            if count >= SHARED_WORDS_MIN && entry.is_comparable_with(&entries[other]) {
                let first = (other, &entries[other]);
                related.extend(comparison.compare(first, (index, entry), &filter));
            }
        }
    }
    related
}

/// An entry that is compared with others.
struct PairedEntry<'a> {
    stored: &'a StoredMemory,
    parsed: &'a ParsedEntry,
    /// Whether it is a statement: no step, code, table or list.
    is_statement: bool,
    is_fragment: bool,
    /// Whether it has a date or says that something changed, so that it may update others.
    may_update: bool,
    /// Normal form of the statement, if it differs from that of the entry because of its reasons.
    statement: Option<NormalizedText>,
}

impl<'a> PairedEntry<'a> {
    fn new(stored: &'a StoredMemory, parsed: &'a ParsedEntry) -> Self {
        let words = parsed.fingerprints();
        Self {
            stored,
            parsed,
            may_update: words.has(Class::Change)
                || words.has(Class::Gone)
                || words.statement.iter().any(TokenFingerprint::is_date),
            is_statement: !parsed.is_step && !has_blocks(parsed.full_text()),
            is_fragment: is_fragment(parsed.statement()),
            statement: parsed.has_reasons().then(|| NormalizedText::new(parsed.statement())),
        }
    }

    fn is_comparable_with(&self, other: &Self) -> bool {
        self.is_statement
            && other.is_statement
            && self.stored.path.mount() == other.stored.path.mount()
    }

    fn normalized_statement(&self) -> &NormalizedText {
        self.statement.as_ref().unwrap_or(&self.parsed.normalized)
    }

    /// Returns the filter of the older entries that this one may have a relation with.
    fn relation_filter(&self) -> RelationFilter<'a> {
        let words = self.parsed.fingerprints();
        let is_change = words.has(Class::Change) || words.has(Class::Gone);
        RelationFilter::new(&words.statement, is_change)
    }
}

/// Maximum number of entries whose tokens are kept while entries are compared: some ten megabytes. Similar entries are
/// often near each other.
const TOKENIZED_ENTRIES_MAX: usize = 2_048;

/// Compares pairs of entries.
struct PairComparison {
    frequencies: DocumentFrequencies,
    /// Tokens by the index of the entry.
    tokens: Cache<usize, Arc<TokenizedText>, TOKENIZED_ENTRIES_MAX>,
}

impl PairComparison {
    /// Compares two entries whose order of age is unknown. `filter` is that of the second one.
    fn compare(
        &mut self,
        (first_index, first): (usize, &PairedEntry<'_>),
        (second_index, second): (usize, &PairedEntry<'_>),
        filter: &RelationFilter<'_>,
    ) -> Option<PossibleProposal> {
        let is_same_text = first.parsed.full_text() == second.parsed.full_text();
        if is_same_text && first.stored.path == second.stored.path {
            // The same line twice in one memory: a proposal cannot say which one it means.
            return None;
        }
        let repetition = |score, removes_older| {
            let kind = ProposalKind::Repetition;
            let relation = EntryRelation { kind, score, removes_older };
            PossibleProposal::OfPair(relation, [first_index, second_index])
        };
        if first.parsed.normalized == second.parsed.normalized {
            let may_differ = first.is_fragment || first.parsed.context != second.parsed.context;
            return (!may_differ).then(|| repetition(90, false));
        }
        if first.is_fragment || second.is_fragment {
            return None;
        }
        // The same statement, once with reasons: keep that one.
        if first.normalized_statement() == second.normalized_statement() {
            return Some(repetition(85, !first.parsed.has_reasons()));
        }
        let (older, newer) = ((first_index, first), (second_index, second));
        let may_repeat = filter.may_repeat(&first.parsed.fingerprints().statement);
        // Unless one says that it is the later one, the order in the memory means nothing.
        [(older, newer), (newer, older)].into_iter().find_map(|(older, newer)| {
            let older_words = older.1.parsed.fingerprints();
            let may_relate = may_repeat
                || (newer.1.may_update
                    && newer.1.relation_filter().may_relate(older_words, &self.frequencies));
            if !may_relate {
                return None;
            }
            let (old_text, new_text) = (self.tokenize(older), self.tokenize(newer));
            let relation = similarity::compare_statements(
                ComparedStatement::of_entry(older.1.parsed, &old_text),
                ComparedStatement::of_entry(newer.1.parsed, &new_text),
                &self.frequencies,
            )?;
            let loses_reasons = relation.removes_older
                && older.1.parsed.has_reasons()
                && !newer.1.parsed.has_reasons();
            let pair = [older.0, newer.0];
            (!loses_reasons).then_some(PossibleProposal::OfPair(relation, pair))
        })
    }

    fn tokenize(&mut self, (index, entry): (usize, &PairedEntry<'_>)) -> Arc<TokenizedText> {
        if let Some(tokens) = self.tokens.get(&index) {
            return Arc::clone(tokens);
        }
        let tokens = Arc::new(entry.parsed.tokenize());
        self.tokens.insert(index, Arc::clone(&tokens));
        tokens
    }
}

/// Proposes to remove an entry that only says that something ended on a past day.
fn propose_expiry(stored: &StoredMemory, entry: &ParsedEntry, today: Date) -> Option<Proposal> {
    let words = entry.fingerprints();
    let may_end = words.has(Class::Until) || words.has(Class::Ends);
    if !may_end || !words.statement.iter().any(TokenFingerprint::is_date) {
        return None;
    }
    let text = &entry.tokenize();
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

/// The places for private entries of a shared repository.
struct MoveTargets<'a> {
    is_writable: bool,
    /// Paths where an entry can not be added.
    closed: HashSet<&'a MemoryPath>,
}

impl<'a> MoveTargets<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let full = snapshot.memories.iter().filter(|stored| !stored.text.parsed().can_append());
        Self {
            is_writable: snapshot.writable.contains(&Mount::Scope(Scope::Global)),
            closed: full.map(|stored| &stored.path).chain(&snapshot.occupied_paths).collect(),
        }
    }

    /// Proposes to move a private entry out of a shared repository.
    fn propose(&self, stored: &StoredMemory, entry: &ParsedEntry) -> Option<Proposal> {
        if !self.is_writable
            || !stored.path.is_shared()
            || !entry.context.is_empty()
            || stored.trust == Trust::Outside
            || !classify::is_private_entry(entry)
        {
            return None;
        }
        let relative = stored.path.relative()?.clone();
        let target = MemoryPath::inside(Mount::Scope(Scope::Global), relative).ok()?;
        let whole = entry.full_text().to_owned();
        (!self.closed.contains(&target)).then(|| Proposal {
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
}
