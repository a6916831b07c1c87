//! A connection to a far side: calls with their replies, over one pair of streams.

use std::any::Any;
use std::collections::HashMap;
use std::fmt::{self, Debug};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::known::KnownRoot;
use super::wire::{
    self, ALIVE_EVERY, Call, FromFar, GREETING_BYTES_MAX, MARK, Operation, PROTOCOL, Reply,
    SENT_FILE_BYTES_MAX, ToFar, WriteStep, parse_path,
};
use crate::backend::{BackendError, IsReferenced};

/// Maximum number of bytes that wait to be sent. A machine that reads nothing must not fill the memory.
const UNSENT_BYTES_MAX: usize = 128 << 20;

/// The streams of a new connection.
pub struct Streams {
    /// The output of the far side.
    pub input: Box<dyn AsyncRead + Send + Unpin>,
    /// The input of the far side.
    pub output: Box<dyn AsyncWrite + Send + Unpin>,
    /// A value that lives as long as the connection, such as a child process.
    pub keep_alive: Box<dyn Any + Send>,
}

impl Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

/// The reason why a far side cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum GreetingError {
    #[error("the program there ended before it answered")]
    Ended,
    #[error("another version of Lukasa is there: {there}")]
    OtherVersion { there: String },
    #[error("the program there does not answer as Lukasa does")]
    Unknown,
    #[error("the connection failed")]
    Io(#[from] io::Error),
}

/// A live connection. Dropping it closes it.
#[derive(Debug)]
pub(super) struct RemoteSession {
    reading: AbortHandle,
    /// Differs from that of each other session of this process.
    pub(super) number: u64,
    reply_wait: Duration,
    /// Whether a reply did not come in time.
    is_stalled: AtomicBool,
    shared: Arc<Shared>,
    next_root: AtomicU32,
}

/// The state that a session shares with its tasks.
#[derive(Debug)]
struct Shared {
    /// That of the session.
    number: u64,
    next_call: AtomicU64,
    /// Number of bytes that wait to be sent.
    unsent: AtomicUsize,
    state: Mutex<SessionState>,
}

#[derive(Debug)]
struct SessionState {
    /// None once the connection is closed.
    frames: Option<mpsc::UnboundedSender<Vec<u8>>>,
    waiting: HashMap<u64, Waiting>,
    /// The roots whose changes the far side reports.
    followed: HashMap<u32, Arc<KnownRoot>>,
}

/// A reply, and the lock that it reports.
type Delivery = (Reply, Option<HeldLock>);

/// A lock at the far side. Dropping it releases it there, wherever it is dropped.
#[derive(Debug)]
pub(super) struct HeldLock {
    shared: Arc<Shared>,
    root: u32,
    pub(super) number: u64,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // The end of the connection releases it, too.
        drop(self.shared.send_step(self.root, WriteStep::Unlock { lock: self.number }));
    }
}

/// A caller that waits for a reply.
struct Waiting {
    reply: oneshot::Sender<Result<Delivery, BackendError>>,
    /// The root of a call that acquires a lock.
    locks_root: Option<u32>,
    /// The predicate of a sweep.
    in_history: Option<Arc<IsReferenced>>,
}

impl Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("locks_root", &self.locks_root).finish_non_exhaustive()
    }
}

fn lost() -> BackendError {
    BackendError::Unreachable("the connection to the remote machine was lost".to_owned())
}

