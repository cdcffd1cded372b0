//! Whether the file of a database can be written here, and how to read it if not.
//!
//! Reading a file with a write-ahead log usually writes, too: SQLite puts an index of the log beside it. Where that is
//! impossible, a file with nothing beside it can still be read as one that never changes. A file whose log holds data is
//! never read without it.

use std::fs::Metadata;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use neuraxis_ports::StoreError;

use super::file::{INDEX, JOURNAL, LOG, with};
use crate::error::OpenError;

/// How a file can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Access {
    /// It can be written, or does not exist.
    Full,
    /// It can only be read, together with the files beside it.
    Read,
    /// It can only be read, and nothing is beside it: as if it never changed.
    ReadAlone(Unchanged),
}

/// A file at the time when it was opened as one that never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unchanged {
    path: PathBuf,
    /// Its length in bytes, and when it was last changed.
    seen: Option<(u64, SystemTime)>,
}

impl Access {
    /// Finds out how a file can be used. Changes nothing.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] if its log holds data that cannot be read where it is.
    pub(super) fn of(path: &Path) -> Result<Self, OpenError> {
        Self::determine(path, may_write)
    }

    /// Same as [`of`](Self::of); `may_write` says what this process may do.
    fn determine(path: &Path, may_write: fn(&Path, Kind) -> bool) -> Result<Self, OpenError> {
        let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let is_empty = |file: &Path| file.metadata().map_or(0, |found| found.len()) == 0;
        let has_index = with(path, INDEX).exists();
        let may_put_beside = may_write(folder, Kind::Folder);
        if is_empty(path) || (may_write(path, Kind::File) && (may_put_beside || has_index)) {
            return Ok(Self::Full);
        }
        let mut logs = [with(path, LOG), with(path, JOURNAL)].into_iter();
        let log = logs.find(|log| !is_empty(log));
        let log = match log {
            None if !has_index => return Ok(Self::ReadAlone(Unchanged::of(path))),
            Some(log) if !has_index && !may_put_beside => log,
            _ => return Ok(Self::Read),
        };
        let (path, log) = (path.display(), log.display());
        Err(OpenError::Store(StoreError::ReadOnly(format!(
            "{path}: {log} holds part of its data, which can only be read in a folder that can be written; copy both \
             files to one, and name the copy"
        ))))
    }

    /// Fails if the file can only be read.
    pub(super) fn check_write(&self) -> Result<(), Error> {
        match self {
            Self::Full => Ok(()),
            Self::Read | Self::ReadAlone(_) => {
                let why = "it or its folder cannot be written here, so it is only read";
                Err(Error::new(ErrorKind::ReadOnlyFilesystem, why))
            }
        }
    }

    /// Fails if the file was opened as one that never changes, and did. What was read since may be wrong. Asked before each
    /// use of a connection, so a change during the last one is not noticed.
    pub(super) fn check_unchanged(&self) -> Result<(), Error> {
        match self {
            Self::ReadAlone(then) if Unchanged::of(&then.path) != *then => Err(Error::other(
                "another program changed the file while it was read; run this again",
            )),
            _ => Ok(()),
        }
    }
}

impl Unchanged {
    fn of(path: &Path) -> Self {
        let seen = |found: Metadata| Some((found.len(), found.modified().ok()?));
        let is_alone = !with(path, INDEX).exists();
        let found = path.metadata().ok().filter(|_| is_alone);
        Self {
            path: path.to_owned(),
            seen: found.and_then(seen),
        }
    }
}

/// What is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Folder,
}

/// Returns whether this process may write a file, or create files in a folder.
#[cfg(unix)]
fn may_write(path: &Path, kind: Kind) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};

    let wanted = match kind {
        Kind::File => Access::WRITE_OK,
        Kind::Folder => Access::WRITE_OK | Access::EXEC_OK,
    };
    accessat(CWD, path, wanted, AtFlags::EACCESS).is_ok()
}

