//! The curator that asks models, and falls back to the rule curator for work without a model.
//!
//! Each task runs an agent: a model with tools that see only a copy of the memories. Its edits are entered into the
//! draft like those of the rules, provided that the memories did not change in the meantime. The prompts are not
//! trusted to keep a model from harm: [`toolbox`] refuses forbidden calls, and [`content_check`] compares the
//! result with the memories as they were. This module writes no files and commits nothing.

mod agent;
mod content_check;
mod ngrams;
mod prompts;
mod rerank;
mod review;
mod toolbox;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::time::Duration;

use memory::clock::Clock;
use memory::limits::{AGENT_WAIT, FORGET_BY_MODEL_WAIT};
use memory::path::MemoryPath;
use memory::screen::Screen;
use model::{Chat, ToolSpec};
use serde_json::{Value, json};
use store::{Draft, Memories};
use tokio::time::Instant;

pub use self::agent::AgentError;
use self::agent::{AgentRun, ToolRefusal, Toolbox, extract_json, json_quoted, select_tool};
pub(crate) use self::prompts::quotes_prompt;
pub use self::rerank::{RerankCandidate, rerank};
use self::review::ReviewToolbox;
use self::toolbox::{AgentPermissions, AgentTask, MemoryToolbox, has_secret, is_withheld};
use crate::curator::{CurateError, RuleCurator, apply_edits};
use crate::ledger::{DREAM_AGENT, FORGET_AGENT, Ledger, REMEMBER_AGENT, REVIEW_AGENT};
use crate::request::{
    ContextMode, DreamReport, EntryAction, EntryOutcome, ForgetReport, ForgetRequest, MemoryTopic,
    RememberError, RememberReport, RememberRequest,
};
use crate::review::{ReviewReport, ReviewRequest};
use crate::rules::{self, DREAM_COMPLETED, EntryRef, ParsedText, Snapshot, TextChecks};

/// Maximum turns of an agent that remembers.
const REMEMBER_TURNS: u32 = 6;
/// Maximum turns of an agent that dreams, in each scope.
const DREAM_TURNS: u32 = 12;
/// Maximum turns of an agent that forgets: one answer, and one more after an invalid one.
const FORGET_TURNS: u32 = 2;
/// Maximum turns of an agent that reviews.
const REVIEW_TURNS: u32 = 4;
/// Maximum number of memories that remembering changes.
const REMEMBER_CHANGED_MAX: usize = 8;
/// Maximum number of memories that a dream by a model changes.
const DREAM_CHANGED_MAX: usize = 8;
/// Maximum number of entries that a model selects from.
const CANDIDATES_MAX: usize = 400;
/// Maximum number of memories that are listed in a remember task.
const LISTED_MEMORIES_MAX: usize = 40;
/// Maximum length of an entry that a model selects from, in characters.
const ENTRY_CHARS_MAX: usize = 400;

/// The model for each kind of task. A task without a model is done by the rules.
#[derive(Clone, Debug, Default)]
pub struct CuratorModels {
    /// Model for remembering.
    pub remember: Option<Chat>,
    /// Model that selects the entries to forget.
    pub forget: Option<Chat>,
    /// Model for dreams.
    pub dream: Option<Chat>,
    /// Model for reviews of conversations.
    pub review: Option<Chat>,
    /// Whether the rules do a task after its model failed.
    pub falls_back_to_rules: bool,
}

/// The component that decides what becomes of memories: by a model, or by the rules where there is none. It edits a
/// draft, commits nothing, and records models, turns and tokens in a ledger.
#[derive(Debug)]
pub struct Curator<C> {
    rules: RuleCurator<C>,
    models: CuratorModels,
}

impl<C: Clock> Curator<C> {
    /// Creates a curator with these models.
    pub const fn new(rules: RuleCurator<C>, models: CuratorModels) -> Self {
        Self { rules, models }
    }

