//! The link to a machine: one connection for all its roots, opened when it is needed.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::session::{GreetingError, RemoteSession, Streams};
use crate::backend::BackendError;

/// Time limit for opening a connection.
const LINK_WAIT: Duration = Duration::from_secs(15);

/// Time limit for the reply of a call, besides a time that the call itself waits. A dead connection is found earlier, by its
/// silence. A disk may be slow.
const REPLY_WAIT: Duration = Duration::from_mins(1);

/// The shortest and the longest time without a new attempt after a failed one.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(30)];

/// Opens connections to the far side on a machine.
#[async_trait]
pub trait Connect: Debug + Send + Sync {
    /// Starts the far side. Its greeting is not read yet.
    async fn connect(&self) -> Result<Streams, ConnectError>;

    /// Returns the name of the machine, for people.
    fn host(&self) -> &str;

    /// Returns the reason why a far side ended without a greeting, if more is known.
    async fn ending(&self) -> Option<ConnectError> {
        None
    }
}

/// The failure to connect to a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ConnectError {
    /// The reason, as the end of a sentence. Models read it, so it names no path.
    pub reason: String,
    /// Whether the machine was reached, and `lukasa remote install` helps.
    pub lacks_program: bool,
}

impl ConnectError {
    /// Returns the failure to reach a machine, or to use what is there.
    pub const fn unusable(reason: String) -> Self {
        Self { reason, lacks_program: false }
    }
}

/// The link to a machine.
#[derive(Debug)]
pub struct Link {
    connect: Box<dyn Connect>,
    /// The longest waits for a connection and for a reply.
    connect_wait: Duration,
    reply_wait: Duration,
    session: tokio::sync::Mutex<Option<Arc<RemoteSession>>>,
    failure: Mutex<Option<LinkFailure>>,
}

/// The last attempt to connect, if it failed.
#[derive(Clone, Debug)]
struct LinkFailure {
    error: ConnectError,
    retry_at: Instant,
    delay: Duration,
}

impl Link {
    /// Returns a link without a connection. A caller waits no longer than `wait_max` for one, and for a reply; without it,
    /// 15 seconds and a minute.
    pub fn new(connect: Box<dyn Connect>, wait_max: Option<Duration>) -> Arc<Self> {
        Arc::new(Self {
            connect,
            connect_wait: wait_max.unwrap_or(LINK_WAIT),
            reply_wait: wait_max.unwrap_or(REPLY_WAIT),
            session: tokio::sync::Mutex::default(),
            failure: Mutex::default(),
        })
    }

    /// Returns the reason why the machine is out of reach, until the next attempt to connect is due.
    pub fn failure(&self) -> Option<String> {
        self.last_failure().map(|error| error.reason)
    }

    fn last_failure(&self) -> Option<ConnectError> {
        let failure = self.failure.lock().clone()?;
        (Instant::now() < failure.retry_at).then_some(failure.error)
    }

    /// Connects now, unless there is a connection.
    pub async fn connect(&self) -> Result<(), ConnectError> {
        *self.failure.lock() = None;
        match self.session().await {
            Ok(_) => Ok(()),
            Err(error) => {
                let failure = self.last_failure();
                Err(failure.unwrap_or_else(|| ConnectError::unusable(error.to_string())))
            }
        }
    }

    /// Returns the live connection, and opens one if there is none.
    pub(super) async fn session(&self) -> Result<Arc<RemoteSession>, BackendError> {
        if let Some(reason) = self.failure() {
            return Err(BackendError::Unreachable(reason));
        }
        let mut session = self.session.lock().await;
        if let Some(open) = session.as_ref().filter(|session| session.is_open()) {
            return Ok(Arc::clone(open));
        }
        // Another caller may have failed meanwhile.
        if let Some(reason) = self.failure() {
            return Err(BackendError::Unreachable(reason));
        }
        // A new connection would mostly stall, too, and its callers wait as long.
        if session.take().is_some_and(|session| session.is_stalled()) {
            return Err(self.note_failure(self.no_answer()));
        }
        let opened = match tokio::time::timeout(self.connect_wait, self.open()).await {
            Ok(opened) => opened,
            Err(_elapsed) => Err(self.no_answer()),
        };
        match opened {
            Ok(opened) => {
                *self.failure.lock() = None;
                let opened = Arc::new(opened);
                *session = Some(Arc::clone(&opened));
                Ok(opened)
            }
            Err(error) => {
                tracing::warn!(%error, "connecting to a remote machine failed");
                Err(self.note_failure(error))
            }
        }
    }

    fn no_answer(&self) -> ConnectError {
        ConnectError::unusable(format!("`{}` did not answer in time", self.connect.host()))
    }

    async fn open(&self) -> Result<RemoteSession, ConnectError> {
        let streams = self.connect.connect().await?;
        match RemoteSession::start(streams, self.reply_wait).await {
            Ok(session) => Ok(session),
            Err(GreetingError::OtherVersion { there }) => {
                let (here, host) = (env!("CARGO_PKG_VERSION"), self.connect.host());
                let reason = format!(
                    "`{host}` has Lukasa {there}, and here is {here}; run `lukasa remote install {host}`"
                );
                Err(ConnectError { reason, lacks_program: true })
            }
            // What is not understood was ended by this side, so its end has no reason of its own.
            Err(error @ GreetingError::Unknown) => {
                let host = self.connect.host();
                let reason =
                    format!("`{host}` cannot be used: {error}; run `lukasa remote install {host}`");
                Err(ConnectError { reason, lacks_program: true })
            }
            Err(error) => {
                let known = self.connect.ending().await;
                let unknown = || format!("`{}` cannot be used: {error}", self.connect.host());
                Err(known.unwrap_or_else(|| ConnectError::unusable(unknown())))
            }
        }
    }

    fn note_failure(&self, error: ConnectError) -> BackendError {
        let mut failure = self.failure.lock();
        let delay = failure.as_ref().map_or(RETRY_DELAYS[0], |failure| {
            failure.delay.saturating_mul(2).min(RETRY_DELAYS[1])
        });
        let retry_at = Instant::now() + delay;
        let reason = error.reason.clone();
        *failure = Some(LinkFailure { error, retry_at, delay });
        BackendError::Unreachable(reason)
    }
}
