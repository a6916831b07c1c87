//! The limits of the product, each with its unit in its name and its reason beside it.
//!
//! Settings take their defaults and bounds from here. Relations between limits are `const` assertions, so a change
//! that breaks one does not compile.

use std::time::Duration;

/// The largest memory, in bytes of UTF-8: large enough for any list of facts, small enough for a model to read it
/// whole.
pub const MEMORY_BYTES_MAX: usize = 102_400;

/// The default limit of memories in a scope: with more, an index of them is no longer useful.
pub const SCOPE_FILES_DEFAULT: usize = 1_000;

/// The largest limit of memories in a scope that a person may set; every command stays fast up to here.
pub const SCOPE_FILES_MAX: usize = 100_000;

/// The most paths in a listing; the others are counted, not shown.
pub const LISTED_PATHS_MAX: usize = 1_000;

/// The directory entries that a walk visits before it stops with an error: a hostile checkout cannot keep a listing
/// busy.
pub const WALKED_ENTRIES_MAX: usize = 2 * SCOPE_FILES_MAX;

/// The levels that `view` of a folder descends.
pub const VIEW_DEPTH: usize = 2;

/// The last line of a file that `view` can number.
pub const VIEW_LINES_MAX: usize = 999_999;

/// The lines shown on either side of a replacement: enough to check that it is the intended one.
pub const SNIPPET_CONTEXT_LINES: usize = 2;

/// The longest memory path, in bytes.
pub const PATH_BYTES_MAX: usize = 1_024;

/// The most segments of a memory path, the scope included.
pub const PATH_SEGMENTS_MAX: usize = 16;

/// The longest segment of a path, in bytes: what common file systems hold in one name.
pub const SEGMENT_BYTES_MAX: usize = 255;

/// The part of a refused path that the error repeats, in characters: enough to find the mistake.
pub const PATH_SHOWN_CHARS_MAX: usize = 256;

/// The part of a text that was not found that the error repeats, in characters; the caller has the whole text.
pub const OLD_STR_SHOWN_CHARS_MAX: usize = 1_000;

/// The most line numbers that an error lists; a text that occurs more often needs no longer list.
pub const OCCURRENCES_SHOWN_MAX: usize = 100;

/// The shortest conflict marker that counts as one, in characters: that of git.
pub const MARKER_LENGTH_MIN: usize = 7;

/// The longest conflict marker that a merge writes, in characters. Its length comes from a file of attributes.
pub const MARKER_LENGTH_MAX: usize = 1_000;

/// The part of a file that is read to find its frontmatter.
pub const HEAD_BYTES_MAX: usize = 4_096;

/// The longest description shown, in characters; a cut is marked with `…`.
pub const DESCRIPTION_CHARS_MAX: usize = 200;

/// The deepest nesting of values in a frontmatter; Lukasa's own fields nest once.
pub const FRONTMATTER_DEPTH_MAX: usize = 16;

/// The most values in a frontmatter, including those that aliases repeat: more than any real file has, and few enough
/// to parse quickly.
pub const FRONTMATTER_NODES_MAX: usize = 4_096;

/// The most lines of a generated `MEMORY.md`.
pub const MEMORY_LIST_LINES_MAX: usize = 200;

/// The most characters of a generated `MEMORY.md`.
pub const MEMORY_LIST_CHARS_MAX: usize = 25_000;

/// The largest file whose bytes history keeps when it is deleted. Ten times the largest memory, because external edits
/// may make a file larger than that.
pub const HISTORY_FILE_BYTES_MAX: usize = 10 * MEMORY_BYTES_MAX;

/// The largest context file, in bytes: ten times a memory, because people write whole handbooks there.
pub const CONTEXT_FILE_BYTES_MAX: usize = 1024 * 1024;

/// The most context files that are searched for one folder; more names and folders than this are a mistake.
pub const CONTEXT_FILES_MAX: usize = 200;

