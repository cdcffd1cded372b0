-- When the last run of a session ended or, if it has not, began, in microseconds since 1970; none if no run has a record.
ALTER TABLE sessions ADD COLUMN last_active_at INTEGER;
UPDATE sessions SET last_active_at = (
    SELECT coalesce(ended_at, started_at) FROM runs
    WHERE session = sessions.key AND started_at IS NOT NULL ORDER BY runs.key DESC LIMIT 1
);

-- Finds the sessions that were used last.
CREATE INDEX sessions_by_activity ON sessions (coalesce(last_active_at, created_at), id);
CREATE INDEX sessions_by_owner_and_activity ON sessions (owner, coalesce(last_active_at, created_at), id);

-- Triggers, so that it costs no statement of its own where a run begins or ends, and nothing where a run goes on. A session
-- that is created with its run has the time already.
CREATE TRIGGER run_began AFTER INSERT ON runs WHEN NEW.started_at IS NOT NULL
BEGIN
    UPDATE sessions SET last_active_at = coalesce(NEW.ended_at, NEW.started_at)
    WHERE key = NEW.session AND last_active_at IS NOT coalesce(NEW.ended_at, NEW.started_at);
END;
CREATE TRIGGER run_began_or_ended AFTER UPDATE OF started_at, ended_at ON runs
WHEN NEW.started_at IS NOT OLD.started_at OR NEW.ended_at IS NOT OLD.ended_at
BEGIN
    UPDATE sessions SET last_active_at = coalesce(NEW.ended_at, NEW.started_at) WHERE key = NEW.session;
END;

PRAGMA user_version = 11;
