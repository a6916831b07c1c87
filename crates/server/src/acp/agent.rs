//! The ACP agent: serves one client over a pair of streams.
//!
//! A call of an ext-method submits a task to the lane of its workspace, and is answered when the task has ended. A
//! *staged* call, which only Lukasa's daemon makes, runs one attempt and returns its edits without a commit. Requests
//! for sessions are refused. When the client disconnects, the agent stops at once; a task that it had begun stays in
//! the lane for another process.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, Implementation, InitializeRequest, InitializeResponse,
};
use agent_client_protocol::v1::{ConnectionTo, Dispatch};
use agent_client_protocol::{
    Agent, Client, Error, Handled, UntypedMessage, on_receive_dispatch, on_receive_request,
};
use engine::{
    CuratorRequest, Job, Lanes, Ledger, Requester, RunError, StageError, StagedAttempt,
    SubmitError, TaskError, TaskErrorCode, TaskKind, TaskState, Viewer, Workspace, error_chain,
};
use futures_util::SinkExt as _;
use memory::feature::Feature;
use memory::limits::TASK_RUNNER_WAIT;
use protocol::acp::{Method, PROGRESS, STAGE_VERSION};
use protocol::error::ErrorCode;
use protocol::task;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio_util::sync::CancellationToken;

use super::staged;
use crate::error::submit_code;
use crate::limits::{CHILD_END_WAIT, CHILD_LINE_BYTES_MAX};
use crate::line_reader::{LineRead, LineReader};
use crate::{from_wire, to_wire};

/// The origin recorded for tasks that are submitted here.
const ORIGIN: &str = "acp";

/// The JSON-RPC error code for unavailable operations, as in the product that defined these methods.
const UNAVAILABLE: i32 = -32009;

/// The JSON-RPC error code for failed operations, as in that product.
const FAILED: i32 = -32099;

/// A function that finds the workspace of a folder; `None` stands for this process's folder. The error is a message
/// for the client.
pub type FindWorkspace = dyn Fn(Option<&Path>) -> Result<Workspace, String> + Send + Sync;

/// The configuration of an agent.
#[derive(Clone)]
pub struct AcpConfig {
    /// The lanes that run tasks in this process.
    pub lanes: Lanes,
    /// Finds the workspace of a call.
    pub workspace: Arc<FindWorkspace>,
    /// The version of this program.
    pub version: &'static str,
    /// The time limit of a task.
    pub deadline: Duration,
}

impl AcpConfig {
    /// Creates a configuration with the default time limit.
    pub fn new(lanes: Lanes, workspace: Arc<FindWorkspace>, version: &'static str) -> Self {
        Self { lanes, workspace, version, deadline: TASK_RUNNER_WAIT }
    }
}

impl fmt::Debug for AcpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("version", &self.version).finish_non_exhaustive()
    }
}

/// An error that ends the connection.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A line exceeded the maximal length, or reading or writing failed.
    #[error("the connection with the client failed")]
    Connection(#[source] Error),
}

/// Serves the client that started this process, until it disconnects or `stop` is cancelled.
pub async fn serve_stdio(host: AcpConfig, stop: CancellationToken) -> Result<(), ServeError> {
    serve(host, tokio::io::stdin(), tokio::io::stdout(), stop).await
}

/// Serves one client over a pair of streams, one JSON-RPC message per line, until `input` ends or `stop` is cancelled.
/// Running calls are then cancelled, and have two seconds to answer.
pub async fn serve<R, W>(
    host: AcpConfig,
    input: R,
    output: W,
    stop: CancellationToken,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let disconnected = stop.child_token();
    let calls = Arc::new(CallDispatcher { config: host, disconnected: disconnected.clone() });
    let version = calls.config.version;
    let connection = Agent
        .v1()
        .name("lukasa")
        .on_receive_request(
            async move |_: InitializeRequest, responder, _: ConnectionTo<Client>| {
                responder.respond(initialize_response(version))
            },
            on_receive_request!(),
        )
        .on_receive_dispatch(
            async move |dispatch: Dispatch, connection: ConnectionTo<Client>| {
                calls.dispatch(dispatch, &connection)
            },
            on_receive_dispatch!(),
        );
    let transport = agent_client_protocol::Lines::new(
        line_sink(output),
        read_lines(input, disconnected.clone()),
    );
    let mut serving = std::pin::pin!(connection.connect_to(transport));
    let result = tokio::select! {
        result = &mut serving => result,
        () = disconnected.cancelled() => match tokio::time::timeout(CHILD_END_WAIT, serving).await {
            Ok(result) => result,
            // The client is gone, so a late answer would not be read.
            Err(_late) => Ok(()),
        },
    };
    disconnected.cancel();
    result.map_err(ServeError::Connection)
}

