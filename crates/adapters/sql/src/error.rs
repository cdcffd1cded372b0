//! What goes wrong with a database, in the words of the port.

use std::path::PathBuf;

use neuraxis_ports::StoreError;
use sqlx::Error;
use sqlx::error::DatabaseError;

use crate::own_file::UnsafeFile;

/// Why a database cannot be used. No variant holds a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL names no database that this store can use, or what stands in it cannot be read.
    #[error(
        "{url} cannot be read as the address of a database: it must be sqlite://PATH or postgres://USER@HOST:PORT/DATABASE, with one \
         host, and a password as USER:PASSWORD"
    )]
    Url {
        /// The URL, without its password.
        url: String,
    },
    /// The query of the URL of a Postgres server says what has no meaning there.
    #[error(
        "{url} says {name} in its query, which is not known: sslmode, sslrootcert, sslcert, sslkey, host, hostaddr, port, dbname, \
         user, password, application_name and options are; where it says channel_binding=require, say sslmode=verify-full"
    )]
    Parameter {
        /// The URL, without its password and its query.
        url: String,
        /// The name without its value, or `***` where it may be a piece of a password.
        name: String,
    },
    /// The URL names a database that this program was built without.
    #[error(
        "{url} names a database that this program was built without: turn on the feature `sqlite` or `postgres` of neuraxis-sql"
    )]
    NotBuilt {
        /// The URL, without its password.
        url: String,
    },
    /// The folder or the file cannot be made.
    #[error("{} cannot be made", path.display())]
    File {
        /// The folder or the file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// The file, or one beside it, is not one's own.
    #[error("the database is not opened")]
    Unsafe(#[from] UnsafeFile),
    /// The log cannot be copied to its folder.
    #[error("the log cannot be copied to {}", folder.display())]
    LogCopy {
        /// The folder.
        folder: PathBuf,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// Another program's data is there.
    #[error("{place} holds something else than sessions: nothing was changed")]
    Foreign {
        /// The database.
        place: String,
    },
    /// A newer version of this program has used it.
    #[error(
        "{place} has schema version {found}, and this program knows versions up to {known}: use a newer one"
    )]
    Newer {
        /// The database.
        place: String,
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// It has an older schema, and was to be opened only as it is: [`OlderSchema::Refused`](crate::OlderSchema::Refused).
    #[error(
        "{place} has schema version {found}; this version of the program brings it to {known} once it is used, not only looked \
         at, and older programs may refuse it from then on"
    )]
    Older {
        /// The database.
        place: String,
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The database of a Postgres server keeps text in an encoding without most letters: records with others would be refused.
    #[error(
        "{place} has the encoding {encoding}, in which not every text can be kept: make a database with CREATE DATABASE name \
         ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0, and bring over what this one holds with pg_dump and psql"
    )]
    Encoding {
        /// The database.
        place: String,
        /// Its encoding, as the server calls it.
        encoding: String,
    },
    /// Another process keeps it locked.
    #[error("{place} is locked by another process")]
    Locked {
        /// The database.
        place: String,
    },
    /// There is no room for what opening it has to write: a new file, a new schema.
    #[error("{place} cannot be written: the disk is full")]
    Full {
        /// The database.
        place: String,
    },
    /// The database itself cannot be reached or read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why something was not done.
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
    /// Says it in the words of the port; `place` is the file or the server.
    pub(crate) fn at(self, place: &str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Database(error) => store_error(&error, place),
        }
    }
}

/// How a failure of the database goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The connection is of no more use; a new one may work.
    Broken,
    /// It passes: a lock, a full disk, a server that restarts.
    Passing,
    /// The disk failed: nothing more may be promised.
    Disk,
    /// The database does not let the statement be run, such as where a right is missing: what is stored is as it was.
    Refused,
    /// What is stored cannot be read, or this program is wrong.
    Lasting,
}

/// Tells whether somebody else holds a lock that was waited for in vain: lock_not_available, SQLITE_BUSY.
pub(crate) fn is_locked(error: &Error) -> bool {
    has_code(error, "55P03", 5)
}

