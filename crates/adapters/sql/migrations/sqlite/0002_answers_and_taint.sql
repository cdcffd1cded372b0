-- The tools that brought untrusted content into a session.
CREATE TABLE taints (
    session INTEGER NOT NULL REFERENCES sessions (key),
    tool TEXT NOT NULL,
    PRIMARY KEY (session, tool)
) STRICT;

-- What people allowed for a session, as JSON. An answer that was taken back keeps its number and loses its body.
CREATE TABLE grants (
    session INTEGER NOT NULL REFERENCES sessions (key),
    id INTEGER NOT NULL,
    body BLOB,
    PRIMARY KEY (session, id)
) STRICT;
