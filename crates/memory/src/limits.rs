//! Every number of the product, with its unit in its name and its reason beside it.
//!
//! Settings that a person may change point here for their defaults and bounds. Relations between
//! numbers are `const` assertions, so a change that breaks one does not compile.

use std::time::Duration;

/// The largest memory, in bytes of UTF-8: large enough for any list of facts, small enough to be
/// read whole into a context on request.
pub const MEMORY_BYTES_MAX: usize = 102_400;

/// Memories a scope holds unless a person raises it: beyond this an index stops being one.
pub const SCOPE_FILES_DEFAULT: usize = 1_000;

/// The most memories a person may allow a scope to hold; every command stays quick up to here.
pub const SCOPE_FILES_MAX: usize = 100_000;

/// Paths a listing shows; the rest of an over-full tree is counted, not shown.
pub const LISTED_PATHS_MAX: usize = 1_000;

/// Directory entries a walk looks at before it stops and says so, so that a hostile checkout
/// cannot keep a listing busy.
pub const WALKED_ENTRIES_MAX: usize = 2 * SCOPE_FILES_MAX;

/// How many levels `view` of a folder descends.
pub const VIEW_DEPTH: usize = 2;

/// The last line of a file that `view` can number.
pub const VIEW_LINES_MAX: usize = 999_999;

/// Lines shown on either side of a replacement: enough to see that it is the right place.
pub const SNIPPET_CONTEXT_LINES: usize = 2;

/// The longest memory path, in bytes.
pub const PATH_BYTES_MAX: usize = 1_024;

/// The most segments of a memory path, the scope included.
pub const PATH_SEGMENTS_MAX: usize = 16;

/// The longest segment of a path, in bytes: what common file systems hold in one name.
pub const SEGMENT_BYTES_MAX: usize = 255;

/// How much of a refused path its refusal repeats, in characters: enough to find the mistake.
pub const PATH_SHOWN_CHARS_MAX: usize = 256;

/// How much of a text that was not found its refusal repeats, in characters; the caller has the rest.
pub const OLD_STR_SHOWN_CHARS_MAX: usize = 1_000;

/// How many line numbers a refusal lists; a text that occurs more often needs no longer list.
pub const OCCURRENCES_SHOWN_MAX: usize = 100;

/// How much of a file is read to find its frontmatter.
pub const HEAD_BYTES_MAX: usize = 4_096;

/// The longest description shown, in characters; what is cut is marked with `…`.
pub const DESCRIPTION_CHARS_MAX: usize = 200;

/// How deep the values of a frontmatter may nest; ours nest once.
pub const FRONTMATTER_DEPTH_MAX: usize = 16;

/// Values a frontmatter may hold, those that aliases repeat included: more than any file that a
/// person reads, few enough to be read in a moment.
pub const FRONTMATTER_NODES_MAX: usize = 4_096;

/// Lines of a generated `MEMORY.md`.
pub const MEMORY_LIST_LINES_MAX: usize = 200;

/// Characters of a generated `MEMORY.md`.
pub const MEMORY_LIST_CHARS_MAX: usize = 25_000;

/// The largest file whose bytes history keeps when it is deleted. Memories are a tenth of this;
/// the rest is room for files that outgrew the cap from outside.
pub const HISTORY_FILE_BYTES_MAX: usize = 10 * MEMORY_BYTES_MAX;

/// The largest context file, in bytes: ten times a memory, for people write whole handbooks there.
pub const CONTEXT_FILE_BYTES_MAX: usize = 1024 * 1024;

/// Context files that are looked at for one folder; more names and folders than this are a mistake.
pub const CONTEXT_FILES_MAX: usize = 200;

/// Bytes of context files that are loaded for one folder, imports included, and that they come to once
/// imports are in their places.
pub const CONTEXT_BYTES_MAX: usize = 4 * CONTEXT_FILE_BYTES_MAX;

/// How deep imports nest: a file that a file imports that a file imports, and so on.
pub const IMPORT_DEPTH_MAX: usize = 5;

/// Places in one context file that are looked at as imports; an index of a handbook is shorter.
pub const IMPORTS_A_FILE_MAX: usize = 200;

/// Tokens of all context files of a segment: a quarter of the smallest window in common use. What is
/// over it is shared out, see `context::files`.
pub const CONTEXT_TOKENS_MAX: usize = 32_000;

