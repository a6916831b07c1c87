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

use super::about::{Names, described_anew, first_words, fresh, is_made_of_entries, title};
use super::book::{Note, Snapshot, Source, Stored, Written};
use super::classify::{self, Kind, Whose};
use super::facts::{self, Said};
use super::found;
use super::same::{Form, has_blocks, is_fragment};
use super::similar::{self, Likeness, Weights};
use super::update;
use super::when;
use super::words::Text;
use crate::request::{
    ContextMode, Edit, EntryAction, EntryNote, Refusal, RememberRequest, Remembered, Topic,
};

/// The smallest share of a fact's words, by their weight, that a memory must contain for the fact to be added to it.
const PLACE_SHARE_MIN: f64 = 0.3;

/// The most proposals that one fact makes.
const REMEMBER_PROPOSALS_MAX: usize = 2;

/// Decides what becomes of a text.
///
/// # Errors
///
/// [`Refusal::Screened`] when any of it may not be kept, [`Refusal::ScopeMismatch`] when the scope
/// that was asked for cannot be written, [`Refusal::NoProject`] when it is about this repository and none can be
/// written. Nothing is written then.
pub fn remember(
    snapshot: &Snapshot,
    request: &RememberRequest,
    screen: &Screen,
) -> Result<Remembered, Refusal> {
    check_screened(screen, &request.content)?;
    let asked = request.scope.map(|scope| mount_for(snapshot, scope).ok_or(Refusal::ScopeMismatch));
    let is_clean = request.context_mode == ContextMode::Clean;
    let mut desk = Desk {
        weights: weights(snapshot),
        memories: snapshot.memories.clone(),
        snapshot,
        asked: asked.transpose()?,
        is_clean,
        is_change: similar::is_change(&Text::read(&request.content)),
        opened: Vec::new(),
        is_review: false,
        changes: Vec::new(),
        proposals: Vec::new(),
    };
    let body = facts::said(&request.content);
    let today = snapshot.day_of(snapshot.now);
    match facts::read(&body) {
        None => {}
        Some(Said::Section(text)) => desk.take_section(&text)?,
        Some(Said::Fact(fact)) => {
            let fact = when::absolute(&fact, today);
            let facts = facts::announced(&fact);
            if let [fact] = facts.as_slice() {
                desk.take(fact)?;
            } else {
                let kind = classify::kind(&fact);
                facts.iter().try_for_each(|one| desk.take_as(one, kind))?;
            }
        }
    }
    Ok(desk.finish())
}

fn weights(snapshot: &Snapshot) -> Weights {
    let reviewed = snapshot.memories.iter().filter(|stored| !stored.is_unreviewed());
    Weights::of(reviewed.flat_map(|stored| &stored.text.read().notes))
}

/// Refuses a text in which screening sees a secret or an order to a model.
pub(crate) fn check_screened(screen: &Screen, text: &str) -> Result<(), Refusal> {
    let found = screen.check(text, TextAuthor::Agent);
    match found.iter().find(|found| found.policy == Policy::Refuse) {
        Some(found) => Err(Refusal::Screened { family: found.family, rule: found.rule }),
        None => Ok(()),
    }
}

/// Returns what people call a mount.
fn scope_word(mount: Mount) -> &'static str {
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
pub(super) enum Taken {
    /// It is a new entry.
    Added,
    /// An entry says so already.
    Known,
    /// A person is to decide.
    Proposed,
}

/// Memories on the way to what they will be.
pub(super) struct Desk<'a> {
    weights: Weights,
    pub(super) memories: Vec<Stored>,
    snapshot: &'a Snapshot,
    asked: Option<Mount>,
    is_clean: bool,
    /// Whether the text says that something is otherwise than it was.
    is_change: bool,
    /// Memories made for this text, which may take more of it although nothing else is seen.
    opened: Vec<MemoryPath>,
    /// Whether a background review has it done.
    is_review: bool,
    pub(super) changes: Vec<EntryNote>,
    pub(super) proposals: Vec<Proposal>,
}

impl<'a> Desk<'a> {
    /// Returns the memories as a review finds them.
    pub(super) fn of_review(snapshot: &'a Snapshot) -> Self {
        Self {
            weights: weights(snapshot),
            memories: snapshot.memories.clone(),
            snapshot,
            asked: None,
            is_clean: false,
            is_change: false,
            opened: Vec::new(),
            is_review: true,
            changes: Vec::new(),
            proposals: Vec::new(),
        }
    }

