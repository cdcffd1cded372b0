//! Database failures, mapped to the errors of the port.

use std::io::ErrorKind;
use std::path::PathBuf;

use neuraxis_ports::StoreError;
use sqlx::Error;
use sqlx::error::DatabaseError;

use crate::own_file::UnsafeFile;

/// Why a database cannot be used. No variant holds a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL names no database that this store can use, or cannot be parsed.
    #[error(
        "{url} is not a valid database URL; expected sqlite://PATH or postgres://USER@HOST:PORT/DATABASE, with one \
         host, and a password as USER:PASSWORD"
    )]
    Url {
        /// The URL, without its password.
        url: String,
    },
    /// The query of a Postgres URL has an unknown parameter.
    #[error(
        "{url} has an unknown query parameter {name}; the supported ones are sslmode, sslrootcert, sslcert, sslkey, \
         host, hostaddr, port, dbname, user, password, application_name and options; instead of \
         channel_binding=require, use sslmode=verify-full"
    )]
    Parameter {
        /// The URL, without its password and its query.
        url: String,
        /// The parameter's name without its value, or `***` if it may be a piece of a password.
        name: String,
    },
    /// The URL names a database that this program was built without.
    #[error(
        "{url} needs a database that this program was built without; enable the feature `sqlite` or `postgres` of \
         neuraxis-sql"
    )]
    NotBuilt {
        /// The URL, without its password.
        url: String,
    },
    /// The folder or the file cannot be created.
    #[error("cannot create {}", path.display())]
    File {
        /// The folder or the file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The file, or one beside it, is not safe to use: for example, another user owns it.
    #[error("cannot open the database")]
    Unsafe(#[from] UnsafeFile),
    /// The log cannot be copied to its folder.
    #[error("cannot copy the log to {}", folder.display())]
    LogCopy {
        /// The folder.
        folder: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The database holds another program's data.
    #[error("{place} contains something other than sessions; nothing was changed")]
    Foreign {
        /// The database.
        place: String,
    },
    /// A newer version of this program has used it.
    #[error(
        "{place} has schema version {found}, but this program supports versions up to {known}; use a newer version of \
         the program"
    )]
    Newer {
        /// The database.
        place: String,
        /// The version of its schema.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// The database has an older schema, and the caller asked for
    /// [`OlderSchema::Refuse`](crate::OlderSchema::Refuse).
    #[error(
        "{place} has schema version {found}; when used for more than reading, this version of the program upgrades it to \
         {known}, and older versions may then refuse it"
    )]
    Older {
        /// The database.
        place: String,
        /// The version of its schema.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// A file that can only be read has an older schema, which this program cannot read.
    #[error(
        "{place} has schema version {found}, which must be upgraded to {known} before this version of the program can \
         read it, but the file or its folder cannot be written; copy it to a folder that can, and name the copy"
    )]
    OlderReadOnly {
        /// The file.
        place: String,
        /// The version of its schema.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// A Postgres database stores text in an encoding that lacks most characters: records with any of those would be
    /// refused.
    #[error(
        "{place} has the encoding {encoding}, which cannot store all text; create a database with CREATE DATABASE \
         name ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0, and transfer the contents of this one \
         with pg_dump and psql"
    )]
    Encoding {
        /// The database.
        place: String,
        /// The encoding, as the server names it.
        encoding: String,
    },
    /// Another process holds a lock on the database.
    #[error("{place} is locked by another process")]
    Locked {
        /// The database.
        place: String,
    },
    /// There is no space for what opening writes, such as a new file or a new schema.
    #[error("cannot write to {place}: the disk is full")]
    Full {
        /// The database.
        place: String,
    },
    /// The database itself cannot be reached or read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an operation failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The rules of the store forbid it. Nothing was changed.
    Refused(StoreError),
    /// The database failed.
    Database(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl Failure {
    /// Converts the failure to an error of the port; `place` is the file or the server.
    pub(crate) fn at(self, place: &str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Database(error) => store_error(&error, place),
        }
    }
}

/// What a failure of the database means for later operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The connection is no longer usable; a new one may work.
    Broken,
    /// A lock, a full disk, a server that restarts.
    Transient,
    /// The disk failed: no further commit can be acknowledged.
    Disk,
    /// The database refuses the statement, for example because a privilege is missing. Stored data is unchanged.
    Refused,
    /// Stored data cannot be read, or this program has a bug.
    Permanent,
}

