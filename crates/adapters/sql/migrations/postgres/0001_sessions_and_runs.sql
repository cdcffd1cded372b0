-- Sessions. `created_at` in microseconds since 1970; `seed` as JSON, absent if empty.
CREATE TABLE sessions (
    key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    owner TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    seed BYTEA
);
CREATE INDEX sessions_by_age ON sessions (created_at, id);
CREATE INDEX sessions_by_owner ON sessions (owner, created_at, id);

-- Runs. `token`, `holder` and `leased_until` (milliseconds) are the lease; `chain` is the hash chain of the session after
-- the last record of this run, which covers `chain_records` records. The rest tells of the records without reading them.
CREATE TABLE runs (
    key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id BYTEA NOT NULL UNIQUE,
    session BIGINT NOT NULL REFERENCES sessions (key),
    token BIGINT NOT NULL,
    holder TEXT NOT NULL,
    leased_until BIGINT,
    records BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    chain_records BIGINT NOT NULL,
    chain BYTEA NOT NULL,
    status TEXT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT,
    turns BIGINT NOT NULL,
    finish_reason TEXT,
    text TEXT,
    pending TEXT,
    plan BYTEA,
    metrics TEXT
);
CREATE INDEX runs_by_session ON runs (session);
-- One run of a session at a time.
CREATE UNIQUE INDEX runs_at_work ON runs (session) WHERE ended_at IS NULL;

-- Steps: the records of one commit as JSON Lines. A line that begins with @ is the hash of a record kept in `payloads`.
CREATE TABLE steps (
    run BIGINT NOT NULL,
    first_seq BIGINT NOT NULL,
    last_seq BIGINT NOT NULL,
    chain BYTEA NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (run, first_seq)
);

CREATE TABLE payloads (
    run BIGINT NOT NULL,
    hash BYTEA NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (run, hash)
);

-- What waits for a run. An entry that was taken keeps its hash and loses its body.
CREATE TABLE inbox (
    key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run BIGINT NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    hash BYTEA NOT NULL,
    body BYTEA,
    UNIQUE (run, id)
);

-- The number of the last lease given. It only grows.
CREATE SEQUENCE leases;