/// Lines of the index of memories, its frame included.
pub const INDEX_LINES_MAX: usize = 200;

/// Tokens of the index of memories, its frame included, as `context::tokens` counts them. It is paid for in every
/// session, whether anything in it is needed or not.
pub const INDEX_TOKENS_MAX: usize = 1_500;

/// Bytes that the hot set leaves to the index where a host passes on less than both would take.
pub const INDEX_BYTES_KEPT: usize = 1_500;

/// The least room, in bytes, that a pinned memory is cut to; in less it is left out.
pub const HOT_CUT_BYTES_MIN: usize = 512;

/// The most bytes that a memory has in the hot set: it is there whole, or nearly.
pub const HOT_ITEM_BYTES_MAX: usize = 16_384;

/// Bytes of the hot set as it is shown.
pub const HOT_BYTES_MAX: usize = 49_152;

/// Tokens of the hot set as it is shown.
pub const HOT_TOKENS_MAX: usize = 12_000;

/// Memories in the hot set.
pub const HOT_ITEMS_MAX: usize = 8;

/// Memories that are tried for the hot set before it is as full as it gets.
pub const HOT_ATTEMPTS_MAX: usize = 64;

/// Memories that one recall shows.
pub const RECALLED_ITEMS_MAX: usize = 5;

/// Characters of a memory that a recall shows.
pub const RECALLED_ITEM_CHARS_MAX: usize = 1_200;

/// Characters below which a memory is not shown at all: fewer say nothing.
pub const RECALLED_ITEM_CHARS_MIN: usize = 120;

/// Tokens of what one recall shows: it is added to every prompt that it fits.
pub const RECALLED_TOKENS_DEFAULT: usize = 700;

/// How old a memory is when it may be out of date.
pub const STALE_AGE: Duration = Duration::from_hours(30 * 24);

/// Changes that one delta names; the rest are counted.
pub const DELTA_LINES_MAX: usize = 20;

/// The most bytes of those lines: what hosts cut leaves room for this and for what is recalled.
pub const DELTA_BYTES_MAX: usize = 4 * 1024;

/// The most bytes of earlier contents that one change keeps: a folder of a hostile checkout must not
/// fill the memory by being deleted.
pub const HISTORY_CHANGE_BYTES_MAX: usize = 128 * 1024 * 1024;

/// How long a draft is kept that holds what looks like a secret: long enough to come back to it after a holiday week.
pub const SECRET_DRAFT_KEPT: Duration = Duration::from_hours(7 * 24);

/// How long history is kept unless a person says otherwise.
pub const HISTORY_AGE_DEFAULT: Duration = Duration::from_hours(90 * 24);

/// How many bytes of earlier contents history keeps unless a person says otherwise.
pub const HISTORY_BYTES_DEFAULT: u64 = 256 * 1024 * 1024;

/// How often a process that writes looks whether history holds more than it is to keep.
pub const PRUNE_INTERVAL: Duration = Duration::from_hours(1);

/// Changes written but not yet known to be safe on the disk itself: the redo records that a start
/// after a power cut has to look at. Bounds that start to some tenths of a second.
pub const OPEN_CHANGES_MAX: usize = 4_096;

/// How many open changes ask for the files to be synchronized although writes go on. Synchronizing
/// competes with the writes for the disk, so it is done for many at once.
pub const OPEN_CHANGES_SETTLE: usize = 512;

/// How long a change may stay open in an idle process before its files are synchronized.
pub const SETTLE_DELAY: Duration = Duration::from_secs(2);

/// How long a use may wait in memory before it is stored. A crash loses at most this much of the
/// counts, and nothing else.
pub const USAGE_FLUSH_DELAY: Duration = Duration::from_millis(500);

/// Uses that wait in memory at the most before they are stored at once.
pub const USAGE_PENDING_MAX: usize = 1_024;

/// How long a command waits for a root that another process holds.
pub const LOCK_WAIT: Duration = Duration::from_secs(10);

/// How often a write is tried again when somebody outside changed the file in the middle of it.
pub const OUTSIDE_RACE_RETRIES: usize = 8;

/// How many versions of one memory that were written outside in the middle of interrupted writes lie
/// beside it before no more are brought back into sight: nobody looks after that many.
pub const OUTSIDE_COPIES_MAX: usize = 100;

