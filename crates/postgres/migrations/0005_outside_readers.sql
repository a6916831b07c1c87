-- Agents that have read text that no person reviewed. `at` is the time of the last request that asked, by the server's clock.
CREATE TABLE outside_readers (
    owner bigint NOT NULL,
    reader text COLLATE "C" NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (owner, reader)
);
