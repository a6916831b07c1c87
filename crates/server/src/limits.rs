//! Limits of the protocols: bodies, connections, pages, sessions and child processes.
//!
//! A constant has its unit in its name or type, and its reason in its doc. Limits that other crates share are in
//! `memory::limits`; the assertions at the end keep both consistent.

use std::time::Duration;

use memory::limits::{CONTEXT_FILE_BYTES_MAX, HTTP_CONNECTIONS_MAX, MEMORY_BYTES_MAX};

/// The largest body of an HTTP request, in bytes: an archive of a hundred full memories.
pub(crate) const HTTP_BODY_BYTES_MAX: usize = 10 * 1024 * 1024;

/// The most bytes of request bodies in memory at the same time, over all clients. Enough for four of the largest
/// bodies, or thousands of usual ones.
pub(crate) const HTTP_BODIES_BYTES_MAX: usize = 4 * HTTP_BODY_BYTES_MAX;

/// The most bytes of request bodies of one owner of a database: half of all, which is two of the largest bodies.
pub(crate) const OWNER_BODIES_BYTES_MAX: usize = HTTP_BODIES_BYTES_MAX / 2;

/// The number of owners of a database that can have their full share of the connections at the address. A share is above
/// what the agents of an organization need, and no owner takes much from the others.
pub(crate) const OWNERS_WITH_FULL_SHARE: usize = 4;

/// The time limit for the body of an HTTP request to arrive.
pub(crate) const HTTP_BODY_WAIT: Duration = Duration::from_secs(30);

/// The most bytes that are read and dropped after an answer, so that a client that is still sending its body can
/// read why it is refused. Enough for three of the largest bodies; a client that sends more is disconnected.
pub(crate) const HTTP_LINGER_BYTES_MAX: usize = 3 * HTTP_BODY_BYTES_MAX;

/// The time limit for reading and dropping those bytes.
pub(crate) const HTTP_LINGER_WAIT: Duration = Duration::from_secs(10);

/// The longest pause between two of those bytes.
pub(crate) const HTTP_LINGER_IDLE_WAIT: Duration = Duration::from_secs(1);

/// The time limit for the head of an HTTP request to arrive, and so for an idle connection.
pub(crate) const HTTP_HEADERS_WAIT: Duration = Duration::from_secs(30);

/// The most bytes of the head of an HTTP request. The head of a browser with many cookies has a tenth of that.
pub(crate) const HTTP_HEADER_BYTES_MAX: usize = 64 * 1024;

/// The longest time that a client may not read its answer before its connection is closed.
pub(crate) const HTTP_READ_WAIT: Duration = Duration::from_secs(30);

/// The number of connections reserved for the socket in the state folder, so that a flood at the address does not
/// lock out the command line and the hooks.
pub(crate) const HTTP_SOCKET_CONNECTIONS_RESERVED: usize = 64;

/// The most unauthenticated connections at the address. A client with the token authenticates with its first
/// request, so this many such clients can connect at once without one being evicted.
pub(crate) const HTTP_UNAUTHENTICATED_MAX: usize = 256;

/// The listen backlog. When it is full, the kernel drops the connection attempts of all clients, which retry after
/// a second. To cause that, a flood must outpace the daemon by this many connections.
pub(crate) const HTTP_CONNECTIONS_WAITING_MAX: u32 = 4_096;

/// The delay after a failed `accept`, for example without a free file descriptor: other connections must end first.
pub(crate) const HTTP_ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The `Retry-After` of errors that are over soon, in seconds.
pub(crate) const HTTP_RETRY_AFTER_SECONDS: u64 = 1;

/// The interval of heartbeats on an event stream without events.
pub(crate) const EVENT_HEARTBEAT: Duration = Duration::from_secs(15);

/// The default number of entries of a page.
pub(crate) const HTTP_PAGE_DEFAULT: usize = 100;

/// The most entries of a page. Bounded because each memory of a page is read.
pub(crate) const HTTP_PAGE_MAX: usize = 1_000;

/// The most clients with a rate limit of their own; further clients share one.
pub(crate) const RATED_CLIENTS_MAX: usize = 10_000;

/// The rate limit of an address, as a multiple of a client's. Enough for a few agents and a page; it bounds a caller
/// that sends a new client name each time.
pub(crate) const RATED_CLIENTS_PER_ADDRESS_MAX: u32 = 8;

/// The longest line that an MCP client may send, in bytes: many times the largest memory, escaped.
pub(crate) const MCP_LINE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The most lines queued for an MCP client that does not read. Further writers wait.
pub(crate) const MCP_LINES_WAITING_MAX: usize = 64;

/// The number of memories in a page of MCP resources. Such a page has about 50 KB.
pub(crate) const MCP_RESOURCES_PAGE: usize = 200;

/// The time limit for a user to answer an elicitation. After that, the tool result asks the model to ask the user.
pub(crate) const MCP_ELICITATION_WAIT: Duration = Duration::from_mins(2);

/// The time limit for an MCP client to name its roots. After that, the folder in which the server was started is used.
pub(crate) const MCP_ROOTS_WAIT: Duration = Duration::from_secs(2);

/// The interval at which an MCP server over pipes checks that its parent process is alive. A check is one system
/// call, and an orphan of a few seconds does no harm.
pub(crate) const MCP_PARENT_INTERVAL: Duration = Duration::from_secs(2);

