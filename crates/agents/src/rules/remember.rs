//! Remember: what becomes of a text that is to be kept.
//!
//! Screened first, its days named. Then it is known already (word for word, in the same place), or says plainly what
//! an entry is now, or is added. Whatever else looks like a repetition or an update becomes a proposal. Text with a
//! form of its own gets a memory of its own.

use std::sync::Arc;

use memory::change::Trust;
use memory::document::{append_entry, replace_entry};
use memory::path::{MemoryPath, Mount, Scope};
use memory::proposal::{EntryReference, Proposal, ProposalKind};
use memory::screen::{Policy, Screen, TextAuthor};

use super::classify::{self, FactClassification, FactOwner};
use super::content::{self, RememberContent};
use super::dates;
use super::duplicate::{NormalizedText, has_blocks, is_fragment};
use super::findings;
use super::frontmatter::{
    PathAllocator, first_words, has_generated_description, memory_title, new_memory_text,
    with_generated_description,
};
use super::similarity::{self, DocumentFrequencies, EntryRelation};
use super::snapshot::{EntryDates, ParsedEntry, ParsedText, Snapshot, StoredMemory};
use super::tokenize::TokenizedText;
use super::update;
use crate::request::{
    ContextMode, CuratorEdit, EntryAction, EntryOutcome, MemoryTopic, RememberError,
    RememberReport, RememberRequest,
};

/// The smallest share of a fact's words, by their weight, that a memory must contain for the fact to be added to it.
const MEMORY_OVERLAP_MIN: f64 = 0.3;

/// The most proposals that one fact makes.
const REMEMBER_PROPOSALS_MAX: usize = 2;

/// Decides what becomes of a text.
///
/// # Errors
///
/// [`RememberError::Screened`] when any of it may not be kept, [`RememberError::ScopeMismatch`] when the scope
/// that was asked for cannot be written, [`RememberError::NoProject`] when it is about this repository and none can be
/// written. Nothing is written then.
pub fn remember(
    snapshot: &Snapshot,
    request: &RememberRequest,
    screen: &Screen,
) -> Result<RememberReport, RememberError> {
    check_screened(screen, &request.content)?;
    let asked =
        request.scope.map(|scope| mount_for(snapshot, scope).ok_or(RememberError::ScopeMismatch));
    let is_clean = request.context_mode == ContextMode::Clean;
    let mut desk = RememberPlan {
        frequencies: reviewed_frequencies(snapshot),
        memories: snapshot.memories.clone(),
        snapshot,
        requested_mount: asked.transpose()?,
        is_clean,
        is_change: similarity::is_change(&TokenizedText::tokenize(&request.content)),
        created_paths: Vec::new(),
        is_review: false,
        changes: Vec::new(),
        proposals: Vec::new(),
    };
    let body = content::content_body(&request.content);
    let today = snapshot.local_date(snapshot.now);
    match content::parse_content(&body) {
        None => {}
        Some(RememberContent::Section(text)) => desk.add_section(&text)?,
        Some(RememberContent::Fact(fact)) => {
            let fact = dates::resolve_relative_dates(&fact, today);
            let facts = content::announced_items(&fact);
            if let [fact] = facts.as_slice() {
                desk.add_fact(fact)?;
            } else {
                let kind = classify::classify(&fact);
                facts.iter().try_for_each(|one| desk.add_classified(one, kind))?;
            }
        }
    }
    Ok(desk.finish())
}

fn reviewed_frequencies(snapshot: &Snapshot) -> DocumentFrequencies {
    let reviewed = snapshot.memories.iter().filter(|stored| !stored.is_unreviewed());
    DocumentFrequencies::from_entries(reviewed.flat_map(|stored| &stored.text.parsed().entries))
}

/// Refuses a text in which screening sees a secret or an order to a model.
pub(crate) fn check_screened(screen: &Screen, text: &str) -> Result<(), RememberError> {
    let found = screen.check(text, TextAuthor::Agent);
    match found.iter().find(|found| found.policy == Policy::Refuse) {
        Some(found) => Err(RememberError::Screened { family: found.family, rule: found.rule }),
        None => Ok(()),
    }
}

