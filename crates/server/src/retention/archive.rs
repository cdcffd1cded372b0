//! The folder that old sessions are archived in: one file per session, written completely or not at all.
//!
//! Not for the content of such a file, which [`Sessions::export`](neuraxis::engine::Sessions::export) writes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use neuraxis::core::jiff::Timestamp;
use neuraxis::core::uuid::Uuid;
use neuraxis::engine::{SystemClock, UuidV7};
use neuraxis::ports::{Clock, Ids};
use neuraxis_app::make_private_folder;

/// How old an incomplete file must be before it is certain that no server is still writing it.
const LEFT_AFTER: Duration = Duration::from_secs(86_400);

/// A file that does not have its final name yet. It is removed if it never gets one.
#[derive(Debug)]
pub(super) struct Part {
    folder: PathBuf,
    path: PathBuf,
    file: Arc<File>,
}

impl Part {
    /// Creates a file in a folder, which is created if it is missing.
    pub(super) async fn begin(folder: &Path) -> io::Result<Self> {
        let folder = folder.to_owned();
        blocking(move || {
            // The folder will hold whole conversations.
            make_private_folder(&folder)?;
            // Another server may write the same session, and in a container it may have the same process id.
            let path = folder.join(format!(".{}.part", UuidV7.new_id()));
            let file = Arc::new(new_file(&path)?);
            Ok(Self { folder, path, file })
        })
        .await
    }

    pub(super) async fn write(&self, text: Vec<u8>) -> io::Result<()> {
        let file = Arc::clone(&self.file);
        blocking(move || (&*file).write_all(&text)).await
    }

    /// Gives the file its final name once all of it is on disk. An existing file of that name is replaced.
    pub(super) async fn keep_as(self, name: String) -> io::Result<()> {
        blocking(move || {
            self.file.sync_all()?;
            fs::rename(&self.path, self.folder.join(name))?;
            File::open(&self.folder)?.sync_all()
        })
        .await
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // If the file was renamed, nothing has this name any more.
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the incomplete files of servers that were killed while writing.
pub(super) async fn clear(folder: PathBuf) {
    let Ok(before) = SystemClock.now().checked_sub(LEFT_AFTER) else {
        return;
    };
    let place = folder.clone();
    match blocking(move || remove_parts(&place, before)).await {
        Ok(()) => {}
        // Nothing has been archived yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            let folder = folder.display();
            tracing::warn!(%folder, %error, "cannot remove incomplete archives");
        }
    }
}

/// Removes the incomplete files from before a time. Another server may still be writing newer ones.
fn remove_parts(folder: &Path, before: Timestamp) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !is_part(&entry.file_name()) {
            continue;
        }
        match remove_if_old(&entry, before) {
            // Another server finished or removed it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    Ok(())
}

fn remove_if_old(part: &fs::DirEntry, before: Timestamp) -> io::Result<()> {
    let changed = Timestamp::try_from(part.metadata()?.modified()?);
    if changed.is_ok_and(|changed| changed < before) {
        fs::remove_file(part.path())?;
    }
    Ok(())
}

fn is_part(name: &OsStr) -> bool {
    let name = name.to_str().and_then(|name| name.strip_prefix('.'));
    let id = name.and_then(|name| name.strip_suffix(".part"));
    id.is_some_and(|id| Uuid::try_parse(id).is_ok())
}

fn new_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Waits for the disk without blocking a thread that serves other tasks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn write(folder: &Path, name: &str, text: &str) -> io::Result<()> {
        let part = Part::begin(folder).await?;
        part.write(text.into()).await?;
        part.keep_as(name.to_owned()).await
    }

    /// Both servers run in containers, as process 1.
    #[tokio::test]
    async fn two_servers_archiving_the_same_session_do_not_share_a_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let of_other = format!(".old.jsonl.{}", std::process::id());
        let of_other = folder.path().join(of_other);
        fs::write(&of_other, "half of").unwrap();
        write(folder.path(), "old.jsonl", "whole").await.unwrap();
        write(folder.path(), "old.jsonl", "whole").await.unwrap();
        assert_eq!(fs::read(folder.path().join("old.jsonl")).unwrap(), b"whole");
        assert_eq!(fs::read(&of_other).unwrap(), b"half of");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn archived_files_are_readable_only_by_the_user_of_the_server() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("made/archive");
        write(&archive, "old.jsonl", "whole").await.unwrap();
        for (path, expected) in [(archive.clone(), 0o700), (archive.join("old.jsonl"), 0o600)] {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, expected, "{}", path.display());
        }
    }

    #[tokio::test]
    async fn a_failed_archive_leaves_no_partial_file() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("old.jsonl/taken")).unwrap();
        let written = write(folder.path(), "old.jsonl", "whole").await;
        assert!(written.is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_old_partial_file_of_a_killed_server_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let part = folder.path().join(format!(".{}.part", UuidV7.new_id()));
        let others = ["old.jsonl", ".notes.part"].map(|name| folder.path().join(name));
        for path in [&part, &others[0], &others[1]] {
            fs::write(path, "half of").unwrap();
        }
        remove_parts(folder.path(), Timestamp::UNIX_EPOCH).unwrap();
        assert!(part.exists(), "it may be under way");
        remove_parts(folder.path(), Timestamp::MAX).unwrap();
        assert!(!part.exists());
        assert!(others.iter().all(|path| path.exists()));
    }
}