/// Returns whether waiting for a lock held elsewhere timed out: lock_not_available, SQLITE_BUSY.
pub(crate) fn is_locked(error: &Error) -> bool {
    has_code(error, "55P03", 5)
}

/// Returns whether there is no space left: disk_full, SQLITE_FULL.
pub(crate) fn is_full(error: &Error) -> bool {
    has_code(error, "53100", 13)
}

/// Returns whether no writes are accepted: read_only_sql_transaction, SQLITE_READONLY, or a file that can only be read.
fn is_read_only(error: &Error) -> bool {
    has_code(error, "25006", 8) || is_read_only_file(error)
}

fn is_read_only_file(error: &Error) -> bool {
    matches!(error, Error::Io(error) if error.kind() == ErrorKind::ReadOnlyFilesystem)
}

/// Returns whether SQLite cannot open a file, or one beside it: SQLITE_CANTOPEN, SQLITE_READONLY.
pub(crate) fn cannot_open(error: &Error) -> bool {
    // No SQLSTATE of a server is empty.
    has_code(error, "", 14) || has_code(error, "", 8)
}

/// Compares with an SQLSTATE, or with one of SQLite's primary codes.
fn has_code(error: &Error, postgres: &str, sqlite: u32) -> bool {
    let Some(error) = error.as_database_error() else {
        return false;
    };
    let code = error.code().unwrap_or_default();
    match is_of_server(error) {
        true => code == postgres,
        false => primary(&code) == sqlite,
    }
}

/// Returns whether an error comes from a Postgres server, not from SQLite.
#[cfg(feature = "postgres")]
fn is_of_server(error: &dyn DatabaseError) -> bool {
    error
        .try_downcast_ref::<sqlx::postgres::PgDatabaseError>()
        .is_some()
}

/// Without Postgres, no error does.
#[cfg(not(feature = "postgres"))]
fn is_of_server(_: &dyn DatabaseError) -> bool {
    false
}

pub(crate) fn kind(error: &Error) -> Kind {
    match error {
        // A new connection would not help.
        error if is_read_only_file(error) => Kind::Transient,
        Error::Io(_)
        | Error::Tls(_)
        | Error::Protocol(_)
        | Error::PoolTimedOut
        | Error::PoolClosed
        | Error::WorkerCrashed => Kind::Broken,
        Error::Database(error) => {
            let code = error.code().unwrap_or_default();
            if is_of_server(error.as_ref()) {
                postgres_kind(&code)
            } else {
                sqlite_kind(&code)
            }
        }
        _ => Kind::Permanent,
    }
}

/// The SQLite error for a disk without space for the write-ahead log's index, which no record depends on:
/// SQLITE_IOERR_SHMSIZE.
const NO_ROOM_FOR_INDEX: &str = "4874";

/// Returns the primary code of an extended SQLite code: its low byte (<https://www.sqlite.org/rescode.html>).
fn primary(code: &str) -> u32 {
    match code {
        NO_ROOM_FOR_INDEX => 13,
        code => code.parse::<u32>().unwrap_or_default() & 0xff,
    }
}

fn sqlite_kind(code: &str) -> Kind {
    match primary(code) {
        // BUSY, LOCKED, NOMEM, READONLY, FULL, CANTOPEN, PROTOCOL
        5 | 6 | 7 | 8 | 13 | 14 | 15 => Kind::Transient,
        // IOERR
        10 => Kind::Disk,
        _ => Kind::Permanent,
    }
}

/// Classifies by SQLSTATE classes (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
fn postgres_kind(code: &str) -> Kind {
    match code.get(..2).unwrap_or_default() {
        // cancelled after `patience_ms`, which is how long callers wait: the connection is still good
        "57" if code == "57014" => Kind::Transient,
        // connection exception; operator intervention such as a shutdown
        "08" | "57" => Kind::Broken,
        // read only: a server that another one has replaced, or whose disk is full; or a transaction that was ended for
        // idling or for taking too long
        "25" if matches!(code, "25006" | "25P03" | "25P04") => Kind::Broken,
        // access rule violation or an undefined name; a prepared statement that a pooler dropped
        "42" | "26" => Kind::Refused,
        // rollback for concurrency; insufficient resources; lock not available; system error; not yet authenticated
        "40" | "53" | "55" | "58" | "28" | "3D" => Kind::Transient,
        _ => Kind::Permanent,
    }
}