/// Tells whether there is no room left: disk_full, SQLITE_FULL.
pub(crate) fn is_full(error: &Error) -> bool {
    has_code(error, "53100", 13)
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

/// Tells whether an error is one of a Postgres server, and not of a file of SQLite.
#[cfg(feature = "postgres")]
fn is_of_server(error: &dyn DatabaseError) -> bool {
    error
        .try_downcast_ref::<sqlx::postgres::PgDatabaseError>()
        .is_some()
}

/// Without Postgres, none is.
#[cfg(not(feature = "postgres"))]
fn is_of_server(_: &dyn DatabaseError) -> bool {
    false
}

pub(crate) fn kind(error: &Error) -> Kind {
    match error {
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
        _ => Kind::Lasting,
    }
}

/// What SQLite says where the disk has no room for the index of its log, which no record depends on: SQLITE_IOERR_SHMSIZE.
const NO_ROOM_FOR_INDEX: &str = "4874";

/// Returns the primary code of SQLite's extended ones, which is their low byte (<https://www.sqlite.org/rescode.html>).
fn primary(code: &str) -> u32 {
    match code {
        NO_ROOM_FOR_INDEX => 13,
        code => code.parse::<u32>().unwrap_or_default() & 0xff,
    }
}

fn sqlite_kind(code: &str) -> Kind {
    match primary(code) {
        // BUSY, LOCKED, NOMEM, READONLY, FULL, CANTOPEN, PROTOCOL
        5 | 6 | 7 | 8 | 13 | 14 | 15 => Kind::Passing,
        // IOERR
        10 => Kind::Disk,
        _ => Kind::Lasting,
    }
}

/// By the classes of SQLSTATE (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
fn postgres_kind(code: &str) -> Kind {
    match code.get(..2).unwrap_or_default() {
        // given up after `patience_ms`, which everybody who waits has waited then: the connection is as good as before
        "57" if code == "57014" => Kind::Passing,
        // connection exception; operator intervention such as a shutdown
        "08" | "57" => Kind::Broken,
        // read only: a server that another one took the place of, or whose disk is full; given up for its stall
        "25" if matches!(code, "25006" | "25P03" | "25P04") => Kind::Broken,
        // access rule violation or a name that is not there; a prepared statement that a pooler took away
        "42" | "26" => Kind::Refused,
        // rollback for concurrency; insufficient resources; lock not available; system error; not yet authenticated
        "40" | "53" | "55" | "58" | "28" | "3D" => Kind::Passing,
        _ => Kind::Lasting,
    }
}

fn store_error(error: &Error, place: &str) -> StoreError {
    // Of a server's words only its message: details may hold data.
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
        Error::Tls(_) => "no encrypted connection".to_owned(),
        Error::Configuration(_) => "the connection is not set up right".to_owned(),
        other => other.to_string(),
    };
    let message = format!("{place}: {why}");
    match kind(error) {
        Kind::Broken | Kind::Passing => StoreError::Unavailable(message),
        Kind::Refused => StoreError::Refused(message),
        Kind::Disk | Kind::Lasting => StoreError::Damaged(message),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    /// What SQLite says with one of its codes.
    #[derive(Debug, thiserror::Error)]
    #[error("disk I/O error")]
    struct Told(&'static str);

    impl DatabaseError for Told {
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
        Error::Database(Box::new(Told(code)))
    }

    #[test]
    fn a_disk_without_room_for_the_index_of_the_log_is_full_and_not_damaged() {
        let error = told("4874");
        assert!(is_full(&error));
        assert_eq!(kind(&error), Kind::Passing);
        let expected = "s.db: the disk is full: disk I/O error (code 4874)";
        let StoreError::Unavailable(said) = store_error(&error, "s.db") else {
            panic!("a full disk is not for ever");
        };
        assert_eq!(said, expected);
    }

    /// What waited for somebody else's lock until the server gave it up is not to wait for it again at once.
    #[test]
    fn a_statement_that_a_server_gave_up_for_its_time_breaks_no_connection() {
        assert_eq!(postgres_kind("57014"), Kind::Passing);
        for shutdown in ["57P01", "57P02", "57P03"] {
            assert_eq!(postgres_kind(shutdown), Kind::Broken, "{shutdown}");
        }
    }

    #[test]
    fn a_right_that_is_missing_damages_nothing() {
        // insufficient_privilege, undefined_table; data_corrupted, index_corrupted
        for (code, expected) in [
            ("42501", Kind::Refused),
            ("42P01", Kind::Refused),
            ("XX001", Kind::Lasting),
            ("XX002", Kind::Lasting),
        ] {
            assert_eq!(postgres_kind(code), expected, "{code}");
        }
    }

    /// After a failed `fsync` nobody knows what is on the disk.
    #[test]
    fn a_disk_that_fails_and_a_damaged_file_do_not_pass() {
        // SQLITE_IOERR_WRITE and _FSYNC; SQLITE_CORRUPT and _NOTADB
        for (code, expected) in [
            ("778", Kind::Disk),
            ("1034", Kind::Disk),
            ("11", Kind::Lasting),
            ("26", Kind::Lasting),
        ] {
            assert_eq!(kind(&told(code)), expected, "{code}");
            assert!(!is_full(&told(code)), "{code}");
        }
    }
}
