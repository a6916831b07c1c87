//! A child process and the calls that are made to it, one at a time.
//!
//! Nothing that a child does is trusted. It leads a process group of its own, which is killed as a whole; a line has a
//! longest length; what is no answer to the call that was made, or no JSON-RPC at all, is the end of it. What it says of
//! its troubles is drained, and only its last words are kept. Whoever drops a peer has killed it.

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

/// How a child is started.
#[derive(Clone, Debug)]
pub(super) struct ChildCommand {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<String>,
    /// All of its environment.
    pub(super) environment: Vec<(OsString, OsString)>,
    /// The version that it must have.
    pub(super) version: &'static str,
    /// How long it may take.
    pub(super) start_timeout: Duration,
}

/// Why a child is of no use any more. Says nothing that the child said.
#[derive(Debug, thiserror::Error)]
pub(super) enum PeerError {
    /// It cannot be started.
    #[error("the child process cannot be started: {0}")]
    NotStarted(String),
    /// It is none of ours.
    #[error("the child process is another program, or another version of this one")]
    ProgramMismatch,
    /// It is gone.
    #[error("the child process ended in the middle of its work")]
    Ended,
    /// It does not take what it is told.
    #[error("the child process does not listen")]
    InputClosed,
    /// It does not know whether tasks can be done.
    #[error("the child process cannot say whether tasks can be done")]
    AvailabilityUnknown,
    /// It said what is no message.
    #[error("the child process answered with what is no message of the protocol")]
    InvalidMessage,
    /// Its message has no end.
    #[error(
        "the child process answered with more than {CHILD_LINE_BYTES_MAX} bytes in one message"
    )]
    TooLong,
    /// It is silent.
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

/// A child's answer that it cannot, or will not.
#[derive(Debug, Default, Deserialize)]
pub(super) struct PeerRefusal {
    /// What belongs to it.
    #[serde(default)]
    pub(super) data: Value,
}

/// What a child may say.
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

/// Tells a result that is null from none.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// The last words of a child.
#[derive(Debug, Default)]
struct StderrTail(Mutex<Vec<u8>>);

impl StderrTail {
    fn append(&self, said: &[u8]) {
        let mut words = self.0.lock();
        words.extend_from_slice(said);
        let more = words.len().saturating_sub(CHILD_STDERR_BYTES_MAX);
        words.drain(..more);
    }
}

/// A child process that answers.
#[derive(Debug)]
pub(super) struct Peer {
    process: Child,
    /// Its process group; `None` once it was waited for, since its number may be another's then.
    group: Option<Pid>,
    input: Option<ChildStdin>,
    lines: LineReader<BufReader<ChildStdout>>,
    stderr_tail: Arc<StderrTail>,
    _stderr_task: AbortOnDropHandle<()>,
    calls: u64,
}

impl Peer {
    /// Starts a child and waits until it has said who it is.
    pub(super) async fn start(how: &ChildCommand) -> Result<Self, PeerError> {
        let mut peer =
            Self::spawn(how).map_err(|error| PeerError::NotStarted(error.to_string()))?;
        match timeout(how.start_timeout, peer.initialize(how.version)).await {
            Ok(Ok(())) => Ok(peer),
            Ok(Err(broken)) => {
                peer.log_failure(&broken);
                peer.kill().await;
                Err(broken)
            }
            Err(_late) => {
                peer.log_failure(&PeerError::TimedOut);
                peer.kill().await;
                Err(PeerError::TimedOut)
            }
        }
    }

    fn spawn(how: &ChildCommand) -> io::Result<Self> {
        let mut command = Command::new(&how.program);
        command
            .arg0("lukasa")
            .args(&how.arguments)
            .env_clear()
            .envs(how.environment.iter().map(|(name, value)| (name, value)))
            // It is told which folders it is about, and keeps none from being removed.
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut process = command.spawn()?;
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let group = process.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let input = process.stdin.take().ok_or_else(gone)?;
        let output = process.stdout.take().ok_or_else(gone)?;
        let troubles = process.stderr.take().ok_or_else(gone)?;
        let words = Arc::new(StderrTail::default());
        let listening = tokio::spawn(read_stderr(troubles, Arc::clone(&words)));
        Ok(Self {
            process,
            group,
            input: Some(input),
            lines: LineReader::new(BufReader::new(output), CHILD_LINE_BYTES_MAX),
            stderr_tail: words,
            _stderr_task: AbortOnDropHandle::new(listening),
            calls: 0,
        })
    }

