//! What becomes of the findings of a background review.
//!
//! What is new is added, to memories that reviews wrote and to no others: those wait for a person. What would change or
//! remove an entry that a person or an agent wrote becomes a proposal.

use std::collections::BTreeMap;

use memory::document::{self, replace_entry, without_entry};
use memory::path::{Mount, Scope};
use memory::proposal::{EntryChange, Proposal, ProposalKind};
use memory::screen::Screen;

use super::classify;
use super::content::{self, RememberContent};
use super::dates;
use super::forget::EntryRef;
use super::frontmatter::{first_words, has_generated_description, with_generated_description};
use super::remember::{FindingOutcome, RememberPlan, check_screened, entry_outcome, mount_for};
use super::snapshot::{ParsedEntry, ParsedText, Snapshot, StoredMemory};
use crate::request::{CuratorEdit, EntryAction};
use crate::review::{
    FINDINGS_MAX, FindingSkipReason, FindingTarget, ReviewFinding, ReviewMessage, ReviewReport,
    ReviewRequest,
};

/// The longest finding, in characters: it is one statement.
const FINDING_CHARS_MAX: usize = 1_000;

/// How much of a message the history of a change quotes, in characters.
const QUOTE_CHARS_MAX: usize = 200;

/// Something that a review found.
pub(crate) enum ReviewDecision<'s> {
    /// Something new.
    New(ReviewFinding),
    /// An entry that has another value now.
    Update { entry: EntryRef<'s>, text: String, evidence: Vec<String> },
    /// An entry that no longer holds.
    Removal { entry: EntryRef<'s>, evidence: Vec<String> },
}

impl ReviewDecision<'_> {
    fn evidence(&self) -> &[String] {
        match self {
            Self::New(finding) => &finding.evidence,
            Self::Update { evidence, .. } | Self::Removal { evidence, .. } => evidence,
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::New(finding) => Some(&finding.text),
            Self::Update { text, .. } => Some(text),
            Self::Removal { .. } => None,
        }
    }
}

/// What the text of a finding is checked with.
#[derive(Clone, Copy)]
pub(crate) struct TextChecks<'a> {
    /// Objects to secrets and to orders to a model.
    pub(crate) screen: &'a Screen,
    /// Tells whether a text repeats what a model was told about its work.
    pub(crate) quotes_prompt: fn(&str) -> bool,
}

