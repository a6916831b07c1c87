//! Remember: what becomes of a text that somebody wants kept.
//!
//! Screened first, cut into facts, its days named; then each fact is known already, or says more than an
//! entry did, or contradicts one, or is new. A new one goes to the memory that speaks of the same, or
//! to one of its own.

use jiff::tz::TimeZone;
use memory::change::Trust;
use memory::limits::MEMORY_BYTES_MAX;
use memory::path::{MemoryPath, Mount, Scope};
use memory::screen::{Policy, Screen, Writer};

use super::about::{Names, described, fresh, kept_true};
use super::book::{Note, Page, Snapshot, Source, Stored, Written, appended, indented, line_ends};
use super::classify::{self, Kind, Whose};
use super::facts;
use super::likeness::{Relation, may_correct, relation};
use super::sketch::Sketch;
use super::when;
use super::words::Text;
use crate::request::{ContextMode, Edit, Refusal, RememberRequest, Remembered, Topic};

/// How much of a fact a memory must share to be its place.
const PLACE_SHARE_MIN: f64 = 0.3;

/// Decides what becomes of a text.
///
/// # Errors
///
/// [`Refusal::Screened`] when any of it may not be kept, [`Refusal::ScopeMismatch`] when the scope
/// that was asked for cannot be written. Nothing is written then.
pub fn remember(
    snapshot: &Snapshot,
    request: &RememberRequest,
    screen: &Screen,
) -> Result<Remembered, Refusal> {
    let found = screen.check(&request.content, Writer::Agent);
    if let Some(found) = found.iter().find(|found| found.policy == Policy::Refuse) {
        return Err(Refusal::Screened { family: found.family, rule: found.rule });
    }
    let asked = request.scope.map(|scope| mount_for(snapshot, scope).ok_or(Refusal::ScopeMismatch));
    let mut desk = Desk {
        memories: snapshot.memories.clone(),
        names: None,
        snapshot,
        asked: asked.transpose()?,
        is_clean: request.context_mode == ContextMode::Clean,
        opened: Vec::new(),
        counts: Counts::default(),
    };
    let today = snapshot.now.to_zoned(TimeZone::UTC).date();
    let said = facts::said(&request.content);
    let whole = classify::kind(facts::bare(&said));
    for fact in facts::facts(&said) {
        let fact = when::absolute(&fact, today);
        desk.take(&fact, whole)?;
    }
    Ok(desk.finish())
}

/// What people call a mount.
const fn scope_word(mount: Mount) -> &'static str {
    match mount {
        Mount::Scope(scope) => scope.as_str(),
        Mount::Flat => "mounted",
    }
}

/// The mount of a scope, if the caller may write there; the only one of a flat layout.
fn mount_for(snapshot: &Snapshot, scope: Scope) -> Option<Mount> {
    [Mount::Scope(scope), Mount::Flat].into_iter().find(|mount| snapshot.writable.contains(mount))
}

#[derive(Default)]
struct Counts {
    added: usize,
    updated: usize,
    known: usize,
}

/// Memories on the way to what they will be.
struct Desk<'a> {
    memories: Vec<Stored>,
    /// Their names, once a new one has to differ from them.
    names: Option<Names>,
    snapshot: &'a Snapshot,
    asked: Option<Mount>,
    is_clean: bool,
    /// Memories made for this text, which may take more of it although nothing else is seen.
    opened: Vec<MemoryPath>,
    counts: Counts,
}

