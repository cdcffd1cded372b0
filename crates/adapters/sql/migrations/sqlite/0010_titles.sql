-- What a person called a session; none if nobody did.
ALTER TABLE sessions ADD COLUMN title TEXT;

PRAGMA user_version = 10;
