-- The texts that an agent wrote after it had read what came with a repository and what nobody had reviewed, with the
-- changes that did so. A text that a person wrote or accepted since is not among them.
CREATE TABLE influenced (
    identity TEXT NOT NULL,
    revision BLOB NOT NULL,
    change_id INTEGER NOT NULL,
    PRIMARY KEY (identity, revision, change_id)
) STRICT, WITHOUT ROWID;