/// The most bytes of context files that are loaded for one folder, including imports; and their largest size once the
/// imports are expanded.
pub const CONTEXT_BYTES_MAX: usize = 4 * CONTEXT_FILE_BYTES_MAX;

/// The deepest nesting of imports: files that import files that import files.
pub const IMPORT_DEPTH_MAX: usize = 5;

/// The most imports in one context file; an index of a handbook has fewer.
pub const IMPORTS_A_FILE_MAX: usize = 200;

/// The most tokens of all context files of a segment: a quarter of the smallest context window in common use. If they
/// have more, each file is cut to a share, see `context::files`.
pub const CONTEXT_TOKENS_MAX: usize = 32_000;

/// The most tokens of all facts that a session begins with, unless a person sets another number. A store with more of
/// them is large, and only a part of it is shown.
pub const START_TOKENS_DEFAULT: usize = 2_500;

/// The largest number that a person may set.
pub const START_TOKENS_MAX: usize = HOT_TOKENS_MAX;

/// The bytes of files for each of these tokens up to which the files are read. A token has four bytes or fewer; the rest
/// is frontmatter.
pub const START_BYTES_PER_TOKEN: usize = 16;

/// The most tokens of rules, facts about the person, and what was used lately, of a large store, with their frame.
pub const CHOSEN_TOKENS_MAX: usize = 1_500;

/// The most tokens of the index of a large store, including its frame, as `context::tokens` counts them. Every session
/// pays for them, whether or not it needs a memory.
pub const INDEX_TOKENS_MAX: usize = 500;

/// The most words of a description in the index.
pub const INDEX_DESCRIPTION_WORDS_MAX: usize = 10;

/// The most memories that are read for the index, for the facts of a large store, or for the changes since; those that
/// must not be shown count, too.
pub const START_FILES_READ_MAX: usize = 256;

/// The memories that are read at once for them.
pub const START_FILES_READ_BATCH: usize = 32;

/// The smallest part, in bytes, that a pinned memory is cut to; with less room it is left out.
pub const HOT_CUT_BYTES_MIN: usize = 512;

/// The most bytes of one pinned memory: enough to show it whole, or nearly.
pub const HOT_ITEM_BYTES_MAX: usize = 16_384;

/// The most bytes of the facts of a large store that a session begins with, as they are shown.
pub const HOT_BYTES_MAX: usize = 49_152;

/// The most tokens of the pinned memories, as they are shown.
pub const HOT_TOKENS_MAX: usize = 12_000;

/// The most memories that the answer to an explicit question shows.
pub const RECALLED_ITEMS_MAX: usize = 5;

/// The most memories that are shown unasked, beside a prompt. Measured, a fourth and a fifth would raise the share of
/// helpful memories found by 0.03, and bring a quarter of all wrong ones.
pub const RECALLED_UNREQUESTED_MAX: usize = 3;

/// The most characters of one memory that a recall shows.
pub const RECALLED_ITEM_CHARS_MAX: usize = 1_200;

/// The default limit for the tokens of one recall: they are added to every prompt with a match.
pub const RECALLED_TOKENS_DEFAULT: usize = 700;

/// The age from which a memory may be out of date.
pub const STALE_AGE: Duration = Duration::from_hours(30 * 24);

/// The most changes that one delta names; the others are counted.
pub const DELTA_LINES_MAX: usize = 20;

/// The most bytes of those lines: hosts cut their context, and this leaves room for recalled memories.
pub const DELTA_BYTES_MAX: usize = 4 * 1024;

/// The most bytes of earlier contents that one change keeps: deleting a folder of a hostile checkout must not exhaust
/// the RAM.
pub const HISTORY_CHANGE_BYTES_MAX: usize = 128 * 1024 * 1024;

/// The time that a draft with a possible secret is kept: long enough to return to it after a week of holidays.
pub const SECRET_DRAFT_KEPT: Duration = Duration::from_hours(7 * 24);