    async fn initialize(&mut self, version: &str) -> Result<(), PeerError> {
        let ours = InitializeRequest::new(ProtocolVersion::V1)
            .client_info(Implementation::new("lukasa", version));
        let ours = serde_json::to_value(ours).map_err(|_| PeerError::InvalidMessage)?;
        let CallAnswer::Result(told) = self.call("initialize", ours, |_| ()).await? else {
            return Err(PeerError::ProgramMismatch);
        };
        let told: InitializeResponse =
            serde_json::from_value(told).map_err(|_| PeerError::InvalidMessage)?;
        let is_ours = told.agent_info.is_some_and(|info| info.version == version);
        let meta = told.agent_capabilities.meta.unwrap_or_default();
        let stage = meta.get("lukasa").and_then(|lukasa| lukasa.get("stage"));
        if is_ours && stage == Some(&json!(STAGE_VERSION)) {
            Ok(())
        } else {
            Err(PeerError::ProgramMismatch)
        }
    }

    /// Makes a call and returns its answer. `hear` is handed what the child tells meanwhile of what models did.
    pub(super) async fn call(
        &mut self,
        method: &str,
        parameters: Value,
        mut hear: impl FnMut(Value) + Send,
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
            let said = match self.lines.next().await {
                LineRead::Line(line) => serde_json::from_slice::<PeerMessage>(&line).ok(),
                LineRead::TooLong => return Err(PeerError::TooLong),
                LineRead::End => return Err(PeerError::Ended),
            };
            match said {
                Some(PeerMessage { jsonrpc, id: None, method: Some(method), params, .. })
                    if jsonrpc == "2.0" =>
                {
                    if method == PROGRESS {
                        hear(params);
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

    /// Tells whether it still runs.
    pub(super) fn is_alive(&mut self) -> bool {
        let is_alive = matches!(self.process.try_wait(), Ok(None));
        if !is_alive {
            // It was waited for just now, so that its number may be another's.
            self.group = None;
        }
        is_alive
    }

    /// Logs why it is of no use, with its last words, cleaned as what is told of a task.
    pub(super) fn log_failure(&self, why: &PeerError) {
        let words = self.stderr_tail.0.lock();
        let words = redact_for_display(&String::from_utf8_lossy(&words)).unwrap_or_default();
        tracing::warn!(%why, words, "a child process is given up");
    }

    /// Lets it end by itself, and kills what is left of it after two seconds.
    pub(super) async fn end(mut self) {
        drop(self.input.take());
        let ended = async { while let LineRead::Line(_) = self.lines.next().await {} };
        drop(timeout(CHILD_END_WAIT, ended).await);
        self.kill().await;
    }

    /// Kills it and all that it started.
    pub(super) async fn kill(mut self) {
        self.kill_group();
        // Nothing survives that, but a process may take its time in the kernel.
        if let Ok(Ok(_)) = timeout(CHILD_END_WAIT, self.process.wait()).await {
            self.group = None;
        }
    }

    fn kill_group(&self) {
        if let Some(group) = self.group
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            // Whoever is gone already cannot be killed.
            tracing::debug!(%error, "no child process to kill");
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill_group();
    }
}

/// Keeps the last words of a child, and the pipe from filling up.
async fn read_stderr(mut troubles: ChildStderr, words: Arc<StderrTail>) {
    let mut part = vec![0; CHILD_STDERR_BYTES_MAX];
    loop {
        match troubles.read(&mut part).await {
            Ok(0) | Err(_) => return,
            Ok(count) => words.append(&part[..count]),
        }
    }
}
