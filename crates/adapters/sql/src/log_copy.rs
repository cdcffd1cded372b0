//! A copy of the log beside the store: the records of each commit as JSON Lines, appended after it, in files that
//! rotate by size.
//!
//! It is not a second store: nothing is read back from it. A failure to write is logged, and the records are left out.

use std::borrow::Cow;
use std::fmt;
use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use neuraxis_core::Record;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::error::OpenError;
use crate::own_file;
use crate::step::{self, EncodedStep, Line, lines};

/// The file being written. Older ones are `records.1.jsonl`, `records.2.jsonl` and so on, the newest first.
const FILE: &str = "records.jsonl";

/// `[store.log]`: where the log is copied to.
///
/// ```
/// use neuraxis_sql::LogCopy;
///
/// let log: LogCopy = toml::from_str("folder = \"/var/log/neuraxis\"\nfiles = 4")?;
/// assert_eq!((log.max_bytes, log.files), (64 * 1024 * 1024, 4));
/// # Ok::<(), toml::de::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LogCopy {
    /// The folder. If missing, it is created readable only by the owner. Each process needs a folder of its own.
    #[serde(deserialize_with = "folder")]
    pub folder: PathBuf,
    /// The size in bytes beyond which a new file begins; at least 4,096. Default: 67,108,864.
    #[serde(default = "default_max_bytes", deserialize_with = "max_bytes")]
    pub max_bytes: u64,
    /// The maximum number of files, including the one being written; at least 1. Default: 8.
    #[serde(default = "default_files", deserialize_with = "files")]
    pub files: u32,
    /// Redacts each line.
    #[serde(skip)]
    redact: Redact,
}

/// Redacts a string that leaves the process.
type Clean = dyn Fn(&str) -> String + Send + Sync;

/// Redacts the lines of the copy. Redacts nothing by default.
#[derive(Clone, Default)]
struct Redact(Option<Arc<Clean>>);

impl fmt::Debug for Redact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redact")
    }
}

impl PartialEq for Redact {
    /// It is not part of the configuration.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Redact {}

impl LogCopy {
    /// Copies into a folder, with defaults for everything else.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            max_bytes: default_max_bytes(),
            files: default_files(),
            redact: Redact::default(),
        }
    }

    /// Redacts each line, which is JSON, with `clean`. Records in the store stay unchanged.
    #[must_use]
    pub fn redacted_by(mut self, clean: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.redact = Redact(Some(Arc::new(clean)));
        self
    }

    /// Opens the copy for a store that is not a database. Returns a function that appends the records of one commit, in
    /// the order of its calls.
    ///
    /// # Errors
    ///
    /// [`OpenError::LogCopy`] if the folder cannot be created or written.
    pub fn appender(self) -> Result<impl Fn(&[Arc<Record>]) + Send + Sync + 'static, OpenError> {
        let copier = Mutex::new(Copier::open(self)?);
        Ok(move |records: &[Arc<Record>]| {
            let mut copier = copier.lock().unwrap_or_else(PoisonError::into_inner);
            copier.append_records(records);
        })
    }
}

/// The minimum size of a file in bytes: with less than a record or two per file, each record would get its own.
const MIN_BYTES: u64 = 4 * 1024;

fn folder<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let folder = PathBuf::deserialize(deserializer)?;
    if folder.as_os_str().is_empty() {
        return Err(D::Error::custom("expected a folder name"));
    }
    Ok(folder)
}

fn max_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let bytes = u64::deserialize(deserializer)?;
    if bytes < MIN_BYTES {
        return Err(D::Error::custom(format!(
            "expected at least {MIN_BYTES} bytes"
        )));
    }
    Ok(bytes)
}

fn files<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let files = u32::deserialize(deserializer)?;
    if files == 0 {
        return Err(D::Error::custom("expected at least 1 file"));
    }
    Ok(files)
}

const fn default_max_bytes() -> u64 {
    64 * 1024 * 1024
}

const fn default_files() -> u32 {
    8
}

/// Appends to the copy.
#[derive(Debug)]
pub(crate) struct Copier {
    config: LogCopy,
    file: Option<File>,
    bytes: u64,
    has_failed: bool,
    /// Holds the lock that shows other processes that the folder is in use.
    _claim: Option<File>,
}

impl Copier {
    /// Creates the folder and the file, so problems with them are reported immediately.
    pub(crate) fn open(config: LogCopy) -> Result<Self, OpenError> {
        let folder = config.folder.clone();
        Self::opened(config).map_err(|source| OpenError::LogCopy { folder, source })
    }

    fn opened(config: LogCopy) -> io::Result<Self> {
        // The first append reopens the file. A process with nothing to append leaves the end of the file unchanged.
        create(&config.folder)?;
        let claim = claim(&config.folder);
        Ok(Self {
            config,
            file: None,
            bytes: 0,
            has_failed: false,
            _claim: claim,
        })
    }

