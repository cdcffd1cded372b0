-- What the records of a run say in a few words, as JSON; none while there are none. In the place of a column for each.
ALTER TABLE runs ADD COLUMN summary TEXT;
ALTER TABLE runs DROP COLUMN status;
ALTER TABLE runs DROP COLUMN turns;
ALTER TABLE runs DROP COLUMN finish_reason;
ALTER TABLE runs DROP COLUMN text;
ALTER TABLE runs DROP COLUMN pending;
ALTER TABLE runs DROP COLUMN plan;
ALTER TABLE runs DROP COLUMN metrics;

-- Whether the run was imported and nobody has begun it since. It was said by the name of its holder.
ALTER TABLE runs ADD COLUMN imported BIGINT NOT NULL DEFAULT 0;
UPDATE runs SET imported = 1 WHERE holder = 'imported';

-- The request that the run was begun for: the hash of its idempotency key, and what it asked, as JSON.
ALTER TABLE runs ADD COLUMN request_key BYTEA;
ALTER TABLE runs ADD COLUMN request TEXT;
CREATE UNIQUE INDEX runs_by_key ON runs (session, request_key) WHERE request_key IS NOT NULL;

-- What the records of all runs of a session say that it carries from one to the next, as JSON; none if that is nothing.
ALTER TABLE sessions ADD COLUMN carried TEXT;

-- The numbers of the permissions that were taken back. The permissions themselves are in the records.
CREATE TABLE revoked (
    session BIGINT NOT NULL,
    id BIGINT NOT NULL,
    PRIMARY KEY (session, id)
);
DROP TABLE taints;
DROP TABLE grants;

INSERT INTO schema_version (version) VALUES (5);
