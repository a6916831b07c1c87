//! Starts the far side on another machine by the system's `ssh`.
//!
//! The person's `ssh` configuration, agent and known hosts count. Nothing is asked: a daemon has no terminal.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::{oneshot, watch};

use super::link::{Connect, ConnectError};
use super::session::Streams;
use crate::remote_folder::RemoteHost;

/// Settings for reaching other machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshSettings {
    /// The `ssh` program, with options that come first.
    pub command: Vec<OsString>,
    /// The longest wait for a connection, and for an answer. If there is none, 15 seconds for a connection, and a minute for
    /// an answer of a disk there.
    pub wait_max: Option<Duration>,
}

impl Default for SshSettings {
    fn default() -> Self {
        Self { command: vec!["ssh".into()], wait_max: None }
    }
}

/// Options of every connection. No question is asked, nothing is forwarded, and a dead connection is found within
/// 15 seconds.
const OPTIONS: [&str; 10] = [
    "BatchMode=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "Tunnel=no",
    "RemoteCommand=none",
    "PermitLocalCommand=no",
];

/// The command for the login shell there, whichever shell it is. A program that `lukasa remote install` copied comes
/// first: a login without a terminal often has a shorter search path.
const FAR_COMMAND: &str = "exec sh -c 'p=\"$HOME/.local/share/lukasa/bin/lukasa\"; [ -x \"$p\" ] || p=lukasa; exec \"$p\" backend --stdio'";

/// Maximum number of bytes kept of what `ssh` prints as errors.
const STDERR_BYTES_MAX: usize = 8 << 10;

/// Time for `ssh` to end after its input ended, before it is killed.
const END_WAIT: Duration = Duration::from_secs(2);

/// Connects to a machine by `ssh`.
#[derive(Debug)]
pub(crate) struct SshConnect {
    settings: SshSettings,
    host: RemoteHost,
    /// The last start.
    started: Mutex<Option<Started>>,
}

/// The known facts about a started process.
#[derive(Clone, Debug)]
struct Started {
    status: watch::Receiver<Option<ExitStatus>>,
    stderr: Arc<Mutex<Vec<u8>>>,
}

impl SshConnect {
    pub(crate) fn new(settings: SshSettings, host: RemoteHost) -> Self {
        Self { settings, host, started: Mutex::default() }
    }
}

impl SshSettings {
    /// Returns the command that runs `far_command` in the login shell of a machine. Its streams are pipes.
    pub fn run_on(&self, host: &RemoteHost, far_command: &str) -> Command {
        let mut words = self.command.iter();
        // An empty command cannot be started, which is reported then.
        let mut command = Command::new(words.next().cloned().unwrap_or_default());
        command.args(words).arg("-T");
        for option in OPTIONS {
            command.args(["-o", option]);
        }
        if let Some(port) = host.port {
            command.args(["-p", &port.to_string()]);
        }
        if let Some(user) = &host.user {
            command.args(["-l", user]);
        }
        command.args(["--", &host.name, far_command]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The `ssh` of a jump host does not know that nothing may be asked.
        command.env("SSH_ASKPASS", "/bin/false").env("SSH_ASKPASS_REQUIRE", "force");
        // Ctrl-C in a terminal must not end the connection before a write has ended.
        command.process_group(0).kill_on_drop(true);
        command
    }
}

const NO_SSH: &str = "the program `ssh` cannot be started";

#[async_trait]
impl Connect for SshConnect {
    async fn connect(&self) -> Result<Streams, ConnectError> {
        let mut command = self.settings.run_on(&self.host, FAR_COMMAND);
        let mut child = command.spawn().map_err(|error| {
            tracing::warn!(%error, "starting ssh failed");
            ConnectError::unusable(NO_SSH.to_owned())
        })?;
        let (Some(output), Some(input), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(ConnectError::unusable(NO_SSH.to_owned()));
        };
        let stderr = Arc::default();
        let reading = tokio::spawn(keep_tail(errors, Arc::clone(&stderr)));
        let (status_sender, status) = watch::channel(None);
        let (keep_alive, dropped) = oneshot::channel::<()>();
        tokio::spawn(async move {
            let status = end_of(child, dropped).await;
            // What it printed last is read before the status is known.
            drop(tokio::time::timeout(END_WAIT, reading).await);
            status_sender.send_replace(status);
        });
        *self.started.lock() = Some(Started { status, stderr });
        Ok(Streams {
            input: Box::new(input),
            output: Box::new(output),
            keep_alive: Box::new(keep_alive),
        })
    }

