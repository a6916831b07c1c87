//! Event streams that reconnect and resume after a lost connection.
//!
//! A stream remembers its cursor: the id of the last event, and the epoch that it belongs to. After a
//! reconnect it resumes from there. If events were lost, the daemon sends
//! [`Event::StateResyncRequired`](crate::event::Event::StateResyncRequired); a gap is never silent.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{self, Stream};
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

use super::call::ApiCall;
use super::endpoint::Connection;
use super::{Client, ClientError, header};
use crate::cursor::{CURSOR_HEADER, EPOCH_HEADER, LAST_EVENT_ID_HEADER};
use crate::event::Envelope;
use crate::sse::{Frame, FrameReader};

/// The longest silence of a connection: three heartbeat intervals of a daemon.
const SILENCE_MAX: Duration = Duration::from_secs(45);

/// The least time for which a call of [`EventStream::next`] waits before the silence counts.
const SILENCE_GRACE: Duration = Duration::from_secs(1);

/// The delay before the first attempt to reconnect; it doubles with each further attempt.
const RECONNECT_DELAY_MIN: Duration = Duration::from_millis(50);

/// The longest delay before an attempt: the one in [`RETRY`](crate::sse::RETRY).
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(3);

/// The number of attempts in a row before a stream reports an error. A restart of the daemon takes only the first few.
const RECONNECT_ATTEMPTS_MAX: u32 = 10;

/// The event at which a stream begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StartFrom {
    /// New events only.
    #[default]
    Now,
    /// The oldest event that the daemon still has.
    Oldest,
    /// The event after this cursor.
    After(Cursor),
}

/// A position in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The id of the last event that was read.
    pub last_seen: u64,
    /// The epoch of that id.
    pub epoch: Option<String>,
}

/// A stream of events. Dropping it closes the connection.
#[derive(Debug)]
pub struct EventStream {
    client: Client,
    call: ApiCall,
    cursor: Option<Cursor>,
    /// The cursor in the response headers. It replaces `cursor` only with the first frame: that frame may report lost
    /// events. A reader that is disconnected before it must receive that report again.
    server_cursor: Option<Cursor>,
    open: Option<OpenStream>,
    /// The attempt to connect that is under way. It outlives a dropped [`next`](EventStream::next).
    connecting: Option<Connecting>,
    reconnects: bool,
    attempts: u32,
}

type Connected = Result<(Response<Incoming>, Connection), ClientError>;

/// A wait and an attempt to connect after it. Only `&mut` reaches the future; the mutex makes the stream `Sync`.
struct Connecting(Mutex<Pin<Box<dyn Future<Output = Connected> + Send>>>);

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connecting")
    }
}

/// An open connection of a stream.
#[derive(Debug)]
struct OpenStream {
    response: Response<Incoming>,
    _connection: Connection,
    reader: FrameReader,
    waiting: std::vec::IntoIter<Frame>,
    /// When the last bytes arrived.
    heard_at: Instant,
}

impl Client {
    /// Opens the stream of all changes in the memories of the workspace, including external edits.
    pub async fn events(&self, begin: StartFrom) -> Result<EventStream, ClientError> {
        self.stream_of(self.workspace_call(ApiCall::get("/v1/events")), begin).await
    }

    /// Opens the stream of task events in a session's workspace.
    pub async fn session_events(
        &self,
        id: &str,
        begin: StartFrom,
    ) -> Result<EventStream, ClientError> {
        self.stream_of(ApiCall::get(&format!("/session/{id}/events")), begin).await
    }

    async fn stream_of(&self, call: ApiCall, begin: StartFrom) -> Result<EventStream, ClientError> {
        let cursor = match begin {
            StartFrom::Now => None,
            StartFrom::Oldest => Some(Cursor { last_seen: 0, epoch: None }),
            StartFrom::After(cursor) => Some(cursor),
        };
        let client = self.clone();
        let call = call.header(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let mut events = EventStream {
            client,
            call,
            cursor,
            server_cursor: None,
            open: None,
            connecting: None,
            reconnects: true,
            attempts: 0,
        };
        events.connect(Duration::ZERO).await?;
        Ok(events)
    }
}

impl EventStream {
    /// Ends the stream when the daemon ends it, instead of reconnecting.
    #[must_use]
    pub fn without_reconnect(mut self) -> Self {
        self.reconnects = false;
        self
    }

