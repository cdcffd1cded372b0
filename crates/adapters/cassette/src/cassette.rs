//! A recording that answers in place of the models it was made of.

mod mismatch;
mod player;
mod recordings;
mod run;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use neuraxis_core::{Record, Role, Transcript};

pub use self::player::CassetteClient;
use self::recordings::Recordings;
use crate::canonical::Comparison;
use crate::config::{CassetteConfig, Speed, ToolResults};
use crate::error::{CassetteError, UnusedRecording};
use crate::exchange::{Exchange, Header};
use crate::format;
use crate::recording::{Recording, RecordingOptions, RecordingSummary, StatePolicy, io_error};
use crate::redact::Redactor;

/// A recording that answers in place of the models it was made of, without any network.
///
/// **Which recording answers.** The one of the same request, by the same role; of several, the first that was not played
/// yet, one that was wanted the same way (whole or streamed) before one that was not. Requests are the same if a model
/// reads the same: ids are compared by the order in which they appear, and a recording that differs in nothing but times,
/// dates and UUIDs in its texts answers where none fits better. A request without a recording is refused with
/// [`NotRecorded`](neuraxis_core::LlmErrorKind::NotRecorded) and a comparison with the recording most like it. Once all
/// recordings of a request were played, the last one answers again, unless the replay is strict.
///
/// Cloning shares it: which recordings were played is known to all clones and clients.
#[derive(Debug, Clone)]
pub struct Cassette {
    name: PathBuf,
    header: Arc<Header>,
    recordings: Arc<Recordings>,
    speed: Speed,
}

impl Cassette {
    /// Reads a file. The redactor should know the same secrets as when it was recorded: they are taken out of requests
    /// before these are compared, or shown.
    ///
    /// # Errors
    ///
    /// A [`CassetteError`] naming file, line and exchange when the file cannot be read, is too large, is no cassette, was
    /// written in a newer format, is cut off, or holds something that cannot be there.
    pub fn open(config: &CassetteConfig, redactor: Redactor) -> Result<Self, CassetteError> {
        let bytes = read_file(&config.file, config.max_bytes)?;
        let (header, exchanges) = format::read(&config.file, &bytes, config.max_bytes)?;
        let comparison = Comparison::new(redactor, config.tool_results);
        Ok(Self {
            name: config.file.clone(),
            header: Arc::new(header),
            recordings: Arc::new(Recordings::new(exchanges, comparison, config.strict)),
            speed: config.speed,
        })
    }

    /// Turns the records of a run into a cassette, given the history that the run began with. What its models were asked
    /// is found by following the run from its records.
    ///
    /// What records do not hold, the cassette does not either, and [`not_captured`](Self::not_captured) says so.
    ///
    /// # Errors
    ///
    /// [`CassetteError::Run`] when the records do not follow from each other, or belong to another history.
    pub fn from_records(
        history: Transcript,
        records: &[Arc<Record>],
        redactor: Redactor,
    ) -> Result<Self, CassetteError> {
        let (header, exchanges) = run::exchanges(history, records)?;
        let comparison = Comparison::new(redactor, ToolResults::default());
        let name = records
            .first()
            .map(|record| format!("run {}", record.run_id));
        Ok(Self {
            name: PathBuf::from(name.unwrap_or_default()),
            header: Arc::new(header),
            recordings: Arc::new(Recordings::new(exchanges, comparison, false)),
            speed: Speed::Instant,
        })
    }

    /// Writes the cassette to a file, without secrets. The header stays as it is; `options.recorded_at` is not used.
    ///
    /// # Errors
    ///
    /// As [`Recording::create`] and [`Recording::finish`].
    pub fn save(
        &self,
        path: impl Into<PathBuf>,
        options: RecordingOptions,
    ) -> Result<RecordingSummary, CassetteError> {
        let mut header = Header::clone(&self.header);
        if options.provider_state == StatePolicy::Drop {
            header.not_captured.push("provider state".to_owned());
        }
        let recording = Recording::begin(path.into(), options, &header)?;
        for exchange in self.recordings.exchanges() {
            recording.write(exchange);
        }
        recording.finish()
    }

    /// Returns a client that answers in place of a role's model.
    #[must_use]
    pub fn client(&self, role: Role) -> CassetteClient {
        CassetteClient::new(self.clone(), role)
    }

    /// Returns the roles that have recordings, each once, in the order in which they were first asked.
    #[must_use]
    pub fn roles(&self) -> Vec<Role> {
        let mut roles = Vec::new();
        for exchange in self.recordings.exchanges() {
            if !roles.contains(&exchange.role) {
                roles.push(exchange.role.clone());
            }
        }
        roles
    }

    /// Returns what the cassette says that it does not hold, a sentence each.
    #[must_use]
    pub fn not_captured(&self) -> &[String] {
        &self.header.not_captured
    }

    /// Returns how many exchanges it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.recordings.exchanges().len()
    }

    /// Tells whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.recordings.exchanges().is_empty()
    }

    /// Returns the recordings that were not played yet.
    #[must_use]
    pub fn unused(&self) -> Vec<UnusedRecording> {
        self.recordings.unused()
    }

    /// Returns how often a recording answered that had answered before, since the same was asked more often than it was recorded.
    #[must_use]
    pub fn played_again(&self) -> usize {
        self.recordings.again()
    }

    /// Ends a replay.
    ///
    /// # Errors
    ///
    /// [`CassetteError::Unused`] if the replay is strict and a recording was never played.
    pub fn finish(&self) -> Result<(), CassetteError> {
        let unused = self.unused();
        if !self.recordings.is_strict() || unused.is_empty() {
            return Ok(());
        }
        Err(CassetteError::Unused {
            file: self.name.clone(),
            unused,
        })
    }

    fn name(&self) -> &Path {
        &self.name
    }

    /// Returns what was recorded for a role.
    fn exchanges_of(&self, role: &Role) -> impl Iterator<Item = &Arc<Exchange>> {
        let exchanges = self.recordings.exchanges().iter();
        exchanges.filter(move |exchange| exchange.role == *role)
    }
}

fn read_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>, CassetteError> {
    let failed = |source| io_error(path, "read", source);
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file that is too large, also one that says nothing of its size.
    let read = file
        .take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes);
    read.map_err(failed)?;
    if bytes.len() as u64 > max_bytes {
        return Err(CassetteError::TooLarge {
            file: path.to_owned(),
            limit: max_bytes,
        });
    }
    Ok(bytes)
}