/// Returns what people call a mount.
fn scope_label(mount: Mount) -> &'static str {
    match mount {
        Mount::Scope(scope) => scope.into(),
        Mount::Flat => "mounted",
    }
}

/// Returns the mount of a scope, if the caller may write there; the only one of a flat layout.
pub(crate) fn mount_for(snapshot: &Snapshot, scope: Scope) -> Option<Mount> {
    [Mount::Scope(scope), Mount::Flat].into_iter().find(|mount| snapshot.writable.contains(mount))
}

/// What became of a finding of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FindingOutcome {
    /// It is a new entry.
    Added,
    /// An entry says so already.
    AlreadyKnown,
    /// A person is to decide.
    Proposed,
}

/// Memories on the way to what they will be.
pub(super) struct RememberPlan<'a> {
    frequencies: DocumentFrequencies,
    pub(super) memories: Vec<StoredMemory>,
    snapshot: &'a Snapshot,
    requested_mount: Option<Mount>,
    is_clean: bool,
    /// Whether the text says that something is otherwise than it was.
    is_change: bool,
    /// Memories made for this text, which may take more of it although nothing else is seen.
    created_paths: Vec<MemoryPath>,
    /// Whether a background review has it done.
    is_review: bool,
    pub(super) changes: Vec<EntryOutcome>,
    pub(super) proposals: Vec<Proposal>,
}

impl<'a> RememberPlan<'a> {
    /// Returns the memories as a review finds them.
    pub(super) fn for_review(snapshot: &'a Snapshot) -> Self {
        Self {
            frequencies: reviewed_frequencies(snapshot),
            memories: snapshot.memories.clone(),
            snapshot,
            requested_mount: None,
            is_clean: false,
            is_change: false,
            created_paths: Vec::new(),
            is_review: true,
            changes: Vec::new(),
            proposals: Vec::new(),
        }
    }

    /// Takes in what a background review found. An entry that is plainly updated by it is replaced if a review wrote it,
    /// and else the update is proposed.
    pub(super) fn add_finding(
        &mut self,
        fact: &str,
        mount: Mount,
    ) -> Result<FindingOutcome, RememberError> {
        let text = TokenizedText::tokenize(fact);
        let topic = classify::classify(fact).topic;
        self.is_change = similarity::is_change(&text);
        let place = self.best_memory(&text, mount, topic);
        if self.find_known(fact, mount, place).is_some() {
            return Ok(FindingOutcome::AlreadyKnown);
        }
        if let Some((at, old)) = self.find_updated_entry(fact, mount) {
            let stored = &self.memories[at];
            if !findings::may_edit_directly(stored) {
                let proposal = findings::change_proposal(stored, old, Some(fact.to_owned()));
                self.proposals.push(proposal);
                return Ok(FindingOutcome::Proposed);
            }
            return Ok(if self.apply_update(fact, mount) {
                FindingOutcome::Added
            } else {
                FindingOutcome::AlreadyKnown
            });
        }
        let alike = self.similar_entries(&text, fact, mount);
        if alike.iter().any(|one| one.relation.kind == ProposalKind::Repetition) {
            return Ok(FindingOutcome::AlreadyKnown);
        }
        self.insert_entry(fact, (mount, topic), place, alike)?;
        Ok(FindingOutcome::Added)
    }

    /// Takes a fact in: as a whole, or sentence by sentence where it speaks of the person in one and of the project in
    /// another.
    fn add_fact(&mut self, fact: &str) -> Result<(), RememberError> {
        let sentences = content::split_sentences(fact);
        let kinds: Vec<FactClassification> =
            sentences.iter().map(|one| classify::classify(one)).collect();
        let says =
            |whose: FactOwner| kinds.iter().any(|kind| kind.is_explicit && kind.owner == whose);
        if sentences.len() < 2 || !says(FactOwner::User) || !says(FactOwner::Project) {
            return self.add_classified(fact, classify::classify(fact));
        }
        let mut last = kinds.iter().copied().find(|kind| kind.is_explicit);
        for (sentence, kind) in sentences.iter().zip(kinds) {
            last = Some(kind).filter(|kind| kind.is_explicit).or(last);
            self.add_classified(sentence, last.unwrap_or(kind))?;
        }
        Ok(())
    }

