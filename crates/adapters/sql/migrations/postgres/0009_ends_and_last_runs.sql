-- Finds the last run of a session by itself: by the session alone, all runs after it were read where the session had many. The old
-- index goes first, so that nothing waits for a stronger lock while it holds one.
DROP INDEX runs_by_session;
CREATE INDEX runs_by_session ON runs (session, key);

-- Finds the runs that ended since a time. Those at work are found by `runs_at_work`.
CREATE INDEX runs_by_end ON runs (ended_at) WHERE ended_at IS NOT NULL;

-- Programs of version 8 use these indexes, and need not know them.
INSERT INTO schema_version (version, reads_from) VALUES (9, 8);
