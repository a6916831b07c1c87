-- Memories as rows, and the locks that daemons hold.

-- Locks by name. A lock is free if it has no holder or its time is over. Each taking raises `fence`; a write names the
-- fence under which it holds the lock, so that a daemon that lost it writes nothing. The times are the server's.
CREATE TABLE leases (
    owner bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    holder text,
    until timestamptz NOT NULL,
    PRIMARY KEY (owner, name)
) WITH (fillfactor = 50);

-- A root: a place with memories. `writes` counts the writes, `last_version` is the last version of a file. `writing` is true during a
-- write, and stays true if its daemon dies. `recorder` is the database whose daemons wrote last.
CREATE TABLE roots (
    owner bigint NOT NULL,
    place text COLLATE "C" NOT NULL,
    writes bigint NOT NULL DEFAULT 0,
    last_version bigint NOT NULL DEFAULT 0,
    writing boolean NOT NULL DEFAULT false,
    is_created boolean NOT NULL DEFAULT false,
    recorder bigint,
    PRIMARY KEY (owner, place)
) WITH (fillfactor = 50);

-- The last change of each database that was carried out completely.
CREATE TABLE completed_changes (
    owner bigint NOT NULL,
    place text COLLATE "C" NOT NULL,
    recorder bigint NOT NULL,
    change_id bigint NOT NULL,
    PRIMARY KEY (owner, place, recorder)
) WITH (fillfactor = 50);

-- Files, and folders, whose bytes are NULL. No two versions of files of a root have the same number.
CREATE TABLE files (
    owner bigint NOT NULL,
    place text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    bytes bytea,
    version bigint NOT NULL,
    modified_at bigint NOT NULL,
    PRIMARY KEY (owner, place, path)
);