    /// Takes in what a background review found. An entry that is plainly updated by it is replaced if a review wrote it,
    /// and else the update is proposed.
    pub(super) fn take_found(&mut self, fact: &str, mount: Mount) -> Result<Taken, Refusal> {
        let text = Text::read(fact);
        let topic = classify::kind(fact).topic;
        self.is_change = similar::is_change(&text);
        let place = self.place(&text, mount, topic);
        if self.known_at(fact, mount, place).is_some() {
            return Ok(Taken::Known);
        }
        if let Some((at, old)) = self.updated_by(fact, mount) {
            let stored = &self.memories[at];
            if !found::is_own(stored) {
                let proposal = found::proposal(stored, old, Some(fact.to_owned()));
                self.proposals.push(proposal);
                return Ok(Taken::Proposed);
            }
            return Ok(if self.update(fact, mount) { Taken::Added } else { Taken::Known });
        }
        let alike = self.alike(&text, fact, mount);
        if alike.iter().any(|one| one.likeness.kind == ProposalKind::Repetition) {
            return Ok(Taken::Known);
        }
        self.add(fact, (mount, topic), place, alike)?;
        Ok(Taken::Added)
    }

    /// Takes a fact in: as a whole, or sentence by sentence where it speaks of the person in one and of the project in
    /// another.
    fn take(&mut self, fact: &str) -> Result<(), Refusal> {
        let sentences = facts::sentences(fact);
        let kinds: Vec<Kind> = sentences.iter().map(|one| classify::kind(one)).collect();
        let says = |whose: Whose| kinds.iter().any(|kind| kind.is_plain && kind.whose == whose);
        if sentences.len() < 2 || !says(Whose::Person) || !says(Whose::Project) {
            return self.take_as(fact, classify::kind(fact));
        }
        let mut last = kinds.iter().copied().find(|kind| kind.is_plain);
        for (sentence, kind) in sentences.iter().zip(kinds) {
            last = Some(kind).filter(|kind| kind.is_plain).or(last);
            self.take_as(sentence, last.unwrap_or(kind))?;
        }
        Ok(())
    }

    fn take_as(&mut self, fact: &str, kind: Kind) -> Result<(), Refusal> {
        let mount = self.mount_of(kind)?;
        let text = Text::read(fact);
        let place = self.place(&text, mount, kind.topic);
        if let Some(path) = self.known_at(fact, mount, place) {
            self.changes.push(note(path, EntryAction::Known, fact));
            return Ok(());
        }
        if self.update(fact, mount) {
            return Ok(());
        }
        let alike = self.alike(&text, fact, mount);
        self.add(fact, (mount, kind.topic), place, alike)
    }

    /// Adds an entry, and proposes what a person should look at beside it.
    fn add(
        &mut self,
        fact: &str,
        (mount, topic): (Mount, Topic),
        place: Option<usize>,
        alike: Vec<Alike>,
    ) -> Result<(), Refusal> {
        let appended =
            place.and_then(|at| Some((at, append_entry(&self.memories[at].text, fact)?)));
        let at = if let Some((at, text)) = appended {
            self.memories[at].text = text.into();
            at
        } else {
            let item = append_entry("", fact);
            self.open(item.as_deref().unwrap_or(fact), fact, (mount, topic))?
        };
        let path = self.memories[at].path.clone();
        self.changes.push(note(&path, EntryAction::Added, fact));
        let added = self.memories[at].text.read().notes.last().map(|note| note.whole().to_owned());
        if let Some(added) = added {
            let made = alike.into_iter().map(|alike| {
                alike.proposal(&EntryReference { path: path.clone(), text: added.clone() })
            });
            self.proposals.extend(made);
        }
        Ok(())
    }

    /// Takes a text with a form of its own in: as it is, in a memory of its own.
    fn take_section(&mut self, text: &str) -> Result<(), Refusal> {
        let kind = classify::kind(facts::bare(text));
        let mount = self.mount_of(kind)?;
        let section = Source::from(text);
        let title = facts::title(text);
        let said = |note: &Note| (note.form.clone(), Arc::clone(&note.context));
        let all: Vec<_> = section.read().notes.iter().map(said).collect();
        let has_all = |stored: &&Stored| {
            let notes = &stored.text.read().notes;
            stored.path.mount() == Some(mount)
                && !all.is_empty()
                && notes
                    .windows(all.len())
                    .any(|notes| notes.iter().map(said).eq(all.iter().cloned()))
        };
        let known = self.seen().map(|(_, stored)| stored).find(has_all);
        if let Some(path) = known.map(|stored| stored.path.clone()) {
            self.changes.push(note(&path, EntryAction::Known, &title));
            return Ok(());
        }
        let at = self.open(text, &title, (mount, kind.topic))?;
        let path = self.memories[at].path.clone();
        self.changes.push(note(&path, EntryAction::Added, &title));
        Ok(())
    }