/// Returns the answer to `initialize`. It declares no session capability, because there are no sessions.
fn initialize_response(version: &str) -> InitializeResponse {
    let methods = [
        Method::Availability,
        Method::Task(task::TaskKind::Remember),
        Method::Task(task::TaskKind::Forget),
        Method::Task(task::TaskKind::Dream),
    ];
    let methods: Vec<&str> = methods.into_iter().map(Method::as_str).collect();
    let lukasa = json!({ "extMethods": methods, "stage": STAGE_VERSION, "sessions": false });
    let meta = Map::from_iter([("lukasa".to_owned(), lukasa)]);
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_info(Implementation::new("lukasa", version).title("Lukasa".to_owned()))
        .agent_capabilities(AgentCapabilities::new().meta(meta))
}

/// Returns the lines of the input as a stream. Cancels `disconnected` at the end of the input, and after a line that
/// is too long, which is an error.
fn read_lines<R: AsyncRead + Send + Unpin + 'static>(
    input: R,
    disconnected: CancellationToken,
) -> impl futures_util::Stream<Item = io::Result<String>> + Send + 'static {
    let lines = LineReader::new(BufReader::new(input), CHILD_LINE_BYTES_MAX);
    futures_util::stream::unfold(Some((lines, disconnected)), |open| async move {
        let (mut lines, disconnected) = open?;
        let read = tokio::select! {
            () = disconnected.cancelled() => return None,
            read = lines.next() => read,
        };
        match read {
            LineRead::Line(line) => {
                // The library refuses a line with replaced bytes as an invalid message.
                let line = String::from_utf8_lossy(&line).into_owned();
                Some((Ok(line), Some((lines, disconnected))))
            }
            LineRead::TooLong => {
                disconnected.cancel();
                let message = format!("a message is at most {CHILD_LINE_BYTES_MAX} bytes long");
                Some((Err(io::Error::new(io::ErrorKind::InvalidData, message)), None))
            }
            LineRead::End => {
                disconnected.cancel();
                None
            }
        }
    })
}

fn line_sink<W: AsyncWrite + Send + Unpin + 'static>(
    output: W,
) -> impl futures_util::Sink<String, Error = io::Error> + Send + 'static {
    futures_util::sink::unfold(output, async |mut output: W, line: String| {
        let mut bytes = line.into_bytes();
        bytes.push(b'\n');
        output.write_all(&bytes).await?;
        output.flush().await?;
        Ok(output)
    })
    .sink_map_err(|error: io::Error| error)
}

/// The handler of one client's calls.
struct CallDispatcher {
    config: AcpConfig,
    /// Cancelled when the client has disconnected, or this process is to stop.
    disconnected: CancellationToken,
}

impl CallDispatcher {
    /// Starts to answer a call of an ext-method. Other calls are left to the library, which refuses unknown methods.
    fn dispatch(
        self: &Arc<Self>,
        dispatch: Dispatch,
        connection: &ConnectionTo<Client>,
    ) -> Result<Handled<Dispatch>, Error> {
        let Dispatch::Request(message, responder) = dispatch else {
            return Ok(Handled::No { message: dispatch, retry: false });
        };
        if let Some(method) = Method::read(message.method()) {
            let calls = Arc::clone(self);
            let cancelled = responder.cancellation();
            let client = connection.clone();
            let answering = async move {
                let stop = calls.disconnected.child_token();
                let answer = calls.answer(method, message.params(), (&stop, &client));
                let mut answer = std::pin::pin!(answer);
                let result = tokio::select! {
                    result = &mut answer => result,
                    () = cancelled.cancelled() => {
                        stop.cancel();
                        answer.await
                    }
                };
                responder.respond_with_result(result)
            };
            connection.spawn(answering)?;
            return Ok(Handled::Yes);
        }
        if is_session_method(message.method()) {
            let data = json!({
                "errorKind": "no_sessions",
                "details": "Lukasa keeps memories and has no conversations.",
            });
            responder.respond_with_error(Error::method_not_found().data(data))?;
            return Ok(Handled::Yes);
        }
        Ok(Handled::No { message: Dispatch::Request(message, responder), retry: false })
    }

