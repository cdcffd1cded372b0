-- Before anything else: servers of the previous version may be committing, and they lock a run before its session.
LOCK TABLE runs IN SHARE ROW EXCLUSIVE MODE;

-- When the last run of a session ended or, if it has not, began, in microseconds since 1970; none if no run has a record.
ALTER TABLE sessions ADD COLUMN last_active_at BIGINT;
UPDATE sessions SET last_active_at = (
    SELECT coalesce(ended_at, started_at) FROM runs
    WHERE session = sessions.key AND started_at IS NOT NULL ORDER BY runs.key DESC LIMIT 1
);

-- Finds the sessions that were used last.
CREATE INDEX sessions_by_activity ON sessions (coalesce(last_active_at, created_at), id);
CREATE INDEX sessions_by_owner_and_activity ON sessions (owner, coalesce(last_active_at, created_at), id);

-- Triggers, so that it costs no statement of its own where a run begins or ends, and nothing where a run goes on. A session
-- that is created with its run has the time already. Programs of versions 8 to 10 keep it up to date in this way, too.
CREATE FUNCTION note_activity() RETURNS trigger LANGUAGE plpgsql
    -- A restore of the data alone uses another search path.
    SET search_path FROM CURRENT
    AS $$
BEGIN
    UPDATE sessions SET last_active_at = coalesce(NEW.ended_at, NEW.started_at)
    WHERE key = NEW.session AND last_active_at IS DISTINCT FROM coalesce(NEW.ended_at, NEW.started_at)
        -- A restore brings the runs of a session in any order.
        AND NOT EXISTS (SELECT 1 FROM runs WHERE session = NEW.session AND key > NEW.key);
    RETURN NULL;
END
$$;
CREATE TRIGGER run_began AFTER INSERT ON runs FOR EACH ROW
    WHEN (NEW.started_at IS NOT NULL)
    EXECUTE FUNCTION note_activity();
CREATE TRIGGER run_began_or_ended AFTER UPDATE OF started_at, ended_at ON runs FOR EACH ROW
    WHEN (NEW.started_at IS DISTINCT FROM OLD.started_at OR NEW.ended_at IS DISTINCT FROM OLD.ended_at)
    EXECUTE FUNCTION note_activity();

INSERT INTO schema_version (version, reads_from) VALUES (11, 8);
