//! What becomes of the findings of a background review.
//!
//! What is new is added, to memories that reviews wrote and to no others: those wait for a person. What would change or
//! remove an entry that a person or an agent wrote becomes a proposal.

use std::collections::BTreeMap;

use memory::document::{self, replace_entry, without_entry};
use memory::path::{Mount, Scope};
use memory::proposal::{EntryChange, Proposal, ProposalKind};
use memory::screen::Screen;

use super::about::{described_anew, first_words, is_made_of_entries};
use super::book::{Note, Snapshot, Source, Stored};
use super::classify;
use super::facts::{self, Said};
use super::forget::At;
use super::remember::{Desk, Taken, check_screened, mount_for, note};
use super::when;
use crate::request::{Edit, EntryAction};
use crate::review::{FINDINGS_MAX, Finding, LeftOut, Message, ReviewRequest, Reviewed, Target};

/// The longest finding, in characters: it is one statement.
const FINDING_CHARS_MAX: usize = 1_000;

/// How much of a message the history of a change quotes, in characters.
const QUOTE_CHARS_MAX: usize = 200;

/// Something that a review found.
pub(crate) enum Found<'s> {
    /// Something new.
    New(Finding),
    /// An entry that has another value now.
    Changed { at: At<'s>, text: String, evidence: Vec<String> },
    /// An entry that no longer holds.
    Gone { at: At<'s>, evidence: Vec<String> },
}

impl Found<'_> {
    fn evidence(&self) -> &[String] {
        match self {
            Self::New(finding) => &finding.evidence,
            Self::Changed { evidence, .. } | Self::Gone { evidence, .. } => evidence,
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::New(finding) => Some(&finding.text),
            Self::Changed { text, .. } => Some(text),
            Self::Gone { .. } => None,
        }
    }
}

/// What the text of a finding is checked with.
#[derive(Clone, Copy)]
pub(crate) struct Checks<'a> {
    /// Objects to secrets and to orders to a model.
    pub(crate) screen: &'a Screen,
    /// Tells whether a text repeats what a model was told about its work.
    pub(crate) quotes_prompt: fn(&str) -> bool,
}