    async fn ending(&self) -> Option<ConnectError> {
        let Started { mut status, stderr } = self.started.lock().clone()?;
        let ended = tokio::time::timeout(2 * END_WAIT, status.wait_for(Option::is_some));
        let code = ended.await.ok()?.ok()?.as_ref()?.code();
        let stderr = String::from_utf8_lossy(&stderr.lock()).into_owned();
        tracing::info!(host = %self.host, code, stderr = stderr.trim(), "ssh ended");
        Some(ssh_failure(&self.host.name, code, &stderr))
    }

    fn host(&self) -> &str {
        &self.host.name
    }
}

/// Waits for the end of a process. Kills it some time after the connection was dropped.
async fn end_of(mut child: Child, dropped: oneshot::Receiver<()>) -> Option<ExitStatus> {
    tokio::select! {
        biased;
        status = child.wait() => return status.ok(),
        _ = dropped => {}
    }
    match tokio::time::timeout(END_WAIT, child.wait()).await {
        Ok(status) => status.ok(),
        Err(_elapsed) => {
            // It has ended already if it cannot be killed.
            drop(child.kill().await);
            None
        }
    }
}

async fn keep_tail(mut errors: ChildStderr, tail: Arc<Mutex<Vec<u8>>>) {
    let mut chunk = [0; 1024];
    while let Ok(count @ 1..) = errors.read(&mut chunk).await {
        let mut tail = tail.lock();
        tail.extend_from_slice(&chunk[..count]);
        let excess = tail.len().saturating_sub(STDERR_BYTES_MAX);
        tail.drain(..excess);
    }
}

/// Returns the failure of an `ssh` that ended with an exit status and these errors. It has no words of the other machine.
pub fn ssh_failure(host: &str, code: Option<i32>, stderr: &str) -> ConnectError {
    let has = |text: &str| stderr.contains(text);
    let lacks_program = |wrong: String| ConnectError {
        reason: format!("{wrong}; run `lukasa remote install {host}`"),
        lacks_program: true,
    };
    ConnectError::unusable(match code {
        Some(255) if has("REMOTE HOST IDENTIFICATION HAS CHANGED") => format!(
            "the host key of `{host}` is another one than before; if that is expected, run `ssh-keygen -R {host}` and `ssh {host}`"
        ),
        Some(255) if has("Host key verification failed") => {
            format!("the host key of `{host}` is not known; run `ssh {host}` and check it")
        }
        Some(255) if has("Permission denied") => {
            format!("`{host}` accepts no key; `ssh {host}` has to work without a question")
        }
        Some(255) | None => format!("the host `{host}` cannot be reached"),
        Some(126) => return lacks_program(format!("the Lukasa on `{host}` cannot be run there")),
        Some(127) => return lacks_program(format!("Lukasa is not installed on `{host}`")),
        Some(2) => return lacks_program(format!("another version of Lukasa is on `{host}`")),
        Some(_) => format!("the Lukasa on `{host}` failed"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_says_what_to_do() {
        let changed =
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.";
        for (code, stderr, expected) in [
            (Some(255), changed, "ssh-keygen -R build"),
            (Some(255), "Host key verification failed.", "is not known"),
            (Some(255), "ada@build: Permission denied (publickey).", "accepts no key"),
            (
                Some(255),
                "ssh: connect to host build port 22: Connection refused",
                "cannot be reached",
            ),
            (None, "", "cannot be reached"),
            (Some(127), "sh: 1: exec: lukasa: not found", "remote install build"),
            (Some(2), "error: unrecognized subcommand 'backend'", "another version"),
            (Some(1), "/home/ada: secret", "failed"),
        ] {
            let ConnectError { reason, lacks_program } = ssh_failure("build", code, stderr);
            assert_eq!(lacks_program, matches!(code, Some(2 | 126 | 127)), "{reason}");
            assert!(reason.contains(expected), "{reason}");
            assert!(!reason.contains("/home"), "{reason}");
        }
    }
}
