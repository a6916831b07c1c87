//! Remember: decides what becomes of a text to keep.
//!
//! The text is screened, and its relative dates are resolved. Each fact is then known already (word for word, in
//! the same place), or plainly updates one entry, or is added. Other repetitions and updates become proposals. Text
//! with its own structure, such as lists and headings, gets a memory of its own.

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
use super::fingerprints::{TokenFingerprint, significant_keys, token_fingerprints};
use super::frontmatter::{
    PathAllocator, first_words, has_generated_description, memory_edit, memory_title,
    new_memory_text, title_fingerprints, with_generated_description,
};
use super::similarity::{
    self, ComparedStatement, DocumentFrequencies, EntryRelation, RelationFilter,
};
use super::snapshot::{EntryDates, ParsedEntry, ParsedText, Snapshot, StoredMemory};
use super::subject::Subject;
use super::tokenize::TokenizedText;
use super::update::Replacement;
use crate::request::{
    ContextMode, EntryAction, EntryOutcome, MemoryTopic, RememberError, RememberReport,
    RememberRequest,
};

/// Maximum number of proposals for one fact.
const REMEMBER_PROPOSALS_MAX: usize = 2;

/// Decides what becomes of a text. Edits are returned, not written.
///
/// # Errors
///
/// [`RememberError::Screened`] if screening refuses the text, [`RememberError::ScopeMismatch`] if the requested
/// scope cannot be written. [`RememberError::NoProject`] if the text is about a repository and no writable one is
/// bound.
pub fn remember(
    snapshot: &Snapshot,
    request: &RememberRequest,
    screen: &Screen,
) -> Result<RememberReport, RememberError> {
    check_screened(screen, &request.content)?;
    let requested_mount =
        request.scope.map(|scope| mount_for(snapshot, scope).ok_or(RememberError::ScopeMismatch));
    let is_clean = request.context_mode == ContextMode::Clean;
    let mut plan = RememberPlan {
        frequencies: uncounted_frequencies(snapshot),
        memories: snapshot.memories.clone(),
        snapshot,
        requested_mount: requested_mount.transpose()?,
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
        Some(RememberContent::Section(text)) => plan.add_section(&text)?,
        Some(RememberContent::Fact(fact)) => {
            let fact = dates::resolve_relative_dates(&fact, today);
            let facts = content::announced_items(&fact);
            if let [fact] = facts.as_slice() {
                plan.add_fact(fact)?;
            } else {
                let kind = classify::classify(&fact);
                facts.iter().try_for_each(|fact| plan.add_classified(fact, kind))?;
            }
        }
    }
    Ok(plan.finish())
}

/// Returns the entries that words are counted in.
fn reviewed_entries(snapshot: &Snapshot) -> impl Iterator<Item = &ParsedEntry> {
    let reviewed = snapshot.memories.iter().filter(|stored| !stored.is_unreviewed());
    reviewed.flat_map(|stored| &stored.text.parsed().entries)
}

fn uncounted_frequencies(snapshot: &Snapshot) -> DocumentFrequencies {
    DocumentFrequencies::in_entries(reviewed_entries(snapshot).count())
}

/// Refuses a text with a secret or an injected instruction.
pub(crate) fn check_screened(screen: &Screen, text: &str) -> Result<(), RememberError> {
    let findings = screen.check(text, TextAuthor::Agent);
    match findings.iter().find(|finding| finding.policy == Policy::Refuse) {
        Some(finding) => {
            Err(RememberError::Screened { family: finding.family, rule: finding.rule })
        }
        None => Ok(()),
    }
}

/// Returns the name of a mount for people.
fn scope_label(mount: Mount) -> &'static str {
    match mount {
        Mount::Scope(scope) => scope.into(),
        Mount::Flat => "mounted",
    }
}

/// Returns the mount of a scope, or the only one of a flat layout, if the caller may write there.
pub(crate) fn mount_for(snapshot: &Snapshot, scope: Scope) -> Option<Mount> {
    [Mount::Scope(scope), Mount::Flat].into_iter().find(|mount| snapshot.writable.contains(mount))
}