/// Decides what becomes of findings; `skipped` counts those that were dropped before.
pub(crate) fn take(
    snapshot: &Snapshot,
    request: &ReviewRequest,
    found: Vec<Found<'_>>,
    (checks, skipped): (Checks<'_>, BTreeMap<LeftOut, u32>),
) -> Reviewed {
    let mut desk = Desk::of_review(snapshot);
    let mut done = Reviewed { skipped, ..Reviewed::default() };
    let mut evidence: Vec<String> = Vec::new();
    let mut taken = 0;
    for found in found {
        let (changes, proposals) = (desk.changes.len(), desk.proposals.len());
        let outcome = if taken == FINDINGS_MAX {
            Err(LeftOut::Limit)
        } else {
            one(snapshot, &mut desk, checks, &found)
        };
        match outcome {
            Ok(()) => {
                taken += 1;
                let own = because(request, found.evidence());
                for proposal in desk.proposals.iter_mut().skip(proposals) {
                    proposal.reason = format!("{} {own}", proposal.reason);
                }
                if desk.changes.len() > changes {
                    evidence.extend(found.evidence().iter().cloned());
                }
            }
            Err(why) => *done.skipped.entry(why).or_default() += 1,
        }
    }
    done.because = because(request, &evidence);
    let remembered = desk.finish();
    done.edits = remembered.edits.into_iter().map(without_empty).collect();
    done.touched = remembered.touched;
    done.scopes = remembered.scopes;
    done.changes = remembered.changes;
    done.changes.retain(|change| change.action != EntryAction::Known);
    done.proposals = remembered.proposals;
    done.summary = summary(&done);
    done
}

/// Returns an edit that leaves no memory without an entry.
fn without_empty(edit: Edit) -> Edit {
    match edit {
        Edit::Write { path, text } if document::entries(&text).is_empty() => Edit::Remove { path },
        edit => edit,
    }
}

fn one(
    snapshot: &Snapshot,
    desk: &mut Desk<'_>,
    checks: Checks<'_>,
    found: &Found<'_>,
) -> Result<(), LeftOut> {
    let text = found.text().map(|text| statement(text, snapshot)).transpose()?;
    if let Some(text) = &text {
        check_screened(checks.screen, text).map_err(|_| LeftOut::Screened)?;
        if (checks.quotes_prompt)(text) {
            return Err(LeftOut::Instructions);
        }
    }
    match (found, text) {
        (Found::New(finding), Some(text)) => {
            let mount = mount_of(snapshot, finding.target, &text)?;
            match desk.take_found(&text, mount) {
                Ok(Taken::Added | Taken::Proposed) => Ok(()),
                Ok(Taken::Known) => Err(LeftOut::Known),
                Err(_) => Err(LeftOut::Place),
            }
        }
        (Found::Changed { at, .. }, Some(text)) => change(desk, *at, Some(text)),
        (Found::Gone { at, .. }, _) => change(desk, *at, None),
        (Found::New(_) | Found::Changed { .. }, None) => Err(LeftOut::Form),
    }
}

/// Reads one statement, with its days named.
fn statement(text: &str, snapshot: &Snapshot) -> Result<String, LeftOut> {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.trim_start_matches(['-', '*', '+', '•', ' ']);
    if line.chars().nth(FINDING_CHARS_MAX).is_some() {
        return Err(LeftOut::Form);
    }
    match facts::read(&facts::said(line)) {
        Some(Said::Fact(fact)) => Ok(when::absolute(&fact, snapshot.day_of(snapshot.now))),
        Some(Said::Section(_)) | None => Err(LeftOut::Form),
    }
}

/// Returns where a finding belongs. What is private is the person's alone, since others read what a project has.
fn mount_of(snapshot: &Snapshot, target: Target, text: &str) -> Result<Mount, LeftOut> {
    let scopes: &[Scope] = match target {
        Target::Workspace => &[Scope::Workspace],
        Target::Memory if !classify::is_private(text) => &[Scope::Project, Scope::Global],
        Target::Memory | Target::User => &[Scope::Global],
    };
    scopes.iter().find_map(|scope| mount_for(snapshot, *scope)).ok_or(LeftOut::Place)
}

/// Gives an entry another text, or removes it: in a memory that reviews wrote at once, in any other by a proposal.
fn change(desk: &mut Desk<'_>, (stored, old): At<'_>, text: Option<String>) -> Result<(), LeftOut> {
    let at = desk.memories.iter().position(|one| one.path == stored.path).ok_or(LeftOut::Place)?;
    let mount = stored.path.mount().ok_or(LeftOut::Place)?;
    if text.as_deref().is_some_and(|text| desk.knows(text, mount)) {
        return Err(LeftOut::Known);
    }
    // Others read what a project has, whoever wrote the entry.
    if stored.path.is_shared() && text.as_deref().is_some_and(classify::is_private) {
        return Err(LeftOut::Place);
    }
    if !is_own(stored) {
        desk.proposals.push(proposal(stored, old, text));
        return Ok(());
    }
    // Another finding may have changed the memory meanwhile.
    let now = desk.memories[at].text.clone();
    let entry = now.read().notes.iter().find(|note| note.whole() == old.whole());
    let entry = &entry.ok_or(LeftOut::Place)?.entry;
    let (changed, action) = match &text {
        Some(text) => {
            (replace_entry(&now, entry, text).ok_or(LeftOut::Form)?, EntryAction::Updated)
        }
        None => (without_entry(&now, entry), EntryAction::Removed),
    };
    let words = text.as_deref().unwrap_or_else(|| old.whole());
    desk.changes.push(note(&stored.path, action, words));
    let changed = Source::from(changed);
    // A description that was made of the entry would still tell the old value.
    let is_made = is_made_of_entries(&desk.memories[at]);
    desk.memories[at].text = if is_made { described_anew(&changed) } else { changed };
    Ok(())
}

/// Tells whether a review may change a memory by itself.
pub(super) const fn is_own(stored: &Stored) -> bool {
    stored.by_review && !stored.pinned
}

/// Returns the proposal to give an entry another text, or to remove it.
pub(super) fn proposal(stored: &Stored, old: &Note, new: Option<String>) -> Proposal {
    let words = first_words(old.whole());
    let (kind, reason) = match &new {
        Some(new) => (
            ProposalKind::Update,
            format!("“{words}” may have another value now: “{}”.", first_words(new)),
        ),
        None => (ProposalKind::Removal, format!("“{words}” may no longer hold.")),
    };
    let (path, old) = (stored.path.clone(), Some(old.whole().to_owned()));
    Proposal {
        kind,
        reason,
        score: 60,
        changes: vec![EntryChange { path, old, new }],
        relies_on: Vec::new(),
        review: None,
    }
}

/// Returns the turns that were read and what was said in them, in one line.
fn because(request: &ReviewRequest, evidence: &[String]) -> String {
    let (first, last) = request.turns;
    let turns =
        if first == last { format!("turn {last}") } else { format!("turns {first} to {last}") };
    let is_named = |message: &&Message| evidence.contains(&message.id);
    let quote = |message: &Message| {
        let line = message.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let quote: String = line.chars().take(QUOTE_CHARS_MAX).collect();
        let cut = if quote.len() < line.len() { "…" } else { "" };
        format!(" “{quote}{cut}”")
    };
    let quotes: String = request.messages.iter().filter(is_named).map(quote).collect();
    format!("Said in {turns}:{quotes}")
}

fn summary(done: &Reviewed) -> String {
    let saved = match done.changes.len() {
        0 => "Nothing to save.".to_owned(),
        1 => "Saved 1 memory.".to_owned(),
        count => format!("Saved {count} memories."),
    };
    let proposed = match done.proposals.len() {
        0 => String::new(),
        count => format!(" Proposed: {count}."),
    };
    let skipped: Vec<String> =
        done.skipped.iter().map(|(why, count)| format!("{count} {}", why.as_ref())).collect();
    let skipped = if skipped.is_empty() {
        String::new()
    } else {
        format!(" Left out: {}.", skipped.join(", "))
    };
    format!("{saved}{proposed}{skipped}")
}
