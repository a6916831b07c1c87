//! Handling of hook events of one agent session.
//!
//! A session starts with a segment: facts, context files, index. With prompts and results of tools, the model gets
//! recalled memories. The daemon answers if it serves the folder. Otherwise this process answers from the current
//! memories; work that takes longer than a hook may take is dropped.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::{
    ContextFiles, Conversation, Engine, Lanes, MessageRole, ModelJob, NullFeed, RecallBlock,
    RecallService, Retriever, SegmentRequest, TurnReport,
};
use memory::error_code::MemoryErrorCode;
use memory::feature::Feature;
use memory::tool;
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
use crate::hooks::host::{CompactionReport, HookEvent, HookFormat, ResumeContent};
use crate::hooks::wire::HookInput;
use crate::hooks::{append_log, transcript};

/// A session of an agent during one hook.
pub(super) struct HookSession {
    globals: Globals,
    format: &'static HookFormat,
    /// Whether the opening text is given again.
    reopens: bool,
}

impl HookSession {
    /// Returns the session that an agent reported. Its folder is the project, unless a flag names another. A removed
    /// folder and several folders have no project; the project of the current folder is not used instead.
    pub(super) fn new(
        mut globals: Globals,
        format: &'static HookFormat,
        input: &HookInput,
        reopens: bool,
    ) -> Self {
        if globals.project.is_none() {
            let is_removed = input.folder.as_deref().is_some_and(|folder| !folder.is_dir());
            if is_removed || input.has_several_folders {
                globals.agent_folder = AgentFolder::NoProject;
            }
            globals.project.clone_from(&input.folder);
        }
        Self { globals, format, reopens }
    }

    /// Handles an event and returns the text for the model, if there is one.
    pub(super) async fn handle_event(
        &self,
        input: &HookInput,
        recaller: &mut Option<Arc<RecallService>>,
    ) -> Result<Option<String>, Failure> {
        if input.event == HookEvent::SessionStart {
            let app = ReadOnlyApp::new(&self.globals)?;
            if !app.has_any_feature(&[
                Feature::ContextIndex,
                Feature::HotSet,
                Feature::ContextFiles,
            ]) {
                return Ok(None);
            }
            let text = match self.open_at_daemon(&app, input).await {
                Some(text) => Ok(text),
                None => self.segment(&app, input).await,
            };
            app.close().await;
            return text.map(|text| Some(text).filter(|text| !text.is_empty()));
        }
        let app = ReadOnlyApp::for_writing(&self.globals)?;
        if !app.has_any_feature(&[
            Feature::Recall,
            Feature::ContextIndex,
            Feature::HotSet,
            Feature::Review,
        ]) {
            return Ok(None);
        }
        let answer = if let Some(answer) = self.handle_at_daemon(&app, input).await {
            answer
        } else {
            *recaller = Some(app.engine.recaller());
            self.handle_in_process(&app, input).await
        };
        app.close().await;
        answer
    }

    /// Asks the daemon for the opening text of a session; it has most of it cached. `None` if no daemon answers.
    async fn open_at_daemon(&self, app: &ReadOnlyApp, input: &HookInput) -> Option<String> {
        let client = responsive_daemon(&app.folders.state)?;
        let open = OpenConversation { anew: !input.resumes, ..self.open_with_context(app, input) };
        let opened =
            with_timeout(&app.folders.state, client.open_conversation(&open)).await?.ok()?;
        let changes = opened.changes.map(|changes| changes.text);
        Some(self.opening_text(opened.context?.text, opened.context_repeated, changes))
    }

    /// Returns the request for a session with its opening text.
    fn open_with_context(&self, app: &ReadOnlyApp, input: &HookInput) -> OpenConversation {
        let loaded = self.format.context_files.iter().map(|&name| name.to_owned());
        OpenConversation {
            session_id: Some(input.session.clone()),
            workspace_id: Some(app.workspace().id),
            context: true,
            context_bytes_max: Some(self.opening_bytes_max()),
            context_files_loaded: loaded.collect(),
            ..OpenConversation::default()
        }
    }

