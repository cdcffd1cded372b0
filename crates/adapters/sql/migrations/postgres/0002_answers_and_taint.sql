-- The tools that brought untrusted content into a session.
CREATE TABLE taints (
    session BIGINT NOT NULL,
    tool TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (session, tool)
);

-- What people allowed for a session, as JSON. An answer that was taken back keeps its number and loses its body.
CREATE TABLE grants (
    session BIGINT NOT NULL,
    id BIGINT NOT NULL,
    body BYTEA,
    PRIMARY KEY (session, id)
);