    async fn answer(
        &self,
        method: Method,
        fields: &Value,
        (stop, client): (&CancellationToken, &ConnectionTo<Client>),
    ) -> Result<Value, Error> {
        let no_fields = Map::new();
        let fields = match fields {
            Value::Object(fields) => fields,
            Value::Null => &no_fields,
            _ => return Err(invalid(ErrorCode::InvalidArguments)),
        };
        match method {
            Method::Availability => self.availability(fields).await,
            Method::Review => {
                let stage = staged::meta(fields, "stage");
                let stage = stage.and_then(|stage| serde_json::from_value(stage).ok());
                let request = stage.and_then(staged::read_review);
                let request = request.ok_or_else(|| invalid(ErrorCode::InvalidArguments))?;
                self.stage(request, (stop, client)).await
            }
            Method::Task(kind) => {
                let request = from_wire::request(kind, fields).map_err(invalid)?;
                match staged::meta(fields, "stage") {
                    None => self.execute(request, fields, stop).await,
                    Some(stage) => {
                        let stage = serde_json::from_value(stage).ok();
                        let request = stage.and_then(|stage| staged::read_request(stage, request));
                        let request =
                            request.ok_or_else(|| invalid(ErrorCode::InvalidArguments))?;
                        self.stage(request, (stop, client)).await
                    }
                }
            }
        }
    }

    async fn availability(&self, fields: &Map<String, Value>) -> Result<Value, Error> {
        let workspace = match staged::meta(fields, "workspace") {
            None => self.workspace(fields)?,
            Some(of) => {
                let of = serde_json::from_value(of).ok().and_then(staged::read_workspace);
                of.ok_or_else(|| invalid(ErrorCode::InvalidArguments))?
            }
        };
        let available = match self.config.lanes.check_available(&workspace).await {
            Ok(()) => true,
            Err(
                SubmitError::Untrusted | SubmitError::FeatureDisabled | SubmitError::Unavailable,
            ) => false,
            Err(error) => return Err(submit_error(TaskKind::Remember, &error)),
        };
        Ok(json!({ "available": available }))
    }

    /// Returns the workspace of the folder that a call names, or that of this process.
    fn workspace(&self, fields: &Map<String, Value>) -> Result<Workspace, Error> {
        let named = ["cwd", "workspaceCwd"].into_iter().find_map(|name| fields.get(name));
        let folder = match named {
            None | Some(Value::Null) => None,
            Some(Value::String(folder)) if Path::new(folder).is_absolute() => Some(folder),
            Some(_) => {
                let error = invalid(ErrorCode::InvalidArguments);
                return Err(with_message(error, "`cwd` must be an absolute path"));
            }
        };
        (self.config.workspace)(folder.map(Path::new))
            .map_err(|message| with_message(invalid(ErrorCode::WorkspaceMismatch), &message))
    }

    /// Submits a task to the lane of its workspace, and answers with its result.
    async fn execute(
        &self,
        request: CuratorRequest,
        fields: &Map<String, Value>,
        stop: &CancellationToken,
    ) -> Result<Value, Error> {
        let workspace = self.workspace(fields)?;
        let (kind, lanes) = (request.kind(), &self.config.lanes);
        let submitted = lanes.submit(&workspace, request, Requester::client(ORIGIN, None)).await;
        let task = submitted.map_err(|error| submit_error(kind, &error))?;
        let ended = tokio::select! {
            ended = lanes.wait(&workspace, &task.id) => ended,
            () = tokio::time::sleep(self.config.deadline) => {
                drop(lanes.cancel(&workspace, &task.id, Viewer::Person).await);
                return Err(task_error(&TaskError::new(TaskErrorCode::Timeout)));
            }
            () = stop.cancelled() => {
                // A task whose client only disconnected stays in the lane for another process.
                if !self.disconnected.is_cancelled() {
                    drop(lanes.cancel(&workspace, &task.id, Viewer::Person).await);
                }
                return Err(task_error(&TaskError::new(TaskErrorCode::Cancelled)));
            }
        };
        let ended = ended.map_err(|error| {
            tracing::warn!(task = %task.id, error = %error_chain(&error), "failed to read the state of a task");
            task_error(&TaskError::new(TaskErrorCode::failed(kind)))
        })?;
        match ended.map(|task| task.state) {
            Some(TaskState::Completed(result)) => value(&to_wire::task_result(&result)),
            Some(TaskState::Failed(error)) => Err(task_error(&error)),
            Some(TaskState::Queued | TaskState::Running) | None => {
                Err(task_error(&TaskError::new(TaskErrorCode::failed(kind))))
            }
        }
    }