    /// Returns the model's result; on its failure, `None` if the rules are to do the task, or the error.
    fn or_fall_back<T>(
        &self,
        result: Result<T, CurateError>,
        ledger: &Ledger,
    ) -> Result<Option<T>, CurateError> {
        match result {
            Ok(report) => Ok(Some(report)),
            Err(CurateError::Agent(error)) => {
                let why = error.redacted_message();
                if self.models.falls_back_to_rules {
                    ledger.record_fallback(why);
                    return Ok(None);
                }
                ledger.record_failure(why);
                Err(CurateError::Agent(error))
            }
            Err(error) => Err(error),
        }
    }

    async fn remember_with_model(
        &self,
        chat: &Chat,
        (memories, draft): (&Memories, &mut Draft),
        request: &RememberRequest,
        ledger: &Ledger,
    ) -> Result<RememberReport, CurateError> {
        let screen = self.rules.screen();
        rules::check_screened(screen, &request.content)?;
        let snapshot = self.rules.snapshot(memories).await?;
        let writable = match request.scope {
            Some(scope) => {
                vec![rules::mount_for(&snapshot, scope).ok_or(RememberError::ScopeMismatch)?]
            }
            None => snapshot.writable.clone(),
        };
        ledger.begin(REMEMBER_AGENT, chat.name());
        let allowed = AgentPermissions {
            mounts: memories.mounts().iter().map(|mount| mount.mount).collect(),
            writable,
            sees_existing: request.context_mode == ContextMode::Workspace,
            work: AgentTask::Remember,
            changed_max: REMEMBER_CHANGED_MAX,
            request: &request.content,
        };
        let task = remember_task(&snapshot, request, &allowed, screen);
        let mut files = MemoryToolbox::new(&snapshot, memories.layout(), screen, allowed);
        let agent = Self::agent_run(chat, prompts::REMEMBER, REMEMBER_TURNS, AGENT_WAIT);
        let answer = agent.run(&task, &mut files, ledger).await?;
        let edits = files.edits();
        if edits.is_empty() && !answer.to_lowercase().contains("nothing") {
            return Err(AgentError::NoAnswer.into());
        }
        let changes = entry_outcomes(&files);
        drop(files);
        apply_edits(draft, &snapshot, &edits).await?;
        draft.set_model(chat.name());
        let touched: Vec<MemoryPath> = edits.iter().map(|edit| edit.path().clone()).collect();
        let count = |action| changes.iter().filter(|change| change.action == action).count();
        let summary = if edits.is_empty() {
            "Nothing to save: there is nothing new in it that is worth keeping.".to_owned()
        } else {
            let paths: Vec<String> = touched.iter().map(ToString::to_string).collect();
            format!(
                "Saved to {}: {} new, {} updated.",
                paths.join(", "),
                count(EntryAction::Added),
                count(EntryAction::Updated)
            )
        };
        let scopes = touched.iter().filter_map(MemoryPath::mount).collect();
        Ok(RememberReport {
            edits,
            summary,
            changed_paths: touched,
            scopes,
            changes,
            proposals: Vec::new(),
        })
    }

    async fn forget_with_model(
        &self,
        chat: &Chat,
        (memories, draft): (&Memories, &mut Draft),
        request: &ForgetRequest,
        ledger: &Ledger,
    ) -> Result<ForgetReport, CurateError> {
        ledger.begin(FORGET_AGENT, chat.name());
        let snapshot = self.rules.snapshot(memories).await?;
        let mut candidates = rules::candidates(&snapshot, request, CANDIDATES_MAX);
        let screen = self.rules.screen();
        // Screening is expensive: each memory is screened once, however many of its entries are candidates.
        let mut withheld: HashMap<&MemoryPath, bool> = HashMap::new();
        candidates.retain(|(stored, _)| {
            !*withheld.entry(&stored.path).or_insert_with(|| is_withheld(screen, stored))
        });
        let selected = if candidates.is_empty() {
            Vec::new()
        } else {
            let mut selection = EntrySelection::new(&candidates);
            let task = selection.task(request);
            let outcome =
                Self::agent_run(chat, prompts::FORGET, FORGET_TURNS, FORGET_BY_MODEL_WAIT)
                    .run(&task, &mut selection, ledger)
                    .await;
            selection.into_selected(outcome)?
        };
        let forgotten = rules::forget_entries(&snapshot, selected);
        drop(candidates);
        apply_edits(draft, &snapshot, &forgotten.edits).await?;
        draft.set_model(chat.name());
        Ok(forgotten)
    }