    /// Makes a memory with this body.
    fn open(
        &mut self,
        body: &str,
        title: &str,
        (mount, topic): (Mount, Topic),
    ) -> Result<usize, Refusal> {
        let mut names = Names::of(&self.memories, self.snapshot);
        let path = names.take_free(title, mount, topic).ok_or(Refusal::ScopeMismatch)?;
        let text = fresh(body, title, topic).into();
        self.opened.push(path.clone());
        let (written, trust) = (Written::Unknown, Trust::Background);
        self.memories.push(Stored {
            path,
            text,
            pinned: false,
            written,
            trust,
            influenced: false,
            by_review: self.is_review,
        });
        Ok(self.memories.len() - 1)
    }

    fn mount_of(&self, kind: Kind) -> Result<Mount, Refusal> {
        if let Some(mount) = self.asked {
            return Ok(mount);
        }
        let first =
            |scopes: &[Scope]| scopes.iter().find_map(|scope| mount_for(self.snapshot, *scope));
        match kind.whose {
            Whose::Project if kind.names_project => {
                first(&[Scope::Project]).ok_or(Refusal::NoProject)
            }
            // What is about a person is never shared with a repository unasked.
            Whose::Person => {
                first(&[Scope::Global, Scope::Workspace]).ok_or(Refusal::ScopeMismatch)
            }
            Whose::Project => first(&[Scope::Project, Scope::Workspace, Scope::Global])
                .ok_or(Refusal::ScopeMismatch),
        }
    }

    /// Returns the memories that may be looked at. What a review wrote may be rejected yet, so that it makes nothing known
    /// that a caller asked for.
    fn seen(&self) -> impl Iterator<Item = (usize, &Stored)> {
        let is_seen = |stored: &Stored| {
            !stored.is_unreviewed()
                && (self.is_review || !stored.by_review)
                && (!self.is_clean || self.opened.contains(&stored.path))
        };
        self.memories.iter().enumerate().filter(move |(_, stored)| is_seen(stored))
    }

    /// Tells whether a memory says a fact already, word for word.
    pub(super) fn knows(&self, fact: &str, mount: Mount) -> bool {
        self.known_at(fact, mount, None).is_some()
    }

    /// Finds the memory that says a fact already, word for word. A fragment such as `Owner: Ada` is known only in the
    /// memory where it would go; elsewhere it is about another thing.
    fn known_at(&self, fact: &str, mount: Mount, place: Option<usize>) -> Option<&MemoryPath> {
        let form = Form::of(fact);
        let is_fragment = is_fragment(fact);
        let is_near = |stored: &Stored| {
            let of = stored.path.mount();
            of == Some(mount) || (self.asked.is_none() && of == Some(Mount::Scope(Scope::Global)))
        };
        let says = |note: &Note| note.form == form && note.context.is_empty() && !note.is_step;
        self.seen()
            .filter(|(at, stored)| if is_fragment { Some(*at) == place } else { is_near(stored) })
            .find(|(_, stored)| stored.text.read().notes.iter().any(says))
            .map(|(_, stored)| &stored.path)
    }

    /// Finds the only entry that a fact plainly updates; `None` if there is none, or several.
    fn updated_by(&self, fact: &str, mount: Mount) -> Option<(usize, &Note)> {
        let is_updated = |note: &&Note| {
            note.context.is_empty()
                && !note.is_explained()
                && update::replaces(fact, note.statement())
        };
        let of_mount = self.seen().filter(|(_, stored)| stored.path.mount() == Some(mount));
        let found: Vec<(usize, &Note)> = of_mount
            .flat_map(|(at, stored)| {
                stored.text.read().notes.iter().filter(is_updated).map(move |note| (at, note))
            })
            .collect();
        match found.as_slice() {
            [one] => Some(*one),
            _ => None,
        }
    }

