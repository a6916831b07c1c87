-- What a daemon has to do and for whom. Requests and outcomes are JSON that nobody here reads; they
-- stand last, because they may be long and most reads are of what stands before them.

-- One row a task, in order of arrival. While it runs, `outcome` is what will have come of it once its
-- draft is committed.
CREATE TABLE tasks (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    workspace TEXT NOT NULL,
    kind TEXT NOT NULL,
    client TEXT,
    status TEXT NOT NULL CHECK (status IN ('queued', 'running', 'completed', 'failed')),
    attempts INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    request TEXT NOT NULL,
    outcome TEXT
) STRICT;

-- The lanes. Beginning a task does not touch this index.
CREATE INDEX tasks_unfinished ON tasks (workspace, seq) WHERE status IN ('queued', 'running');
-- What may go: by age in all workspaces, by number in one.
CREATE INDEX tasks_finished_at ON tasks (updated_at) WHERE status IN ('completed', 'failed');
CREATE INDEX tasks_finished ON tasks (workspace, updated_at) WHERE status IN ('completed', 'failed');

-- A client of a workspace, with the stream of events that it may read.
CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY,
    workspace TEXT NOT NULL,
    client TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_client ON sessions (workspace, client);

-- The attempts at a task; they go with it.
CREATE TABLE runs (
    task TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    runner TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    outcome TEXT,
    PRIMARY KEY (task, attempt)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER tasks_deleted AFTER DELETE ON tasks BEGIN
    DELETE FROM runs WHERE task = old.id;
END;