    /// Returns the position after the last event. A caller can store it and resume later with [`StartFrom::After`].
    pub fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    /// Waits for the next event; `None` when a stream [without reconnect](Self::without_reconnect) has ended. Dropping
    /// the future loses no event, and an attempt to reconnect goes on with the next call.
    ///
    /// A connection that ends or stays silent for too long is reopened, with growing delays. Types of events that this
    /// version does not know are skipped.
    ///
    /// # Errors
    ///
    /// When the daemon refuses the stream, such as after its session ended, or could not be reached in
    /// `RECONNECT_ATTEMPTS_MAX` attempts. Another call tries again.
    pub async fn next(&mut self) -> Result<Option<Envelope>, ClientError> {
        loop {
            let Some(open) = &mut self.open else {
                if !self.reconnects {
                    return Ok(None);
                }
                self.reconnect().await?;
                continue;
            };
            match open.next().await {
                Ok(Some(frame)) => {
                    if let Some(envelope) = self.accept(&frame) {
                        return Ok(Some(envelope));
                    }
                }
                Ok(None) => self.open = None,
                Err(error) => {
                    self.open = None;
                    if !(self.reconnects && error.is_temporary()) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Converts the events into a [`Stream`], which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Envelope, ClientError>> + Send {
        stream::try_unfold(self, |mut events| async {
            Ok(events.next().await?.map(|envelope| (envelope, events)))
        })
    }

    /// Moves the cursor past a frame; returns its event, if this version knows the type.
    fn accept(&mut self, frame: &Frame) -> Option<Envelope> {
        self.attempts = 0;
        if let Some(cursor) = self.server_cursor.take() {
            self.cursor = Some(cursor);
        }
        if let (Some(id), Some(cursor)) = (frame.id, &mut self.cursor) {
            cursor.last_seen = id;
        }
        serde_json::from_str(&frame.data).ok()
    }

    /// Tries to connect until it succeeds, or fails too often.
    async fn reconnect(&mut self) -> Result<(), ClientError> {
        loop {
            let connected = self.connect(delay(self.attempts)).await;
            self.attempts += 1;
            match connected {
                Ok(()) => return Ok(()),
                Err(error) if error.is_temporary() && self.attempts < RECONNECT_ATTEMPTS_MAX => {}
                Err(error) => {
                    self.attempts = 0;
                    return Err(error);
                }
            }
        }
    }

    /// Connects after a wait, or goes on with the attempt that is under way.
    async fn connect(&mut self, wait: Duration) -> Result<(), ClientError> {
        let connecting = match self.connecting.take() {
            Some(connecting) => connecting,
            None => self.start_connecting(wait)?,
        };
        let connecting = self.connecting.insert(connecting);
        let connected = connecting.0.get_mut().await;
        self.connecting = None;
        let (response, connection) = connected?;
        self.server_cursor = read_cursor(response.headers());
        if self.cursor.is_none() {
            self.cursor = self.server_cursor.take();
        }
        let (waiting, heard_at) = (Vec::new().into_iter(), Instant::now());
        let reader = FrameReader::default();
        self.open =
            Some(OpenStream { response, _connection: connection, reader, waiting, heard_at });
        Ok(())
    }

    fn start_connecting(&self, wait: Duration) -> Result<Connecting, ClientError> {
        let mut call = self.call.clone();
        if let Some(Cursor { last_seen, epoch }) = &self.cursor {
            let name = HeaderName::from_static(LAST_EVENT_ID_HEADER);
            call = call.header(name, HeaderValue::from(*last_seen));
            if let Some(epoch) = epoch {
                let name = HeaderName::from_static(EPOCH_HEADER);
                call = call.header(name, header("the epoch", epoch)?);
            }
        }
        let client = self.client.clone();
        Ok(Connecting(Mutex::new(Box::pin(async move {
            sleep(wait).await;
            client.stream(&call).await
        }))))
    }
}

/// Reads the cursor from the headers of a stream.
fn read_cursor(headers: &HeaderMap) -> Option<Cursor> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let last_seen = text(CURSOR_HEADER)?.parse().ok()?;
    Some(Cursor { last_seen, epoch: text(EPOCH_HEADER).map(str::to_owned) })
}

fn delay(attempts: u32) -> Duration {
    RECONNECT_DELAY_MIN.saturating_mul(1 << attempts.min(16)).min(RECONNECT_DELAY_MAX)
}

impl OpenStream {
    /// Waits for the next frame; `None` when the daemon ended the stream.
    async fn next(&mut self) -> Result<Option<Frame>, ClientError> {
        loop {
            if let Some(frame) = self.waiting.next() {
                return Ok(Some(frame));
            }
            // A caller that paused for long finds what has arrived meanwhile.
            let silent_at = (self.heard_at + SILENCE_MAX).max(Instant::now() + SILENCE_GRACE);
            let part = timeout_at(silent_at, self.response.body_mut().frame()).await;
            let Ok(part) = part else { return Err(ClientError::TimedOut(SILENCE_MAX)) };
            self.heard_at = Instant::now();
            let Some(part) = part else { return Ok(None) };
            if let Ok(bytes) = part?.into_data() {
                self.waiting = self.reader.push(&bytes)?.into_iter();
            }
        }
    }
}