/// The default age up to which history is kept.
pub const HISTORY_AGE_DEFAULT: Duration = Duration::from_hours(90 * 24);

/// The default limit for bytes of earlier contents in history.
pub const HISTORY_BYTES_DEFAULT: u64 = 256 * 1024 * 1024;

/// The interval at which a writing process checks whether history exceeds its limits.
pub const PRUNE_INTERVAL: Duration = Duration::from_hours(1);

/// The most open changes: the redo records that recovery after a power cut has to check. Bounds recovery to some tenths
/// of a second.
pub const OPEN_CHANGES_MAX: usize = 4_096;

/// The number of open changes that triggers a checkpoint while writes continue. A checkpoint competes with the writes
/// for the disk, so it handles many changes at once.
pub const OPEN_CHANGES_SETTLE: usize = 512;

/// The longest time that a change stays open in an idle process before a checkpoint.
pub const SETTLE_DELAY: Duration = Duration::from_secs(2);

/// The longest time that a use is buffered before it is stored. A crash loses at most the uses of this time.
pub const USAGE_FLUSH_DELAY: Duration = Duration::from_millis(500);

/// The most buffered uses; with more they are stored at once.
pub const USAGE_PENDING_MAX: usize = 1_024;

/// The longest time that a command waits for the lock of a root.
pub const LOCK_WAIT: Duration = Duration::from_secs(10);

/// The most retries of a write that races with external edits of the same file.
pub const OUTSIDE_RACE_RETRIES: usize = 8;

/// The most copies of one memory that recovery restores beside it, for external edits during interrupted writes. More
/// copies would not be reviewed.
pub const OUTSIDE_COPIES_MAX: usize = 100;

/// The age after which the cached names of a root are read again, to find a name that differs only in case. Writes of
/// Lukasa update the names at once; this bounds the delay only for names that an editor or git adds.
pub const NAME_INDEX_AGE_MIN: Duration = Duration::from_secs(1);

/// The changes that a subscriber may lag behind before it must list again.
pub const CHANGES_BUFFERED: usize = 1024;

/// The most further changes that wait to be published to the streams of a daemon. Many are made while one waits for the
/// state, and a burst of another process arrives at once.
pub const CHANGES_WAITING_MAX: usize = 4096;

/// The time that the watcher waits for a burst of external edits to end before it reports them.
pub const WATCH_SETTLE: Duration = Duration::from_millis(50);

/// The interval of a watcher's scans without a notification: notifications get lost on network mounts and overlays, and
/// a root may be created.
pub const WATCH_RESCAN: Duration = Duration::from_secs(5);

/// Time after which a list of files that is kept current by notices is replaced by a walk. A change through a second
/// hard link, or a shared memory map that stays open, causes no notice.
pub const OBSERVED_AGE_MAX: Duration = Duration::from_mins(1);

/// The most bytes of memories that recall and tasks read from an untrusted repository. They are never shown unasked, so
/// reading more would only let a clone of gigabytes delay everything else.
pub const UNREVIEWED_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The most bytes of first-seen contents that one scan records. Later versions are always recorded; this bounds the
/// growth of the state from a mere scan of a large checkout.
pub const FIRST_SIGHT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The offset up to which a file that is too large for a memory can be viewed in part, in bytes.
pub const VIEW_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The free bytes below which `doctor` and the deep health check of a daemon report a full disk: the record of a small
/// change needs them.
pub const DISK_BYTES_LEFT_MIN: u64 = 64 * 1024;

/// The time without use after which the heat of a memory has halved.
pub const HEAT_HALF_LIFE: Duration = Duration::from_hours(7 * 24);

/// The time without a change or a use after which a health check reports a memory: half a year.
pub const STALE_AFTER: Duration = Duration::from_hours(182 * 24);

