-- What a conversation was given at the beginning of the segment that it is in, and what it was told since of which
-- memories there are. `version` counts its writes: whoever read an older one writes nothing.
CREATE TABLE segments (
    conversation TEXT NOT NULL PRIMARY KEY,
    segment INTEGER NOT NULL,
    version INTEGER NOT NULL,
    heard_at INTEGER NOT NULL,
    data TEXT NOT NULL
) STRICT;

CREATE INDEX segments_heard ON segments (heard_at);
