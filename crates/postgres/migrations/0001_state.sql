-- The state of many owners. Every row belongs to one. Times are nanoseconds since 1970 in UTC. Revisions are the 32
-- bytes of a SHA-256. Paths are relative to their root and are compared byte by byte. There are no sequences, triggers
-- or foreign keys: only rows, unique indexes and transactions.

CREATE TABLE owners (
    id bigint PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);

-- The last numbers that were given. A transaction that writes for an owner locks this row first, so the numbers have no
-- gaps and their order is that of the commits.
CREATE TABLE counters (
    owner bigint PRIMARY KEY,
    last_change bigint NOT NULL DEFAULT 0,
    last_task bigint NOT NULL DEFAULT 0,
    last_proposal bigint NOT NULL DEFAULT 0,
    last_work bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE changes (
    owner bigint NOT NULL,
    id bigint NOT NULL,
    at bigint NOT NULL,
    kind text NOT NULL,
    actor text NOT NULL,
    trust text NOT NULL,
    origin text NOT NULL,
    client text,
    session text,
    task text COLLATE "C",
    tool_call text,
    model text,
    note text,
    undoes bigint,
    folder_identity text,
    folder_place text COLLATE "C",
    folder_path text COLLATE "C",
    folder_moved_to text COLLATE "C",
    PRIMARY KEY (owner, id)
);

CREATE INDEX changes_task ON changes (owner, task, id) WHERE task IS NOT NULL;
CREATE INDEX changes_folder ON changes (owner, folder_place, id) WHERE folder_place IS NOT NULL;

-- The effect of a change on each memory. `wrote` says that the bytes after are kept for a replay.
CREATE TABLE change_files (
    owner bigint NOT NULL,
    change_id bigint NOT NULL,
    seq bigint NOT NULL,
    identity text COLLATE "C" NOT NULL,
    place text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    moved_to text COLLATE "C",
    before bytea,
    after bytea,
    trust text NOT NULL,
    wrote boolean NOT NULL,
    PRIMARY KEY (owner, change_id, seq)
);

CREATE INDEX change_files_path ON change_files (owner, place, path, change_id);
CREATE INDEX change_files_moved_to ON change_files (owner, place, moved_to, change_id) WHERE moved_to IS NOT NULL;

-- Bytes by their digest, each once for an owner. Codec 0 is as they are, 1 is an LZ4 block of `size` bytes.
CREATE TABLE contents (
    owner bigint NOT NULL,
    revision bytea NOT NULL,
    codec bigint NOT NULL,
    size bigint NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (owner, revision)
);
ALTER TABLE contents ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- The last record of each memory; a revision of NULL means that it was removed.
CREATE TABLE heads (
    owner bigint NOT NULL,
    place text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    identity text COLLATE "C" NOT NULL,
    revision bytea,
    trust text NOT NULL,
    change_id bigint NOT NULL,
    PRIMARY KEY (owner, place, path)
);

CREATE INDEX heads_change ON heads (owner, place, change_id);
CREATE INDEX heads_identity ON heads (owner, identity, path);

-- Pins and usage, of all places of an identity.
CREATE TABLE marks (
    owner bigint NOT NULL,
    identity text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    pinned boolean NOT NULL,
    uses bigint NOT NULL,
    last_used_at bigint,
    last_written_at bigint,
    PRIMARY KEY (owner, identity, path)
);

-- The changes that are open: each has a row of `what` = 'change' until it is durable. The other rows of a change are
-- what it replaced, so that it can be withdrawn: a 'head' of the place `root`, whose `head_change` is NULL if there was
-- none, and a 'mark' of the identity `root`, whose `uses` is NULL if there was none. `added` is the number of uses that
-- the change counted; it is NULL if the change moved, dropped or overwrote the mark. A 'hold' is a lock of the place
-- `root` that the writer had, with its fence in `added`.
CREATE TABLE open_changes (
    owner bigint NOT NULL,
    change_id bigint NOT NULL,
    what text NOT NULL,
    root text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    identity text,
    revision bytea,
    trust text,
    head_change bigint,
    pinned boolean,
    uses bigint,
    last_used_at bigint,
    last_written_at bigint,
    added bigint,
    PRIMARY KEY (owner, change_id, what, root, path)
);

-- Texts that wait for a person's review, with the changes that wrote them.
CREATE TABLE influenced (
    owner bigint NOT NULL,
    identity text COLLATE "C" NOT NULL,
    revision bytea NOT NULL,
    change_id bigint NOT NULL,
    PRIMARY KEY (owner, identity, revision, change_id)
);

-- Tasks in order of arrival. Requests and outcomes are JSON that no query reads.
CREATE TABLE tasks (
    owner bigint NOT NULL,
    seq bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    kind text NOT NULL,
    client text,
    status text NOT NULL CHECK (status IN ('queued', 'running', 'completed', 'failed')),
    attempts bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    request text NOT NULL,
    outcome text,
    PRIMARY KEY (owner, seq),
    UNIQUE (owner, id)
);

-- One running task in a lane.
CREATE UNIQUE INDEX tasks_running ON tasks (owner, workspace) WHERE status = 'running';
CREATE INDEX tasks_unfinished ON tasks (owner, workspace, seq) WHERE status IN ('queued', 'running');
CREATE INDEX tasks_finished ON tasks (owner, workspace, updated_at) WHERE status IN ('completed', 'failed');

CREATE TABLE runs (
    owner bigint NOT NULL,
    task text COLLATE "C" NOT NULL,
    attempt bigint NOT NULL,
    runner text NOT NULL,
    started_at bigint NOT NULL,
    ended_at bigint,
    outcome text,
    PRIMARY KEY (owner, task, attempt)
);

CREATE TABLE sessions (
    owner bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    client text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (owner, id)
);

CREATE INDEX sessions_client ON sessions (owner, workspace, client);

-- When a dream was last requested in a workspace, and how many sessions began since. This stays when tasks and
-- sessions are dropped.
CREATE TABLE dreams (
    owner bigint NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    asked_at bigint,
    sessions bigint NOT NULL,
    PRIMARY KEY (owner, workspace)
);

-- `version` counts the writes of a row, so that a writer notices that another one wrote since it read.
CREATE TABLE conversations (
    owner bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    heard_at bigint NOT NULL,
    data text NOT NULL,
    PRIMARY KEY (owner, id)
);

CREATE INDEX conversations_heard ON conversations (owner, heard_at);

CREATE TABLE segments (
    owner bigint NOT NULL,
    conversation text COLLATE "C" NOT NULL,
    segment bigint NOT NULL,
    version bigint NOT NULL,
    heard_at bigint NOT NULL,
    data text NOT NULL,
    PRIMARY KEY (owner, conversation)
);

CREATE INDEX segments_heard ON segments (owner, heard_at);

-- `roots` is a JSON array of pairs of identity and place. Of a rejected proposal only the digest may be left.
CREATE TABLE proposals (
    owner bigint NOT NULL,
    id bigint NOT NULL,
    made_at bigint NOT NULL,
    origin text NOT NULL,
    task text,
    digest bytea NOT NULL,
    status text NOT NULL CHECK (status IN ('waiting', 'accepted', 'rejected')),
    decided_at bigint,
    change_id bigint,
    trust text NOT NULL,
    roots text NOT NULL,
    proposal text NOT NULL,
    PRIMARY KEY (owner, id)
);

CREATE INDEX proposals_waiting ON proposals (owner, id) WHERE status = 'waiting';
CREATE INDEX proposals_digest ON proposals (owner, digest);
CREATE INDEX proposals_change ON proposals (owner, change_id) WHERE change_id IS NOT NULL;

CREATE TABLE model_work (
    owner bigint NOT NULL,
    number bigint NOT NULL,
    workspace text COLLATE "C" NOT NULL,
    ended_at bigint NOT NULL,
    background boolean NOT NULL,
    tokens bigint NOT NULL,
    data text NOT NULL,
    PRIMARY KEY (owner, number)
);

CREATE INDEX model_work_background ON model_work (owner, ended_at) WHERE background;
