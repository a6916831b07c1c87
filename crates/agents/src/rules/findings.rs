//! Applies the findings of a background review.
//!
//! New facts are added only to memories written by reviews, because those wait for a person's decision. Changes and
//! removals of entries by a person or an agent become proposals.

use std::collections::BTreeMap;

use memory::document::{replace_entry, without_entry};
use memory::path::{Mount, Scope};
use memory::proposal::{EntryChange, Proposal, ProposalKind};
use memory::screen::Screen;

use super::classify;
use super::content::{self, RememberContent};
use super::dates;
use super::forget::EntryRef;
use super::frontmatter::first_words;
use super::remember::{FindingOutcome, RememberPlan, check_screened, entry_outcome, mount_for};
use super::snapshot::{ParsedEntry, Snapshot, StoredMemory};
use crate::request::EntryAction;
use crate::review::{
    FINDINGS_MAX, FindingSkipReason, FindingTarget, ReviewFinding, ReviewMessage, ReviewReport,
    ReviewRequest,
};

/// Maximum length of a finding, in characters: it is one statement.
const FINDING_CHARS_MAX: usize = 1_000;

/// Maximum length of a message quoted in the history of a change, in characters.
const QUOTE_CHARS_MAX: usize = 200;

/// One decision of a review.
pub(crate) enum ReviewDecision<'s> {
    /// A new fact.
    New(ReviewFinding),
    /// A new value of an entry.
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

/// Checks of a finding's text.
#[derive(Clone, Copy)]
pub(crate) struct TextChecks<'a> {
    /// Finds secrets and injected instructions.
    pub(crate) screen: &'a Screen,
    /// Checks whether a text repeats a model's own instructions.
    pub(crate) quotes_prompt: fn(&str) -> bool,
}

/// Applies findings; `skipped` counts those that were dropped before.
pub(crate) fn apply_findings(
    snapshot: &Snapshot,
    request: &ReviewRequest,
    decisions: Vec<ReviewDecision<'_>>,
    (checks, skipped): (TextChecks<'_>, BTreeMap<FindingSkipReason, u32>),
) -> ReviewReport {
    let mut plan = RememberPlan::for_review(snapshot);
    let mut report = ReviewReport { skipped, ..ReviewReport::default() };
    let mut evidence: Vec<String> = Vec::new();
    let mut applied = 0;
    for decision in decisions {
        let (changes, proposals) = (plan.changes.len(), plan.proposals.len());
        let outcome = if applied == FINDINGS_MAX {
            Err(FindingSkipReason::Limit)
        } else {
            apply_item(snapshot, &mut plan, checks, &decision)
        };
        match outcome {
            Ok(()) => {
                applied += 1;
                let note = evidence_note(request, decision.evidence());
                for proposal in plan.proposals.iter_mut().skip(proposals) {
                    proposal.reason = format!("{} {note}", proposal.reason);
                }
                if plan.changes.len() > changes {
                    evidence.extend(decision.evidence().iter().cloned());
                }
            }
            Err(why) => *report.skipped.entry(why).or_default() += 1,
        }
    }
    report.evidence_note = evidence_note(request, &evidence);
    let remembered = plan.finish();
    report.edits = remembered.edits;
    report.changed_paths = remembered.changed_paths;
    report.scopes = remembered.scopes;
    report.changes = remembered.changes;
    report.changes.retain(|change| change.action != EntryAction::Known);
    report.proposals = remembered.proposals;
    report.summary = summary(&report);
    report
}

fn apply_item(
    snapshot: &Snapshot,
    plan: &mut RememberPlan<'_>,
    checks: TextChecks<'_>,
    decision: &ReviewDecision<'_>,
) -> Result<(), FindingSkipReason> {
    let text = decision.text().map(|text| parse_statement(text, snapshot)).transpose()?;
    if let Some(text) = &text {
        check_screened(checks.screen, text).map_err(|_| FindingSkipReason::Screened)?;
        if (checks.quotes_prompt)(text) {
            return Err(FindingSkipReason::Instructions);
        }
    }
    match (decision, text) {
        (ReviewDecision::New(finding), Some(text)) => {
            let mount = mount_for_target(snapshot, finding.target, &text)?;
            match plan.add_finding(&text, mount) {
                Ok(FindingOutcome::Added | FindingOutcome::Proposed) => Ok(()),
                Ok(FindingOutcome::AlreadyKnown) => Err(FindingSkipReason::Known),
                Err(_) => Err(FindingSkipReason::Place),
            }
        }
        (ReviewDecision::Update { entry, .. }, Some(text)) => {
            change_entry(plan, *entry, Some(text))
        }
        (ReviewDecision::Removal { entry, .. }, _) => change_entry(plan, *entry, None),
        (ReviewDecision::New(_) | ReviewDecision::Update { .. }, None) => {
            Err(FindingSkipReason::Form)
        }
    }
}

/// Parses one statement and resolves its dates.
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

/// Returns the mount for a finding. A private one goes to the global scope, because project memories are shared.
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

/// Replaces or removes an entry: directly in a memory written by reviews, else by a proposal.
fn change_entry(
    plan: &mut RememberPlan<'_>,
    (stored, old): EntryRef<'_>,
    text: Option<String>,
) -> Result<(), FindingSkipReason> {
    let index = plan
        .memories
        .iter()
        .position(|memory| memory.path == stored.path)
        .ok_or(FindingSkipReason::Place)?;
    let mount = stored.path.mount().ok_or(FindingSkipReason::Place)?;
    if text.as_deref().is_some_and(|text| plan.is_known(text, mount)) {
        return Err(FindingSkipReason::Known);
    }
    // Project memories are shared, no matter who wrote the entry.
    if stored.path.is_shared() && text.as_deref().is_some_and(classify::is_private) {
        return Err(FindingSkipReason::Place);
    }
    if !may_edit_directly(stored) {
        plan.proposals.push(change_proposal(stored, old, text));
        return Ok(());
    }
    // Another finding may have changed the memory in the meantime.
    let now = plan.memories[index].text.clone();
    let entry = now.parsed().entries.iter().find(|note| note.full_text() == old.full_text());
    let entry = &entry.ok_or(FindingSkipReason::Place)?.entry();
    let (changed, action) = match &text {
        Some(text) => {
            (replace_entry(&now, entry, text).ok_or(FindingSkipReason::Form)?, EntryAction::Updated)
        }
        None => (without_entry(&now, entry), EntryAction::Removed),
    };
    let words = text.as_deref().unwrap_or_else(|| old.full_text());
    plan.changes.push(entry_outcome(&stored.path, action, words));
    plan.memories[index].text = changed.into();
    Ok(())
}

/// Checks whether a review may change a memory directly.
pub(super) fn may_edit_directly(stored: &StoredMemory) -> bool {
    stored.written_by_review && !stored.pinned && !stored.has_conflict()
}

/// Returns the proposal to replace or remove an entry.
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

/// Returns the turns and the quoted messages, in one line.
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

fn summary(report: &ReviewReport) -> String {
    let saved = match report.changes.len() {
        0 => "Nothing to save.".to_owned(),
        1 => "Saved 1 memory.".to_owned(),
        count => format!("Saved {count} memories."),
    };
    let proposed = match report.proposals.len() {
        0 => String::new(),
        count => format!(" Proposed: {count}."),
    };
    let skipped: Vec<String> =
        report.skipped.iter().map(|(why, count)| format!("{count} {}", why.as_ref())).collect();
    let skipped = if skipped.is_empty() {
        String::new()
    } else {
        format!(" Left out: {}.", skipped.join(", "))
    };
    format!("{saved}{proposed}{skipped}")
}
