-- What models did, one row a piece of work, in order of its end. The oldest go when there are many.
CREATE TABLE model_work (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace TEXT NOT NULL,
    ended_at INTEGER NOT NULL,
    background INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    data TEXT NOT NULL
) STRICT;

CREATE INDEX model_work_background ON model_work (ended_at) WHERE background = 1;