/// How old the names of a root may be before they are read again, to find one that differs only in case. Lukasa's own
/// writers are seen at once; this bounds only what an editor or git adds.
pub const CENSUS_AGE_MAX: Duration = Duration::from_secs(1);

/// Changes a subscriber may lag behind before it is told to list again.
pub const CHANGES_BUFFERED: usize = 1024;

/// Changes that wait to be told to the streams of a daemon, beyond those: while one waits for the state, many
/// are made, and a burst of another process is announced at once.
pub const CHANGES_WAITING_MAX: usize = 4096;

/// How long the watcher waits for a burst of outside edits to end before it reports them.
pub const WATCH_SETTLE: Duration = Duration::from_millis(50);

/// How often a watch looks although nothing was announced: events get lost on network mounts and
/// overlays, and a root may come into being.
pub const WATCH_RESCAN: Duration = Duration::from_secs(5);

/// Bytes of memories that are read, to find what fits or to decide, of a repository that nobody trusts. Nobody is shown them
/// unasked, so reading more would only let a clone of gigabytes keep everything else waiting.
pub const UNREVIEWED_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Bytes of contents seen for the first time that one look records. Later versions are always
/// recorded; this bounds what merely looking at a large checkout adds to the state.
pub const FIRST_SIGHT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How far into a file that outgrew the cap a partial view can reach, in bytes.
pub const VIEW_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes that the disks of memories and state have left at least, before `doctor` and a deep look at a daemon's
/// health say that they are full: what the record of a small change takes.
pub const DISK_BYTES_LEFT_MIN: u64 = 64 * 1024;

/// Half of a memory's heat is gone after this long without use.
pub const HEAT_HALF_LIFE: Duration = Duration::from_hours(7 * 24);

/// After how long without a change and a use a memory is worth a look: half a year.
pub const STALE_AFTER: Duration = Duration::from_hours(182 * 24);

const _: () = assert!(SCOPE_FILES_DEFAULT <= SCOPE_FILES_MAX);
const _: () = assert!(OPEN_CHANGES_SETTLE < OPEN_CHANGES_MAX);
const _: () = assert!(HEAD_BYTES_MAX < MEMORY_BYTES_MAX);
const _: () = assert!(MEMORY_BYTES_MAX < HISTORY_FILE_BYTES_MAX);
const _: () = assert!(MEMORY_BYTES_MAX < CONTEXT_FILE_BYTES_MAX);
const _: () = assert!(HOT_ITEM_BYTES_MAX < HOT_BYTES_MAX);
const _: () = assert!(HOT_ITEMS_MAX < HOT_ATTEMPTS_MAX);
const _: () = assert!(RECALLED_ITEM_CHARS_MIN < RECALLED_ITEM_CHARS_MAX);

/// Connections at a time: four times as many streams of events as a busy machine has.
pub const HTTP_CONNECTIONS_MAX: usize = 4_096;

/// Open files that are left to everything but connections.
pub const FILES_KEPT_FREE: usize = 256;

/// How long connections have to end when a daemon does, after the tasks.
pub const HTTP_SHUTDOWN_WAIT: Duration = Duration::from_secs(2);

/// Files that an import looks at. An archive or folder with more is not one of memories.
pub const IMPORT_FILES_MAX: usize = 20_000;

// The largest memory, escaped, fits into a body.
/// How long the end of an MCP server waits for tool calls in flight: as long as one waits for a
/// root, and a little for its writing.
pub const MCP_SHUTDOWN_WAIT: Duration = Duration::from_secs(LOCK_WAIT.as_secs() + 2);

/// Sessions of MCP clients of the older revisions over HTTP, of one workspace. Clients that do not end
/// theirs are common; beyond this the one unused longest that nobody listens to makes room.
pub const MCP_SESSIONS_MAX: usize = 256;

// A memory whose every byte is escaped as six still fits into a line, twice.
/// The longest name that a client gives itself, in characters.
pub const CLIENT_ID_CHARS_MAX: usize = 128;

/// Tasks of a workspace that wait or run: a person's agents are served within a few of them, and who
/// finds the lane full had better wait himself.
pub const TASKS_UNFINISHED_MAX: usize = 16;

/// Those of them that forget or dream: room is left for what would be lost.
pub const TASKS_MINOR_MAX: usize = 8;

/// Tasks of a workspace that are remembered, finished ones included.
pub const TASKS_KEPT_MAX: usize = 1_000;

