//! The limits of the protocols: bodies, connections, pages, sessions and child processes.
//!
//! Each has its unit in its name and its reason in its doc.

use std::time::Duration;

use memory::limits::{CONTEXT_FILE_BYTES_MAX, HTTP_CONNECTIONS_MAX, MEMORY_BYTES_MAX};

/// The largest body of an HTTP request, in bytes: an archive of a hundred full memories.
pub(crate) const HTTP_BODY_BYTES_MAX: usize = 10 * 1024 * 1024;

/// Bytes of bodies of HTTP requests that are held at the same time, whoever sent them: four of the
/// largest, and thousands of the usual.
pub(crate) const HTTP_BODIES_BYTES_MAX: usize = 4 * HTTP_BODY_BYTES_MAX;

/// How long the body of an HTTP request may take to arrive.
pub(crate) const HTTP_BODY_WAIT: Duration = Duration::from_secs(30);

/// Bytes that are read and dropped after an answer, so that a client that is still sending its body reads
/// why it is refused: three of the largest bodies. One that is larger yet is cut off in the middle.
pub(crate) const HTTP_LINGER_BYTES_MAX: usize = 3 * HTTP_BODY_BYTES_MAX;

/// How long they may take together: as long as the body of a slow line.
pub(crate) const HTTP_LINGER_WAIT: Duration = Duration::from_secs(10);

/// How long nothing may come meanwhile.
pub(crate) const HTTP_LINGER_IDLE_WAIT: Duration = Duration::from_secs(1);

/// How long the head of an HTTP request may take to arrive, and how long a connection may lie idle.
pub(crate) const HTTP_HEADERS_WAIT: Duration = Duration::from_secs(30);

/// Bytes of the head of an HTTP request: a browser's with many cookies is a tenth of it.
pub(crate) const HTTP_HEADER_BYTES_MAX: usize = 64 * 1024;

/// How long a client may read nothing of an answer before its connection is cut.
pub(crate) const HTTP_READ_WAIT: Duration = Duration::from_secs(30);

/// How many of them are kept for the socket in the state folder, whatever comes in at the address: the
/// command line and the hooks of a busy machine.
pub(crate) const HTTP_SOCKET_CONNECTIONS_RESERVED: usize = 64;

/// Connections at the address that have not shown the token yet. Who has it shows it with the first
/// request; as many may arrive at once without one of them being cut off.
pub(crate) const HTTP_UNAUTHENTICATED_MAX: usize = 256;

/// Connections that wait to be taken. When there are more, the system leaves those that come unanswered
/// for a second, whoever they are from; so a flood needs to be faster than the daemon by this many.
pub(crate) const HTTP_CONNECTIONS_WAITING_MAX: u32 = 4_096;

/// How long to wait after a connection could not be taken: others have to end first.
pub(crate) const HTTP_ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// When to try again what may work soon, in seconds.
pub(crate) const HTTP_RETRY_AFTER_SECONDS: u64 = 1;

/// How long a stream of events may say nothing before it shows that it lives.
pub(crate) const EVENT_HEARTBEAT: Duration = Duration::from_secs(15);

/// Entries of a page unless the caller says otherwise.
pub(crate) const HTTP_PAGE_DEFAULT: usize = 100;

/// The most entries of a page: each memory on one is read.
pub(crate) const HTTP_PAGE_MAX: usize = 1_000;

/// Clients whose requests are counted one by one; more are counted together.
pub(crate) const RATED_CLIENTS_MAX: usize = 10_000;

/// How many times as often as one client all clients of one address together may ask: a few agents and
/// a page, and no more for a caller that takes a new name each time.
pub(crate) const RATED_CLIENTS_PER_ADDRESS_MAX: u32 = 8;

/// The longest line that an MCP client may send: many times the largest memory, escaped.
pub(crate) const MCP_LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Lines that wait for an MCP client to read before whoever has more to say waits too.
pub(crate) const MCP_LINES_WAITING_MAX: usize = 64;

/// Memories in one page of MCP resources: a page is some 50 KB.
pub(crate) const MCP_RESOURCES_PAGE: usize = 200;

