//! Streams of events that go on where they were cut off.
//!
//! A stream knows its place: the id of the event that was told last, in the numbering of one life of the
//! daemon. When the connection ends it comes back with that place. What cannot be told any more is told as
//! [`Event::StateResyncRequired`](crate::event::Event::StateResyncRequired), never passed over in silence.

use std::time::Duration;

use futures_util::stream::{self, Stream};
use http_body_util::BodyExt as _;
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use tokio::time::{sleep, timeout};

use super::call::ApiCall;
use super::endpoint::Connection;
use super::{Client, ClientError, header};
use crate::cursor::{CURSOR_HEADER, EPOCH_HEADER, LAST_EVENT_ID_HEADER};
use crate::event::Envelope;
use crate::sse::{Frame, FrameReader};

/// How long a stream may say nothing: three signs of life of a daemon.
const SILENCE_MAX: Duration = Duration::from_secs(45);

/// How long before the first attempt to come back; each further one waits twice as long as the last.
const RECONNECT_DELAY_MIN: Duration = Duration::from_millis(50);

/// How long at most before an attempt: what a daemon advises.
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(3);

/// How many attempts in a row may fail. A restart takes less than the first few.
const RECONNECT_ATTEMPTS_MAX: u32 = 10;

/// Where a stream begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StartFrom {
    /// With what happens from now on.
    #[default]
    Now,
    /// With the oldest event that is kept.
    Oldest,
    /// After what was seen.
    After(Cursor),
}

/// A place in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The id of the event that was seen last.
    pub last_seen: u64,
    /// The numbering that it belongs to.
    pub epoch: Option<String>,
}

/// A stream of events. Dropping it ends it.
#[derive(Debug)]
pub struct EventStream {
    client: Client,
    call: ApiCall,
    cursor: Option<Cursor>,
    /// Where the connection says that it begins. Believed with its first frame: that may say that something was
    /// missed, and whoever is cut off before it has to be told again.
    server_cursor: Option<Cursor>,
    open: Option<OpenStream>,
    reconnects: bool,
    attempts: u32,
}

/// A connection that frames come over.
#[derive(Debug)]
struct OpenStream {
    response: Response<Incoming>,
    _connection: Connection,
    reader: FrameReader,
    waiting: std::vec::IntoIter<Frame>,
}

impl Client {
    /// Opens the stream of all that changes in the memories of the workspace, through whatever program.
    pub async fn events(&self, begin: StartFrom) -> Result<EventStream, ClientError> {
        self.stream_of(self.workspace_call(ApiCall::get("/v1/events")), begin).await
    }

    /// Opens the stream of what the tasks of a session's workspace do.
    pub async fn session_events(
        &self,
        id: &str,
        begin: StartFrom,
    ) -> Result<EventStream, ClientError> {
        self.stream_of(ApiCall::get(&format!("/session/{id}/events")), begin).await
    }

    async fn stream_of(&self, call: ApiCall, begin: StartFrom) -> Result<EventStream, ClientError> {
        let place = match begin {
            StartFrom::Now => None,
            StartFrom::Oldest => Some(Cursor { last_seen: 0, epoch: None }),
            StartFrom::After(cursor) => Some(cursor),
        };
        let client = self.clone();
        let call = call.header(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let mut events = EventStream {
            client,
            call,
            cursor: place,
            server_cursor: None,
            open: None,
            reconnects: true,
            attempts: 0,
        };
        events.connect().await?;
        Ok(events)
    }
}

impl EventStream {
    /// Ends when the daemon ends the stream, instead of coming back.
    #[must_use]
    pub fn without_reconnect(mut self) -> Self {
        self.reconnects = false;
        self
    }

    /// Returns where the stream goes on: after the event that was told last. Whoever keeps it can go on
    /// there later with [`StartFrom::After`].
    pub fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    /// Waits for the next event; `None` when a stream that is read [once](Self::without_reconnect) has ended. Whoever
    /// stops waiting loses nothing.
    ///
    /// A connection that ends, or on which nothing comes for long, is made anew, with growing delays. Types of
    /// events that this version does not know are passed over.
    ///
    /// # Errors
    ///
    /// When the daemon refuses the stream, such as after its session ended, or stayed away for many
    /// attempts. To call again is to try again.
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

    /// Returns the events as a [`Stream`], which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Envelope, ClientError>> + Send {
        stream::try_unfold(self, |mut events| async {
            Ok(events.next().await?.map(|envelope| (envelope, events)))
        })
    }

    /// Notes the place that a frame leads to; returns its event, if that is known.
    fn accept(&mut self, frame: &Frame) -> Option<Envelope> {
        self.attempts = 0;
        if let Some(begins) = self.server_cursor.take() {
            self.cursor = Some(begins);
        }
        if let (Some(id), Some(place)) = (frame.id, &mut self.cursor) {
            place.last_seen = id;
        }
        serde_json::from_str(&frame.data).ok()
    }

    /// Tries to connect until it works, or there were too many attempts.
    async fn reconnect(&mut self) -> Result<(), ClientError> {
        loop {
            sleep(delay(self.attempts)).await;
            self.attempts += 1;
            match self.connect().await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_temporary() && self.attempts < RECONNECT_ATTEMPTS_MAX => {}
                Err(error) => {
                    self.attempts = 0;
                    return Err(error);
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<(), ClientError> {
        let mut call = self.call.clone();
        if let Some(Cursor { last_seen, epoch }) = &self.cursor {
            let name = HeaderName::from_static(LAST_EVENT_ID_HEADER);
            call = call.header(name, HeaderValue::from(*last_seen));
            if let Some(epoch) = epoch {
                let name = HeaderName::from_static(EPOCH_HEADER);
                call = call.header(name, header("the epoch", epoch)?);
            }
        }
        let (response, connection) = self.client.stream(&call).await?;
        self.server_cursor = read_cursor(response.headers());
        if self.cursor.is_none() {
            self.cursor = self.server_cursor.take();
        }
        let waiting = Vec::new().into_iter();
        let reader = FrameReader::default();
        self.open = Some(OpenStream { response, _connection: connection, reader, waiting });
        Ok(())
    }
}

/// Returns where a stream says that it begins.
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
            let part = timeout(SILENCE_MAX, self.response.body_mut().frame()).await;
            let Ok(part) = part else { return Err(ClientError::TimedOut(SILENCE_MAX)) };
            let Some(part) = part else { return Ok(None) };
            if let Ok(bytes) = part?.into_data() {
                self.waiting = self.reader.push(&bytes)?.into_iter();
            }
        }
    }
}