/// The time limit at shutdown of an MCP server for its client to read the last answers.
pub(crate) const MCP_FLUSH_WAIT: Duration = Duration::from_secs(2);

/// The most workspaces that are open at a time for one owner of a daemon with a database. Each has an event feed and a queue.
/// Beyond it, the one that was idle longest is closed.
pub(crate) const WORKSPACES_OPEN_MAX: usize = 512;

/// The most queues that a daemon opens in one look, because no daemon runs their tasks.
pub(crate) const LANES_ADOPTED_MAX: usize = 32;

/// The most owners that are open at a time in a daemon with a database. Each has an engine with its caches. Beyond it, the one that
/// was idle longest is closed.
pub(crate) const OWNERS_OPEN_MAX: usize = 1_000;

/// The time without a request after which an idle owner is closed.
pub(crate) const OWNER_IDLE_MAX: Duration = Duration::from_mins(10);

/// The time between two looks for idle owners and for tasks that no daemon runs.
pub(crate) const OWNERS_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The time for which a token of an owner is accepted without a look at the database, and so also after its revocation.
pub(crate) const OWNER_TOKEN_AGE_MAX: Duration = Duration::from_secs(5);

/// The interval at which the token of an answer is checked while the answer is sent. With the age of the cache, an answer
/// ends within ten seconds after the revocation.
pub(crate) const STREAM_TOKEN_INTERVAL: Duration = Duration::from_secs(4);

/// The most tokens of owners that are cached.
pub(crate) const OWNER_TOKENS_CACHED_MAX: usize = 10_000;

/// The longest wait for a lookup to begin.
pub(crate) const TOKEN_LOOKUP_WAIT: Duration = Duration::from_secs(2);

/// The most tokens that are looked up in the database at the same time.
pub(crate) const TOKEN_LOOKUPS_MAX: usize = 8;

/// The most steps of a batch or changes of an undo over HTTP.
pub(crate) const HTTP_BATCH_MAX: usize = 1_000;

/// The lifetime of a login ticket for the page.
pub(crate) const UI_TICKET_AGE_MAX: Duration = Duration::from_mins(1);

/// The idle time after which the login of a browser expires.
pub(crate) const UI_SESSION_IDLE_MAX: Duration = Duration::from_hours(12);

/// The most browsers that are logged in, and the most tickets. Beyond it, the oldest is evicted.
pub(crate) const UI_LOGINS_MAX: usize = 64;

/// The idle time after which a client without a session loses its mark of having read unreviewed text.
pub(crate) const READER_IDLE_MAX: Duration = Duration::from_hours(1);

/// The most clients and sessions for which a daemon tracks whether they have read unreviewed text.
pub(crate) const OUTSIDE_READERS_MAX: usize = 4096;

/// The longest name of a client, session or tool call in history, in characters.
pub(crate) const PROVENANCE_CHARS_MAX: usize = 200;

/// The time limit for a child process from its start to its first answer. It usually starts in milliseconds. Shorter
/// than the time limit of a task probe, so that a hanging child is reported as such.
#[cfg(feature = "child")]
pub(crate) const CHILD_START_WAIT: Duration =
    Duration::from_secs(memory::limits::TASK_PROBE_WAIT.as_secs() - 2);

/// The idle time after which a child process is stopped. Tasks that follow each other reuse the same child.
#[cfg(feature = "child")]
pub(crate) const CHILD_IDLE_WAIT: Duration = Duration::from_mins(1);

/// The time limit for a child process to exit by itself after its input is closed.
#[cfg(feature = "child")]
pub(crate) const CHILD_END_WAIT: Duration = Duration::from_secs(2);

/// The first backoff after a failed start of a child process; it doubles with each failure.
#[cfg(feature = "child")]
pub(crate) const CHILD_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The upper bound of that backoff.
#[cfg(feature = "child")]
pub(crate) const CHILD_RETRY_DELAY_MAX: Duration = Duration::from_mins(1);

/// The longest line, in bytes, that is read from a child process and that a child process reads, as with MCP.
#[cfg(feature = "child")]
pub(crate) const CHILD_LINE_BYTES_MAX: usize = MCP_LINE_BYTES_MAX;

/// The most bytes kept of the standard error of a child process: the last ones.
#[cfg(feature = "child")]
pub(crate) const CHILD_STDERR_BYTES_MAX: usize = 4 * 1024;

const _: () = assert!(CONTEXT_FILE_BYTES_MAX < HTTP_BODY_BYTES_MAX);
const _: () = assert!(HTTP_BODY_BYTES_MAX <= OWNER_BODIES_BYTES_MAX);
const _: () = assert!(OWNER_TOKEN_AGE_MAX.as_secs() + STREAM_TOKEN_INTERVAL.as_secs() < 10);
const _: () = assert!(HTTP_LINGER_IDLE_WAIT.as_secs() < HTTP_LINGER_WAIT.as_secs());
const _: () =
    assert!(HTTP_SOCKET_CONNECTIONS_RESERVED + HTTP_UNAUTHENTICATED_MAX < HTTP_CONNECTIONS_MAX / 2);
const _: () = assert!(6 * MEMORY_BYTES_MAX < HTTP_BODY_BYTES_MAX);
const _: () = assert!(2 * 6 * MEMORY_BYTES_MAX < MCP_LINE_BYTES_MAX);
