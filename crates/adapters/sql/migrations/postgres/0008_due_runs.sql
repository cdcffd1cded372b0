-- Finds the runs that nobody drives and that wait for nobody, however many wait: a summary says the status behind the number of
-- records.
CREATE INDEX runs_due ON runs (key) WHERE ended_at IS NULL
    AND (summary IS NULL OR substr(summary, strpos(summary, ','), 19) <> ',"status":"waiting"');

-- Finds the runs that have not taken what was posted to them.
CREATE INDEX inbox_untaken ON inbox (run) WHERE body IS NOT NULL;

-- From which version of the schema on programs can use the database as it is, though it is newer than they are.
ALTER TABLE schema_version ADD COLUMN reads_from BIGINT;
INSERT INTO schema_version (version, reads_from) VALUES (8, 8);
