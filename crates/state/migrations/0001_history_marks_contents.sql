-- The whole state of one host. Times are nanoseconds since 1970 in UTC. Revisions are the 32 bytes of
-- a SHA-256. Paths are relative to their root. Words are the public ones of `memory::change`.

-- One row a change. Numbers are never used twice, not even those of changes taken back.
CREATE TABLE changes (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,
    actor TEXT NOT NULL,
    trust TEXT NOT NULL,
    origin TEXT NOT NULL,
    client TEXT,
    session TEXT,
    task TEXT,
    tool_call TEXT,
    model TEXT,
    undoes INTEGER,
    folder_identity TEXT,
    folder_place TEXT,
    folder_path TEXT,
    folder_moved_to TEXT
) STRICT;

CREATE INDEX changes_task ON changes (task, id) WHERE task IS NOT NULL;
CREATE INDEX changes_folder ON changes (folder_place, id) WHERE folder_place IS NOT NULL;

-- What a change did to each memory. `wrote` says that the bytes after are kept for a replay.
CREATE TABLE change_files (
    change_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    identity TEXT NOT NULL,
    place TEXT NOT NULL,
    path TEXT NOT NULL,
    moved_to TEXT,
    before BLOB,
    after BLOB,
    trust TEXT NOT NULL,
    wrote INTEGER NOT NULL,
    PRIMARY KEY (change_id, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX change_files_path ON change_files (place, path, change_id);
CREATE INDEX change_files_moved_to ON change_files (place, moved_to, change_id)
    WHERE moved_to IS NOT NULL;

-- Bytes by their digest, each once. Codec 0 is as they are, 1 is an LZ4 block of `size` bytes.
CREATE TABLE contents (
    id INTEGER PRIMARY KEY,
    revision BLOB NOT NULL UNIQUE,
    codec INTEGER NOT NULL,
    size INTEGER NOT NULL,
    bytes BLOB NOT NULL
) STRICT;

-- What was last recorded of each memory; a revision of NULL is one that was removed.
CREATE TABLE heads (
    path TEXT NOT NULL,
    place TEXT NOT NULL,
    identity TEXT NOT NULL,
    revision BLOB,
    trust TEXT NOT NULL,
    change_id INTEGER NOT NULL,
    PRIMARY KEY (place, path)
) STRICT, WITHOUT ROWID;

-- Pins and usage, of whatever worktree.
CREATE TABLE marks (
    identity TEXT NOT NULL,
    path TEXT NOT NULL,
    pinned INTEGER NOT NULL,
    uses INTEGER NOT NULL,
    last_used_at INTEGER,
    last_written_at INTEGER,
    PRIMARY KEY (identity, path)
) STRICT, WITHOUT ROWID;

-- The changes that are open: each has a row of `what` = 'change' here until it is settled. Beside it
-- stands what the change replaced, so that it can be withdrawn: a 'head' of the place `root`, whose
-- `identity` is NULL where there was none; a 'mark' of the identity `root`, whose `uses` is NULL where
-- there was none. `added` is how many uses the change counted; it is NULL where the change moved,
-- dropped or overwrote the mark. One table, so that a change dirties one page for all of this.
CREATE TABLE open_changes (
    change_id INTEGER NOT NULL,
    what TEXT NOT NULL,
    root TEXT NOT NULL,
    path TEXT NOT NULL,
    identity TEXT,
    revision BLOB,
    trust TEXT,
    head_change INTEGER,
    pinned INTEGER,
    uses INTEGER,
    last_used_at INTEGER,
    last_written_at INTEGER,
    added INTEGER,
    PRIMARY KEY (change_id, what, root, path)
) STRICT, WITHOUT ROWID;

-- The last number that a change was given, and sums that would take a scan. Kept by the triggers
-- below.
CREATE TABLE totals (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    last_change INTEGER NOT NULL,
    changes INTEGER NOT NULL,
    content_bytes INTEGER NOT NULL
) STRICT;

INSERT INTO totals (id, last_change, changes, content_bytes) VALUES (1, 0, 0, 0);

CREATE TRIGGER changes_inserted AFTER INSERT ON changes BEGIN
    UPDATE totals SET last_change = max(last_change, new.id), changes = changes + 1;
END;
CREATE TRIGGER changes_deleted AFTER DELETE ON changes BEGIN
    UPDATE totals SET changes = changes - 1;
END;
CREATE TRIGGER contents_inserted AFTER INSERT ON contents BEGIN
    UPDATE totals SET content_bytes = content_bytes + length(new.bytes);
END;
CREATE TRIGGER contents_deleted AFTER DELETE ON contents BEGIN
    UPDATE totals SET content_bytes = content_bytes - length(old.bytes);
END;