    /// Returns the most bytes of the opening text. If it is given again, recalled memories and changes come with it.
    const fn opening_bytes_max(&self) -> usize {
        let all = self.format.text_bytes_max;
        if self.reopens { all.saturating_sub(REOPENED_ROOM) } else { all }
    }

    /// Returns the opening text of a session. If the agent kept the earlier text, only the changes are returned.
    fn opening_text(&self, text: String, repeated: bool, changes: Option<String>) -> String {
        let text =
            Some(text).filter(|_| !repeated || self.format.resume_content == ResumeContent::All);
        join_blocks(text.into_iter().chain(changes))
    }

    /// Builds the opening text in this process. No memory is written, and no use is counted. The text is stored, so that
    /// a resumed session gets the same bytes, followed by the changes.
    async fn segment(&self, app: &ReadOnlyApp, input: &HookInput) -> Result<String, Failure> {
        let files = app.context_files().without_host_loaded(self.format.context_files);
        let (engine, bytes_max) = (&app.engine, self.format.text_bytes_max);
        let Some(conversation) = conversation(engine, app, input).await else {
            let shown = engine.segment_within(&app.memories, &files, bytes_max).await?;
            return Ok(shown.segment.text().to_owned());
        };
        let request = SegmentRequest { bytes_max, starts_new: !input.resumes };
        let (shown, changes) = conversation.begin(&files, request).await?;
        conversation.flush().await;
        let text = shown.segment.text().to_owned();
        Ok(self.opening_text(text, shown.is_repeated, changes.map(|part| part.text)))
    }

    /// Lets the daemon handle an event; `None` if no daemon serves this workspace and answers in time.
    async fn handle_at_daemon(
        &self,
        app: &ReadOnlyApp,
        input: &HookInput,
    ) -> Option<Result<Option<String>, Failure>> {
        let client = responsive_daemon(&app.folders.state)?;
        let open = if self.reopens {
            self.open_with_context(app, input)
        } else {
            OpenConversation {
                session_id: Some(input.session.clone()),
                workspace_id: Some(app.workspace().id),
                ..OpenConversation::default()
            }
        };
        let opened = with_timeout(&app.folders.state, client.open_conversation(&open)).await?;
        let opened = match opened {
            Ok(opened) => opened,
            // The daemon serves other folders, or is shutting down.
            Err(ClientError::Refused(_) | ClientError::Unreachable(_)) => return None,
            Err(error) => return Some(Err(error.into())),
        };
        let start = opened.context.map(|start| start.text);
        let earlier = opened.changes.map(|changes| changes.text);
        let answer = self.send_event(&client, app, input);
        let answer = with_timeout(&app.folders.state, answer).await?;
        Some(answer.map_err(Failure::from).map(|shown| {
            let recalled = shown.recalled.map(|recalled| recalled.text);
            let changes = shown.changes.map(|changes| changes.text);
            join_context([start, recalled, earlier, changes])
        }))
    }