fn store_error(error: &Error, place: &str) -> StoreError {
    // From a server, only the message: details may hold data.
    let why = match error {
        Error::Database(error) => match error.code() {
            Some(code) if code == NO_ROOM_FOR_INDEX => {
                format!("the disk is full: {} (code {code})", error.message())
            }
            Some(code) => format!("{} (code {code})", error.message()),
            None => error.message().to_owned(),
        },
        Error::PoolTimedOut => "no answer in time, or no free connection".to_owned(),
        Error::PoolClosed | Error::WorkerCrashed => "the connection is closed".to_owned(),
        Error::Io(error) => error.to_string(),
        Error::Tls(_) => "cannot establish an encrypted connection".to_owned(),
        Error::Configuration(_) => "invalid connection settings".to_owned(),
        other => other.to_string(),
    };
    let message = format!("{place}: {why}");
    match kind(error) {
        Kind::Broken | Kind::Transient if is_full(error) => StoreError::Full(message),
        Kind::Broken | Kind::Transient if is_read_only(error) => StoreError::ReadOnly(message),
        Kind::Broken | Kind::Transient => StoreError::Unavailable(message),
        Kind::Refused => StoreError::Refused(message),
        Kind::Disk | Kind::Permanent => StoreError::Damaged(message),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    /// The message that SQLite has for one of its codes.
    #[derive(Debug, thiserror::Error)]
    #[error("disk I/O error")]
    struct SqliteMessage(&'static str);

    impl DatabaseError for SqliteMessage {
        fn message(&self) -> &str {
            "disk I/O error"
        }

        fn code(&self) -> Option<Cow<'_, str>> {
            Some(self.0.into())
        }

        fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
            self
        }

        fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
            self
        }

        fn into_error(self: Box<Self>) -> Box<dyn std::error::Error + Send + Sync + 'static> {
            self
        }

        fn kind(&self) -> sqlx::error::ErrorKind {
            sqlx::error::ErrorKind::Other
        }
    }

    fn told(code: &'static str) -> Error {
        Error::Database(Box::new(SqliteMessage(code)))
    }

    #[test]
    fn a_disk_without_room_for_the_wal_index_is_full_and_not_damaged() {
        let error = told("4874");
        assert!(is_full(&error));
        assert_eq!(kind(&error), Kind::Transient);
        let expected = "s.db: the disk is full: disk I/O error (code 4874)";
        assert_eq!(
            store_error(&error, "s.db"),
            StoreError::Full(expected.to_owned())
        );
    }

    #[test]
    fn what_may_pass_says_whether_space_or_the_right_to_write_is_missing() {
        // SQLITE_READONLY_DBMOVED, SQLITE_FULL, SQLITE_BUSY
        let of = |code| store_error(&told(code), "s.db");
        assert!(matches!(of("1032"), StoreError::ReadOnly(_)));
        assert!(matches!(of("13"), StoreError::Full(_)));
        assert!(matches!(of("5"), StoreError::Unavailable(_)));
        for code in ["1032", "13", "5"] {
            assert!(of(code).is_retryable(), "{code}");
        }
    }

    /// A statement that timed out on another session's lock must not immediately wait for it again.
    #[test]
    fn a_statement_cancelled_by_timeout_does_not_break_the_connection() {
        assert_eq!(postgres_kind("57014"), Kind::Transient);
        for shutdown in ["57P01", "57P02", "57P03"] {
            assert_eq!(postgres_kind(shutdown), Kind::Broken, "{shutdown}");
        }
    }

    #[test]
    fn a_missing_privilege_is_refused_and_not_reported_as_damage() {
        // insufficient_privilege, undefined_table; data_corrupted, index_corrupted
        for (code, expected) in [
            ("42501", Kind::Refused),
            ("42P01", Kind::Refused),
            ("XX001", Kind::Permanent),
            ("XX002", Kind::Permanent),
        ] {
            assert_eq!(postgres_kind(code), expected, "{code}");
        }
    }

    /// After a failed `fsync`, what is on the disk is unknown.
    #[test]
    fn a_failing_disk_and_a_damaged_file_are_not_transient() {
        // SQLITE_IOERR_WRITE and _FSYNC; SQLITE_CORRUPT and _NOTADB
        for (code, expected) in [
            ("778", Kind::Disk),
            ("1034", Kind::Disk),
            ("11", Kind::Permanent),
            ("26", Kind::Permanent),
        ] {
            assert_eq!(kind(&told(code)), expected, "{code}");
            assert!(!is_full(&told(code)), "{code}");
        }
    }
}
