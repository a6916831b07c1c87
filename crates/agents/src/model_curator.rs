//! The curator: it asks models, and the rules where there is none.
//!
//! The model works on a copy of the memories, with tools that see nothing else; what it changed is entered into the draft
//! as the edits of the rules are, if the memories are still as it was shown them. What it must not do is not left to what
//! it is told: [`files`] refuses it, and a dream is compared with what was there before.

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
use self::toolbox::{AgentPermissions, AgentTask, MemoryToolbox, has_secret};
use crate::curator::{CurateError, RuleCurator, apply_edits};
use crate::ledger::{DREAM_AGENT, FORGET_AGENT, Ledger, REMEMBER_AGENT, REVIEW_AGENT};
use crate::request::{
    ContextMode, DreamReport, EntryAction, EntryOutcome, ForgetReport, ForgetRequest, MemoryTopic,
    RememberError, RememberReport, RememberRequest,
};
use crate::review::{ReviewReport, ReviewRequest};
use crate::rules::{self, DREAM_COMPLETED, EntryRef, ParsedText, Snapshot, TextChecks};

/// Turns of an agent that remembers.
const REMEMBER_TURNS: u32 = 6;
/// Turns of an agent that dreams, in each scope.
const DREAM_TURNS: u32 = 12;
/// Turns of an agent that forgets: an answer, and another one after a wrong one.
const FORGET_TURNS: u32 = 2;
/// Turns of an agent that reviews.
const REVIEW_TURNS: u32 = 4;
/// Memories that remembering changes.
const REMEMBER_CHANGED_MAX: usize = 8;
/// Memories that a dream by a model changes.
const DREAM_CHANGED_MAX: usize = 8;
/// Entries that a model chooses from.
const CANDIDATES_MAX: usize = 400;
/// Memories that are listed in the task of an agent that remembers.
const LISTED_MEMORIES_MAX: usize = 40;
/// Characters of an entry that a model chooses from.
const ENTRY_CHARS_MAX: usize = 400;

/// Which models do which work. What has none is done by the rules.
#[derive(Clone, Debug, Default)]
pub struct CuratorModels {
    /// The model that remembers.
    pub remember: Option<Chat>,
    /// The model that selects what is forgotten.
    pub forget: Option<Chat>,
    /// The model that dreams.
    pub dream: Option<Chat>,
    /// The model that reviews conversations.
    pub review: Option<Chat>,
    /// Whether the rules do what a model fails to do.
    pub falls_back_to_rules: bool,
}

/// The curator, which decides what becomes of memories: it asks models, or goes by the rules where there is none. It edits a
/// draft and commits nothing, and notes what that takes in a ledger.
#[derive(Debug)]
pub struct Curator<C> {
    rules: RuleCurator<C>,
    models: CuratorModels,
}

impl<C: Clock> Curator<C> {
    /// Returns a curator that asks these models.
    pub const fn new(rules: RuleCurator<C>, models: CuratorModels) -> Self {
        Self { rules, models }
    }