    fn add_classified(
        &mut self,
        fact: &str,
        kind: FactClassification,
    ) -> Result<(), RememberError> {
        let mount = self.mount_for_kind(kind)?;
        let text = TokenizedText::tokenize(fact);
        let place = self.best_memory(&text, mount, kind.topic);
        if let Some(path) = self.find_known(fact, mount, place) {
            self.changes.push(entry_outcome(path, EntryAction::Known, fact));
            return Ok(());
        }
        if self.apply_update(fact, mount) {
            return Ok(());
        }
        let alike = self.similar_entries(&text, fact, mount);
        self.insert_entry(fact, (mount, kind.topic), place, alike)
    }

    /// Adds an entry, and proposes what a person should look at beside it.
    fn insert_entry(
        &mut self,
        fact: &str,
        (mount, topic): (Mount, MemoryTopic),
        place: Option<usize>,
        alike: Vec<SimilarEntry>,
    ) -> Result<(), RememberError> {
        let appended =
            place.and_then(|at| Some((at, append_entry(&self.memories[at].text, fact)?)));
        let at = if let Some((at, text)) = appended {
            self.memories[at].text = text.into();
            at
        } else {
            let item = append_entry("", fact);
            self.create_memory(item.as_deref().unwrap_or(fact), fact, (mount, topic))?
        };
        let path = self.memories[at].path.clone();
        self.changes.push(entry_outcome(&path, EntryAction::Added, fact));
        let added =
            self.memories[at].text.parsed().entries.last().map(|note| note.full_text().to_owned());
        if let Some(added) = added {
            let made = alike.into_iter().map(|alike| {
                alike.proposal(&EntryReference { path: path.clone(), text: added.clone() })
            });
            self.proposals.extend(made);
        }
        Ok(())
    }

    /// Takes a text with a form of its own in: as it is, in a memory of its own.
    fn add_section(&mut self, text: &str) -> Result<(), RememberError> {
        let kind = classify::classify(content::strip_lead_in(text));
        let mount = self.mount_for_kind(kind)?;
        let section = ParsedText::from(text);
        let title = content::title_line(text);
        let said = |note: &ParsedEntry| (note.normalized.clone(), Arc::clone(&note.context));
        let all: Vec<_> = section.parsed().entries.iter().map(said).collect();
        let has_all = |stored: &&StoredMemory| {
            let notes = &stored.text.parsed().entries;
            stored.path.mount() == Some(mount)
                && !all.is_empty()
                && notes
                    .windows(all.len())
                    .any(|notes| notes.iter().map(said).eq(all.iter().cloned()))
        };
        let known = self.visible_memories().map(|(_, stored)| stored).find(has_all);
        if let Some(path) = known.map(|stored| stored.path.clone()) {
            self.changes.push(entry_outcome(&path, EntryAction::Known, &title));
            return Ok(());
        }
        let at = self.create_memory(text, &title, (mount, kind.topic))?;
        let path = self.memories[at].path.clone();
        self.changes.push(entry_outcome(&path, EntryAction::Added, &title));
        Ok(())
    }

    /// Makes a memory with this body.
    fn create_memory(
        &mut self,
        body: &str,
        title: &str,
        (mount, topic): (Mount, MemoryTopic),
    ) -> Result<usize, RememberError> {
        let mut names = PathAllocator::from_memories(&self.memories, self.snapshot);
        let path = names.allocate(title, mount, topic).ok_or(RememberError::ScopeMismatch)?;
        let text = new_memory_text(body, title, topic).into();
        self.created_paths.push(path.clone());
        let (written, trust) = (EntryDates::Unknown, Trust::Background);
        self.memories.push(StoredMemory {
            path,
            text,
            pinned: false,
            entry_dates: written,
            trust,
            influenced: false,
            written_by_review: self.is_review,
        });
        Ok(self.memories.len() - 1)
    }

