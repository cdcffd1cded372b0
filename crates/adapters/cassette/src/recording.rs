//! A recording under way: one file that any number of clients write their exchanges to.

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

/// The most bytes of one exchange that are kept in memory until it is done: four times what a reply may have.
pub(crate) const MAX_EXCHANGE_BYTES: usize = 4 * neuraxis_core::MAX_REPLY_BYTES;

/// What no recording of a client holds.
const NOT_CAPTURED: [&str; 4] = [
    "what went over the wire: HTTP status, headers and bytes",
    "times finer than a millisecond",
    "what no model reads of a tool: class, annotations, kind and time limit",
    "secrets: [redacted] stands where something was known as one, or looked like one",
];

/// How a recording is made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordingOptions {
    /// When it is made. For people; nothing depends on it.
    pub recorded_at: Timestamp,
    /// What takes secrets out before anything is written.
    pub redactor: Redactor,
    /// Whether opaque data of the provider is written.
    pub provider_state: StatePolicy,
    /// What becomes of a file that is there already.
    pub existing: ExistingFile,
    /// The most bytes that the file may have.
    pub max_bytes: u64,
}

impl RecordingOptions {
    /// Takes well-known shapes of secrets out, keeps provider state, replaces no file, stops at 64 MiB.
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

    /// Sets what takes secrets out.
    #[must_use]
    pub fn redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }
}

/// Whether opaque data of the provider (encrypted reasoning, signatures) is written to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StatePolicy {
    /// It is: a replay gives it back.
    #[default]
    Keep,
    /// It is not, and the file says so.
    Drop,
}

impl StatePolicy {
    pub(crate) fn keep<T>(self, state: Option<T>) -> Option<T> {
        state.filter(|_| self == Self::Keep)
    }
}

/// What becomes of a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ExistingFile {
    /// It stays, and the recording fails.
    #[default]
    Refuse,
    /// The recording replaces it.
    Replace,
}

/// A recording under way: one file, written by as many clients as [`wrap`](Recording::wrap) makes.
///
/// An exchange is written when it is done, in one piece, so that whatever happens later does not touch what stands in
/// the file. Writing never fails a call: what goes wrong ends the recording, is logged, and is told by
/// [`finish`](Recording::finish).
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
    /// Nothing more is written, since the recording failed or was finished.
    is_over: bool,
}

/// What a recording came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordingSummary {
    /// How many exchanges it holds.
    pub exchanges: u32,
    /// How many bytes the file has.
    pub bytes: u64,
    /// Whether a secret that is known by its value stands in what agents or users say to models, or in what tools are described
    /// with: a replay that does not know it asks something else. A value that is an ordinary word does so.
    pub depends_on_secrets: bool,
}

impl Recording {
    /// Creates the file, readable by its owner only, and writes its first line.
    ///
    /// # Errors
    ///
    /// [`CassetteError::Exists`] for a file that is there and shall stay, [`CassetteError::Io`] for anything else.
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

    /// Creates a file with a header of its own.
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

    /// Wraps the client of a role: it behaves as before, and its exchanges are recorded as that role's.
    pub fn wrap(self: &Arc<Self>, role: Role, client: Arc<dyn LlmClient>) -> Recorder {
        Recorder::new(Arc::clone(self), role, client)
    }

    /// Ends the recording and brings the file to the disk. Exchanges that are still open are not
    /// part of it, and nothing is written from now on.
    ///
    /// # Errors
    ///
    /// What stopped the recording, the first time this is asked: the file is whole up to there, and gone if that is nothing.
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

    /// Returns the number of the next exchange and when it begins, in milliseconds of the recording.
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
            state.depends_on_secrets || says_a_secret(&state.redactor, &exchange.request);
        let lines = state.writer.exchange(exchange);
        if let Err(failure) = self.append(&mut state, &lines) {
            self.fail(&mut state, failure);
        }
    }

    /// Ends the recording with an exchange that is too large to be kept.
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
            // A part of an exchange would have a replay refuse those before it, too.
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

/// Tells whether a request holds a known secret in what has to be the same in a replay.
fn says_a_secret(redactor: &Redactor, request: &ModelRequest) -> bool {
    let mut messages = request.messages.messages().iter();
    let is_said = |message: &Message| match message {
        Message::System { .. } | Message::User { .. } => redactor.knows(&message.text()),
        _ => false,
    };
    let mut tools = request.tools.iter();
    messages.any(|message| is_said(message))
        || tools.any(|tool| {
            redactor.knows(&tool.description) || redactor.knows(tool.parameters.as_str())
        })
}

/// Returns the whole milliseconds since then.
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

/// Removes the file of a recording that holds nothing: the next try would be refused for it. What was there before stays, such
/// as a device.
fn remove_new(path: &Path, existing: ExistingFile) {
    if existing == ExistingFile::Refuse
        && let Err(error) = fs::remove_file(path)
    {
        tracing::warn!(file = %path.display(), %error, "a recording of nothing is not removed");
    }
}

pub(crate) fn io_error(path: &Path, doing: &'static str, source: io::Error) -> CassetteError {
    CassetteError::Io {
        file: path.to_owned(),
        doing,
        source,
    }
}
