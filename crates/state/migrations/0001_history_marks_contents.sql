-- The whole state of one host. Times are nanoseconds since 1970 in UTC. Revisions are the 32 bytes of
-- a SHA-256. Paths are relative to their root. Words are the public ones of `memory::change`.

-- One row a change. Numbers are never used twice, not even those of changes taken back.
CREATE TABLE changes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
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
    folder_moved_to TEXT,
    open INTEGER NOT NULL
) STRICT;

CREATE INDEX changes_open ON changes (id) WHERE open = 1;
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
-- Pruning asks whether anybody still needs a content.
CREATE INDEX change_files_before ON change_files (before) WHERE before IS NOT NULL;
CREATE INDEX change_files_after ON change_files (after) WHERE after IS NOT NULL;

-- Bytes by their digest, each once. Codec 0 is as they are, 1 is an LZ4 block of `size` bytes.
CREATE TABLE contents (
    id INTEGER PRIMARY KEY,
    revision BLOB NOT NULL UNIQUE,
    codec INTEGER NOT NULL,
    size INTEGER NOT NULL,
    bytes BLOB NOT NULL
) STRICT;

-- What was last recorded of each memory; a revision of NULL is one that was removed. The path comes
-- first in the key so that the same memory of another worktree stands beside it.
CREATE TABLE heads (
    path TEXT NOT NULL,
    place TEXT NOT NULL,
    identity TEXT NOT NULL,
    revision BLOB,
    trust TEXT NOT NULL,
    change_id INTEGER NOT NULL,
    PRIMARY KEY (path, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX heads_change ON heads (place, change_id);
CREATE INDEX heads_revision ON heads (revision) WHERE revision IS NOT NULL;

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

-- What an open change replaced, so that it can be withdrawn. `head_change` is NULL where there was
-- no head.
CREATE TABLE before_heads (
    change_id INTEGER NOT NULL,
    place TEXT NOT NULL,
    path TEXT NOT NULL,
    identity TEXT,
    revision BLOB,
    trust TEXT,
    head_change INTEGER,
    PRIMARY KEY (change_id, place, path)
) STRICT, WITHOUT ROWID;

-- The same of marks. `uses` is NULL where there was no mark. `added` is how many uses the change
-- counted; it is NULL where the change moved, dropped or overwrote the mark.
CREATE TABLE before_marks (
    change_id INTEGER NOT NULL,
    identity TEXT NOT NULL,
    path TEXT NOT NULL,
    pinned INTEGER,
    uses INTEGER,
    last_used_at INTEGER,
    last_written_at INTEGER,
    added INTEGER,
    PRIMARY KEY (change_id, identity, path)
) STRICT, WITHOUT ROWID;

-- Sums that would take a scan. Kept by the triggers below.
CREATE TABLE totals (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    changes INTEGER NOT NULL,
    content_bytes INTEGER NOT NULL
) STRICT;

INSERT INTO totals (id, changes, content_bytes) VALUES (1, 0, 0);

CREATE TRIGGER changes_inserted AFTER INSERT ON changes BEGIN
    UPDATE totals SET changes = changes + 1;
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
