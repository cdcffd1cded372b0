-- The outputs of calls that are too long for a record, by the call's id. `bytes` and `lines` are those of all its chunks.
CREATE TABLE outputs (
    run BIGINT NOT NULL,
    call TEXT NOT NULL,
    tool TEXT NOT NULL,
    untrusted BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    lines BIGINT NOT NULL,
    PRIMARY KEY (run, call)
);

-- The pieces of an output: at which byte of it each begins, from 0, and in which line, from 1.
CREATE TABLE output_chunks (
    run BIGINT NOT NULL,
    call TEXT NOT NULL,
    start BIGINT NOT NULL,
    first_line BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (run, call, start)
);

INSERT INTO schema_version (version) VALUES (6);