impl RemoteSession {
    /// Waits for the greeting of the far side, and starts the tasks that read and write.
    /// A call waits no longer than `reply_wait`, besides a time that the call itself asks for.
    pub(super) async fn start(
        streams: Streams,
        reply_wait: Duration,
    ) -> Result<Self, GreetingError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let Streams { input, output, keep_alive } = streams;
        let mut input = BufReader::new(wire::patient(input));
        skip_greeting(&mut input).await?;
        let greeting = wire::read_frame(&mut input).await.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => GreetingError::Unknown,
            _ => error.into(),
        });
        match greeting? {
            Some(FromFar::Hello { protocol: PROTOCOL, .. }) => {}
            Some(FromFar::Hello { version, .. }) => {
                let is_plain = |c: &char| c.is_ascii_alphanumeric() || ".-+".contains(*c);
                let there = version.chars().filter(is_plain).take(40).collect();
                return Err(GreetingError::OtherVersion { there });
            }
            Some(_) => return Err(GreetingError::Unknown),
            None => return Err(GreetingError::Ended),
        }
        let (frames, queue) = mpsc::unbounded_channel();
        let (waiting, followed) = (HashMap::new(), HashMap::new());
        let state = SessionState { frames: Some(frames), waiting, followed };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(Shared {
            number,
            next_call: AtomicU64::new(1),
            unsent: AtomicUsize::new(0),
            state: Mutex::new(state),
        });
        tokio::spawn(write_frames(output, queue, Arc::clone(&shared)));
        let reading = tokio::spawn(read_messages(input, Arc::clone(&shared), keep_alive));
        let reading = reading.abort_handle();
        let (is_stalled, next_root) = (AtomicBool::new(false), AtomicU32::new(1));
        Ok(Self { reading, number, reply_wait, is_stalled, shared, next_root })
    }

    /// Returns a number for a root to open.
    pub(super) fn new_root(&self) -> u32 {
        self.next_root.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn is_open(&self) -> bool {
        // The tasks end with their runtime.
        self.shared.state.lock().frames.as_ref().is_some_and(|frames| !frames.is_closed())
    }

    /// Checks whether the session ended because a reply did not come in time.
    pub(super) fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::SeqCst)
    }

    /// Sends a step of a write without waiting for its result. Returns its number.
    pub(super) fn send(&self, root: u32, step: WriteStep) -> Result<u64, BackendError> {
        self.shared.send_step(root, step)
    }

    /// Asks for reports of changes of a root. They begin before a later call is answered.
    pub(super) fn follow(&self, root: u32, known: &Arc<KnownRoot>) -> Result<(), BackendError> {
        self.shared.state.lock().followed.insert(root, Arc::clone(known));
        let number = self.shared.next_call.fetch_add(1, Ordering::Relaxed);
        let call = Call { root, operation: Operation::Follow };
        self.shared.send(&ToFar::Call { number, call })
    }

    /// Makes a call and waits for its reply.
    pub(super) async fn call(
        &self,
        root: u32,
        operation: Operation,
    ) -> Result<Reply, BackendError> {
        Ok(self.call_with(root, operation, None).await?.0)
    }

    /// Makes a call, and answers questions of the far side meanwhile.
    pub(super) async fn call_with(
        &self,
        root: u32,
        operation: Operation,
        in_history: Option<Arc<IsReferenced>>,
    ) -> Result<Delivery, BackendError> {
        let mut wait = self.reply_wait;
        let mut locks_root = None;
        if let Operation::Lock { wait_millis, .. } = &operation {
            wait += Duration::from_millis(*wait_millis);
            locks_root = Some(root);
        }
        let number = self.shared.next_call.fetch_add(1, Ordering::Relaxed);
        let (reply, receiver) = oneshot::channel();
        {
            let mut state = self.shared.state.lock();
            if state.frames.is_none() {
                return Err(lost());
            }
            state.waiting.insert(number, Waiting { reply, locks_root, in_history });
        }
        if let Err(error) =
            self.shared.send(&ToFar::Call { number, call: Call { root, operation } })
        {
            self.shared.state.lock().waiting.remove(&number);
            return Err(error);
        }
        match tokio::time::timeout(wait, receiver).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_closed)) => Err(lost()),
            Err(_elapsed) => {
                tracing::warn!("the remote machine did not answer in time");
                self.is_stalled.store(true, Ordering::SeqCst);
                self.close();
                Err(lost())
            }
        }
    }

    pub(super) fn close(&self) {
        self.shared.close();
        // It keeps the process alive that writes to this side.
        self.reading.abort();
    }
}

impl Drop for RemoteSession {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    /// Sends a step of a write without waiting for its result. Returns its number.
    fn send_step(&self, root: u32, step: WriteStep) -> Result<u64, BackendError> {
        let number = self.next_call.fetch_add(1, Ordering::Relaxed);
        let call = Call { root, operation: Operation::Write(step) };
        self.send(&ToFar::Call { number, call })?;
        Ok(number)
    }

    fn send(&self, message: &ToFar) -> Result<(), BackendError> {
        let frame = wire::frame(message)?;
        let bytes = frame.len();
        if self.unsent.fetch_add(bytes, Ordering::SeqCst) > UNSENT_BYTES_MAX {
            tracing::warn!("the remote machine reads too slowly; the connection is closed");
            self.close();
            return Err(lost());
        }
        let state = self.state.lock();
        let sent = state.frames.as_ref().is_some_and(|frames| frames.send(frame).is_ok());
        if sent { Ok(()) } else { Err(lost()) }
    }

