-- Finds the runs that began since a time. Their summaries say from this version on what they did by model, role, tool and
-- agent: those of earlier versions are made anew from the records.
CREATE INDEX runs_by_start ON runs (started_at);

PRAGMA user_version = 7;