/// Decides what becomes of findings; `skipped` counts those that were dropped before.
pub(crate) fn apply_findings(
    snapshot: &Snapshot,
    request: &ReviewRequest,
    found: Vec<ReviewDecision<'_>>,
    (checks, skipped): (TextChecks<'_>, BTreeMap<FindingSkipReason, u32>),
) -> ReviewReport {
    let mut desk = RememberPlan::for_review(snapshot);
    let mut done = ReviewReport { skipped, ..ReviewReport::default() };
    let mut evidence: Vec<String> = Vec::new();
    let mut taken = 0;
    for found in found {
        let (changes, proposals) = (desk.changes.len(), desk.proposals.len());
        let outcome = if taken == FINDINGS_MAX {
            Err(FindingSkipReason::Limit)
        } else {
            apply_item(snapshot, &mut desk, checks, &found)
        };
        match outcome {
            Ok(()) => {
                taken += 1;
                let own = evidence_note(request, found.evidence());
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
    done.evidence_note = evidence_note(request, &evidence);
    let remembered = desk.finish();
    done.edits = remembered.edits.into_iter().map(remove_if_empty).collect();
    done.changed_paths = remembered.changed_paths;
    done.scopes = remembered.scopes;
    done.changes = remembered.changes;
    done.changes.retain(|change| change.action != EntryAction::Known);
    done.proposals = remembered.proposals;
    done.summary = summary(&done);
    done
}

/// Returns an edit that leaves no memory without an entry.
fn remove_if_empty(edit: CuratorEdit) -> CuratorEdit {
    match edit {
        CuratorEdit::Write { path, text } if document::entries(&text).is_empty() => {
            CuratorEdit::Remove { path }
        }
        edit => edit,
    }
}

fn apply_item(
    snapshot: &Snapshot,
    desk: &mut RememberPlan<'_>,
    checks: TextChecks<'_>,
    found: &ReviewDecision<'_>,
) -> Result<(), FindingSkipReason> {
    let text = found.text().map(|text| parse_statement(text, snapshot)).transpose()?;
    if let Some(text) = &text {
        check_screened(checks.screen, text).map_err(|_| FindingSkipReason::Screened)?;
        if (checks.quotes_prompt)(text) {
            return Err(FindingSkipReason::Instructions);
        }
    }
    match (found, text) {
        (ReviewDecision::New(finding), Some(text)) => {
            let mount = mount_for_target(snapshot, finding.target, &text)?;
            match desk.add_finding(&text, mount) {
                Ok(FindingOutcome::Added | FindingOutcome::Proposed) => Ok(()),
                Ok(FindingOutcome::AlreadyKnown) => Err(FindingSkipReason::Known),
                Err(_) => Err(FindingSkipReason::Place),
            }
        }
        (ReviewDecision::Update { entry: at, .. }, Some(text)) => {
            change_entry(desk, *at, Some(text))
        }
        (ReviewDecision::Removal { entry: at, .. }, _) => change_entry(desk, *at, None),
        (ReviewDecision::New(_) | ReviewDecision::Update { .. }, None) => {
            Err(FindingSkipReason::Form)
        }
    }
}

/// Reads one statement, with its days named.
fn parse_statement(text: &str, snapshot: &Snapshot) -> Result<String, FindingSkipReason> {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.trim_start_matches(['-', '*', '+', '•', ' ']);
    if line.chars().nth(FINDING_CHARS_MAX).is_some() {
        return Err(FindingSkipReason::Form);
    }
    match content::parse_content(&content::content_body(line)) {
        Some(RememberContent::Fact(fact)) => {
            Ok(dates::resolve_relative_dates(&fact, snapshot.local_date(snapshot.now)))
        }
        Some(RememberContent::Section(_)) | None => Err(FindingSkipReason::Form),
    }
}

/// Returns where a finding belongs. What is private is the person's alone, since others read what a project has.
fn mount_for_target(
    snapshot: &Snapshot,
    target: FindingTarget,
    text: &str,
) -> Result<Mount, FindingSkipReason> {
    let scopes: &[Scope] = match target {
        FindingTarget::Workspace => &[Scope::Workspace],
        FindingTarget::Memory if !classify::is_private(text) => &[Scope::Project, Scope::Global],
        FindingTarget::Memory | FindingTarget::User => &[Scope::Global],
    };
    scopes.iter().find_map(|scope| mount_for(snapshot, *scope)).ok_or(FindingSkipReason::Place)
}

/// Gives an entry another text, or removes it: in a memory that reviews wrote at once, in any other by a proposal.
fn change_entry(
    desk: &mut RememberPlan<'_>,
    (stored, old): EntryRef<'_>,
    text: Option<String>,
) -> Result<(), FindingSkipReason> {
    let at = desk
        .memories
        .iter()
        .position(|one| one.path == stored.path)
        .ok_or(FindingSkipReason::Place)?;
    let mount = stored.path.mount().ok_or(FindingSkipReason::Place)?;
    if text.as_deref().is_some_and(|text| desk.is_known(text, mount)) {
        return Err(FindingSkipReason::Known);
    }
    // Others read what a project has, whoever wrote the entry.
    if stored.path.is_shared() && text.as_deref().is_some_and(classify::is_private) {
        return Err(FindingSkipReason::Place);
    }
    if !may_edit_directly(stored) {
        desk.proposals.push(change_proposal(stored, old, text));
        return Ok(());
    }
    // Another finding may have changed the memory meanwhile.
    let now = desk.memories[at].text.clone();
    let entry = now.parsed().entries.iter().find(|note| note.full_text() == old.full_text());
    let entry = &entry.ok_or(FindingSkipReason::Place)?.entry;
    let (changed, action) = match &text {
        Some(text) => {
            (replace_entry(&now, entry, text).ok_or(FindingSkipReason::Form)?, EntryAction::Updated)
        }
        None => (without_entry(&now, entry), EntryAction::Removed),
    };
    let words = text.as_deref().unwrap_or_else(|| old.full_text());
    desk.changes.push(entry_outcome(&stored.path, action, words));
    let changed = ParsedText::from(changed);
    // A description that was made of the entry would still tell the old value.
    let is_made = has_generated_description(&desk.memories[at]);
    desk.memories[at].text = if is_made { with_generated_description(&changed) } else { changed };
    Ok(())
}

/// Tells whether a review may change a memory by itself.
pub(super) const fn may_edit_directly(stored: &StoredMemory) -> bool {
    stored.written_by_review && !stored.pinned
}

/// Returns the proposal to give an entry another text, or to remove it.
pub(super) fn change_proposal(
    stored: &StoredMemory,
    old: &ParsedEntry,
    new: Option<String>,
) -> Proposal {
    let words = first_words(old.full_text());
    let (kind, reason) = match &new {
        Some(new) => (
            ProposalKind::Update,
            format!("“{words}” may have another value now: “{}”.", first_words(new)),
        ),
        None => (ProposalKind::Removal, format!("“{words}” may no longer hold.")),
    };
    let (path, old) = (stored.path.clone(), Some(old.full_text().to_owned()));
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
fn evidence_note(request: &ReviewRequest, evidence: &[String]) -> String {
    let (first, last) = request.turns;
    let turns =
        if first == last { format!("turn {last}") } else { format!("turns {first} to {last}") };
    let is_named = |message: &&ReviewMessage| evidence.contains(&message.id);
    let quote = |message: &ReviewMessage| {
        let line = message.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let quote: String = line.chars().take(QUOTE_CHARS_MAX).collect();
        let cut = if quote.len() < line.len() { "…" } else { "" };
        format!(" “{quote}{cut}”")
    };
    let quotes: String = request.messages.iter().filter(is_named).map(quote).collect();
    format!("Said in {turns}:{quotes}")
}

fn summary(done: &ReviewReport) -> String {
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
