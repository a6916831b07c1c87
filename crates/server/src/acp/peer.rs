//! A child process, and JSON-RPC calls to it, one at a time.
//!
//! The child is not trusted. It leads a process group of its own, which is killed as a whole. Its lines have a maximal
//! length, and any message other than an answer to the current call or a notification is an error. Its standard error
//! is drained, and the last bytes are kept for the log. Dropping a [`Peer`] kills the process group.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{Implementation, InitializeRequest, InitializeResponse};
use engine::redact_for_display;
use parking_lot::Mutex;
use protocol::acp::{PROGRESS, STAGE_VERSION};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::limits::{CHILD_END_WAIT, CHILD_LINE_BYTES_MAX, CHILD_STDERR_BYTES_MAX};
use crate::line_reader::{LineRead, LineReader};

/// The command line, environment and expected version of a child.
#[derive(Clone, Debug)]
pub(super) struct ChildCommand {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    /// The whole environment.
    pub(super) environment: Vec<(OsString, OsString)>,
    /// The version that the child must report.
    pub(super) version: &'static str,
    /// The time limit until it has reported its version.
    pub(super) start_timeout: Duration,
}

/// A failure of a child. The messages contain no text of the child, which is not trusted.
#[derive(Debug, thiserror::Error)]
pub(super) enum PeerError {
    /// The process did not start.
    #[error("the child process cannot be started: {0}")]
    NotStarted(String),
    /// The process is not this program in this version.
    #[error("the child process is another program, or another version of this one")]
    ProgramMismatch,
    /// The process ended during a call.
    #[error("the child process ended before its answer")]
    Ended,
    /// The process does not read its input.
    #[error("the child process closed its input")]
    InputClosed,
    /// The process refused the availability query.
    #[error("the child process cannot determine whether tasks are available")]
    AvailabilityUnknown,
    /// The process sent something other than the expected answer.
    #[error("the child process sent an invalid message")]
    InvalidMessage,
    /// A message exceeds the maximal length.
    #[error("the child process sent a message of more than {CHILD_LINE_BYTES_MAX} bytes")]
    TooLong,
    /// The time limit was exceeded.
    #[error("the child process did not answer in time")]
    TimedOut,
}

/// A child's answer to a call.
#[derive(Debug)]
pub(super) enum CallAnswer {
    /// The result of the method.
    Result(Value),
    Refused(PeerRefusal),
}

/// The JSON-RPC error of a child.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PeerRefusal {
    /// The `data` of the error.
    #[serde(default)]
    pub(super) data: Value,
}

/// A message of a child: an answer or a notification.
#[derive(Debug, Deserialize)]
struct PeerMessage {
    jsonrpc: String,
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    #[serde(default)]
    error: Option<PeerRefusal>,
}

/// Distinguishes `"result": null` from a missing result.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// The last bytes of a child's standard error.
#[derive(Debug, Default)]
struct StderrTail(Mutex<Vec<u8>>);

impl StderrTail {
    fn append(&self, bytes: &[u8]) {
        let mut tail = self.0.lock();
        tail.extend_from_slice(bytes);
        let excess = tail.len().saturating_sub(CHILD_STDERR_BYTES_MAX);
        tail.drain(..excess);
    }
}

/// A running child process.
#[derive(Debug)]
pub(super) struct Peer {
    process: Child,
    /// The process group; `None` after the process was reaped, because the kernel may reuse its number.
    group: Option<Pid>,
    input: Option<ChildStdin>,
    lines: LineReader<BufReader<ChildStdout>>,
    stderr_tail: Arc<StderrTail>,
    _stderr_task: AbortOnDropHandle<()>,
    calls: u64,
}

impl Peer {
    /// Starts a child and waits until it has reported its version.
    pub(super) async fn start(child: &ChildCommand) -> Result<Self, PeerError> {
        let mut peer =
            Self::spawn(child).map_err(|error| PeerError::NotStarted(error.to_string()))?;
        match timeout(child.start_timeout, peer.initialize(child.version)).await {
            Ok(Ok(())) => Ok(peer),
            Ok(Err(error)) => {
                peer.log_failure(&error);
                peer.kill().await;
                Err(error)
            }
            Err(_late) => {
                peer.log_failure(&PeerError::TimedOut);
                peer.kill().await;
                Err(PeerError::TimedOut)
            }
        }
    }

    fn spawn(child: &ChildCommand) -> io::Result<Self> {
        let mut command = Command::new(&child.program);
        command
            .arg0("lukasa")
            .args(&child.arguments)
            .env_clear()
            .envs(child.environment.iter().map(|(name, value)| (name, value)))
            // Calls name their folders; a working directory would only keep a folder busy.
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut process = command.spawn()?;
        let broken_pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        let group = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let input = process.stdin.take().ok_or_else(broken_pipe)?;
        let output = process.stdout.take().ok_or_else(broken_pipe)?;
        let stderr = process.stderr.take().ok_or_else(broken_pipe)?;
        let stderr_tail = Arc::new(StderrTail::default());
        let stderr_task = tokio::spawn(read_stderr(stderr, Arc::clone(&stderr_tail)));
        Ok(Self {
            process,
            group,
            input: Some(input),
            lines: LineReader::new(BufReader::new(output), CHILD_LINE_BYTES_MAX),
            stderr_tail,
            _stderr_task: AbortOnDropHandle::new(stderr_task),
            calls: 0,
        })
    }

