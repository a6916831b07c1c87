//! What a session of an agent asks of memory, and what it gets.
//!
//! A session begins with a segment: index, hot set, context files. Beside prompts and tools' results the model is
//! shown what fits, by the daemon when it serves the folder. Without one a prompt is answered in this process, from
//! what the memories are at this moment; what takes longer than a hook may is dropped.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::{
    Conversation, Engine, Lanes, MessageRole, ModelJob, NullFeed, RecallBlock, RecallService,
    Retriever, SegmentRequest, TurnReport,
};
use memory::error_code::MemoryErrorCode;
use memory::feature::Feature;
use protocol::client::{Client, ClientError};
use protocol::conversation::{
    CompactionRequest, ContextUpdate, EndTurnRequest, OpenConversation, PromptRequest,
    ToolResultRequest, TurnMessage, TurnRole,
};
use state::private_files::create_private_folder;

use crate::app::ReadOnlyApp;
use crate::args::{AgentFolder, Globals};
use crate::daemon;
use crate::exit::{Failure, chain};
use crate::files;
use crate::hooks::host::{HookEvent, HookFormat, ResumeContent};
use crate::hooks::wire::HookInput;
use crate::hooks::{append_log, transcript};

/// A session of an agent, for as long as one hook runs.
pub(super) struct HookSession {
    globals: Globals,
    format: &'static HookFormat,
}

impl HookSession {
    /// Returns the session that an agent told of; its folder is the project, unless a flag names another. A folder
    /// that was removed has no project, and several folders have none; the current folder's is not meant.
    pub(super) fn new(mut globals: Globals, format: &'static HookFormat, told: &HookInput) -> Self {
        if globals.project.is_none() {
            let is_removed = told.folder.as_deref().is_some_and(|folder| !folder.is_dir());
            if is_removed || told.has_several_folders {
                globals.agent_folder = AgentFolder::NoProject;
            }
            globals.project.clone_from(&told.folder);
        }
        Self { globals, format }
    }

    /// Hears of an event and returns what the model is shown, if anything.
    pub(super) async fn handle_event(
        &self,
        told: &HookInput,
        held: &mut Option<Arc<RecallService>>,
    ) -> Result<Option<String>, Failure> {
        if told.event == HookEvent::SessionStart {
            let glimpse = ReadOnlyApp::new(&self.globals)?;
            if !glimpse.has_any_feature(&[
                Feature::ContextIndex,
                Feature::HotSet,
                Feature::ContextFiles,
            ]) {
                return Ok(None);
            }
            let text = match self.open_at_daemon(&glimpse, told).await {
                Some(text) => Ok(text),
                None => self.segment(&glimpse, told).await,
            };
            glimpse.close().await;
            return text.map(|text| Some(text).filter(|text| !text.is_empty()));
        }
        let place = ReadOnlyApp::for_writing(&self.globals)?;
        if !place.has_any_feature(&[Feature::Recall, Feature::ContextIndex, Feature::Review]) {
            return Ok(None);
        }
        let answer = if let Some(answer) = handle_at_daemon(&place, told).await {
            answer
        } else {
            *held = Some(place.engine.recaller());
            handle_in_process(&place, told).await
        };
        place.close().await;
        answer
    }

    /// Asks the daemon for what a session begins with; it has most of it at hand. `None` if there is none that answers.
    async fn open_at_daemon(&self, glimpse: &ReadOnlyApp, told: &HookInput) -> Option<String> {
        let client = responsive_daemon(&glimpse.folders.state)?;
        let loaded = self.format.context_files.iter().map(|&name| name.to_owned());
        let open = OpenConversation {
            session_id: Some(told.session.clone()),
            workspace_id: Some(glimpse.workspace().id),
            context: true,
            anew: !told.resumes,
            context_bytes_max: Some(self.format.text_bytes_max),
            context_files_loaded: loaded.collect(),
            ..OpenConversation::default()
        };
        let begun =
            with_timeout(&glimpse.folders.state, client.open_conversation(&open)).await?.ok()?;
        let changes = begun.changes.map(|changes| changes.text);
        Some(self.opening_text(begun.context?.text, begun.context_repeated, changes))
    }

    /// Returns what a session begins with. Where the agent still has what was given before, that is what changed.
    fn opening_text(&self, text: String, repeated: bool, changes: Option<String>) -> String {
        let text =
            Some(text).filter(|_| !repeated || self.format.resume_content == ResumeContent::All);
        join_blocks(text.into_iter().chain(changes))
    }