const _: () = assert!(SCOPE_FILES_DEFAULT <= SCOPE_FILES_MAX);
const _: () = assert!(OPEN_CHANGES_SETTLE < OPEN_CHANGES_MAX);
const _: () = assert!(HEAD_BYTES_MAX < MEMORY_BYTES_MAX);
const _: () = assert!(MEMORY_BYTES_MAX < HISTORY_FILE_BYTES_MAX);
const _: () = assert!(MEMORY_BYTES_MAX < CONTEXT_FILE_BYTES_MAX);
const _: () = assert!(HOT_ITEM_BYTES_MAX < HOT_BYTES_MAX);
const _: () = assert!(START_TOKENS_DEFAULT <= START_TOKENS_MAX);
const _: () = assert!(CHOSEN_TOKENS_MAX + INDEX_TOKENS_MAX <= START_TOKENS_DEFAULT);
const _: () = assert!(RECALLED_UNREQUESTED_MAX <= RECALLED_ITEMS_MAX);

/// The most simultaneous connections: four times as many event streams as a busy machine has.
pub const HTTP_CONNECTIONS_MAX: usize = 4_096;

/// The open files that are reserved for everything but connections.
pub const FILES_KEPT_FREE: usize = 256;

/// The time that connections have to end when a daemon stops, after the tasks.
pub const HTTP_SHUTDOWN_WAIT: Duration = Duration::from_secs(2);

/// The most files that an import reads. An archive or folder with more is not one of memories.
pub const IMPORT_FILES_MAX: usize = 20_000;

/// The time that a stopping MCP server waits for tool calls in flight: the longest wait for a lock, and a little for
/// the write.
pub const MCP_SHUTDOWN_WAIT: Duration = Duration::from_secs(LOCK_WAIT.as_secs() + 2);

/// The most sessions over HTTP of MCP clients with older protocol revisions, per workspace. Many clients do not end
/// their sessions, so beyond this limit the least recently used session without a listener is closed.
pub const MCP_SESSIONS_MAX: usize = 256;

/// The longest id of a client, in characters.
pub const CLIENT_ID_CHARS_MAX: usize = 128;

/// The most tasks of a workspace that wait or run. A person's agents need only a few; a client that finds the lane full
/// should wait itself.
pub const TASKS_UNFINISHED_MAX: usize = 16;

/// The most forget and dream tasks among those: the rest is reserved for remember tasks, whose facts would be lost.
pub const TASKS_MINOR_MAX: usize = 8;

/// The most tasks of a workspace that are kept, including finished ones.
pub const TASKS_KEPT_MAX: usize = 1_000;

/// The default time that a finished task can be queried.
pub const TASKS_KEPT_FOR_DEFAULT: Duration = Duration::from_hours(1);

/// The most tasks in one list.
pub const TASKS_LISTED_MAX: usize = 1_000;

/// The most attempts at a task: one more after its process died.
pub const TASK_ATTEMPTS_MAX: u32 = 2;

/// The most restarts of a task because the state failed, while its process lives.
pub const TASK_BROKEN_MAX: usize = 8;

/// The most decisions of a task, each on a new draft, because a memory changed meanwhile.
///
/// With fifty lanes that all change the same memory, four were too few for one task in a thousand, and sixteen for one
/// in ten thousand. The deadline of the task applies in any case.
pub const TASK_DECISIONS_MAX: u32 = 64;

/// The delay before the second decision of a task; it doubles each time.
pub const TASK_YIELD_DELAY: Duration = Duration::from_millis(2);

/// The longest delay between two decisions.
pub const TASK_YIELD_DELAY_MAX: Duration = Duration::from_millis(200);

/// The most waiting proposals for the same roots. A person would not read more, and a dream proposes the rest later.
pub const PROPOSALS_WAITING_MAX: usize = 1000;

/// The most rejected proposals that are kept so that they are not made again; the oldest are dropped first.
pub const PROPOSALS_REJECTED_MAX: usize = 10_000;