/// Outcome of a review's finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FindingOutcome {
    /// Added as a new entry, or in place of an outdated one.
    Added,
    /// An entry says so already.
    AlreadyKnown,
    /// Proposed to a person.
    Proposed,
}

/// The memories while a task edits them, with its decisions so far.
pub(super) struct RememberPlan<'a> {
    frequencies: DocumentFrequencies,
    pub(super) memories: Vec<StoredMemory>,
    snapshot: &'a Snapshot,
    requested_mount: Option<Mount>,
    is_clean: bool,
    /// Whether the text says that something changed.
    is_change: bool,
    /// Memories created for this text; more of it may be added to them even in a clean context.
    created_paths: Vec<MemoryPath>,
    /// Whether the task is a background review.
    is_review: bool,
    pub(super) changes: Vec<EntryOutcome>,
    pub(super) proposals: Vec<Proposal>,
}

impl<'a> RememberPlan<'a> {
    /// Starts a plan for the findings of a review.
    pub(super) fn for_review(snapshot: &'a Snapshot) -> Self {
        Self {
            frequencies: uncounted_frequencies(snapshot),
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

    /// Adds a finding of a background review. If it plainly updates an entry, the entry is replaced if a review
    /// wrote it; else the update is proposed.
    pub(super) fn add_finding(
        &mut self,
        fact: &str,
        mount: Mount,
    ) -> Result<FindingOutcome, RememberError> {
        let text = TokenizedText::tokenize(fact);
        let topic = classify::classify(fact).topic;
        self.is_change = similarity::is_change(&text);
        self.count_words(&token_fingerprints(&text));
        let target = self.best_memory((&text, fact), mount, topic);
        if self.find_known(fact, mount, target).is_some() {
            return Ok(FindingOutcome::AlreadyKnown);
        }
        if let Some((index, old)) = self.find_updated_entry(fact, mount) {
            let stored = &self.memories[index];
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
        let similar = self.similar_entries(&text, fact, mount);
        if similar.iter().any(|entry| entry.relation.kind == ProposalKind::Repetition) {
            return Ok(FindingOutcome::AlreadyKnown);
        }
        self.insert_entry(fact, (mount, topic), target, similar)?;
        Ok(FindingOutcome::Added)
    }

    /// Adds a fact, as a whole or by sentence: a text about both the person and the project goes to two scopes.
    fn add_fact(&mut self, fact: &str) -> Result<(), RememberError> {
        let sentences = content::split_sentences(fact);
        let kinds: Vec<FactClassification> =
            sentences.iter().map(|sentence| classify::classify(sentence)).collect();
        let has_owner =
            |owner: FactOwner| kinds.iter().any(|kind| kind.is_explicit && kind.owner == owner);
        if sentences.len() < 2 || !has_owner(FactOwner::User) || !has_owner(FactOwner::Project) {
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
        self.count_words(&token_fingerprints(&text));
        let target = self.best_memory((&text, fact), mount, kind.topic);
        if let Some(path) = self.find_known(fact, mount, target) {
            self.changes.push(entry_outcome(path, EntryAction::Known, fact));
            return Ok(());
        }
        if self.apply_update(fact, mount) {
            return Ok(());
        }
        let similar = self.similar_entries(&text, fact, mount);
        self.insert_entry(fact, (mount, kind.topic), target, similar)
    }

    /// Counts the entries with the words of a text, whose weights are needed.
    fn count_words(&mut self, text: &[TokenFingerprint]) {
        self.frequencies.count_words(significant_keys(text), reviewed_entries(self.snapshot));
    }

    /// Adds an entry, and proposals about the similar ones.
    fn insert_entry(
        &mut self,
        fact: &str,
        (mount, topic): (Mount, MemoryTopic),
        target: Option<usize>,
        similar: Vec<SimilarEntry>,
    ) -> Result<(), RememberError> {
        let appended =
            target.and_then(|index| Some((index, append_entry(&self.memories[index].text, fact)?)));
        let index = if let Some((index, text)) = appended {
            let text = ParsedText::from(text);
            let stored = &mut self.memories[index];
            // The description of a memory made for this text says all that the text puts there.
            let is_new = self.created_paths.contains(&stored.path);
            let describes = is_new && has_generated_description(&stored.text);
            stored.text = if describes { with_generated_description(&text) } else { text };
            index
        } else {
            let item = append_entry("", fact);
            self.create_memory(item.as_deref().unwrap_or(fact), fact, (mount, topic))?
        };
        let path = self.memories[index].path.clone();
        self.changes.push(entry_outcome(&path, EntryAction::Added, fact));
        let added = self.memories[index]
            .text
            .parsed()
            .entries
            .last()
            .map(|entry| entry.full_text().to_owned());
        if let Some(added) = added {
            let proposals = similar.into_iter().map(|similar| {
                similar.proposal(&EntryReference { path: path.clone(), text: added.clone() })
            });
            self.proposals.extend(proposals);
        }
        Ok(())
    }

    /// Adds a text with its own structure, unchanged, in a memory of its own.
    fn add_section(&mut self, text: &str) -> Result<(), RememberError> {
        let kind = classify::classify(content::strip_lead_in(text));
        let mount = self.mount_for_kind(kind)?;
        let section = ParsedText::from(text);
        let title = content::title_line(text);
        let is_same = |a: &ParsedEntry, b: &ParsedEntry| {
            a.normalized == b.normalized && a.context == b.context
        };
        let all = &section.parsed().entries;
        let has_all = |stored: &&StoredMemory| {
            let entries = &stored.text.parsed().entries;
            stored.path.mount() == Some(mount)
                && !all.is_empty()
                && entries
                    .windows(all.len())
                    .any(|entries| entries.iter().zip(all).all(|(a, b)| is_same(a, b)))
        };
        let existing = self.visible_memories().map(|(_, stored)| stored).find(has_all);
        if let Some(path) = existing.map(|stored| stored.path.clone()) {
            self.changes.push(entry_outcome(&path, EntryAction::Known, &title));
            return Ok(());
        }
        let index = self.create_memory(text, &title, (mount, kind.topic))?;
        let path = self.memories[index].path.clone();
        self.changes.push(entry_outcome(&path, EntryAction::Added, &title));
        Ok(())
    }

    /// Creates a memory with this body; returns its index.
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
        self.memories.push(StoredMemory {
            path,
            text,
            pinned: false,
            entry_dates: EntryDates::Unknown,
            trust: Trust::Background,
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
            // A fact about a person is never shared with a repository unasked.
            FactOwner::User => {
                first(&[Scope::Global, Scope::Workspace]).ok_or(RememberError::ScopeMismatch)
            }
            FactOwner::Project => first(&[Scope::Project, Scope::Workspace, Scope::Global])
                .ok_or(RememberError::ScopeMismatch),
        }
    }

    /// Returns the memories that decisions may be based on. A memory by a review may yet be rejected, so it makes
    /// no requested fact known. One side of a merge conflict may be rejected, too.
    fn visible_memories(&self) -> impl Iterator<Item = (usize, &StoredMemory)> {
        let is_seen = |stored: &StoredMemory| {
            !stored.is_unreviewed()
                && !stored.has_conflict()
                && (self.is_review || !stored.written_by_review)
                && (!self.is_clean || self.created_paths.contains(&stored.path))
        };
        self.memories.iter().enumerate().filter(move |(_, stored)| is_seen(stored))
    }

    /// Checks whether a memory has a fact already, word for word.
    pub(super) fn is_known(&self, fact: &str, mount: Mount) -> bool {
        self.find_known(fact, mount, None).is_some()
    }

    /// Returns the memory that has a fact already, word for word. A fragment such as `Owner: Ada` is known only in
    /// its target memory; elsewhere it is about another thing.
    fn find_known(&self, fact: &str, mount: Mount, target: Option<usize>) -> Option<&MemoryPath> {
        let form = NormalizedText::new(fact);
        let is_fragment = is_fragment(fact);
        let is_near = |stored: &StoredMemory| {
            let of = stored.path.mount();
            of == Some(mount)
                || (self.requested_mount.is_none() && of == Some(Mount::Scope(Scope::Global)))
        };
        let says = |entry: &ParsedEntry| {
            entry.normalized == form && entry.context.is_empty() && !entry.is_step
        };
        self.visible_memories()
            .filter(
                |(index, stored)| {
                    if is_fragment { Some(*index) == target } else { is_near(stored) }
                },
            )
            .find(|(_, stored)| stored.text.parsed().entries.iter().any(says))
            .map(|(_, stored)| &stored.path)
    }

    /// Returns the only entry that a fact plainly updates; `None` if there is none, or several.
    fn find_updated_entry(&self, fact: &str, mount: Mount) -> Option<(usize, &ParsedEntry)> {
        let replacement = Replacement::parse(fact)?;
        let is_updated = |entry: &&ParsedEntry| {
            // Without reasons the statement is the whole entry, and so is its normal form.
            entry.context.is_empty()
                && !entry.has_reasons()
                && replacement.replaces(entry.statement(), &entry.normalized)
        };
        let of_mount =
            self.visible_memories().filter(|(_, stored)| stored.path.mount() == Some(mount));
        let matches: Vec<(usize, &ParsedEntry)> = of_mount
            .flat_map(|(index, stored)| {
                stored
                    .text
                    .parsed()
                    .entries
                    .iter()
                    .filter(is_updated)
                    .map(move |entry| (index, entry))
            })
            .collect();
        match matches.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// Replaces the only entry that a fact plainly updates; returns `false` if there is none, or several.
    fn apply_update(&mut self, fact: &str, mount: Mount) -> bool {
        let Some((index, old)) = self.find_updated_entry(fact, mount) else { return false };
        let stored = &self.memories[index];
        if !self.snapshot.may_edit(stored) {
            return false;
        }
        let Some(text) = replace_entry(&stored.text, &old.entry(), fact) else { return false };
        let change = entry_outcome(&stored.path, EntryAction::Updated, fact);
        self.memories[index].text = text.into();
        self.changes.push(change);
        true
    }

    /// Returns entries similar to a fact that a person should compare with it, most similar first.
    fn similar_entries(
        &mut self,
        text: &TokenizedText,
        fact: &str,
        mount: Mount,
    ) -> Vec<SimilarEntry> {
        let form = NormalizedText::new(fact);
        let newer = token_fingerprints(text);
        let filter = RelationFilter::new(&newer, self.is_change);
        let candidates = self.comparable_entries(mount, &form, &filter);
        let words = candidates.iter().flat_map(|&(memory, index)| {
            self.memories[memory].text.parsed().entries[index].fingerprints().statement.iter()
        });
        let words: Vec<TokenFingerprint> = words.copied().collect();
        self.count_words(&words);
        let newer = ComparedStatement { text, source: fact, is_change: self.is_change };
        let mut similar: Vec<SimilarEntry> = candidates
            .into_iter()
            .filter_map(|(memory, index)| {
                let stored = &self.memories[memory];
                let entry = &stored.text.parsed().entries[index];
                let text = entry.tokenize();
                let older = ComparedStatement::of_entry(entry, &text);
                let relation = if entry.normalized == form {
                    EntryRelation {
                        kind: ProposalKind::Repetition,
                        score: 80,
                        removes_older: false,
                    }
                } else if similarity::changes_value(older, newer) {
                    EntryRelation { kind: ProposalKind::Update, score: 55, removes_older: true }
                } else {
                    similarity::compare_statements(older, newer, &self.frequencies)?
                };
                let (path, text) = (stored.path.clone(), entry.full_text().to_owned());
                Some(SimilarEntry {
                    relation,
                    overlap: similarity::overlap(older, newer, &self.frequencies),
                    entry: EntryReference { path, text },
                })
            })
            .collect();
        similar.sort_by(|a, b| {
            b.relation.score.cmp(&a.relation.score).then_with(|| b.overlap.total_cmp(&a.overlap))
        });
        similar.truncate(REMEMBER_PROPOSALS_MAX);
        similar
    }

    /// Returns the indexes of memories and entries of a mount that may be similar to a statement. Code, tables and
    /// lists are no statements that could be repeated or replaced.
    fn comparable_entries(
        &self,
        mount: Mount,
        form: &NormalizedText,
        filter: &RelationFilter<'_>,
    ) -> Vec<(usize, usize)> {
        let of_mount = self
            .visible_memories()
            .filter(|(_, stored)| stored.path.mount() == Some(mount) && !stored.pinned);
        let entries = of_mount.flat_map(|(memory, stored)| {
            let entries = stored.text.parsed().entries.iter().enumerate();
            entries.map(move |(index, entry)| ((memory, index), entry))
        });
        let is_comparable = |(_, entry): &(_, &ParsedEntry)| {
            let words = entry.fingerprints();
            let may_be_similar = entry.normalized == *form
                || filter.may_change_value(words)
                || filter.may_relate(words, &self.frequencies);
            may_be_similar && !entry.is_step && !has_blocks(entry.full_text())
        };
        entries.filter(is_comparable).map(|(indexes, _)| indexes).collect()
    }

    /// Returns the index of the memory with a statement about the same subject, in the same mount and topic. Among
    /// several, it is the one that shares most of the fact's subject words.
    fn best_memory(
        &self,
        (fact, source): (&TokenizedText, &str),
        mount: Mount,
        topic: MemoryTopic,
    ) -> Option<usize> {
        let subject = Subject::new(fact, source, &self.frequencies);
        let mut best: Option<(usize, f64)> = None;
        for (index, stored) in self.visible_memories() {
            let parsed = stored.text.parsed();
            let own_topic =
                MemoryTopic::declared_or_default(parsed.header.kind.as_deref(), &stored.path);
            if stored.path.mount() != Some(mount)
                || own_topic != topic
                || !parsed.can_append()
                // A memory by a review waits for a person; a requested fact must not wait with it.
                || stored.written_by_review != self.is_review
                || (self.is_review && stored.pinned)
            {
                continue;
            }
            let share = if self.created_paths.contains(&stored.path) {
                Some(1.0)
            } else if subject.may_match(&parsed.entries, &title_fingerprints(stored)) {
                let title = memory_title(stored);
                let entries = parsed.entries.iter().map(ParsedEntry::statement);
                let shares =
                    entries.chain(title.lines()).filter_map(|text| subject.share_with(text));
                shares.max_by(f64::total_cmp)
            } else {
                None
            };
            if let Some(share) = share
                && best.is_none_or(|(_, most)| share > most)
            {
                best = Some((index, share));
            }
        }
        best.map(|(index, _)| index)
    }

    pub(super) fn finish(self) -> RememberReport {
        let mut report = RememberReport {
            changes: self.changes,
            proposals: self.proposals,
            ..RememberReport::default()
        };
        let mut before = self.snapshot.memories.iter();
        for stored in self.memories {
            let before = before.next();
            if before.is_some_and(|before| before.text == stored.text) {
                continue;
            }
            report.scopes.extend(stored.path.mount());
            report.changed_paths.push(stored.path.clone());
            // A memory made for this text is not in the snapshot.
            let text = stored.text.to_string();
            report.edits.push(memory_edit(before.unwrap_or(&stored), text));
        }
        let count = |action| report.changes.iter().filter(|change| change.action == action).count();
        let known = count(EntryAction::Known);
        report.summary = if report.edits.is_empty() && known == 0 {
            "Nothing to save: it states nothing.".to_owned()
        } else if report.edits.is_empty() {
            "Nothing to save: it is known already.".to_owned()
        } else {
            let scopes: Vec<&str> = report.scopes.iter().map(|mount| scope_label(*mount)).collect();
            format!(
                "Saved to the {} memories: {} new, {} updated, {known} known already.",
                scopes.join(" and "),
                count(EntryAction::Added),
                count(EntryAction::Updated),
            )
        };
        report
    }
}

/// An entry to compare with a new fact.
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

/// Returns the outcome of an entry, with its first words.
pub(crate) fn entry_outcome(path: &MemoryPath, action: EntryAction, entry: &str) -> EntryOutcome {
    EntryOutcome { path: path.clone(), action, summary: first_words(entry) }
}