    async fn dream_with_model(
        &self,
        chat: &Chat,
        (memories, draft): (&Memories, &mut Draft),
        ledger: &Ledger,
    ) -> Result<DreamReport, CurateError> {
        ledger.begin(DREAM_AGENT, chat.name());
        let snapshot = self.rules.snapshot(memories).await?;
        let screen = self.rules.screen();
        let deadline = Instant::now() + AGENT_WAIT;
        let mut report = DreamReport::default();
        let mut refusals: Vec<AgentError> = Vec::new();
        // Scope by scope, so that no text moves from one scope to another.
        for mount in snapshot.writable.clone() {
            let mut of_mount = snapshot.memories.iter().map(|stored| stored.path.mount());
            if !of_mount.any(|of| of == Some(mount)) || report.edits.len() >= DREAM_CHANGED_MAX {
                continue;
            }
            let allowed = AgentPermissions {
                mounts: vec![mount],
                writable: vec![mount],
                sees_existing: true,
                work: AgentTask::Dream,
                changed_max: DREAM_CHANGED_MAX - report.edits.len(),
                request: "",
            };
            let mut files = MemoryToolbox::new(&snapshot, memories.layout(), screen, allowed);
            let task = dream_task(&snapshot, &mut files);
            let agent = AgentRun {
                chat,
                system: prompts::DREAM,
                turns_max: DREAM_TURNS,
                deadline,
                time_limit: AGENT_WAIT,
            };
            match agent.run(&task, &mut files, ledger).await {
                Ok(_) => add_scope_edits(&mut report, &files)?,
                // Text lost in one scope says nothing about the edits in the others.
                Err(error @ (AgentError::ContentLoss { .. } | AgentError::ContentAdded(_))) => {
                    let why = error.redacted_message();
                    tracing::warn!(
                        model = chat.name(),
                        why,
                        "the model's edits of a scope were refused"
                    );
                    refusals.push(error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        if report.edits.is_empty()
            && report.proposals.is_empty()
            && let Some(error) = refusals.pop()
        {
            return Err(error.into());
        }
        apply_edits(draft, &snapshot, &report.edits).await?;
        draft.set_model(chat.name());
        let result = match report.edits.len() {
            0 => "Nothing to tidy up.".to_owned(),
            1 => format!("Changed 1 memory. Repeated entries merged: {}.", report.merged_entries),
            count => {
                format!(
                    "Changed {count} memories. Repeated entries merged: {}.",
                    report.merged_entries
                )
            }
        };
        report.summary = format!("{DREAM_COMPLETED} {result}");
        if !report.proposals.is_empty() {
            let _ = write!(report.summary, " Proposed: {}.", report.proposals.len());
        }
        for error in refusals {
            let _ = write!(report.summary, " Refused: {}.", error.redacted_message());
        }
        Ok(report)
    }

    async fn review_with_model(
        &self,
        chat: &Chat,
        (memories, draft): (&Memories, &mut Draft),
        (request, wait): (&ReviewRequest, Duration),
        ledger: &Ledger,
    ) -> Result<ReviewReport, CurateError> {
        ledger.begin(REVIEW_AGENT, chat.name());
        let snapshot = self.rules.snapshot(memories).await?;
        let screen = self.rules.screen();
        let mut findings = ReviewToolbox::new(&snapshot, request, screen);
        let task = findings.task(&snapshot);
        let agent = Self::agent_run(chat, prompts::REVIEW, REVIEW_TURNS, wait);
        let outcome = agent.run(&task, &mut findings, ledger).await;
        let (decisions, skipped) = findings.into_items(outcome)?;
        let checks = TextChecks { screen, quotes_prompt };
        let reviewed = rules::apply_findings(&snapshot, request, decisions, (checks, skipped));
        apply_edits(draft, &snapshot, &reviewed.edits).await?;
        draft.set_model(chat.name());
        draft.set_note(reviewed.evidence_note.clone());
        Ok(reviewed)
    }

    fn agent_run<'a>(
        chat: &'a Chat,
        system: &'a str,
        turns_max: u32,
        wait: Duration,
    ) -> AgentRun<'a> {
        AgentRun { chat, system, turns_max, deadline: Instant::now() + wait, time_limit: wait }
    }
}

/// Adds the edits of one scope to a dream, if they lose nothing.
fn add_scope_edits(report: &mut DreamReport, files: &MemoryToolbox<'_>) -> Result<(), AgentError> {
    report.merged_entries += content_check::check_dream_edits(files)?;
    let edits = files.edits();
    report.proposals.extend(files.proposals());
    report.changes.extend(entry_outcomes(files));
    report.scopes.extend(edits.iter().filter_map(|edit| edit.path().mount()));
    report
        .topics
        .extend(edits.iter().map(|edit| MemoryTopic::declared_or_default(None, edit.path())));
    report.edits.extend(edits);
    Ok(())
}

fn remember_task(
    snapshot: &Snapshot,
    request: &RememberRequest,
    allowed: &AgentPermissions<'_>,
    screen: &Screen,
) -> String {
    let today = snapshot.local_date(snapshot.now);
    let mut task = format!("Today is {today}.\n");
    let folders: Vec<String> =
        allowed.writable.iter().map(|mount| MemoryPath::Root(*mount).to_string()).collect();
    let _ = writeln!(task, "You may write below: {}", folders.join(", "));
    if allowed.sees_existing {
        let mut listed =
            rules::most_similar_memories(snapshot, &request.content, LISTED_MEMORIES_MAX);
        listed.retain(|stored| !is_withheld(screen, stored));
        let total = snapshot.memories.iter().filter(|stored| !stored.is_unreviewed()).count();
        let _ = writeln!(task, "\nMemories that may be about it ({} of {total}):", listed.len());
        for stored in listed {
            let description = stored.text.parsed().header.shown_description().to_owned();
            let _ = writeln!(task, "- {} {description}", stored.path);
        }
    } else {
        task.push_str("\nWrite it afresh: earlier memories are not shown to you.\n");
    }
    let _ = writeln!(
        task,
        "\nThe text to remember, as a JSON string:\n{}",
        json_quoted(&request.content)
    );
    task
}

fn dream_task(snapshot: &Snapshot, files: &mut MemoryToolbox<'_>) -> String {
    let listed = files.call("ls", &json!({})).unwrap_or_else(|ToolRefusal(why)| why);
    format!("Today is {}.\n\nThe memories:\n{listed}\n", snapshot.local_date(snapshot.now))
}

/// Returns the outcome of each entry. Within one memory, new entries count as updates of removed ones.
fn entry_outcomes(files: &MemoryToolbox<'_>) -> Vec<EntryOutcome> {
    let mut outcomes = Vec::new();
    let texts: Vec<_> = files.texts_before_and_after().collect();
    let after: HashSet<&str> = texts
        .iter()
        .filter_map(|(.., now)| now.as_ref())
        .flat_map(|now| now.parsed().entries.iter().map(|note| note.normalized.as_str()))
        .collect();
    for (path, stored, now) in &texts {
        let before = stored.map(|stored| &stored.text);
        if before.map(|text| &**text) == now.as_deref() {
            continue;
        }
        let forms = |text: Option<&ParsedText>| -> BTreeMap<String, String> {
            let entries = text.into_iter().flat_map(|text| &text.parsed().entries);
            entries
                .map(|note| (note.normalized.as_str().to_owned(), note.statement().to_owned()))
                .collect()
        };
        let (old, new) = (forms(before), forms(now.as_ref()));
        let missing = |of: &BTreeMap<String, String>, from: &BTreeMap<String, String>| {
            let missing = from.iter().filter(|(form, _)| !of.contains_key(*form));
            missing.map(|(form, text)| (form.clone(), text.clone())).collect::<Vec<_>>()
        };
        let (removed, added) = (missing(&new, &old), missing(&old, &new));
        let updated = removed.len().min(added.len());
        for (index, (_, entry)) in added.iter().enumerate() {
            let action = if index < updated { EntryAction::Updated } else { EntryAction::Added };
            outcomes.push(rules::entry_outcome(path, action, entry));
        }
        for (form, entry) in removed.iter().skip(updated) {
            let is_kept = after.contains(form.as_str());
            let action = if is_kept { EntryAction::Merged } else { EntryAction::Removed };
            outcomes.push(rules::entry_outcome(path, action, entry));
        }
    }
    outcomes
}

/// Tool by which a model selects entries by their ids.
struct EntrySelection<'a> {
    /// Entries with their ids, in the order in which they are listed.
    entries: Vec<(String, EntryRef<'a>)>,
    selected: Option<Vec<EntryRef<'a>>>,
    named_unknown_ids: bool,
}

impl<'a> EntrySelection<'a> {
    fn new(entries: &[EntryRef<'a>]) -> Self {
        let entries = entries.iter().map(|entry| (Self::entry_id(*entry), *entry)).collect();
        Self { entries, selected: None, named_unknown_ids: false }
    }

    /// Returns the id of an entry: scope, path and index.
    fn entry_id((stored, entry): EntryRef<'_>) -> String {
        let entries = stored.text.parsed().entries.iter();
        let number = entries.take_while(|other| !std::ptr::eq(*other, entry)).count();
        format!("{}:{number}", stored.path.to_string().trim_start_matches("/memories/"))
    }

    fn task(&self, request: &ForgetRequest) -> String {
        let mut task = format!(
            "The request, as a JSON string:\n{}\n\nThe entries, by id:\n",
            json_quoted(&request.query)
        );
        for (id, (_, note)) in &self.entries {
            let entry: String = note.full_text().chars().take(ENTRY_CHARS_MAX).collect();
            let _ = writeln!(task, "{id} {}", json_quoted(&entry));
        }
        task
    }

    /// Returns the entries of a list of ids; `None` if an id is unknown.
    fn resolve_ids(&self, ids: &Value) -> Option<Vec<EntryRef<'a>>> {
        let by_id: HashMap<&str, EntryRef<'a>> =
            self.entries.iter().map(|(id, entry)| (id.as_str(), *entry)).collect();
        ids.as_array()?.iter().map(|id| by_id.get(id.as_str()?).copied()).collect()
    }

    /// Returns the selected entries: those of the tool call, or else those in the JSON of the model's text.
    fn into_selected(
        self,
        outcome: Result<String, AgentError>,
    ) -> Result<Vec<EntryRef<'a>>, AgentError> {
        if let Some(selected) = self.selected {
            return Ok(selected);
        }
        match outcome {
            Ok(text) => {
                let value = extract_json(&text).ok_or(AgentError::NoAnswer)?;
                let ids = value.get("ids").unwrap_or(&value);
                self.resolve_ids(ids).ok_or(AgentError::UnknownEntries)
            }
            Err(AgentError::TurnLimit(_)) if self.named_unknown_ids => {
                Err(AgentError::UnknownEntries)
            }
            Err(error) => Err(error),
        }
    }
}

impl Toolbox for EntrySelection<'_> {
    fn tools(&self) -> Vec<ToolSpec> {
        let description = "Selects the entries that are to be removed; an empty list selects none.";
        vec![select_tool("select_entries", description)]
    }