    /// Looks at the memories; none is written, and no use is counted. What is given is kept, so that a session that
    /// goes on is given the same bytes, and told at their tail what changed.
    async fn segment(&self, glimpse: &ReadOnlyApp, told: &HookInput) -> Result<String, Failure> {
        let files = glimpse.context_files().without_host_loaded(self.format.context_files);
        let (engine, bytes_max) = (&glimpse.engine, self.format.text_bytes_max);
        let Some(conversation) = conversation(engine, glimpse, told).await else {
            let showing = engine.segment_within(&glimpse.memories, &files, bytes_max).await?;
            return Ok(showing.segment.text().to_owned());
        };
        let beginning = SegmentRequest { bytes_max, starts_new: !told.resumes };
        let (begun, changes) = conversation.begin(&files, beginning).await?;
        conversation.flush().await;
        let text = begun.segment.text().to_owned();
        Ok(self.opening_text(text, begun.is_repeated, changes.map(|part| part.text)))
    }
}

/// Returns the conversation of a session, if one may be kept of it: a state that is damaged is left for a command that
/// a person sees, and a session may have gone to another project.
async fn conversation(
    engine: &Engine,
    glimpse: &ReadOnlyApp,
    told: &HookInput,
) -> Option<Arc<Conversation>> {
    let id = told.session.parse().ok()?;
    let conversations = engine.conversations(engine.recaller());
    let opened = conversations.open(&id, &glimpse.workspace().id, &glimpse.memories).await;
    opened.ok().map(|opened| opened.conversation)
}

/// Puts blocks one after the other, with a blank line between.
fn join_blocks(blocks: impl IntoIterator<Item = String>) -> String {
    blocks.into_iter().collect::<Vec<_>>().join("\n")
}

/// How long a daemon may take to answer; it takes a twentieth of that. Then the hook looks by itself.
const DAEMON_WAIT: Duration = Duration::from_millis(300);

/// How long a review by the rules is waited for, which takes some milliseconds. What is not done then stays queued.
const REVIEW_WAIT: Duration = Duration::from_millis(600);

/// How long a daemon that did not answer in time is not asked.
const DAEMON_BACKOFF: Duration = Duration::from_secs(10);

/// Returns the daemon, if there is one that did not hang just now.
fn responsive_daemon(state: &Path) -> Option<Client> {
    let hung = files::modified_at(&backoff_file(state)).ok().and_then(|at| at.elapsed().ok());
    if hung.is_some_and(|age| age < DAEMON_BACKOFF) {
        return None;
    }
    daemon::find(state)?.client().ok()
}

/// Waits for a daemon's answer; `None` if it does not come in time, which is noted for the hooks that come next.
async fn with_timeout<T>(state: &Path, answer: impl Future<Output = T>) -> Option<T> {
    let answer = tokio::time::timeout(DAEMON_WAIT, answer).await;
    if answer.is_err() {
        let file = backoff_file(state);
        let made = file.parent().map_or(Ok(()), create_private_folder);
        let gone = made.and_then(|()| files::remove(&file));
        let noted = gone.and_then(|()| files::write_new_private(&file, b""));
        if let Err(error) = noted {
            append_log(format!("cannot note that the daemon hangs: {error}"));
        }
        append_log(format!("the daemon did not answer within {} ms", DAEMON_WAIT.as_millis()));
    }
    answer.ok()
}

/// Returns the file whose time says when the daemon last hung.
fn backoff_file(state: &Path) -> PathBuf {
    state.join("hooks").join("daemon-hung")
}

/// Tells the daemon, if there is one that serves this workspace and answers in time; `None` if not.
async fn handle_at_daemon(
    place: &ReadOnlyApp,
    told: &HookInput,
) -> Option<Result<Option<String>, Failure>> {
    let client = responsive_daemon(&place.folders.state)?;
    let open = OpenConversation {
        session_id: Some(told.session.clone()),
        workspace_id: Some(place.workspace().id),
        ..OpenConversation::default()
    };
    match with_timeout(&place.folders.state, client.open_conversation(&open)).await? {
        Ok(_) => {}
        // It serves other folders, or is about to end.
        Err(ClientError::Refused(_) | ClientError::Unreachable(_)) => return None,
        Err(error) => return Some(Err(error.into())),
    }
    let answer = with_timeout(&place.folders.state, send_event(&client, place, told)).await?;
    Some(answer.map_err(Failure::from).map(|shown| {
        let recalled = shown.recalled.map(|recalled| recalled.text);
        join_context(recalled, shown.changes.map(|changes| changes.text))
    }))
}

/// Returns what is shown beside a prompt: what was recalled leads, what changed is at the tail.
fn join_context(recalled: Option<String>, changes: Option<String>) -> Option<String> {
    let text = join_blocks(recalled.into_iter().chain(changes));
    Some(text).filter(|text| !text.is_empty())
}