impl Desk<'_> {
    /// Takes a fact in, as a whole or, where it speaks of the person and of the work or of things that have
    /// nothing to do with each other, in sentences.
    fn take(&mut self, fact: &str, whole: Kind) -> Result<(), Refusal> {
        if self.settle_with_known(fact) {
            return Ok(());
        }
        let sentences = facts::sentences(fact);
        let kinds: Vec<Kind> = sentences.iter().map(|one| classify::kind(one)).collect();
        let says = |whose: Whose| {
            move |kind: &Kind| {
                kind.is_plain && kind.whose == whose && (kind.of_self || whose == Whose::Project)
            }
        };
        let both = kinds.iter().any(says(Whose::Person)) && kinds.iter().any(says(Whose::Project));
        let parts = if both { sentences } else { facts::apart(fact) };
        if parts.len() == 1 {
            let kind = classify::kind(fact);
            // A part of a longer text that says nothing of itself belongs where the rest does.
            let is_own = kind.is_plain && (kind.whose == whole.whose || kind.of_self);
            if is_own || (kind.is_plain && !whole.is_plain) {
                return self.add(fact, kind);
            }
            let topic = if kind.topic == Topic::Reference { kind.topic } else { whole.topic };
            return self.add(fact, Kind { whose: whole.whose, topic, ..kind });
        }
        let mut last = kinds.iter().copied().find(|kind| kind.is_plain).unwrap_or(whole);
        for part in parts {
            let kind = classify::kind(&part);
            last = if kind.is_plain { kind } else { last };
            if !self.settle_with_known(&part) {
                self.add(&part, last)?;
            }
        }
        Ok(())
    }

    /// Whether the fact was known, or has taken the place of one that it says more than or contradicts.
    fn settle_with_known(&mut self, fact: &str) -> bool {
        if self.is_clean {
            return false;
        }
        let text = Text::read(fact);
        let (sketch, corrects) = (Sketch::of(&text), may_correct(&text));
        let is_of_project = classify::is_of_this_project(&text);
        let mut best: Option<(usize, usize, Relation, f64)> = None;
        for page_at in (0..self.memories.len()).filter(|&at| self.may_settle(&self.memories[at])) {
            let notes = self.memories[page_at].text.read().notes.iter().enumerate();
            for (note_at, note) in
                notes.filter(|(_, note)| sketch.may_settle(&note.sketch, corrects))
            {
                let (relation, sure) = relation((&text, fact), note);
                let better = best.is_none_or(|(_, _, _, most)| sure > most);
                // What holds in this project leaves what a person keeps for all of them as it is.
                let mount = self.memories[page_at].path.mount();
                let leaks = is_of_project && mount == Some(Mount::Scope(Scope::Global));
                let may_be = !leaks || relation == Relation::Known;
                if relation != Relation::Other && better && may_be {
                    best = Some((page_at, note_at, relation, sure));
                }
            }
        }
        let Some((page_at, note_at, relation, _)) = best else { return false };
        if relation == Relation::Known {
            self.counts.known += 1;
            return true;
        }
        let old = &self.memories[page_at].text;
        let Some(text) = replaced(old, &old.read().notes[note_at], fact, relation) else {
            return false;
        };
        self.memories[page_at].text = text.into();
        self.counts.updated += 1;
        true
    }

    fn may_settle(&self, stored: &Stored) -> bool {
        stored.path.mount().is_some_and(|mount| {
            self.snapshot.writable.contains(&mount) && self.asked.is_none_or(|asked| asked == mount)
        })
    }

    fn add(&mut self, fact: &str, kind: Kind) -> Result<(), Refusal> {
        let mount = match self.asked {
            Some(mount) => mount,
            None => self.mount_of(kind.whose).ok_or(Refusal::ScopeMismatch)?,
        };
        self.counts.added += 1;
        if let Some(at) = self.place(fact, mount, kind.topic)
            && let Some(text) = appended(&self.memories[at].text, fact)
        {
            self.memories[at].text = text.into();
            return Ok(());
        }
        let path = self.free_path(fact, mount, kind.topic)?;
        let text = fresh(fact, kind.topic).into();
        self.opened.push(path.clone());
        let (written, trust) = (Written::Unknown, Trust::Background);
        self.memories.push(Stored { path, text, pinned: false, written, trust });
        Ok(())
    }

    fn mount_of(&self, whose: Whose) -> Option<Mount> {
        let wanted = match whose {
            Whose::Person => [Scope::Global, Scope::Workspace, Scope::Project],
            Whose::Project => [Scope::Project, Scope::Workspace, Scope::Global],
        };
        wanted.into_iter().find_map(|scope| mount_for(self.snapshot, scope))
    }

    /// The memory that speaks of the same: of the same mount and topic, with the most words in common.
    fn place(&self, fact: &str, mount: Mount, topic: Topic) -> Option<usize> {
        let text = Text::read(fact);
        let words = Sketch::of(&text);
        let mut best: Option<(usize, f64)> = None;
        for (at, stored) in self.memories.iter().enumerate() {
            let opened = self.opened.contains(&stored.path);
            if stored.path.mount() != Some(mount) || (self.is_clean && !opened) {
                continue;
            }
            let page = Page::read(stored);
            if page.topic != topic {
                continue;
            }
            let share = if opened { 1.0 } else { words.share(&page) };
            if share >= PLACE_SHARE_MIN && best.is_none_or(|(_, most)| share > most) {
                best = Some((at, share));
            }
        }
        best.map(|(at, _)| at)
    }

    fn free_path(&mut self, fact: &str, mount: Mount, topic: Topic) -> Result<MemoryPath, Refusal> {
        let names = self.names.get_or_insert_with(|| Names::of(&self.memories, self.snapshot));
        names.take_free(fact, mount, topic).ok_or(Refusal::ScopeMismatch)
    }

    fn finish(self) -> Remembered {
        let mut done = Remembered::default();
        let mut before = self.snapshot.memories.iter();
        for mut stored in self.memories {
            if before.next().is_some_and(|before| before.text == stored.text) {
                continue;
            }
            let text = described(&stored).filter(|text| text.len() <= MEMORY_BYTES_MAX);
            stored.text = text.map_or(stored.text, Source::from);
            done.scopes.extend(stored.path.mount());
            done.touched.push(stored.path.clone());
            done.edits.push(Edit::Write { path: stored.path, text: stored.text.to_string() });
        }
        let Counts { added, updated, known } = self.counts;
        done.summary = if done.edits.is_empty() && known == 0 {
            "Nothing to save: it states nothing.".to_owned()
        } else if done.edits.is_empty() {
            "Nothing to save: it is known already.".to_owned()
        } else {
            let scopes: Vec<String> =
                done.scopes.iter().map(|mount| scope_word(*mount).to_owned()).collect();
            format!(
                "Saved to the {} memories: {added} new, {updated} updated, {known} known already.",
                scopes.join(" and "),
            )
        };
        done
    }
}

/// The fact in place of an entry; its reasons stay only if it says more of the same.
fn replaced(text: &Source, note: &Note, fact: &str, relation: Relation) -> Option<String> {
    let range = note.entry.range.clone();
    let old = text.get(range.clone())?;
    let head = old.get(..old.find(note.entry.first_line.as_str())?)?;
    let tail = if relation == Relation::Elaborates {
        old.get(head.len() + note.statement().len()..)?.to_owned()
    } else {
        let end = old.trim_end_matches(['\n', '\r']).len();
        old.get(end..)?.to_owned()
    };
    let is_item = !head.trim().is_empty();
    let lines = line_ends(text);
    let body = if is_item { indented(fact, head.chars().count()) } else { fact.to_owned() };
    let entry = format!("{head}{}{tail}", body.replace('\n', lines));
    let with_fact = format!("{}{entry}{}", text.get(..range.start)?, text.get(range.end..)?);
    let text = kept_true(text, with_fact, MEMORY_BYTES_MAX);
    (text.len() <= MEMORY_BYTES_MAX).then_some(text)
}