    fn is_read_only(&self, _: &str) -> bool {
        true
    }

    fn is_done(&self) -> bool {
        self.selected.is_some()
    }

    fn call(&mut self, _: &str, arguments: &Value) -> Result<String, ToolRefusal> {
        if self.selected.is_some() {
            return Err(ToolRefusal::new("entries were selected already"));
        }
        let Some(selected) = self.resolve_ids(&arguments["ids"]) else {
            self.named_unknown_ids = true;
            return Err(ToolRefusal::new("`ids` must be a list of ids that were listed"));
        };
        self.selected = Some(selected);
        Ok("Selected.".to_owned())
    }
}

impl<C: Clock> Curator<C> {
    /// Puts the facts of a text into memories.
    pub async fn remember(
        &self,
        memories: &Memories,
        draft: &mut Draft,
        request: &RememberRequest,
        ledger: &Ledger,
    ) -> Result<RememberReport, CurateError> {
        if let Some(chat) = &self.models.remember {
            let result =
                self.remember_with_model(chat, (memories, &mut *draft), request, ledger).await;
            if let Some(report) = self.or_fall_back(result, ledger)? {
                return Ok(report);
            }
        }
        self.rules.remember(memories, draft, request).await
    }

    /// Removes the entries that a request asks for.
    pub async fn forget(
        &self,
        memories: &Memories,
        draft: &mut Draft,
        request: &ForgetRequest,
        ledger: &Ledger,
    ) -> Result<ForgetReport, CurateError> {
        // With a file, a person already chose the entry. A secret must not be sent to a model.
        let is_for_rules =
            request.file.is_some() || has_secret(self.rules.screen(), &request.query);
        if let Some(chat) = self.models.forget.as_ref().filter(|_| !is_for_rules) {
            let result =
                self.forget_with_model(chat, (memories, &mut *draft), request, ledger).await;
            if let Some(report) = self.or_fall_back(result, ledger)? {
                return Ok(report);
            }
        }
        self.rules.forget(memories, draft, request).await
    }