    async fn send_event(
        &self,
        client: &Client,
        app: &ReadOnlyApp,
        input: &HookInput,
    ) -> Result<ContextUpdate, ClientError> {
        let id = input.session.as_str();
        match input.event {
            HookEvent::SessionStart => {}
            HookEvent::UserPrompt => {
                let text = input.prompt.clone().unwrap_or_default();
                return client
                    .send_prompt(
                        id,
                        &PromptRequest { text, event_id: None, cancel_with_connection: false },
                    )
                    .await;
            }
            HookEvent::PostToolUse => {
                let request = ToolResultRequest {
                    event_id: None,
                    memory_written: input.wrote_memory,
                    memory_command: input.memory_command.clone(),
                };
                return client.send_tool_result(id, &request).await;
            }
            HookEvent::PreCompact => {
                let upcoming = self.format.compaction != CompactionReport::PreCompact;
                let request = CompactionRequest { upcoming, ..CompactionRequest::default() };
                drop(client.report_compaction(id, &request).await?);
            }
            HookEvent::Stop => {
                let text = answer_for_review(app, input);
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

    /// Handles an event without a daemon. A recall that is not finished when the hook ends is lost.
    async fn handle_in_process(
        &self,
        app: &ReadOnlyApp,
        input: &HookInput,
    ) -> Result<Option<String>, Failure> {
        let engine = &app.engine;
        let is_reviewed = engine.review().interval > 0;
        let changes_memory = input.memory_command.is_some() || (is_reviewed && input.wrote_memory);
        if input.event == HookEvent::PostToolUse && !changes_memory && !self.reopens {
            return Ok(None);
        }
        let id = input.session.parse().map_err(|_| Failure::usage("invalid session id"))?;
        let select: Arc<dyn Retriever> = engine.recaller();
        let lanes = if is_reviewed { Some(review_lanes(engine).await) } else { None };
        let conversations = match &lanes {
            Some(lanes) => engine.reviewed_conversations(select, lanes, &[app.workspace()]),
            None => engine.conversations(select),
        };
        let opened = conversations.open(&id, &app.workspace().id, &app.memories).await;
        let opened =
            opened.map_err(|error| Failure::new(MemoryErrorCode::StorageFailed, chain(&error)))?;
        let conversation = opened.conversation;
        let mut text = None;
        match input.event {
            HookEvent::UserPrompt => text = self.prompt(&conversation, app, input).await?,
            HookEvent::Stop => {
                let messages = answer_for_review(app, input)
                    .map(|text| (MessageRole::Assistant, text))
                    .into_iter()
                    .collect();
                let turn = TurnReport { messages, ..TurnReport::default() };
                conversation.turn_ended_with_report(None, &turn);
            }
            HookEvent::PreCompact if self.format.compaction == CompactionReport::PreCompact => {
                conversation.compacted(None);
            }
            HookEvent::PreCompact if self.format.compaction == CompactionReport::SessionStart => {
                conversation.compacting();
            }
            HookEvent::PostToolUse => {
                if input.wrote_memory {
                    conversation.wrote_memory();
                }
                // Arguments that the tool refused changed nothing.
                let layout = app.memories.layout();
                let files = app.context_files().without_host_loaded(self.format.context_files);
                text = self.opening_again(&conversation, &files).await?;
                let call = input.memory_command.as_ref().map(|call| tool::decode(call, layout));
                if let Some(Ok(command)) = call {
                    let (paths, written) = command.changes();
                    conversation.changed_memories(&paths, written).await;
                }
            }
            HookEvent::SessionEnd => conversation.ended(),
            // Gemini CLI announces a compaction before each request.
            HookEvent::PreCompact | HookEvent::SessionStart => {}
        }
        conversations.flush().await;
        if let Some(lanes) = lanes {
            // Reviews that an earlier hook left in the queue are run too.
            if input.event == HookEvent::Stop
                && let Err(error) = lanes.resume(&[app.workspace()]).await
            {
                append_log(format!("a review failed to start: {error}"));
            }
            lanes.wait_until_idle(REVIEW_WAIT).await;
            lanes.drain(Duration::ZERO).await;
        }
        Ok(text)
    }

    /// Returns the opening text, if it is given again.
    async fn opening_again(
        &self,
        conversation: &Conversation,
        files: &ContextFiles,
    ) -> Result<Option<String>, Failure> {
        if !self.reopens {
            return Ok(None);
        }
        let given = conversation.context_within(files, self.opening_bytes_max()).await?;
        Ok(Some(given.segment.text().to_owned()))
    }

    /// Returns the text for a prompt, after its recall. A recall that fails is logged.
    async fn prompt(
        &self,
        conversation: &Conversation,
        app: &ReadOnlyApp,
        input: &HookInput,
    ) -> Result<Option<String>, Failure> {
        let files = app.context_files().without_host_loaded(self.format.context_files);
        let start = self.opening_again(conversation, &files).await?;
        // Recall and the scan for changes are independent of each other.
        let recall = conversation.prompt_and_wait(input.prompt.as_deref().unwrap_or_default());
        let (recalled, changes) = tokio::join!(recall, conversation.scan_changes(&files));
        let recalled = recalled.unwrap_or_else(|error| {
            append_log(format!("recall failed: {}", chain(&*error)));
            None
        });
        let recalled = recalled.map(|RecallBlock { block, .. }| block);
        Ok(join_context([start, recalled, changes.map(|part| part.text)]))
    }
}

/// Returns the conversation of a session, if it can be opened. It cannot if the state is damaged, which the next command
/// reports to the user, or if the session belongs to another project.
async fn conversation(
    engine: &Engine,
    app: &ReadOnlyApp,
    input: &HookInput,
) -> Option<Arc<Conversation>> {
    let id = input.session.parse().ok()?;
    let conversations = engine.conversations(engine.recaller());
    let opened = conversations.open(&id, &app.workspace().id, &app.memories).await;
    opened.ok().map(|opened| opened.conversation)
}

/// Joins blocks, with a blank line between them.
fn join_blocks(blocks: impl IntoIterator<Item = String>) -> String {
    blocks.into_iter().collect::<Vec<_>>().join("\n")
}

/// The bytes that are left for recalled memories and changes where the opening text is given again.
const REOPENED_ROOM: usize = 10_000;

/// The timeout for an answer of the daemon, which usually takes a twentieth of it. After it the hook answers itself.
const DAEMON_WAIT: Duration = Duration::from_millis(300);

/// The timeout for a review by the rules, which usually takes some milliseconds. After it the review stays queued.
const REVIEW_WAIT: Duration = Duration::from_millis(600);

/// The time without requests to a daemon after a timeout.
const DAEMON_BACKOFF: Duration = Duration::from_secs(10);

/// Returns a client of the daemon, if there is one and no timeout was noted lately.
fn responsive_daemon(state: &Path) -> Option<Client> {
    let age = files::modified_at(&backoff_file(state)).ok().and_then(|at| at.elapsed().ok());
    if age.is_some_and(|age| age < DAEMON_BACKOFF) {
        return None;
    }
    daemon::find(state)?.client().ok()
}

/// Waits for an answer of the daemon; `None` on a timeout, which is noted in a file for the next hooks.
async fn with_timeout<T>(state: &Path, answer: impl Future<Output = T>) -> Option<T> {
    let answer = tokio::time::timeout(DAEMON_WAIT, answer).await;
    if answer.is_err() {
        let file = backoff_file(state);
        let created = file.parent().map_or(Ok(()), create_private_folder);
        let removed = created.and_then(|()| files::remove(&file));
        let noted = removed.and_then(|()| files::write_new_private(&file, b""));
        if let Err(error) = noted {
            append_log(format!("cannot note the timeout of the daemon: {error}"));
        }
        append_log(format!("the daemon did not answer within {} ms", DAEMON_WAIT.as_millis()));
    }
    answer.ok()
}

/// Returns the file whose modification time is that of the daemon's last timeout.
fn backoff_file(state: &Path) -> PathBuf {
    state.join("hooks").join("daemon-hung")
}

/// Joins the texts for a prompt: the opening text, recalled memories, changes.
fn join_context<const N: usize>(texts: [Option<String>; N]) -> Option<String> {
    let text = join_blocks(texts.into_iter().flatten().filter(|text| !text.is_empty()));
    Some(text).filter(|text| !text.is_empty())
}

/// Returns the model's answer of the ended turn, from the event or else from the transcript. `None` if reviews, its
/// only use, are off.
fn answer_for_review(app: &ReadOnlyApp, input: &HookInput) -> Option<String> {
    if app.engine.review().interval == 0 {
        return None;
    }
    let answer = input.answer.clone().filter(|answer| !answer.trim().is_empty());
    answer.or_else(|| transcript::last_answer(input.transcript.as_deref()?))
}

/// Returns lanes that run reviews by the rules.
async fn review_lanes(engine: &Engine) -> Lanes {
    let lanes = engine.lanes(engine.lane_settings(), Arc::new(NullFeed));
    if engine.models().of(ModelJob::Review).is_some() {
        // A model takes longer than an agent waits. A review queued here is run by the next process that works in the
        // lane.
        lanes.drain(Duration::ZERO).await;
    }
    lanes
}