    fn mount_for_kind(&self, kind: FactClassification) -> Result<Mount, RememberError> {
        if let Some(mount) = self.requested_mount {
            return Ok(mount);
        }
        let first =
            |scopes: &[Scope]| scopes.iter().find_map(|scope| mount_for(self.snapshot, *scope));
        match kind.owner {
            FactOwner::Project if kind.names_project => {
                first(&[Scope::Project]).ok_or(RememberError::NoProject)
            }
            // What is about a person is never shared with a repository unasked.
            FactOwner::User => {
                first(&[Scope::Global, Scope::Workspace]).ok_or(RememberError::ScopeMismatch)
            }
            FactOwner::Project => first(&[Scope::Project, Scope::Workspace, Scope::Global])
                .ok_or(RememberError::ScopeMismatch),
        }
    }

    /// Returns the memories that may be looked at. What a review wrote may be rejected yet, so that it makes nothing known
    /// that a caller asked for.
    fn visible_memories(&self) -> impl Iterator<Item = (usize, &StoredMemory)> {
        let is_seen = |stored: &StoredMemory| {
            !stored.is_unreviewed()
                && (self.is_review || !stored.written_by_review)
                && (!self.is_clean || self.created_paths.contains(&stored.path))
        };
        self.memories.iter().enumerate().filter(move |(_, stored)| is_seen(stored))
    }

    /// Tells whether a memory says a fact already, word for word.
    pub(super) fn is_known(&self, fact: &str, mount: Mount) -> bool {
        self.find_known(fact, mount, None).is_some()
    }

    /// Finds the memory that says a fact already, word for word. A fragment such as `Owner: Ada` is known only in the
    /// memory where it would go; elsewhere it is about another thing.
    fn find_known(&self, fact: &str, mount: Mount, place: Option<usize>) -> Option<&MemoryPath> {
        let form = NormalizedText::new(fact);
        let is_fragment = is_fragment(fact);
        let is_near = |stored: &StoredMemory| {
            let of = stored.path.mount();
            of == Some(mount)
                || (self.requested_mount.is_none() && of == Some(Mount::Scope(Scope::Global)))
        };
        let says = |note: &ParsedEntry| {
            note.normalized == form && note.context.is_empty() && !note.is_step
        };
        self.visible_memories()
            .filter(|(at, stored)| if is_fragment { Some(*at) == place } else { is_near(stored) })
            .find(|(_, stored)| stored.text.parsed().entries.iter().any(says))
            .map(|(_, stored)| &stored.path)
    }

    /// Finds the only entry that a fact plainly updates; `None` if there is none, or several.
    fn find_updated_entry(&self, fact: &str, mount: Mount) -> Option<(usize, &ParsedEntry)> {
        let is_updated = |note: &&ParsedEntry| {
            note.context.is_empty()
                && !note.has_reasons()
                && update::replaces(fact, note.statement())
        };
        let of_mount =
            self.visible_memories().filter(|(_, stored)| stored.path.mount() == Some(mount));
        let found: Vec<(usize, &ParsedEntry)> = of_mount
            .flat_map(|(at, stored)| {
                stored.text.parsed().entries.iter().filter(is_updated).map(move |note| (at, note))
            })
            .collect();
        match found.as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }

    /// Puts the fact in place of the only entry that it plainly updates; `false` if there is none, or several.
    fn apply_update(&mut self, fact: &str, mount: Mount) -> bool {
        let Some((at, old)) = self.find_updated_entry(fact, mount) else { return false };
        let stored = &self.memories[at];
        if !self.snapshot.may_edit(stored) {
            return false;
        }
        let Some(text) = replace_entry(&stored.text, &old.entry, fact) else { return false };
        let change = entry_outcome(&stored.path, EntryAction::Updated, fact);
        let text = ParsedText::from(text);
        // A description that was made of the entry would still tell the old value.
        let text = if has_generated_description(stored) {
            with_generated_description(&text)
        } else {
            text
        };
        self.memories[at].text = text;
        self.changes.push(change);
        true
    }

