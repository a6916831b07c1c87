-- Changes that wait for a person, and what the person decided. `roots` is a JSON array of pairs of identity and
-- place; `proposal` is JSON that nobody here reads, empty once it is dropped. Numbers are never given twice.
CREATE TABLE proposals (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    made_at INTEGER NOT NULL,
    origin TEXT NOT NULL,
    task TEXT,
    digest BLOB NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('waiting', 'accepted', 'rejected')),
    decided_at INTEGER,
    change_id INTEGER,
    trust TEXT NOT NULL,
    roots TEXT NOT NULL,
    proposal TEXT NOT NULL
) STRICT;

CREATE INDEX proposals_waiting ON proposals (roots) WHERE status = 'waiting';
CREATE INDEX proposals_digest ON proposals (digest);
CREATE INDEX proposals_change ON proposals (change_id) WHERE change_id IS NOT NULL;