/// How long the person of an MCP client has to answer a question; then the model is told to ask.
pub(crate) const MCP_ELICITATION_WAIT: Duration = Duration::from_mins(2);

/// How long an MCP client may take to say in which folders it works; then the start folder counts.
pub(crate) const MCP_ROOTS_WAIT: Duration = Duration::from_secs(2);

/// How often an MCP server over pipes looks whether the process that started it is alive. A look is one call of the
/// system, and an orphan of some seconds does no harm.
pub(crate) const MCP_PARENT_INTERVAL: Duration = Duration::from_secs(2);

/// How long the end of an MCP server waits for its client to read the last answers.
pub(crate) const MCP_FLUSH_WAIT: Duration = Duration::from_secs(2);

/// Steps that are done at once over HTTP, as one change.
pub(crate) const HTTP_BATCH_MAX: usize = 1_000;

/// How long a ticket for the page is good.
pub(crate) const UI_TICKET_AGE_MAX: Duration = Duration::from_mins(1);

/// How long after its last request a browser is still logged in.
pub(crate) const UI_SESSION_IDLE_MAX: Duration = Duration::from_hours(12);

/// Browsers that are logged in at a time, and tickets that are given out; the oldest makes room.
pub(crate) const UI_LOGINS_MAX: usize = 64;

/// How long after its last request a client without a session is still in the same one, for what it has read that nobody
/// here reviewed.
pub(crate) const READER_IDLE_MAX: Duration = Duration::from_hours(1);

/// Clients and sessions of which a daemon knows what they have read that nobody here reviewed.
pub(crate) const OUTSIDE_READERS_MAX: usize = 4096;

/// The longest name that a client, a session or a tool call has in history, in characters.
pub(crate) const PROVENANCE_CHARS_MAX: usize = 200;

/// How long a child process may take from its start until it answers for the first time. It starts in milliseconds; a
/// machine that is this busy would not do its task either. Shorter than a workspace may take to say whether tasks can be
/// done, so that a child that hangs is what is told.
#[cfg(feature = "child")]
pub(crate) const CHILD_START_WAIT: Duration =
    Duration::from_secs(memory::limits::TASK_PROBE_WAIT.as_secs() - 2);

/// How long after its last task a child process is stopped: what the next one of a stretch would wait for is worth
/// keeping, and what nobody uses is not.
#[cfg(feature = "child")]
pub(crate) const CHILD_IDLE_WAIT: Duration = Duration::from_mins(1);

/// How long a child process may take to end by itself once nobody talks to it any more.
#[cfg(feature = "child")]
pub(crate) const CHILD_END_WAIT: Duration = Duration::from_secs(2);

/// How long nobody tries to start a child process again after that failed; then twice as long.
#[cfg(feature = "child")]
pub(crate) const CHILD_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The longest time between two such tries.
#[cfg(feature = "child")]
pub(crate) const CHILD_RETRY_DELAY_MAX: Duration = Duration::from_mins(1);

/// The longest line that is read from a child process, and that a child process reads: as with MCP.
#[cfg(feature = "child")]
pub(crate) const CHILD_LINE_BYTES_MAX: usize = MCP_LINE_BYTES_MAX;

/// How much of what a child process says of its troubles is kept: its last words.
#[cfg(feature = "child")]
pub(crate) const CHILD_STDERR_BYTES_MAX: usize = 4 * 1024;

const _: () = assert!(CONTEXT_FILE_BYTES_MAX < HTTP_BODY_BYTES_MAX);
const _: () = assert!(HTTP_LINGER_IDLE_WAIT.as_secs() < HTTP_LINGER_WAIT.as_secs());
const _: () =
    assert!(HTTP_SOCKET_CONNECTIONS_RESERVED + HTTP_UNAUTHENTICATED_MAX < HTTP_CONNECTIONS_MAX / 2);
const _: () = assert!(6 * MEMORY_BYTES_MAX < HTTP_BODY_BYTES_MAX);
const _: () = assert!(2 * 6 * MEMORY_BYTES_MAX < MCP_LINE_BYTES_MAX);