    /// Appends the records of committed steps, in this order. It runs in the task that writes, without waiting for the
    /// disk: later steps queue behind it, so the order is that of the commits.
    pub(crate) fn append<'a>(&mut self, steps: impl Iterator<Item = &'a EncodedStep>) {
        let mut text = Vec::new();
        for step in steps {
            add(&mut text, step);
        }
        self.append_text(&text);
    }

    /// Appends the records of one commit.
    fn append_records(&mut self, records: &[Arc<Record>]) {
        let mut text = Vec::new();
        for record in records {
            let start = text.len();
            if step::write_line(&mut text, record).is_err() {
                // The record is in the store regardless; no part of it may precede the next one.
                text.truncate(start);
                continue;
            }
            text.push(b'\n');
        }
        self.append_text(&text);
    }

    fn append_text(&mut self, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        match self.write(&self.config.redact.of(text)) {
            Ok(()) => self.has_failed = false,
            Err(error) => {
                // A full or missing file may work again later.
                self.file = None;
                if !std::mem::replace(&mut self.has_failed, true) {
                    let folder = self.config.folder.display();
                    tracing::error!(%folder, %error, "records are no longer copied");
                }
            }
        }
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let more = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if !self.is_in_place() {
            self.file = None;
        }
        // The file's length is known only once it is open.
        self.file()?;
        if self.bytes > 0 && self.bytes.saturating_add(more) > self.config.max_bytes {
            self.rotate()?;
        }
        self.file()?.write_all(text)?;
        self.bytes = self.bytes.saturating_add(more);
        Ok(())
    }

    fn file(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let mut file = create(&self.config.folder)?;
                end_line(&mut file)?;
                self.bytes = file.metadata()?.len();
                file
            }
        };
        Ok(self.file.insert(file))
    }

    /// Returns whether the open file is still at its path. A reader would not find what is written to a moved or
    /// deleted file.
    fn is_in_place(&self) -> bool {
        let Some(file) = &self.file else {
            return false;
        };
        match fs::metadata(self.config.folder.join(FILE)) {
            Ok(found) => file.metadata().is_ok_and(|open| is_same(&open, &found)),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Shifts the files to make way for a new one. The oldest is deleted.
    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        let older = |number: u32| match number {
            0 => self.config.folder.join(FILE),
            _ => self.config.folder.join(format!("records.{number}.jsonl")),
        };
        let last = self.config.files.max(1) - 1;
        if last == 0 {
            return fs::remove_file(older(0));
        }
        for number in (0..last).rev() {
            match fs::rename(older(number), older(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Redact {
    /// Returns lines as the copy may hold them.
    fn of<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let (Some(redact), Ok(lines)) = (&self.0, std::str::from_utf8(text)) else {
            return Cow::Borrowed(text);
        };
        let lines = lines.lines().map(|line| redact(line) + "\n");
        Cow::Owned(lines.collect::<String>().into_bytes())
    }
}

/// Claims a folder for this process's lifetime, and warns if another process has it: both would write to the same file,
/// and each would rename it while the other uses it. It only warns, because a process that lists sessions beside a
/// server does no harm.
///
/// The lock is on the folder itself, so the folder holds only the copy. If folders cannot be locked, there is no
/// warning.
fn claim(folder: &Path) -> Option<File> {
    let claimed = File::open(folder).ok()?;
    match claimed.try_lock() {
        Ok(()) => return Some(claimed),
        Err(TryLockError::WouldBlock) => tracing::warn!(
            folder = %folder.display(),
            "another process copies its log into this folder; use another folder in [store.log], or records may be \
             lost when files rotate"
        ),
        Err(TryLockError::Error(error)) => {
            tracing::debug!(folder = %folder.display(), %error, "cannot lock the folder");
        }
    }
    None
}

fn create(folder: &Path) -> io::Result<File> {
    own_file::make_folder(folder)?;
    own_file::check_folder(folder).map_err(io::Error::other)?;
    own_file::tighten_folder(folder);
    own_file::append_to(&folder.join(FILE))
}

/// Ends a line that was cut off by a full disk or a killed process: otherwise the next record would become part of it.
fn end_line(file: &mut File) -> io::Result<()> {
    if file.metadata()?.len() == 0 {
        return Ok(());
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    match &last {
        b"\n" => Ok(()),
        _ => file.write_all(b"\n"),
    }
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// On other systems two files that had the same name at different times cannot be told apart.
#[cfg(not(unix))]
const fn is_same(_: &Metadata, _: &Metadata) -> bool {
    true
}

/// Adds the records of a step, payloads included.
fn add(text: &mut Vec<u8>, step: &EncodedStep) {
    for line in lines(&step.body) {
        match line {
            Some(Line::Record(record)) => text.extend_from_slice(record),
            Some(Line::Payload(hash)) => {
                let beside = step.payloads.iter().find(|(of, _)| *of == hash);
                text.extend_from_slice(beside.map_or(&[], |(_, record)| record));
            }
            None => {}
        }
        text.push(b'\n');
    }
}