/// Returns whether a file is not marked as read-only. Elsewhere that mark says nothing about a folder.
#[cfg(not(unix))]
fn may_write(path: &Path, kind: Kind) -> bool {
    let is_marked = || path.metadata().is_ok_and(|it| it.permissions().readonly());
    kind == Kind::Folder || !is_marked()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use neuraxis_ports::{Session, SessionIndex as _};
    use neuraxis_testkit::START;

    use super::*;
    use crate::config::SqlConfig;
    use crate::database::Database;
    use crate::database::sqlite::prepare_with;
    use crate::schema;
    use crate::store::SqlStore;

    /// Closes a database with one session, as it is in a backup, and returns its file.
    async fn stored(folder: &Path) -> PathBuf {
        let file = folder.join("sessions.db");
        let store = SqlStore::open(&config_of(&file)).await.unwrap();
        let session = Session::new("main".parse().unwrap(), START);
        store.create_session(&session).await.unwrap();
        store.close().await;
        file
    }

    fn config_of(file: &Path) -> SqlConfig {
        SqlConfig::new(format!("sqlite://{}", file.display()))
    }

    /// Opens a file as where it cannot be written.
    async fn opened(file: &Path) -> Result<Database, OpenError> {
        let access = Access::determine(file, |_, _| false)?;
        schema::readable(prepare_with(access, file, &config_of(file))).await
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_written_is_read_and_nothing_is_put_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = stored(folder.path()).await;
        let before = fs::read(&file).unwrap();
        let database = opened(&file).await.unwrap();
        assert!(database.is_read_only());
        let mut link = database.reader().await.unwrap();
        let row = link.row("SELECT count(*) FROM sessions", &[]).await;
        assert_eq!(row.unwrap().unwrap().int(0).unwrap(), 1);
        link.close().await;
        let refused = database.writer().await.unwrap_err();
        let refused = database.store_error(refused.into());
        assert!(matches!(refused, StoreError::ReadOnly(_)), "{refused}");
        assert!(refused.to_string().contains("sessions.db"), "{refused}");
        database.close().await;
        assert!(fs::read(&file).unwrap() == before, "it was changed");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn a_file_that_another_program_changes_meanwhile_is_not_read_further() {
        let folder = tempfile::tempdir().unwrap();
        let file = stored(folder.path()).await;
        let database = opened(&file).await.unwrap();
        fs::write(with(&file, INDEX), "").unwrap();
        let changed = database.reader().await.unwrap_err();
        let changed = database.store_error(changed.into());
        assert!(matches!(changed, StoreError::Unavailable(_)), "{changed}");
        assert!(changed.to_string().contains("run this again"), "{changed}");
        database.close().await;
    }

    #[tokio::test]
    async fn an_older_file_that_cannot_be_upgraded_is_refused_with_both_versions() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions.db");
        let older = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sql/schema-9.db");
        fs::copy(older, &file).unwrap();
        let refused = opened(&file).await.unwrap_err();
        assert!(
            matches!(refused, OpenError::OlderReadOnly { found: 9, .. }),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn a_file_is_never_read_without_the_data_in_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let file = stored(folder.path()).await;
        fs::write(with(&file, LOG), "data").unwrap();
        let refused = opened(&file).await.unwrap_err().to_string();
        assert!(refused.contains("sessions.db-wal holds part"), "{refused}");
        // In a folder that can be written, or with an index, SQLite reads the log.
        let only_file = |_: &Path, kind: Kind| kind == Kind::Folder;
        assert_eq!(Access::determine(&file, only_file).unwrap(), Access::Read);
        fs::write(with(&file, INDEX), "").unwrap();
        let nothing = |_: &Path, _: Kind| false;
        assert_eq!(Access::determine(&file, nothing).unwrap(), Access::Read);
    }

    #[test]
    fn a_file_that_can_be_written_or_does_not_exist_is_opened_as_usual() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions.db");
        assert_eq!(Access::of(&file).unwrap(), Access::Full);
        fs::write(&file, "something").unwrap();
        assert_eq!(Access::of(&file).unwrap(), Access::Full);
        // The files beside it exist, so none needs to be put there.
        let only_file = |_: &Path, kind: Kind| kind == Kind::File;
        fs::write(with(&file, INDEX), "").unwrap();
        assert_eq!(Access::determine(&file, only_file).unwrap(), Access::Full);
    }
}
