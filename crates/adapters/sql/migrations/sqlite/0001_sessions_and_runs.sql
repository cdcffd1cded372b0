-- Sessions. `created_at` in microseconds since 1970; `seed` as JSON, absent if empty.
CREATE TABLE sessions (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    owner TEXT,
    created_at INTEGER NOT NULL,
    seed BLOB
) STRICT;
CREATE INDEX sessions_by_age ON sessions (created_at, id);
CREATE INDEX sessions_by_owner ON sessions (owner, created_at, id);

-- Runs. `token`, `holder` and `leased_until` (milliseconds) are the lease; `chain` is the hash chain of the session after
-- the last record of this run, which covers `chain_records` records. The rest tells of the records without reading them.
CREATE TABLE runs (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL UNIQUE,
    session INTEGER NOT NULL REFERENCES sessions (key),
    token INTEGER NOT NULL,
    holder TEXT NOT NULL,
    leased_until INTEGER,
    records INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    chain_records INTEGER NOT NULL,
    chain BLOB NOT NULL,
    status TEXT NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    turns INTEGER NOT NULL,
    finish_reason TEXT,
    text TEXT,
    pending TEXT,
    plan BLOB,
    metrics TEXT
) STRICT;
CREATE INDEX runs_by_session ON runs (session);
-- One run of a session at a time.
CREATE UNIQUE INDEX runs_at_work ON runs (session) WHERE ended_at IS NULL;

-- Steps: the records of one commit as JSON Lines. A line that begins with @ is the hash of a record kept in `payloads`.
CREATE TABLE steps (
    run INTEGER NOT NULL REFERENCES runs (key),
    first_seq INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,
    chain BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (run, first_seq)
) STRICT;

CREATE TABLE payloads (
    run INTEGER NOT NULL REFERENCES runs (key),
    hash BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (run, hash)
) STRICT;

-- What waits for a run. An entry that was taken keeps its hash and loses its body.
CREATE TABLE inbox (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL REFERENCES runs (key),
    id TEXT NOT NULL,
    hash BLOB NOT NULL,
    body BLOB,
    UNIQUE (run, id)
) STRICT;

-- The number of the last lease given. It only grows.
CREATE TABLE leases (last INTEGER NOT NULL) STRICT;
INSERT INTO leases (last) VALUES (0);