    /// Tidies memories: merges duplicates, moves entries, proposes merges.
    pub async fn dream(
        &self,
        memories: &Memories,
        draft: &mut Draft,
        ledger: &Ledger,
    ) -> Result<DreamReport, CurateError> {
        if let Some(chat) = &self.models.dream {
            let result = self.dream_with_model(chat, (memories, &mut *draft), ledger).await;
            if let Some(report) = self.or_fall_back(result, ledger)? {
                return Ok(report);
            }
        }
        self.rules.dream(memories, draft).await
    }

    /// Reviews a conversation within the time `wait`.
    pub async fn review(
        &self,
        memories: &Memories,
        draft: &mut Draft,
        (request, wait): (&ReviewRequest, Duration),
        ledger: &Ledger,
    ) -> Result<ReviewReport, CurateError> {
        if let Some(chat) = &self.models.review {
            let result = self
                .review_with_model(chat, (memories, &mut *draft), (request, wait), ledger)
                .await;
            if let Some(report) = self.or_fall_back(result, ledger)? {
                return Ok(report);
            }
        }
        self.rules.review(memories, draft, request).await
    }

    /// Checks whether any task uses a model, so that doing it again costs tokens.
    pub const fn has_model(&self) -> bool {
        let CuratorModels { remember, forget, dream, review, falls_back_to_rules: _ } =
            &self.models;
        remember.is_some() || forget.is_some() || dream.is_some() || review.is_some()
    }

    /// Drops the caches that only make the next task faster.
    pub fn clear_cache(&self) {
        self.rules.clear_cache();
    }
}