/// How long a finished task can be asked for unless a person says otherwise.
pub const TASKS_KEPT_FOR_DEFAULT: Duration = Duration::from_hours(1);

/// Tasks that one answer lists.
pub const TASKS_LISTED_MAX: usize = 1_000;

/// How often a task is begun: once more after whoever did it died.
pub const TASK_ATTEMPTS_MAX: u32 = 2;

/// How often a task is begun anew because the state failed under it, while its process lives.
pub const TASK_BROKEN_MAX: usize = 8;

/// How often a task is decided anew, on a new draft, because a memory changed under it.
/// With fifty lanes that all change the same memory, four were too few for one task in a thousand, and sixteen
/// for one in ten thousand. The time that a task has ends it in any case.
pub const TASK_DECISIONS_MAX: u32 = 64;

/// How long a task waits before it is decided anew the first time; twice as long each time after.
pub const TASK_YIELD_DELAY: Duration = Duration::from_millis(2);

/// How long it waits at the most.
pub const TASK_YIELD_DELAY_MAX: Duration = Duration::from_millis(200);

/// Proposals that wait about the same roots. A person would not read more, and a dream proposes the rest later.
pub const PROPOSALS_WAITING_MAX: usize = 1000;

/// Proposals that a person rejected and that are not made again; beyond that the oldest go.
pub const PROPOSALS_REJECTED_MAX: usize = 10_000;

/// How long a proposal waits, whatever history keeps. Its entries have changed by then, or a dream proposes it again.
pub const PROPOSAL_WAITING_KEPT: Duration = Duration::from_hours(90 * 24);

/// Proposals that the command line reads at once: their texts are worked out for all of them.
pub const PROPOSALS_LISTED_MAX: usize = 100;

/// How often accepting a proposal begins again because a memory changed meanwhile.
pub const PROPOSAL_ATTEMPTS_MAX: usize = 8;

/// Conversations of which is kept what they were shown; beyond that those heard of the longest ago go.
pub const CONVERSATIONS_KEPT_MAX: usize = 1000;

/// Conversations of which is kept what their segment began with; beyond that those written the longest ago go.
/// Each may have a quarter of a megabyte.
pub const SEGMENTS_KEPT_MAX: usize = 64;

/// Conversations that a process has at hand; the state has the others.
pub const CONVERSATIONS_OPEN_MAX: usize = 256;

/// Characters of a conversation's id.
pub const CONVERSATION_ID_CHARS_MAX: usize = 128;

/// Events of a conversation that are noted, so that saying one twice does nothing.
pub const CONVERSATION_EVENTS_KEPT: usize = 64;

/// Tokens that models may take in 24 hours for work that nobody asked for, unless a person says otherwise: some
/// hundred reviews.
pub const BACKGROUND_TOKENS_PER_DAY: u64 = 1_000_000;

/// How long a background review may take. A person may set another time.
pub const REVIEW_WAIT_DEFAULT: Duration = Duration::from_secs(30);

/// The longest time that a background review may be given: as long as any other agent.
pub const REVIEW_WAIT_MAX: Duration = AGENT_WAIT;

/// Reviews of a workspace that are queued or under way: as many conversations may be due at once. One that is due beyond
/// that is made up for by the next one of its conversation.
pub const REVIEWS_UNFINISHED_MAX: usize = 50;

/// What is kept of a conversation until its review has ended, in bytes; the oldest of it goes.
pub const TURN_TEXTS_BYTES_MAX: usize = 64 * 1024;

/// What is kept of one message of a person, in bytes; what stands behind that is most often a paste.
pub const USER_MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// What is kept of one message of a model, in bytes: enough to tell what the person answered.
pub const REPLY_BYTES_MAX: usize = 2 * 1024;

/// How long an agent with a model may take to remember or to dream, on a draft that nobody sees before it ends.
pub const AGENT_WAIT: Duration = Duration::from_secs(TASK_RUNNER_WAIT.as_secs() - 5);

/// How often a task is decided anew by a model because memories changed meanwhile.
pub const MODEL_DECISIONS_MAX: u32 = 2;

/// How long a model may take to choose what is forgotten.
pub const FORGET_BY_MODEL_WAIT: Duration = Duration::from_secs(30);

