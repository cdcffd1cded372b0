//! A recording in progress: one file to which any number of clients write their exchanges.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{Message, ModelRequest, Role, whole_millis};
use neuraxis_ports::LlmClient;
use tokio::time::Instant;

use crate::config::DEFAULT_MAX_BYTES;
use crate::error::CassetteError;
use crate::exchange::{Exchange, Header};
use crate::format::{Writer, most_shared};
use crate::recorder::Recorder;
use crate::redact::Redactor;

/// The maximum number of bytes of one exchange kept in memory until it is complete: four times the maximum of a reply.
pub(crate) const MAX_EXCHANGE_BYTES: usize = 4 * neuraxis_core::MAX_REPLY_BYTES;

/// What a client's recording lacks.
const NOT_CAPTURED: [&str; 4] = [
    "the HTTP exchange: status, headers and bytes",
    "times more precise than a millisecond",
    "the parts of a tool that no model sees: class, annotations, kind and time limit",
    "secrets: text known to be secret, or that looks like a secret, is replaced with [redacted]",
];

/// Options of a recording.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordingOptions {
    /// The time of the recording. For information only.
    pub recorded_at: Timestamp,
    /// Removes secrets before anything is written.
    pub redactor: Redactor,
    /// Whether the provider's opaque data is written.
    pub provider_state: StatePolicy,
    /// What to do with an existing file.
    pub existing: ExistingFile,
    /// The maximum size of the file in bytes.
    pub max_bytes: u64,
}

impl RecordingOptions {
    /// Creates options that remove well-known forms of secrets, keep provider state, replace no file, and limit the
    /// file to 64 MiB.
    #[must_use]
    pub fn new(recorded_at: Timestamp) -> Self {
        Self {
            recorded_at,
            redactor: Redactor::default(),
            provider_state: StatePolicy::Keep,
            existing: ExistingFile::Refuse,
            max_bytes: DEFAULT_MAX_BYTES,
        }
    }

    /// Sets the redactor.
    #[must_use]
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }
}

/// Whether opaque data of the provider (encrypted reasoning, signatures) is written to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StatePolicy {
    /// It is written: a replay returns it.
    #[default]
    Keep,
    /// It is not written, and the file states that.
    Drop,
}

impl StatePolicy {
    pub(crate) fn filter<T>(self, state: Option<T>) -> Option<T> {
        state.filter(|_| self == Self::Keep)
    }
}

/// What to do with an existing file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ExistingFile {
    /// Keep it, and fail the recording.
    #[default]
    Refuse,
    /// Replace it.
    Replace,
}

/// A recording in progress: one file, written by any number of clients created by [`wrap`](Recording::wrap).
///
/// An exchange is written once, when it is complete, so later failures do not affect what is in the file. A failure to
/// write never fails a call: it ends the recording, is logged, and is returned by [`finish`](Recording::finish).
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    started: Instant,
    begun: AtomicU32,
    max_bytes: u64,
    existing: ExistingFile,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    writer: Writer,
    redactor: Redactor,
    bytes: u64,
    exchanges: u32,
    depends_on_secrets: bool,
    failure: Option<CassetteError>,
    /// The recording failed or was finished: nothing more is written.
    is_over: bool,
}

/// The result of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordingSummary {
    /// Number of exchanges.
    pub exchanges: u32,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Whether a secret known by its value occurs in what agents or users tell models, or in the descriptions of tools.
    /// A replay that does not know the secret then sends different requests. A secret that is an ordinary word can
    /// cause this.
    pub depends_on_secrets: bool,
}

impl Recording {
    /// Creates the file, readable only by its owner, and writes its first line.
    ///
    /// # Errors
    ///
    /// [`CassetteError::Exists`] if the file exists and must not be replaced, [`CassetteError::Io`] for any other
    /// failure.
    pub fn create(
        path: impl Into<PathBuf>,
        options: RecordingOptions,
    ) -> Result<Arc<Self>, CassetteError> {
        let mut not_captured: Vec<String> = NOT_CAPTURED.map(str::to_owned).into();
        if options.provider_state == StatePolicy::Drop {
            not_captured.push("provider state".to_owned());
        }
        let header = Header {
            recorded_at: options.recorded_at,
            recorded_by: concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")).to_owned(),
            not_captured,
        };
        Self::begin(path.into(), options, &header)
    }

    /// Creates a file with the given header.
    pub(crate) fn begin(
        path: PathBuf,
        options: RecordingOptions,
        header: &Header,
    ) -> Result<Arc<Self>, CassetteError> {
        let mut file = create(&path, options.existing)?;
        let writer = Writer::new(options.redactor.clone(), options.provider_state);
        let first = writer.header(header);
        if let Err(source) = file.write_all(first.as_bytes()) {
            remove_new(&path, options.existing);
            return Err(io_error(&path, "write", source));
        }
        let state = State {
            file,
            writer,
            redactor: options.redactor,
            bytes: first.len() as u64,
            exchanges: 0,
            depends_on_secrets: false,
            failure: None,
            is_over: false,
        };
        Ok(Arc::new(Self {
            path,
            started: Instant::now(),
            begun: AtomicU32::new(0),
            max_bytes: options.max_bytes,
            existing: options.existing,
            state: Mutex::new(state),
        }))
    }