/// The longest time that a proposal waits, independent of history. By then its entries have changed, or a dream
/// proposes it again.
pub const PROPOSAL_WAITING_KEPT: Duration = Duration::from_hours(90 * 24);

/// The most proposals that the command line reads at once: it computes the texts of all of them.
pub const PROPOSALS_LISTED_MAX: usize = 100;

/// The most attempts to accept a proposal whose memory changes meanwhile.
pub const PROPOSAL_ATTEMPTS_MAX: usize = 8;

/// The most conversations whose shown memories are kept; the least recently used are dropped first.
pub const CONVERSATIONS_KEPT_MAX: usize = 1000;

/// The most conversations whose segment context is kept; those written longest ago are dropped first. Each may have a
/// quarter of a megabyte.
pub const SEGMENTS_KEPT_MAX: usize = 64;

/// The most conversations that a process caches; the state holds all of them.
pub const CONVERSATIONS_OPEN_MAX: usize = 256;

/// The longest id of a conversation, in characters.
pub const CONVERSATION_ID_CHARS_MAX: usize = 128;

/// The event ids that are kept for each conversation, so that a repeated event has no effect.
pub const CONVERSATION_EVENTS_KEPT: usize = 64;

/// The default limit for tokens of models in 24 hours of unrequested work: some hundred reviews.
pub const BACKGROUND_TOKENS_PER_DAY: u64 = 1_000_000;

/// The default timeout of a background review.
pub const REVIEW_WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// The longest timeout that can be set for a background review: that of any other agent.
pub const REVIEW_WAIT_MAX: Duration = AGENT_WAIT;

/// The most reviews of a workspace that wait or run: as many conversations may be due at once. The next review of a
/// conversation makes up for a skipped one.
pub const REVIEWS_UNFINISHED_MAX: usize = 50;

/// The most bytes of a conversation that are kept until its review has ended; the oldest are dropped first.
pub const TURN_TEXTS_BYTES_MAX: usize = 64 * 1024;

/// The most bytes of one message of a person that are kept; the rest is most often pasted text.
pub const USER_MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// The most bytes of one message of a model that are kept: enough to understand the person's reply.
pub const REPLY_BYTES_MAX: usize = 2 * 1024;

/// The timeout of an agent with a model for a remember task or a dream. Its draft is not visible before the end.
pub const AGENT_WAIT: Duration = Duration::from_secs(TASK_RUNNER_WAIT.as_secs() - 5);

/// The most decisions of a task by a model, because memories changed meanwhile.
pub const MODEL_DECISIONS_MAX: u32 = 2;

/// The timeout of a model that selects the entries to forget.
pub const FORGET_BY_MODEL_WAIT: Duration = Duration::from_secs(30);

/// The timeout of a model that selects recalled memories, in parallel with the turn. A large hosted model takes one or
/// two seconds, as does an agent's first tool. A selection after the last tool of a turn is not shown any more.
pub const RERANK_WAIT: Duration = Duration::from_secs(4);

/// The candidates of such a model: more than are shown, so that paraphrases are among them, and few enough that a
/// request has some thousand tokens.
pub const RERANK_CANDIDATES_MAX: usize = 20;

/// The most characters of a candidate's title, and of its text, in such a request: usually one entry.
pub const RERANK_CHARS_MAX: usize = 400;

/// The most characters of the prompt, from its beginning, in such a request.
pub const RERANK_PROMPT_CHARS_MAX: usize = 2_000;

/// The window in which tokens of unrequested work are counted.
pub const BACKGROUND_WINDOW: Duration = Duration::from_hours(24);

/// The most records of model runs that are kept.
pub const MODEL_WORK_KEPT_MAX: usize = 10_000;

/// The timeout of a check that a model is available: on a small machine it may have to be loaded first.
pub const MODEL_CHECK_WAIT: Duration = Duration::from_mins(1);

/// The default timeout for the embedding of a prompt: a server on this machine takes some hundredths of that.
pub const EMBED_WAIT_DEFAULT: Duration = Duration::from_secs(2);