/// How long a model may take to choose what is recalled. It is waited for beside the turn; a large hosted model takes one or
/// two seconds, an agent's first tool as long, and what comes behind the last tool of a turn is shown to nobody.
pub const RERANK_WAIT: Duration = Duration::from_secs(4);

/// Memories that such a model chooses from: more than are shown, so that one in other words is among them, and few enough
/// that a question has some thousand tokens.
pub const RERANK_CANDIDATES_MAX: usize = 20;

/// Characters of the title and of the text of a memory that such a model is shown: an entry, as a rule.
pub const RERANK_CHARS_MAX: usize = 400;

/// Characters of a prompt, from its beginning, that such a model is shown.
pub const RERANK_PROMPT_CHARS_MAX: usize = 2_000;

/// How long back the tokens of work are counted that nobody asked for.
pub const BACKGROUND_WINDOW: Duration = Duration::from_hours(24);

/// Pieces of work by models that are kept on record.
pub const MODEL_WORK_KEPT_MAX: usize = 10_000;

/// How long a model may take to show that it is there: one on a small machine may have to be loaded first.
pub const MODEL_CHECK_WAIT: Duration = Duration::from_mins(1);

/// How long a prompt's vector is waited for, unless a person says otherwise: a server on this machine takes some
/// hundredths of that.
pub const EMBED_WAIT_DEFAULT: Duration = Duration::from_secs(2);

/// The longest time that a person may say.
pub const EMBED_WAIT_MAX: Duration = Duration::from_mins(1);

/// How long the vectors of entries are waited for: nobody waits meanwhile, and a processor alone is slow.
pub const EMBED_BATCH_WAIT: Duration = Duration::from_mins(1);

/// Texts that an endpoint is asked for at once, unless a person says otherwise.
pub const EMBED_BATCH_DEFAULT: usize = 32;

/// The most that a person may say.
pub const EMBED_BATCH_MAX: usize = 256;

/// Texts that it is asked for at first; each answer doubles that.
pub const EMBED_BATCH_FIRST: usize = 4;

/// Characters of an entry, or of a prompt, that an endpoint is sent: what the smallest models take.
pub const EMBED_CHARS_MAX: usize = 2_000;

/// Texts that an endpoint may refuse one after the other before it counts as failing.
pub const EMBED_REFUSALS_MAX: usize = 3;

/// How long an endpoint that failed is asked nothing, at first; then twice as long.
pub const EMBED_RETRY_DELAY: Duration = Duration::from_secs(5);

/// The longest such pause.
pub const EMBED_RETRY_DELAY_MAX: Duration = Duration::from_mins(5);

/// Vectors of prompts that a process has at hand: a prompt that is asked again is not sent again.
pub const PROMPT_VECTORS_KEPT: usize = 16;

/// The largest file of vectors in the state folder, in bytes: tens of thousands of entries. Entries that do not fit
/// have no vector, for it would have to be asked for again and again.
pub const VECTORS_FILE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Files of vectors that are kept in the state folder, one for each root and endpoint.
pub const VECTORS_FILES_MAX: usize = 64;

/// How long vectors are kept that nobody uses.
pub const VECTORS_KEPT_FOR: Duration = Duration::from_hours(24 * 30);

const _: () = assert!(RECALLED_ITEMS_MAX < RERANK_CANDIDATES_MAX);
const _: () = assert!(EMBED_BATCH_FIRST <= EMBED_BATCH_DEFAULT);
const _: () = assert!(EMBED_BATCH_DEFAULT <= EMBED_BATCH_MAX);

/// How often what was shown is written anew because another process wrote at the same moment.
pub const CONVERSATION_WRITES_MAX: u32 = 8;

/// Memories that a conversation is noted to have been shown; beyond that the earliest may be shown again.
pub const CONVERSATION_SHOWN_MAX: usize = 512;

/// How long a workspace may take to say whether tasks can be done there.
pub const TASK_PROBE_WAIT: Duration = Duration::from_secs(10);

/// When a lane gives a task up, whatever its runner says.
pub const TASK_WAIT: Duration = Duration::from_mins(5);

/// When a runner gives a task up: first, so that its own error arrives.
pub const TASK_RUNNER_WAIT: Duration = Duration::from_secs(TASK_WAIT.as_secs() - 5);

/// How long a runner may take to end once it is told to stop.
pub const TASK_STOP_WAIT: Duration = Duration::from_secs(2);

