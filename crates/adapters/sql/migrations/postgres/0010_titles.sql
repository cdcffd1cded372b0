-- What a person called a session; none if nobody did.
ALTER TABLE sessions ADD COLUMN title TEXT;

-- Programs of version 8 and 9 need not know it: sessions that they create have no title.
INSERT INTO schema_version (version, reads_from) VALUES (10, 8);
