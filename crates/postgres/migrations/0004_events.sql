-- The log of events, so that a client can continue a stream at any daemon. An event has `count` numbers, of which `number` is
-- the last; the counter of the owner gives them in the order of the commits, without gaps. Of the kind `change`, a change is
-- complete in the place `subject`; it has one number for each of its files there, and `workspace` is that of its task. The subject
-- of the other kinds is JSON. The times are the server's, in nanoseconds since 1970 in UTC. Only the newest numbers are kept.
CREATE TABLE events (
    owner bigint NOT NULL,
    number bigint NOT NULL,
    count bigint NOT NULL CHECK (count > 0),
    at bigint NOT NULL,
    kind text NOT NULL CHECK (kind IN ('change', 'task', 'pin', 'proposals')),
    change_id bigint,
    workspace text COLLATE "C",
    subject text COLLATE "C" NOT NULL,
    PRIMARY KEY (owner, number)
);

-- Changes up to `imported_change` came with a copy of a home, and are no events.
ALTER TABLE counters
    ADD COLUMN last_event bigint NOT NULL DEFAULT 0,
    ADD COLUMN imported_change bigint NOT NULL DEFAULT 0;

-- The files that a change has in one place.
CREATE INDEX change_files_place ON change_files (owner, place, change_id);