    fn close(&self) {
        let (waiting, followed) = {
            let mut state = self.state.lock();
            // The task that writes ends, and the far side finds the end of its input.
            state.frames = None;
            (std::mem::take(&mut state.waiting), std::mem::take(&mut state.followed))
        };
        for known in followed.into_values() {
            known.lost();
        }
        for (_, waiting) in waiting {
            drop(waiting.reply.send(Err(lost())));
        }
    }

    fn receive(self: &Arc<Self>, message: FromFar) -> Result<(), wire::Malformed> {
        match message {
            FromFar::Hello { .. } => return Err(wire::Malformed),
            FromFar::Alive => {}
            FromFar::Changed { root, list, writes } => {
                let followed = self.state.lock().followed.get(&root).cloned();
                followed.ok_or(wire::Malformed)?.noticed(self.number, list, writes);
            }
            FromFar::Reply { number, result } => {
                let waiting = self.state.lock().waiting.remove(&number);
                // Most steps of a write have no waiting caller.
                let Some(waiting) = waiting else { return Ok(()) };
                let is_locked = matches!(result, Ok(Reply::Locked { .. }));
                let lock = waiting.locks_root.filter(|_| is_locked);
                let lock = lock.map(|root| HeldLock { shared: Arc::clone(self), root, number });
                // If the caller is gone, the lock is dropped and so released.
                drop(waiting.reply.send(result.map(|reply| (reply, lock)).map_err(Into::into)));
            }
            FromFar::Question { number, question, path, bytes } => {
                let path = parse_path(&path)?;
                if bytes.len() > SENT_FILE_BYTES_MAX {
                    return Err(wire::Malformed);
                }
                let in_history = {
                    let state = self.state.lock();
                    state.waiting.get(&number).and_then(|waiting| waiting.in_history.clone())
                };
                let yes = in_history.ok_or(wire::Malformed)?(&path, &bytes);
                drop(self.send(&ToFar::Answer { question, yes: yes.unwrap_or(false) }));
            }
        }
        Ok(())
    }
}

/// Reads up to the mark.
async fn skip_greeting(input: &mut (impl AsyncRead + Unpin)) -> Result<(), GreetingError> {
    // A line break before the mark may be missing.
    let mut line = vec![b'\n'];
    for _ in 0..GREETING_BYTES_MAX {
        match input.read_u8().await {
            Ok(byte) => line.push(byte),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(GreetingError::Ended);
            }
            Err(error) => return Err(error.into()),
        }
        if line.ends_with(MARK) {
            return Ok(());
        }
    }
    Err(GreetingError::Unknown)
}

async fn write_frames(
    mut output: Box<dyn AsyncWrite + Send + Unpin>,
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
    shared: Arc<Shared>,
) {
    loop {
        let frame = match tokio::time::timeout(ALIVE_EVERY, queue.recv()).await {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            Err(_elapsed) => wire::frame(&ToFar::Alive).expect("a short message fits a frame"),
        };
        let bytes = frame.len();
        let written = async {
            output.write_all(&frame).await?;
            output.flush().await
        };
        if let Err(error) = written.await {
            tracing::debug!(%error, "writing to the remote machine failed");
            break;
        }
        // The short messages in between were not counted.
        let rest = |unsent: usize| Some(unsent.saturating_sub(bytes));
        let updated = shared.unsent.fetch_update(Ordering::SeqCst, Ordering::SeqCst, rest);
        updated.expect("the update always has a value");
    }
    shared.close();
    // A failed shutdown of a broken stream changes nothing.
    drop(output.shutdown().await);
}

async fn read_messages(
    mut input: impl AsyncRead + Unpin,
    shared: Arc<Shared>,
    keep_alive: Box<dyn Any + Send>,
) {
    loop {
        let message = match wire::read_frame::<FromFar>(&mut input).await {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(error) => {
                tracing::warn!(%error, "reading from the remote machine failed");
                break;
            }
        };
        if shared.receive(message).is_err() {
            tracing::warn!("the remote machine broke the protocol; the connection is closed");
            break;
        }
    }
    shared.close();
    drop(keep_alive);
}