    /// Finds entries that a person should look at beside a fact, the likeliest first.
    fn similar_entries(&self, text: &TokenizedText, fact: &str, mount: Mount) -> Vec<SimilarEntry> {
        let newer = similarity::ComparedStatement { text, source: fact, is_change: self.is_change };
        let form = NormalizedText::new(fact);
        let of_mount = self
            .visible_memories()
            .filter(|(_, stored)| stored.path.mount() == Some(mount) && !stored.pinned);
        let mut found: Vec<SimilarEntry> = of_mount
            .flat_map(|(_, stored)| {
                stored.text.parsed().entries.iter().map(move |note| (stored, note))
            })
            // Words of code, tables and lists are no statement that another one could repeat or replace.
            .filter(|(_, note)| !note.is_step && !has_blocks(note.full_text()))
            .filter_map(|(stored, note)| {
                let likeness = if note.normalized == form {
                    EntryRelation {
                        kind: ProposalKind::Repetition,
                        score: 80,
                        removes_older: false,
                    }
                } else if similarity::changes_value(note.into(), newer) {
                    EntryRelation { kind: ProposalKind::Update, score: 55, removes_older: true }
                } else {
                    similarity::compare_statements(note.into(), newer, &self.frequencies)?
                };
                let other =
                    EntryReference { path: stored.path.clone(), text: note.full_text().to_owned() };
                Some(SimilarEntry {
                    relation: likeness,
                    overlap: similarity::overlap(note.into(), newer, &self.frequencies),
                    entry: other,
                })
            })
            .collect();
        found.sort_by(|a, b| {
            b.relation.score.cmp(&a.relation.score).then_with(|| b.overlap.total_cmp(&a.overlap))
        });
        found.truncate(REMEMBER_PROPOSALS_MAX);
        found
    }

    /// Finds the memory that speaks of the same: of the same mount and topic, with the most words in common.
    fn best_memory(&self, fact: &TokenizedText, mount: Mount, topic: MemoryTopic) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        for (at, stored) in self.visible_memories() {
            let read = stored.text.parsed();
            let own_topic =
                MemoryTopic::declared_or_default(read.header.kind.as_deref(), &stored.path);
            if stored.path.mount() != Some(mount)
                || own_topic != topic
                || !read.can_append()
                // What a review writes waits for a person, and nothing else is to wait with it.
                || stored.written_by_review != self.is_review
                || (self.is_review && stored.pinned)
            {
                continue;
            }
            let share = if self.created_paths.contains(&stored.path) {
                1.0
            } else {
                let words = TokenizedText::tokenize(&memory_title(stored));
                let texts = read.entries.iter().map(ParsedEntry::tokenized).chain([&words]);
                similarity::overlap_with(fact, texts, &self.frequencies)
            };
            if share >= MEMORY_OVERLAP_MIN && best.is_none_or(|(_, most)| share > most) {
                best = Some((at, share));
            }
        }
        best.map(|(at, _)| at)
    }

    pub(super) fn finish(self) -> RememberReport {
        let mut done = RememberReport {
            changes: self.changes,
            proposals: self.proposals,
            ..RememberReport::default()
        };
        let mut before = self.snapshot.memories.iter();
        for stored in self.memories {
            if before.next().is_some_and(|before| before.text == stored.text) {
                continue;
            }
            done.scopes.extend(stored.path.mount());
            done.changed_paths.push(stored.path.clone());
            done.edits
                .push(CuratorEdit::Write { path: stored.path, text: stored.text.to_string() });
        }
        let count = |action| done.changes.iter().filter(|one| one.action == action).count();
        let known = count(EntryAction::Known);
        done.summary = if done.edits.is_empty() && known == 0 {
            "Nothing to save: it states nothing.".to_owned()
        } else if done.edits.is_empty() {
            "Nothing to save: it is known already.".to_owned()
        } else {
            let scopes: Vec<&str> = done.scopes.iter().map(|mount| scope_label(*mount)).collect();
            format!(
                "Saved to the {} memories: {} new, {} updated, {known} known already.",
                scopes.join(" and "),
                count(EntryAction::Added),
                count(EntryAction::Updated),
            )
        };
        done
    }
}

/// An entry that a person should look at beside a new fact.
struct SimilarEntry {
    relation: EntryRelation,
    overlap: f64,
    entry: EntryReference,
}

impl SimilarEntry {
    fn proposal(self, added: &EntryReference) -> Proposal {
        similarity::relation_proposal(self.relation, &self.entry, added)
    }
}

/// Returns what an answer tells of an entry.
pub(crate) fn entry_outcome(path: &MemoryPath, action: EntryAction, entry: &str) -> EntryOutcome {
    EntryOutcome { path: path.clone(), action, summary: first_words(entry) }
}