/// The longest timeout that can be set for the embedding of a prompt.
pub const EMBED_WAIT_MAX: Duration = Duration::from_mins(1);

/// The timeout for the embeddings of entries: no user waits for them, and a CPU without GPU is slow.
pub const EMBED_BATCH_WAIT: Duration = Duration::from_mins(1);

/// The default batch size of embedding requests, in texts.
pub const EMBED_BATCH_DEFAULT: usize = 32;

/// The largest batch size that can be set.
pub const EMBED_BATCH_MAX: usize = 256;

/// The first batch size; each response doubles it, up to the limit.
pub const EMBED_BATCH_FIRST: usize = 4;

/// The most characters of an entry or a prompt that are embedded: the input limit of the smallest models.
pub const EMBED_CHARS_MAX: usize = 2_000;

/// The texts in a row that an endpoint may refuse before it counts as failing.
pub const EMBED_REFUSALS_MAX: usize = 3;

/// The first backoff after a failure of an endpoint; it doubles with each further failure.
pub const EMBED_RETRY_DELAY: Duration = Duration::from_secs(5);

/// The longest backoff after failures of an endpoint.
pub const EMBED_RETRY_DELAY_MAX: Duration = Duration::from_mins(5);

/// The embeddings of prompts that a process caches: a repeated prompt is not sent again.
pub const PROMPT_VECTORS_KEPT: usize = 16;

/// The largest file of embeddings in the state folder, in bytes: tens of thousands of entries. Entries that do not fit
/// are not embedded, because they would have to be requested again and again.
pub const VECTORS_FILE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The most files of embeddings in the state folder, one for each root and endpoint.
pub const VECTORS_FILES_MAX: usize = 64;

/// The time that unused embeddings are kept.
pub const VECTORS_KEPT_FOR: Duration = Duration::from_hours(24 * 30);

const _: () = assert!(RECALLED_ITEMS_MAX < RERANK_CANDIDATES_MAX);
const _: () = assert!(EMBED_BATCH_FIRST <= EMBED_BATCH_DEFAULT);
const _: () = assert!(EMBED_BATCH_DEFAULT <= EMBED_BATCH_MAX);

/// The most attempts to store the shown memories of a conversation while another process writes.
pub const CONVERSATION_WRITES_MAX: u32 = 8;

/// The shown entries that are kept for each conversation; beyond that, the earliest may be shown again. A store of the
/// default size has fewer, because an entry costs a token at least.
pub const CONVERSATION_SHOWN_MAX: usize = 4_096;

/// The timeout of the check whether a workspace accepts tasks.
pub const TASK_PROBE_WAIT: Duration = Duration::from_secs(10);

/// The timeout after which a lane aborts a task, whatever its runner does.
pub const TASK_WAIT: Duration = Duration::from_mins(5);

/// The timeout of a runner for a task: shorter than that of the lane, so that the runner's own error is reported.
pub const TASK_RUNNER_WAIT: Duration = Duration::from_secs(TASK_WAIT.as_secs() - 5);

/// The time that a runner has to end after it is stopped.
pub const TASK_STOP_WAIT: Duration = Duration::from_secs(2);

/// The memory limit of a child process, in bytes. It bounds a model's reply, which is read whole whatever its length.
/// Many times the size of all memories.
pub const CHILD_MEMORY_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// The time that running tasks may continue when their process stops; then they wait for another process.
pub const DRAIN_WAIT: Duration = Duration::from_secs(10);

/// The first delay before a lane retries after an error of its lock or the state; it doubles each time.
pub const LANE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The longest delay between two such retries.
pub const LANE_RETRY_DELAY_MAX: Duration = Duration::from_mins(1);

/// The interval at which a daemon looks for tasks of dead processes, and for tasks that ended long ago. Long enough to
/// cost nothing, short enough that an abandoned task is soon resumed.
pub const LANE_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// The delay after the last task of all lanes before a process drops the caches of tasks: a series of tasks is over by
/// then.
pub const LANE_TRIM_DELAY: Duration = Duration::from_secs(5);

