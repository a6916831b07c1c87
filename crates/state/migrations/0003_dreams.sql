-- What a schedule goes by: when a dream was last asked for in a workspace, and how many sessions began since.
-- Tasks and sessions go; this stays.
CREATE TABLE dreams (
    workspace TEXT NOT NULL PRIMARY KEY,
    asked_at INTEGER,
    sessions INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO dreams (workspace, sessions) SELECT workspace, count(*) FROM sessions GROUP BY workspace;
