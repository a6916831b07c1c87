-- What a conversation was shown, and how far it is. `version` counts its writes: whoever read an older one
-- writes nothing.
CREATE TABLE conversations (
    id TEXT NOT NULL PRIMARY KEY,
    workspace TEXT NOT NULL,
    version INTEGER NOT NULL,
    heard_at INTEGER NOT NULL,
    data TEXT NOT NULL
) STRICT;

CREATE INDEX conversations_heard ON conversations (heard_at);