    /// Runs one attempt for a daemon. Sends progress reports meanwhile, so that the daemon knows the usage of models
    /// even if this process dies.
    async fn stage(
        &self,
        task: staged::StageRequest,
        (stop, client): (&CancellationToken, &ConnectionTo<Client>),
    ) -> Result<Value, Error> {
        let staged::StageRequest { task, request, workspace } = task;
        let kind = request.kind();
        // A placeholder: the daemon that commits the result records the real requester.
        let requester = Requester::client(ORIGIN, None);
        let ledger = Arc::new(Ledger::default());
        let job = Job { task, request, workspace, ledger: Arc::clone(&ledger) };
        let attempt = self.config.lanes.stage(job, &requester, stop);
        let mut attempt = std::pin::pin!(attempt);
        let staged = loop {
            tokio::select! {
                biased;
                staged = &mut attempt => break staged,
                () = ledger.wait_for_change() => {
                    let report = value(&staged::report_to_wire(&ledger.report()))?;
                    client.send_notification(UntypedMessage::new(PROGRESS, report)?)?;
                }
            }
        };
        let report = ledger.report();
        match staged {
            Ok(staged) => answer(&staged, &report),
            Err(StageError::Submit(error)) => Err(submit_error(kind, &error)),
            Err(StageError::Run(RunError::Failed(error))) => {
                let report = value(&staged::report_to_wire(&report))?;
                Err(with_fact(task_error(&error), "report", report))
            }
            Err(StageError::Run(RunError::Conflict)) => {
                let report = value(&staged::report_to_wire(&report))?;
                let data = json!({ "errorKind": "conflict", "report": report });
                Err(Error::new(FAILED, RunError::Conflict.to_string()).data(data))
            }
        }
    }
}

fn is_session_method(method: &str) -> bool {
    method.starts_with("session/") || method == "authenticate" || method == "logout"
}

fn value(of: &impl serde::Serialize) -> Result<Value, Error> {
    serde_json::to_value(of).map_err(|_| Error::internal_error())
}

fn answer(staged: &StagedAttempt, report: &engine::RunReport) -> Result<Value, Error> {
    staged::answer_to_wire(staged, report).map_err(|_| Error::internal_error())
}

/// Adds a fact to the data of an error.
fn with_fact(mut error: Error, name: &str, fact: Value) -> Error {
    if let Some(Value::Object(data)) = &mut error.data {
        data.insert(name.to_owned(), fact);
    }
    error
}

/// Replaces the message of an error.
fn with_message(mut error: Error, message: &str) -> Error {
    message.clone_into(&mut error.message);
    error
}

/// Returns the error for invalid parameters, with the code and message of HTTP.
fn invalid(code: ErrorCode) -> Error {
    let error = Error::invalid_params().data(json!({ "errorKind": code.as_ref() }));
    with_message(error, code.meaning())
}

/// Returns the error for a task that was not accepted, with the code and message of HTTP.
fn submit_error(kind: TaskKind, error: &SubmitError) -> Error {
    let code = submit_code(kind, error);
    let number = match error {
        SubmitError::Untrusted | SubmitError::FeatureDisabled | SubmitError::Unavailable => {
            UNAVAILABLE
        }
        SubmitError::Full
        | SubmitError::Draining
        | SubmitError::ProbeFailed
        | SubmitError::State(_) => FAILED,
    };
    if let SubmitError::State(error) = error {
        tracing::warn!(error = %error_chain(error), "failed to store a task");
    }
    let error = Error::new(number, code.meaning()).data(json!({ "errorKind": code.as_ref() }));
    if code == ErrorCode::FeatureDisabled {
        return with_fact(error, "feature", Feature::Tasks.as_ref().into());
    }
    error
}

/// Returns the error of a failed task: its code, message, cause and details.
fn task_error(error: &TaskError) -> Error {
    let number = match error.code {
        TaskErrorCode::ManagedMemoryUnavailable => UNAVAILABLE,
        _ => FAILED,
    };
    let mut data = json!({ "errorKind": error.code.as_str() });
    if let Some(cause) = error.cause {
        data["cause"] = cause.as_ref().into();
    }
    if let Some(details) = error.details() {
        data["details"] = details.into();
    }
    Error::new(number, error.code.message()).data(data)
}