    /// Puts the fact in place of the only entry that it plainly updates; `false` if there is none, or several.
    fn update(&mut self, fact: &str, mount: Mount) -> bool {
        let Some((at, old)) = self.updated_by(fact, mount) else { return false };
        let stored = &self.memories[at];
        if !self.snapshot.may_change(stored) {
            return false;
        }
        let Some(text) = replace_entry(&stored.text, &old.entry, fact) else { return false };
        let change = note(&stored.path, EntryAction::Updated, fact);
        let text = Source::from(text);
        // A description that was made of the entry would still tell the old value.
        let text = if is_made_of_entries(stored) { described_anew(&text) } else { text };
        self.memories[at].text = text;
        self.changes.push(change);
        true
    }

    /// Finds entries that a person should look at beside a fact, the likeliest first.
    fn alike(&self, text: &Text, fact: &str, mount: Mount) -> Vec<Alike> {
        let newer = similar::Said { text, source: fact, is_change: self.is_change };
        let form = Form::of(fact);
        let of_mount =
            self.seen().filter(|(_, stored)| stored.path.mount() == Some(mount) && !stored.pinned);
        let mut found: Vec<Alike> = of_mount
            .flat_map(|(_, stored)| stored.text.read().notes.iter().map(move |note| (stored, note)))
            // Words of code, tables and lists are no statement that another one could repeat or replace.
            .filter(|(_, note)| !note.is_step && !has_blocks(note.whole()))
            .filter_map(|(stored, note)| {
                let likeness = if note.form == form {
                    Likeness { kind: ProposalKind::Repetition, score: 80, older_goes: false }
                } else if similar::gives_other_value(note.into(), newer) {
                    Likeness { kind: ProposalKind::Update, score: 55, older_goes: true }
                } else {
                    similar::compare(note.into(), newer, &self.weights)?
                };
                let other =
                    EntryReference { path: stored.path.clone(), text: note.whole().to_owned() };
                Some(Alike {
                    likeness,
                    share: similar::share(note.into(), newer, &self.weights),
                    other,
                })
            })
            .collect();
        found.sort_by(|a, b| {
            b.likeness.score.cmp(&a.likeness.score).then_with(|| b.share.total_cmp(&a.share))
        });
        found.truncate(REMEMBER_PROPOSALS_MAX);
        found
    }

    /// Finds the memory that speaks of the same: of the same mount and topic, with the most words in common.
    fn place(&self, fact: &Text, mount: Mount, topic: Topic) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        for (at, stored) in self.seen() {
            let read = stored.text.read();
            let own_topic = Topic::nearest(read.head.kind.as_deref(), &stored.path);
            if stored.path.mount() != Some(mount)
                || own_topic != topic
                || !read.takes_more()
                // What a review writes waits for a person, and nothing else is to wait with it.
                || stored.by_review != self.is_review
                || (self.is_review && stored.pinned)
            {
                continue;
            }
            let share = if self.opened.contains(&stored.path) {
                1.0
            } else {
                let words = Text::read(&title(stored));
                let texts = read.notes.iter().map(Note::words).chain([&words]);
                similar::share_with(fact, texts, &self.weights)
            };
            if share >= PLACE_SHARE_MIN && best.is_none_or(|(_, most)| share > most) {
                best = Some((at, share));
            }
        }
        best.map(|(at, _)| at)
    }

    pub(super) fn finish(self) -> Remembered {
        let mut done = Remembered {
            changes: self.changes,
            proposals: self.proposals,
            ..Remembered::default()
        };
        let mut before = self.snapshot.memories.iter();
        for stored in self.memories {
            if before.next().is_some_and(|before| before.text == stored.text) {
                continue;
            }
            done.scopes.extend(stored.path.mount());
            done.touched.push(stored.path.clone());
            done.edits.push(Edit::Write { path: stored.path, text: stored.text.to_string() });
        }
        let count = |action| done.changes.iter().filter(|one| one.action == action).count();
        let known = count(EntryAction::Known);
        done.summary = if done.edits.is_empty() && known == 0 {
            "Nothing to save: it states nothing.".to_owned()
        } else if done.edits.is_empty() {
            "Nothing to save: it is known already.".to_owned()
        } else {
            let scopes: Vec<&str> = done.scopes.iter().map(|mount| scope_word(*mount)).collect();
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
struct Alike {
    likeness: Likeness,
    share: f64,
    other: EntryReference,
}

impl Alike {
    fn proposal(self, added: &EntryReference) -> Proposal {
        similar::proposal(self.likeness, &self.other, added)
    }
}

/// Returns what an answer tells of an entry.
pub(crate) fn note(path: &MemoryPath, action: EntryAction, entry: &str) -> EntryNote {
    EntryNote { path: path.clone(), action, summary: first_words(entry) }
}