    /// Takes what a model did, or lets the rules do it if a person wants that.
    fn or_fall_back<T>(
        &self,
        done: Result<T, CurateError>,
        ledger: &Ledger,
    ) -> Result<Option<T>, CurateError> {
        match done {
            Ok(done) => Ok(Some(done)),
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
        let count = |action| changes.iter().filter(|note| note.action == action).count();
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
        // Each memory is looked at once, however many of its entries are candidates.
        let mut secret: HashMap<&MemoryPath, bool> = HashMap::new();
        candidates.retain(|(stored, _)| {
            !*secret.entry(&stored.path).or_insert_with(|| has_secret(screen, &stored.text))
        });
        let chosen = if candidates.is_empty() {
            Vec::new()
        } else {
            let mut choice = EntrySelection::new(&candidates);
            let task = choice.task(request);
            let ran = Self::agent_run(chat, prompts::FORGET, FORGET_TURNS, FORGET_BY_MODEL_WAIT)
                .run(&task, &mut choice, ledger)
                .await;
            choice.into_selected(ran)?
        };
        let forgotten = rules::forget_entries(&snapshot, chosen);
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
        let until = Instant::now() + AGENT_WAIT;
        let mut done = DreamReport::default();
        let mut refused: Vec<AgentError> = Vec::new();
        // Scope by scope, so that nothing of one gets into another.
        for mount in snapshot.writable.clone() {
            let mut of_mount = snapshot.memories.iter().map(|stored| stored.path.mount());
            if !of_mount.any(|of| of == Some(mount)) || done.edits.len() >= DREAM_CHANGED_MAX {
                continue;
            }
            let allowed = AgentPermissions {
                mounts: vec![mount],
                writable: vec![mount],
                sees_existing: true,
                work: AgentTask::Dream,
                changed_max: DREAM_CHANGED_MAX - done.edits.len(),
                request: "",
            };
            let mut files = MemoryToolbox::new(&snapshot, memories.layout(), screen, allowed);
            let task = dream_task(&snapshot, &mut files);
            let turns_max = DREAM_TURNS;
            let agent = AgentRun {
                chat,
                system: prompts::DREAM,
                turns_max,
                deadline: until,
                time_limit: AGENT_WAIT,
            };
            match agent.run(&task, &mut files, ledger).await {
                Ok(_) => add_scope_edits(&mut done, &files)?,
                // What it would have lost in one scope says nothing of the others.
                Err(error @ (AgentError::ContentLoss { .. } | AgentError::ContentAdded(_))) => {
                    let why = error.redacted_message();
                    tracing::warn!(model = chat.name(), why, "a part of a dream is refused");
                    refused.push(error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        if done.edits.is_empty()
            && done.proposals.is_empty()
            && let Some(error) = refused.pop()
        {
            return Err(error.into());
        }
        apply_edits(draft, &snapshot, &done.edits).await?;
        draft.set_model(chat.name());
        let did = match done.edits.len() {
            0 => "Nothing to tidy up.".to_owned(),
            1 => format!("Changed 1 memory. Repeated entries merged: {}.", done.merged_entries),
            count => {
                format!(
                    "Changed {count} memories. Repeated entries merged: {}.",
                    done.merged_entries
                )
            }
        };
        done.summary = format!("{DREAM_COMPLETED} {did}");
        if !done.proposals.is_empty() {
            let _ = write!(done.summary, " Proposed: {}.", done.proposals.len());
        }
        for error in refused {
            let _ = write!(done.summary, " Refused: {}.", error.redacted_message());
        }
        Ok(done)
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
        let ran = agent.run(&task, &mut findings, ledger).await;
        let (found, skipped) = findings.into_items(ran)?;
        let checks = TextChecks { screen, quotes_prompt };
        let reviewed = rules::apply_findings(&snapshot, request, found, (checks, skipped));
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

/// Adds what a dream did to one scope, if nothing is lost.
fn add_scope_edits(done: &mut DreamReport, files: &MemoryToolbox<'_>) -> Result<(), AgentError> {
    done.merged_entries += content_check::check_dream_edits(files)?;
    let edits = files.edits();
    done.proposals.extend(files.proposals());
    done.changes.extend(entry_outcomes(files));
    done.scopes.extend(edits.iter().filter_map(|edit| edit.path().mount()));
    done.topics
        .extend(edits.iter().map(|edit| MemoryTopic::declared_or_default(None, edit.path())));
    done.edits.extend(edits);
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
        listed.retain(|stored| !has_secret(screen, &stored.text));
        let of = snapshot.memories.iter().filter(|stored| !stored.is_unreviewed()).count();
        let _ = writeln!(task, "\nMemories that may be about it ({} of {of}):", listed.len());
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

/// Returns what became of entries: of one memory, what is new takes the place of what is gone.
fn entry_outcomes(files: &MemoryToolbox<'_>) -> Vec<EntryOutcome> {
    let mut notes = Vec::new();
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
            let notes = text.into_iter().flat_map(|text| &text.parsed().entries);
            notes
                .map(|note| (note.normalized.as_str().to_owned(), note.statement().to_owned()))
                .collect()
        };
        let (old, new) = (forms(before), forms(now.as_ref()));
        let missing = |of: &BTreeMap<String, String>, from: &BTreeMap<String, String>| {
            let missing = from.iter().filter(|(form, _)| !of.contains_key(*form));
            missing.map(|(form, text)| (form.clone(), text.clone())).collect::<Vec<_>>()
        };
        let (gone, come) = (missing(&new, &old), missing(&old, &new));
        let updated = gone.len().min(come.len());
        for (at, (_, entry)) in come.iter().enumerate() {
            let action = if at < updated { EntryAction::Updated } else { EntryAction::Added };
            notes.push(rules::entry_outcome(path, action, entry));
        }
        for (form, entry) in gone.iter().skip(updated) {
            let is_kept = after.contains(form.as_str());
            let action = if is_kept { EntryAction::Merged } else { EntryAction::Removed };
            notes.push(rules::entry_outcome(path, action, entry));
        }
    }
    notes
}

/// Entries that a model chooses from, by their ids.
struct EntrySelection<'a> {
    /// In the order in which they are listed.
    entries: Vec<(String, EntryRef<'a>)>,
    selected: Option<Vec<EntryRef<'a>>>,
    named_unknown_ids: bool,
}

impl<'a> EntrySelection<'a> {
    fn new(entries: &[EntryRef<'a>]) -> Self {
        let entries = entries.iter().map(|at| (Self::entry_id(*at), *at)).collect();
        Self { entries, selected: None, named_unknown_ids: false }
    }

    /// Returns the scope, path and number of an entry.
    fn entry_id((stored, note): EntryRef<'_>) -> String {
        let notes = stored.text.parsed().entries.iter();
        let number = notes.take_while(|one| !std::ptr::eq(*one, note)).count();
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

    /// Reads ids; `None` if there is one that is not listed.
    fn resolve_ids(&self, ids: &Value) -> Option<Vec<EntryRef<'a>>> {
        let known: HashMap<&str, EntryRef<'a>> =
            self.entries.iter().map(|(id, at)| (id.as_str(), *at)).collect();
        ids.as_array()?.iter().map(|id| known.get(id.as_str()?).copied()).collect()
    }

    /// Returns what was chosen, by a call or else by a text that is JSON.
    fn into_selected(
        self,
        ran: Result<String, AgentError>,
    ) -> Result<Vec<EntryRef<'a>>, AgentError> {
        if let Some(chosen) = self.selected {
            return Ok(chosen);
        }
        match ran {
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
        let Some(chosen) = self.resolve_ids(&arguments["ids"]) else {
            self.named_unknown_ids = true;
            return Err(ToolRefusal::new("`ids` must be a list of ids that were listed"));
        };
        self.selected = Some(chosen);
        Ok("Selected.".to_owned())
    }
}

impl<C: Clock> Curator<C> {
    /// Takes a text in.
    pub async fn remember(
        &self,
        memories: &Memories,
        draft: &mut Draft,
        request: &RememberRequest,
        ledger: &Ledger,
    ) -> Result<RememberReport, CurateError> {
        if let Some(chat) = &self.models.remember {
            let done =
                self.remember_with_model(chat, (memories, &mut *draft), request, ledger).await;
            if let Some(done) = self.or_fall_back(done, ledger)? {
                return Ok(done);
            }
        }
        self.rules.remember(memories, draft, request).await
    }

    /// Removes what is asked for.
    pub async fn forget(
        &self,
        memories: &Memories,
        draft: &mut Draft,
        request: &ForgetRequest,
        ledger: &Ledger,
    ) -> Result<ForgetReport, CurateError> {
        // A person chose an entry already, or says a secret, which goes to no model.
        let is_for_rules =
            request.file.is_some() || has_secret(self.rules.screen(), &request.query);
        if let Some(chat) = self.models.forget.as_ref().filter(|_| !is_for_rules) {
            let done = self.forget_with_model(chat, (memories, &mut *draft), request, ledger).await;
            if let Some(done) = self.or_fall_back(done, ledger)? {
                return Ok(done);
            }
        }
        self.rules.forget(memories, draft, request).await
    }

    /// Tidies up.
    pub async fn dream(
        &self,
        memories: &Memories,
        draft: &mut Draft,
        ledger: &Ledger,
    ) -> Result<DreamReport, CurateError> {
        if let Some(chat) = &self.models.dream {
            let done = self.dream_with_model(chat, (memories, &mut *draft), ledger).await;
            if let Some(done) = self.or_fall_back(done, ledger)? {
                return Ok(done);
            }
        }
        self.rules.dream(memories, draft).await
    }

    /// Reviews a conversation, within this time.
    pub async fn review(
        &self,
        memories: &Memories,
        draft: &mut Draft,
        (request, wait): (&ReviewRequest, Duration),
        ledger: &Ledger,
    ) -> Result<ReviewReport, CurateError> {
        if let Some(chat) = &self.models.review {
            let done = self
                .review_with_model(chat, (memories, &mut *draft), (request, wait), ledger)
                .await;
            if let Some(done) = self.or_fall_back(done, ledger)? {
                return Ok(done);
            }
        }
        self.rules.review(memories, draft, request).await
    }

    /// Tells whether a model decides anything, so that deciding anew costs more than time.
    pub const fn has_model(&self) -> bool {
        let CuratorModels { remember, forget, dream, review, falls_back_to_rules: _ } =
            &self.models;
        remember.is_some() || forget.is_some() || dream.is_some() || review.is_some()
    }

    /// Lets go of what is kept only so that the next task takes less time.
    pub fn clear_cache(&self) {
        self.rules.clear_cache();
    }
}
