//! A copy of the log beside the store: the records of each commit as JSON Lines, appended after it, in files that
//! rotate by size.
//!
//! Not a second store: nothing is read back from it, and what fails to be written is told in the log and left out.

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
use crate::step::{self, Line, Step, lines};

/// The file that is written to. Older ones are `records.1.jsonl`, `records.2.jsonl` and so on, the newest first.
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
    /// The folder, made if it is missing, for nobody else to read. Processes share it only if each has one of its own.
    #[serde(deserialize_with = "folder")]
    pub folder: PathBuf,
    /// The bytes from which on a new file is begun; at least 4,096. 67,108,864.
    #[serde(default = "default_max_bytes", deserialize_with = "max_bytes")]
    pub max_bytes: u64,
    /// How many files there are at the most, the one that is written to included; at least 1. 8.
    #[serde(default = "default_files", deserialize_with = "files")]
    pub files: u32,
    /// What is taken out of each line.
    #[serde(skip)]
    redact: Redact,
}

/// Makes a text one that may leave the process.
type Clean = dyn Fn(&str) -> String + Send + Sync;

/// Takes out of a line what the copy is not to hold. As provided, nothing.
#[derive(Clone, Default)]
struct Redact(Option<Arc<Clean>>);

impl fmt::Debug for Redact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redact")
    }
}

impl PartialEq for Redact {
    /// It is no part of what is configured.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Redact {}

impl LogCopy {
    /// Copies into a folder, with the defaults of everything else.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            max_bytes: default_max_bytes(),
            files: default_files(),
            redact: Redact::default(),
        }
    }

    /// Takes out of each line, which is JSON, whatever this takes out of a text. Records in the store stay as they are.
    #[must_use]
    pub fn redacted_by(mut self, clean: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.redact = Redact(Some(Arc::new(clean)));
        self
    }

    /// Opens the copy for a store that is no database, and returns what appends the records of a commit to it, in the
    /// order in which it is called.
    ///
    /// # Errors
    ///
    /// [`OpenError::LogCopy`] if the folder cannot be made or written.
    pub fn appender(self) -> Result<impl Fn(&[Arc<Record>]) + Send + Sync + 'static, OpenError> {
        let copier = Mutex::new(Copier::open(self)?);
        Ok(move |records: &[Arc<Record>]| {
            let mut copier = copier.lock().unwrap_or_else(PoisonError::into_inner);
            copier.append_records(records);
        })
    }
}

/// The fewest bytes of a file: one that holds less than a record or two would be a file for each.
const MIN_BYTES: u64 = 4 * 1024;

fn folder<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    let folder = PathBuf::deserialize(deserializer)?;
    if folder.as_os_str().is_empty() {
        return Err(D::Error::custom("expected the name of a folder"));
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
    /// Tells others that the folder has its process.
    _claim: Option<File>,
}

impl Copier {
    /// Makes the folder and the file, so that what is wrong with them is told at once.
    pub(crate) fn open(config: LogCopy) -> Result<Self, OpenError> {
        let folder = config.folder.clone();
        Self::opened(config).map_err(|source| OpenError::LogCopy { folder, source })
    }

    fn opened(config: LogCopy) -> io::Result<Self> {
        // Opened again by whoever has something to append: others leave its end as it is.
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

    /// Appends the records of steps that were committed, in this order. In the task that writes, and without waiting for
    /// the disk: the steps that follow stand behind it, so that the order is that of the commits.
    pub(crate) fn append<'a>(&mut self, steps: impl Iterator<Item = &'a Step>) {
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
                // It is in the store all the same; no part of it may stand before the next one.
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
                // A file that is full or gone may be there again.
                self.file = None;
                if !std::mem::replace(&mut self.has_failed, true) {
                    let folder = self.config.folder.display();
                    tracing::error!(%folder, %error, "records are not copied from here on");
                }
            }
        }
    }

    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let more = u64::try_from(text.len()).unwrap_or(u64::MAX);
        if !self.is_in_place() {
            self.file = None;
        }
        // How long the file is, is known once it is open.
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

    /// Tells whether the open file still has its name. What is written to one that somebody moved or removed is found by nobody.
    fn is_in_place(&self) -> bool {
        let Some(file) = &self.file else {
            return false;
        };
        match fs::metadata(self.config.folder.join(FILE)) {
            Ok(found) => file.metadata().is_ok_and(|open| is_same(&open, &found)),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    /// Makes room for a new file. The oldest goes.
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

/// Claims a folder for this process, as long as it lives, and warns if another has it: both would write to the same file and
/// each rename it under the other. No more than that, since who lists sessions beside a server disturbs nothing.
///
/// The lock is on the folder itself, so that it holds nothing but the copy. Where folders cannot be locked nobody is warned.
fn claim(folder: &Path) -> Option<File> {
    let claimed = File::open(folder).ok()?;
    match claimed.try_lock() {
        Ok(()) => return Some(claimed),
        Err(TryLockError::WouldBlock) => tracing::warn!(
            folder = %folder.display(),
            "another process copies its log into this folder: name another one in [store.log], or records may be lost \
             when the files rotate"
        ),
        Err(TryLockError::Error(error)) => {
            tracing::debug!(folder = %folder.display(), %error, "the folder cannot be claimed");
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

/// Ends a line that was cut off, by a full disk or as a process was killed: the next record would be a part of it.
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

/// Elsewhere nothing tells two files apart that have had the same name.
#[cfg(not(unix))]
const fn is_same(_: &Metadata, _: &Metadata) -> bool {
    true
}

/// Adds the records of a step, those that are kept beside as well.
fn add(text: &mut Vec<u8>, step: &Step) {
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