/// The default interval of scheduled dreams: a day.
pub const DREAM_EVERY_DEFAULT: Duration = Duration::from_hours(24);

/// The default number of sessions between two scheduled dreams: before that there is little to tidy.
pub const DREAM_AFTER_SESSIONS_DEFAULT: u32 = 5;

/// The latest changes in which the schedule counts sessions.
pub const DREAM_CHANGES_MAX: usize = 200;

/// The first poll interval for a task of another process. There is no notification between processes, and an agent does
/// not notice this delay.
pub const TASK_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The longest interval between such polls: the process may be dead, and its task wait for long.
pub const TASK_POLL_INTERVAL_MAX: Duration = Duration::from_secs(2);

/// The longest details of a task's failure, in characters.
pub const TASK_DETAILS_CHARS_MAX: usize = 1_000;

const _: () = assert!(TASKS_MINOR_MAX < TASKS_UNFINISHED_MAX);
const _: () = assert!(TASKS_UNFINISHED_MAX < TASKS_KEPT_MAX);

/// The events that are kept for replay: hours of a busy daemon.
pub const EVENTS_KEPT_MAX: usize = 8_000;

/// The most events that wait for the reader of a stream before it is disconnected; with its cursor it can resume
/// without a loss. Events of one change count as one, because a reader cannot take them faster than one by one.
pub const EVENTS_WAITING_MAX: usize = 256;

/// The most bytes of events that wait for the reader of a stream.
pub const EVENT_BYTES_WAITING_MAX: u64 = 2 * 1024 * 1024;

/// The most changes that are published at once. In a burst, such as the writes of another process that one scan finds,
/// readers take a batch before the next one.
pub const EVENTS_PUBLISHED_PER_BATCH: usize = 32;

/// The delay between two such batches: 16,000 changes a second.
pub const EVENT_BATCH_INTERVAL: Duration = Duration::from_millis(2);

/// The most bytes of events that a stream replays; of more, only the newest. With events of a kilobyte this covers all
/// kept events, and it bounds the cost of many readers that return at once.
pub const EVENT_BYTES_REPLAYED_MAX: u64 = 8 * 1024 * 1024;

/// The fill level of a reader's queue at which it is warned, in percent.
pub const EVENTS_WARNING_PERCENT: u64 = 75;

/// The fill level below which a warned reader counts as fast again, in percent.
pub const EVENTS_DRAINED_PERCENT: u64 = 35;

/// The most streams of one session: more than a page with many tabs needs.
pub const SESSION_STREAMS_MAX: usize = 64;

/// The most streams of all events of one workspace.
pub const WORKSPACE_STREAMS_MAX: usize = 2_048;

/// The most sessions of a workspace. Many clients do not end their sessions, so beyond this limit the least recently
/// used session without a listener is closed.
pub const SESSIONS_MAX: usize = 4_096;

/// The longest time for which a token of an owner may be valid, in days: a century, which every clock can represent.
pub const TOKEN_DAYS_MAX: u32 = 36_500;

/// The most tokens of one owner: a list that a person can still read, and more than the agents of a company have.
pub const OWNER_TOKENS_MAX: u32 = 1_000;

/// The longest note of a token, in characters: a line of a list.
pub const TOKEN_NOTE_CHARS_MAX: usize = 200;

const _: () = assert!(EVENTS_WAITING_MAX < EVENTS_KEPT_MAX);
const _: () = assert!(EVENTS_PUBLISHED_PER_BATCH < EVENTS_WAITING_MAX);
const _: () = assert!(EVENT_BYTES_WAITING_MAX < EVENT_BYTES_REPLAYED_MAX);
const _: () = assert!(EVENTS_DRAINED_PERCENT < EVENTS_WARNING_PERCENT);