async fn send_event(
    client: &Client,
    place: &ReadOnlyApp,
    told: &HookInput,
) -> Result<ContextUpdate, ClientError> {
    let id = told.session.as_str();
    match told.event {
        HookEvent::SessionStart => {}
        HookEvent::UserPrompt => {
            let text = told.prompt.clone().unwrap_or_default();
            return client
                .send_prompt(
                    id,
                    &PromptRequest { text, event_id: None, cancel_with_connection: false },
                )
                .await;
        }
        HookEvent::PostToolUse => {
            let happened = ToolResultRequest { event_id: None, memory_written: told.wrote_memory };
            return client.send_tool_result(id, &happened).await;
        }
        HookEvent::PreCompact => {
            drop(client.report_compaction(id, &CompactionRequest::default()).await?);
        }
        HookEvent::Stop => {
            let text = answer_for_review(place, told);
            let text = text.map(|text| TurnMessage { role: TurnRole::Assistant, text });
            let messages = text.into_iter().collect();
            drop(
                client
                    .end_turn(id, &EndTurnRequest { messages, ..EndTurnRequest::default() })
                    .await?,
            );
        }
        HookEvent::SessionEnd => client.close_conversation(id).await?,
    }
    Ok(ContextUpdate::default())
}

/// Returns what the model answered in the turn that has ended; the agent says so, or its transcript does. Without reviews nobody
/// needs it.
fn answer_for_review(place: &ReadOnlyApp, told: &HookInput) -> Option<String> {
    if place.engine.review().interval == 0 {
        return None;
    }
    let said = told.answer.clone().filter(|answer| !answer.trim().is_empty());
    said.or_else(|| transcript::last_answer(told.transcript.as_deref()?))
}

/// Returns lanes that do reviews by the rules.
async fn review_lanes(engine: &Engine) -> Lanes {
    let lanes = engine.lanes(engine.lane_settings(), Arc::new(NullFeed));
    if engine.models().of(ModelJob::Review).is_some() {
        // A model takes longer than an agent waits. What is queued here is done by whoever works in the lane next.
        lanes.drain(Duration::ZERO).await;
    }
    lanes
}

/// Does what can be done without a daemon: what is not found before this ends is found by nobody.
async fn handle_in_process(
    place: &ReadOnlyApp,
    told: &HookInput,
) -> Result<Option<String>, Failure> {
    let engine = &place.engine;
    let is_reviewed = engine.review().interval > 0;
    if told.event == HookEvent::PostToolUse && !(is_reviewed && told.wrote_memory) {
        return Ok(None);
    }
    let id =
        told.session.parse().map_err(|_| Failure::usage("the session has an id that is none"))?;
    let select: Arc<dyn Retriever> = engine.recaller();
    let lanes = if is_reviewed { Some(review_lanes(engine).await) } else { None };
    let conversations = match &lanes {
        Some(lanes) => engine.reviewed_conversations(select, lanes, &[place.workspace()]),
        None => engine.conversations(select),
    };
    let opened = conversations.open(&id, &place.workspace().id, &place.memories).await;
    let opened =
        opened.map_err(|error| Failure::new(MemoryErrorCode::StorageFailed, chain(&error)))?;
    let conversation = opened.conversation;
    let (mut shown, mut changes) = (None, None);
    match told.event {
        HookEvent::UserPrompt => {
            let text = told.prompt.as_deref().unwrap_or_default();
            // What fits the prompt, and what changed since the model was told of memories, are of no concern to
            // each other.
            let fits = conversation.prompt_and_wait(text);
            let (fits, told_anew) = tokio::join!(fits, conversation.scan_changes());
            changes = told_anew;
            match fits {
                Ok(fits) => shown = fits,
                Err(error) => append_log(format!("nothing is recalled: {}", chain(&*error))),
            }
        }
        HookEvent::Stop => {
            let messages = answer_for_review(place, told)
                .map(|text| (MessageRole::Assistant, text))
                .into_iter()
                .collect();
            let turn = TurnReport { messages, ..TurnReport::default() };
            conversation.turn_ended_with_report(None, &turn);
        }
        HookEvent::PreCompact => conversation.compacted(None),
        HookEvent::PostToolUse => conversation.wrote_memory(),
        HookEvent::SessionEnd => conversation.ended(),
        HookEvent::SessionStart => {}
    }
    conversations.flush().await;
    if let Some(lanes) = lanes {
        // What an earlier hook had no time for is done too.
        if told.event == HookEvent::Stop
            && let Err(error) = lanes.resume(&[place.workspace()]).await
        {
            append_log(format!("a review has to wait: {error}"));
        }
        lanes.wait_until_idle(REVIEW_WAIT).await;
        lanes.drain(Duration::ZERO).await;
    }
    let block = shown.map(|RecallBlock { block, .. }| block);
    Ok(join_context(block, changes.map(|part| part.text)))
}