    async fn initialize(&mut self, version: &str) -> Result<(), PeerError> {
        let request = InitializeRequest::new(ProtocolVersion::V1)
            .client_info(Implementation::new("lukasa", version));
        let request = serde_json::to_value(request).map_err(|_| PeerError::InvalidMessage)?;
        let CallAnswer::Result(answer) = self.call("initialize", request, |_| ()).await? else {
            return Err(PeerError::ProgramMismatch);
        };
        let answer: InitializeResponse =
            serde_json::from_value(answer).map_err(|_| PeerError::InvalidMessage)?;
        let is_same_version = answer.agent_info.is_some_and(|info| info.version == version);
        let meta = answer.agent_capabilities.meta.unwrap_or_default();
        let stage = meta.get("lukasa").and_then(|lukasa| lukasa.get("stage"));
        if is_same_version && stage == Some(&json!(STAGE_VERSION)) {
            Ok(())
        } else {
            Err(PeerError::ProgramMismatch)
        }
    }

    /// Sends a call and waits for its answer. `on_progress` gets the child's progress reports of model runs meanwhile.
    pub(super) async fn call(
        &mut self,
        method: &str,
        parameters: Value,
        mut on_progress: impl FnMut(Value) + Send,
    ) -> Result<CallAnswer, PeerError> {
        self.calls += 1;
        let id = json!(self.calls);
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters });
        let mut line = call.to_string().into_bytes();
        line.push(b'\n');
        let input = self.input.as_mut().ok_or(PeerError::InputClosed)?;
        let written = async {
            input.write_all(&line).await?;
            input.flush().await
        };
        written.await.map_err(|_: io::Error| PeerError::InputClosed)?;
        loop {
            let message = match self.lines.next().await {
                LineRead::Line(line) => serde_json::from_slice::<PeerMessage>(&line).ok(),
                LineRead::TooLong => return Err(PeerError::TooLong),
                LineRead::End => return Err(PeerError::Ended),
            };
            match message {
                Some(PeerMessage { jsonrpc, id: None, method: Some(method), params, .. })
                    if jsonrpc == "2.0" =>
                {
                    if method == PROGRESS {
                        on_progress(params);
                    }
                }
                Some(PeerMessage {
                    jsonrpc, id: Some(of), method: None, result, error, ..
                }) if jsonrpc == "2.0" && of == id => {
                    return match (result, error) {
                        (Some(result), None) => Ok(CallAnswer::Result(result)),
                        (None, Some(refusal)) => Ok(CallAnswer::Refused(refusal)),
                        _ => Err(PeerError::InvalidMessage),
                    };
                }
                _ => return Err(PeerError::InvalidMessage),
            }
        }
    }

    /// Checks whether the process is running.
    pub(super) fn is_alive(&mut self) -> bool {
        let is_alive = matches!(self.process.try_wait(), Ok(None));
        if !is_alive {
            // It was reaped just now, so its number may be reused.
            self.group = None;
        }
        is_alive
    }

    /// Logs the failure of the child with the last bytes of its standard error, redacted.
    pub(super) fn log_failure(&self, error: &PeerError) {
        let stderr = self.stderr_tail.0.lock();
        let stderr = redact_for_display(&String::from_utf8_lossy(&stderr)).unwrap_or_default();
        tracing::warn!(%error, stderr, "child process failed and is killed");
    }

    /// Closes the input, so that the process exits by itself, and kills its group after two seconds.
    pub(super) async fn end(mut self) {
        drop(self.input.take());
        let end_of_output = async { while let LineRead::Line(_) = self.lines.next().await {} };
        drop(timeout(CHILD_END_WAIT, end_of_output).await);
        self.kill().await;
    }

    /// Kills the process group and reaps the process.
    pub(super) async fn kill(mut self) {
        self.kill_group();
        // No process survives SIGKILL, but one may be in an uninterruptible system call for a while.
        if let Ok(Ok(_)) = timeout(CHILD_END_WAIT, self.process.wait()).await {
            self.group = None;
        }
    }

    fn kill_group(&self) {
        if let Some(group) = self.group
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            // It has most likely exited already.
            tracing::debug!(%error, "failed to kill the process group of a child");
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// Drains the standard error of a child, so that its pipe never fills up, and keeps the last bytes.
async fn read_stderr(mut stderr: ChildStderr, tail: Arc<StderrTail>) {
    let mut buffer = vec![0; CHILD_STDERR_BYTES_MAX];
    loop {
        match stderr.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => tail.append(&buffer[..count]),
        }
    }
}