/// How much memory a child process may ask for: a reply of a model is read whole, however long it is, and this is what
/// ends that. Many times what all memories take.
pub const CHILD_MEMORY_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// How long tasks that run may go on when their process is to end; then they wait for another one.
pub const DRAIN_WAIT: Duration = Duration::from_secs(10);

/// How often a lane that cannot use its lock or the state tries again, at first; then twice as long.
pub const LANE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The longest time between two such tries.
pub const LANE_RETRY_DELAY_MAX: Duration = Duration::from_mins(1);

/// How often a daemon looks for tasks that somebody left who died, and for those that ended long ago:
/// seldom enough to cost nothing, and a task that was left is done before a person wonders.
pub const LANE_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// How long after the last task of all lanes a process lets go of what only makes the next one quicker: tasks that
/// follow one another are over by then.
pub const LANE_TRIM_DELAY: Duration = Duration::from_secs(5);

/// How long after the last dream a daemon that dreams by schedule does so again, unless a person says
/// otherwise: a day.
pub const DREAM_EVERY_DEFAULT: Duration = Duration::from_hours(24);

/// How many sessions there must have been since then, unless a person says otherwise: before that there is
/// hardly anything to tidy up.
pub const DREAM_AFTER_SESSIONS_DEFAULT: u32 = 5;

/// Changes in which a schedule looks for sessions, the latest.
pub const DREAM_CHANGES_MAX: usize = 200;

/// How often whoever waits for a task looks whether another process has done it. Nothing tells of that,
/// and an agent does not notice so little.
pub const TASK_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The longest pause between such looks: who did the task may be dead, and its task lie there for long.
pub const TASK_POLL_INTERVAL_MAX: Duration = Duration::from_secs(2);

/// The most that is told of why a task failed, in characters.
pub const TASK_DETAILS_CHARS_MAX: usize = 1_000;

const _: () = assert!(TASKS_MINOR_MAX < TASKS_UNFINISHED_MAX);
const _: () = assert!(TASKS_UNFINISHED_MAX < TASKS_KEPT_MAX);

/// Events that a stream can replay: hours of a busy daemon.
pub const EVENTS_KEPT_MAX: usize = 8_000;

/// Events that may wait for the reader of a stream before it is cut off: it comes back with its cursor
/// and loses nothing. Those of one change count as one, since nobody can take them faster than one by one.
pub const EVENTS_WAITING_MAX: usize = 256;

/// Bytes of events that may wait for the reader of a stream.
pub const EVENT_BYTES_WAITING_MAX: u64 = 2 * 1024 * 1024;

/// Changes that streams are told of at once. In a burst, such as the writes of another process that are found
/// together, readers who keep up take them before the next so many.
pub const EVENTS_PUBLISHED_PER_BATCH: usize = 32;

/// How long after so many changes the next are told: 16,000 a second.
pub const EVENT_BATCH_INTERVAL: Duration = Duration::from_millis(2);

/// Bytes of events that a stream replays; of more, the newest are told. All that is kept, if an event
/// has a kilobyte; far less than what many that come back at once could choke on.
pub const EVENT_BYTES_REPLAYED_MAX: u64 = 8 * 1024 * 1024;

/// How much of what may wait does so when the reader is warned, in percent.
pub const EVENTS_WARNING_PERCENT: u64 = 75;

/// How little waits when a reader that was warned counts as quick again, in percent.
pub const EVENTS_DRAINED_PERCENT: u64 = 35;

/// Streams of one session: a page with many tabs, and then some.
pub const SESSION_STREAMS_MAX: usize = 64;

/// Streams of all that goes on in one workspace.
pub const WORKSPACE_STREAMS_MAX: usize = 2_048;

/// Sessions of a workspace. Clients that do not end theirs are common; beyond this the one that was unused
/// for the longest time, and that nobody listens to, makes room.
pub const SESSIONS_MAX: usize = 4_096;

const _: () = assert!(EVENTS_WAITING_MAX < EVENTS_KEPT_MAX);
const _: () = assert!(EVENTS_PUBLISHED_PER_BATCH < EVENTS_WAITING_MAX);
const _: () = assert!(EVENT_BYTES_WAITING_MAX < EVENT_BYTES_REPLAYED_MAX);
const _: () = assert!(EVENTS_DRAINED_PERCENT < EVENTS_WARNING_PERCENT);
