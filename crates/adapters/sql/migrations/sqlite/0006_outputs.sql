-- The outputs of calls that are too long for a record, by the call's id. `bytes` and `lines` are those of all its chunks.
CREATE TABLE outputs (
    run INTEGER NOT NULL REFERENCES runs (key),
    call TEXT NOT NULL,
    tool TEXT NOT NULL,
    untrusted INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    lines INTEGER NOT NULL,
    PRIMARY KEY (run, call)
) STRICT;

-- The pieces of an output: at which byte of it each begins, from 0, and in which line, from 1.
CREATE TABLE output_chunks (
    run INTEGER NOT NULL REFERENCES runs (key),
    call TEXT NOT NULL,
    start INTEGER NOT NULL,
    first_line INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (run, call, start)
) STRICT;

PRAGMA user_version = 6;
