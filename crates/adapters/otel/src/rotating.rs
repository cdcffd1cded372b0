//! A file that is replaced by a new one once it is long enough. Several processes may append to it at the same time,
//! such as commands alongside a server: any of them may rotate it, and none loses a line by that.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// When a new file is begun, and how many old ones are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    /// The size in bytes above which a new file is begun. Lines are never split.
    pub max_bytes: u64,
    /// The number of older files to keep: `PATH.1` is the newest of them.
    pub files: u32,
}

impl Default for Rotation {
    /// 64 MiB, and seven older files.
    fn default() -> Self {
        Self {
            max_bytes: 64 << 20,
            files: 7,
        }
    }
}

/// A file that is appended to, readable only for its owner.
#[derive(Debug)]
pub(crate) struct Rotating {
    path: PathBuf,
    rotation: Rotation,
    file: Option<File>,
    bytes: u64,
    /// The size in bytes above which a new file is begun: more than the rotation's value after a failed rotation.
    most: u64,
    /// Why the last rotation failed, until it is taken.
    unrotated: Option<io::Error>,
}

impl Rotating {
    /// Opens the file, and creates it if it is missing.
    pub(crate) fn open(path: &Path, rotation: Rotation) -> io::Result<Self> {
        let mut rotating = Self {
            path: path.to_owned(),
            rotation,
            file: None,
            bytes: 0,
            most: rotation.max_bytes,
            unrotated: None,
        };
        rotating.file()?;
        Ok(rotating)
    }

    /// Appends whole lines. If no new file can be begun, for example in a folder with another owner, the current file
    /// is continued: too long is better than lost. Rotation is tried again after another `max_bytes`.
    pub(crate) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if !self.is_in_place() {
            self.file = None;
        }
        // Opening the file also determines its current size.
        self.file()?;
        let more = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        if self.bytes > 0 && self.bytes.saturating_add(more) > self.most {
            let max_bytes = self.rotation.max_bytes;
            self.most = match self.rotate() {
                Ok(()) => max_bytes,
                Err(error) => {
                    self.unrotated = Some(error);
                    self.bytes.saturating_add(max_bytes)
                }
            };
        }
        let written = self.file().and_then(|file| file.write_all(lines));
        if written.is_err() {
            // A file that has disappeared may be back next time.
            self.file = None;
        }
        self.bytes = self.bytes.saturating_add(more);
        written
    }

    /// Returns why rotation failed, if it has failed since the last call.
    pub(crate) fn take_rotation_error(&mut self) -> Option<io::Error> {
        self.unrotated.take()
    }

    fn file(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let mut options = OpenOptions::new();
                options.append(true).create(true);
                #[cfg(unix)]
                std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
                let file = options.open(&self.path)?;
                self.bytes = file.metadata()?.len();
                file
            }
        };
        Ok(self.file.insert(file))
    }

    /// Returns whether the open file still has its name. The file may have been moved or removed, or another process
    /// may have begun a new one: lines written to the old one would be lost from view, or be deleted with the oldest.
    fn is_in_place(&self) -> bool {
        let Some(file) = &self.file else {
            return false;
        };
        match fs::metadata(&self.path) {
            Ok(found) => file.metadata().is_ok_and(|open| is_same(&open, &found)),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Makes room for a new file. The oldest file is removed.
    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        let is_gone = |done: io::Result<()>| match done {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            // Another process may have rotated the file in the meantime.
            _ => Ok(()),
        };
        if self.rotation.files == 0 {
            return is_gone(fs::remove_file(&self.path));
        }
        for number in (0..self.rotation.files).rev() {
            is_gone(fs::rename(self.older(number), self.older(number + 1)))?;
        }
        Ok(())
    }

    fn older(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        if number > 0 {
            name.push(format!(".{number}"));
        }
        PathBuf::from(name)
    }
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// On other systems, two files that had the same name cannot be told apart.
#[cfg(not(unix))]
const fn is_same(_: &Metadata, _: &Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(folder: &Path) -> Vec<(String, usize)> {
        let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
        let mut found: Vec<_> = entries
            .map(|entry| {
                let text = fs::read_to_string(entry.path()).unwrap();
                assert!(text.ends_with('\n') && text.lines().all(|line| line.len() == 99));
                let name = entry.file_name().into_string().unwrap();
                (name, text.lines().count())
            })
            .collect();
        found.sort();
        found
    }

    #[test]
    fn a_full_file_is_rotated_without_cutting_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let rotation = Rotation {
            max_bytes: 1_000,
            files: 2,
        };
        let line = format!("{}\n", "x".repeat(99));
        for run in 0..2 {
            let path = folder.path().join("traces.jsonl");
            let mut rotating = Rotating::open(&path, rotation).unwrap();
            for _ in 0..18 {
                rotating.append(line.as_bytes()).unwrap();
            }
            let found = lines(folder.path());
            let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
            match run {
                0 => assert_eq!(names, ["traces.jsonl", "traces.jsonl.1"]),
                _ => assert_eq!(names, ["traces.jsonl", "traces.jsonl.1", "traces.jsonl.2"]),
            }
            assert!(found.iter().all(|(_, count)| *count <= 10), "{found:?}");
        }
    }

    #[test]
    fn a_failed_rotation_keeps_writing_and_is_retried_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traces.jsonl");
        let rotation = Rotation {
            max_bytes: 1_000,
            files: 1,
        };
        // A file cannot replace a folder, even with full permissions.
        let in_the_way = folder.path().join("traces.jsonl.1");
        fs::create_dir(&in_the_way).unwrap();
        let mut rotating = Rotating::open(&path, rotation).unwrap();
        let line = format!("{}\n", "x".repeat(99));
        let mut fails = |_: &u32| {
            rotating.append(line.as_bytes()).unwrap();
            rotating.take_rotation_error().is_some()
        };
        let failed: Vec<u32> = (1..=25).filter(&mut fails).collect();
        assert_eq!(failed, [11, 21]);
        fs::remove_dir(&in_the_way).unwrap();
        assert_eq!((26..=31).filter(&mut fails).count(), 0);
        let found = lines(folder.path());
        let expected = [("traces.jsonl", 1_usize), ("traces.jsonl.1", 30)];
        assert_eq!(
            found,
            expected.map(|(name, count)| (name.to_owned(), count))
        );
    }

    #[test]
    fn a_file_that_was_moved_away_is_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traces.jsonl");
        let mut rotating = Rotating::open(&path, Rotation::default()).unwrap();
        let line = format!("{}\n", "x".repeat(99));
        rotating.append(line.as_bytes()).unwrap();
        fs::rename(&path, folder.path().join("kept.jsonl")).unwrap();
        rotating.append(line.as_bytes()).unwrap();
        let expected = ["kept.jsonl", "traces.jsonl"].map(|name| (name.to_owned(), 1));
        assert_eq!(lines(folder.path()), expected);
    }

    #[test]
    fn processes_that_share_a_rotating_file_lose_no_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traces.jsonl");
        let rotation = Rotation {
            max_bytes: 1_000,
            files: 100,
        };
        let mut both = [(); 2].map(|()| Rotating::open(&path, rotation).unwrap());
        let line = format!("{}\n", "x".repeat(99));
        for number in 0..60 {
            let one = if number % 3 == 0 { 0 } else { 1 };
            both[one].append(line.as_bytes()).unwrap();
        }
        let found = lines(folder.path());
        assert_eq!(found.iter().map(|(_, count)| count).sum::<usize>(), 60);
    }
}
