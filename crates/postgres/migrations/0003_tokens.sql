-- Tokens of callers. Only their SHA-256 digests are stored: whoever reads this table cannot use them. A token without an end is
-- valid until it is revoked. The times are the server's.
CREATE TABLE tokens (
    owner bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    digest bytea NOT NULL UNIQUE,
    role text NOT NULL CHECK (role IN ('read', 'write', 'admin')),
    note text,
    created_at timestamptz NOT NULL,
    ends_at timestamptz,
    PRIMARY KEY (owner, id),
    UNIQUE (id)
);