    /// Wraps the client of a role: it behaves as before, and its exchanges are recorded for that role.
    pub fn wrap(self: &Arc<Self>, role: Role, client: Arc<dyn LlmClient>) -> Recorder {
        Recorder::new(Arc::clone(self), role, client)
    }

    /// Ends the recording and syncs the file to disk. Exchanges that are still open are not part of it, and nothing is
    /// written from now on.
    ///
    /// # Errors
    ///
    /// On the first call, the error that ended the recording. The file is complete up to that point. If it holds no
    /// exchange, it is deleted, except with [`ExistingFile::Replace`].
    pub fn finish(&self) -> Result<RecordingSummary, CassetteError> {
        let mut state = self.lock();
        state.is_over = true;
        if let Some(failure) = state.failure.take() {
            if state.exchanges == 0 {
                remove_new(&self.path, self.existing);
            }
            return Err(failure);
        }
        let synced = state.file.sync_all();
        synced.map_err(|source| io_error(&self.path, "write", source))?;
        Ok(RecordingSummary {
            exchanges: state.exchanges,
            bytes: state.bytes,
            depends_on_secrets: state.depends_on_secrets,
        })
    }

    /// Returns the number of the next exchange and its start, in milliseconds since the recording started.
    pub(crate) fn next(&self) -> (u32, u64) {
        let number = self.begun.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        (number, millis(self.started))
    }

    /// Writes a finished exchange.
    pub(crate) fn write(&self, exchange: &Exchange) {
        let mut state = self.lock();
        if state.is_over {
            return;
        }
        state.depends_on_secrets =
            state.depends_on_secrets || contains_secret(&state.redactor, &exchange.request);
        let lines = state.writer.exchange(exchange);
        if let Err(failure) = self.append(&mut state, &lines) {
            self.fail(&mut state, failure);
        }
    }

    /// Ends the recording because of an exchange that is too large to be kept.
    pub(crate) fn too_large(&self, exchange: u32) {
        let mut state = self.lock();
        if state.is_over {
            return;
        }
        let failure = CassetteError::ExchangeTooLarge {
            file: self.path.clone(),
            exchange,
            limit: MAX_EXCHANGE_BYTES,
        };
        self.fail(&mut state, failure);
    }

    fn append(&self, state: &mut State, lines: &str) -> Result<(), CassetteError> {
        let bytes = state.bytes.saturating_add(lines.len() as u64);
        if bytes > self.max_bytes {
            return Err(CassetteError::TooLarge {
                file: self.path.clone(),
                limit: self.max_bytes,
            });
        }
        if state.writer.shared_bytes() > most_shared(self.max_bytes) {
            return Err(CassetteError::SharesTooMuch {
                file: self.path.clone(),
            });
        }
        if let Err(source) = state.file.write_all(lines.as_bytes()) {
            // A partial exchange would make a replay refuse the earlier ones, too.
            let _ = state.file.set_len(state.bytes);
            return Err(io_error(&self.path, "write", source));
        }
        state.bytes = bytes;
        state.exchanges = state.exchanges.saturating_add(1);
        Ok(())
    }

    fn fail(&self, state: &mut State, failure: CassetteError) {
        tracing::warn!(file = %self.path.display(), error = %failure, "the recording ends here");
        state.is_over = true;
        state.failure.get_or_insert(failure);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a request contains a known secret in a part that must be the same in a replay.
fn contains_secret(redactor: &Redactor, request: &ModelRequest) -> bool {
    let mut messages = request.messages.messages().iter();
    let has_secret = |message: &Message| match message {
        Message::System { .. } | Message::User { .. } => redactor.has_known_value(&message.text()),
        _ => false,
    };
    let mut tools = request.tools.iter();
    messages.any(|message| has_secret(message))
        || tools.any(|tool| {
            redactor.has_known_value(&tool.description)
                || redactor.has_known_value(tool.parameters.as_str())
        })
}

/// Returns the whole milliseconds since `since`.
pub(crate) fn millis(since: Instant) -> u64 {
    whole_millis(since.elapsed())
}

fn create(path: &Path, existing: ExistingFile) -> Result<File, CassetteError> {
    let mut options = OpenOptions::new();
    options.write(true);
    match existing {
        ExistingFile::Refuse => options.create_new(true),
        ExistingFile::Replace => options.create(true).truncate(true),
    };
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => CassetteError::Exists {
            file: path.to_owned(),
        },
        _ => io_error(path, "create", source),
    })
}

/// Removes the file of an empty recording, since a retry would be refused because of it. A file that existed before,
/// such as a device, is kept.
fn remove_new(path: &Path, existing: ExistingFile) {
    if existing == ExistingFile::Refuse
        && let Err(error) = fs::remove_file(path)
    {
        tracing::warn!(file = %path.display(), %error, "cannot remove an empty recording");
    }
}

pub(crate) fn io_error(path: &Path, doing: &'static str, source: io::Error) -> CassetteError {
    CassetteError::Io {
        file: path.to_owned(),
        doing,
        source,
    }
}
