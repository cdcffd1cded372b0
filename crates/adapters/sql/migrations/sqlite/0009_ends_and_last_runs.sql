-- Finds the runs that ended since a time. Those at work are found by `runs_at_work`. The last run of a session is found by
-- `runs_by_session`, which holds the key of the row.
CREATE INDEX runs_by_end ON runs (ended_at) WHERE ended_at IS NOT NULL;

PRAGMA user_version = 9;
