//! A recording that answers instead of the recorded models.

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

/// A recording that answers instead of the recorded models, without any network.
///
/// **Which recording answers.** A recording of the same request by the same role. If there are several, the first one
/// not played yet, preferring one that was requested the same way (whole or streamed). Requests are the same if a model
/// reads the same: ids are compared by their order of appearance. If nothing fits better, a recording answers that
/// differs only in times, dates and UUIDs in its texts. A request without a recording is refused with
/// [`NotRecorded`](neuraxis_core::LlmErrorKind::NotRecorded) and a comparison with the most similar recording. Once all
/// recordings of a request were played, the last one answers again, unless the replay is strict.
///
/// Clones share the cassette's state: which recordings were played is known to all clones and clients.
#[derive(Debug, Clone)]
pub struct Cassette {
    name: PathBuf,
    header: Arc<Header>,
    recordings: Arc<Recordings>,
    speed: Speed,
}

impl Cassette {
    /// Reads a file. The redactor should know the same secrets as during recording: they are removed from requests
    /// before these are compared or displayed.
    ///
    /// # Errors
    ///
    /// A [`CassetteError`] with the file, line and exchange if the file cannot be read, is too large, is not a
    /// cassette, was written in a newer format, is truncated, or has invalid content.
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

    /// Creates a cassette from the records of a run, given the history that the run began with. The requests to its
    /// models are found by replaying the run from its records.
    ///
    /// The cassette lacks whatever the records lack; [`not_captured`](Self::not_captured) lists it.
    ///
    /// # Errors
    ///
    /// [`CassetteError::Run`] if the records do not follow from each other, or belong to a different history.
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

    /// Writes the cassette to a file, without secrets. The header is kept; `options.recorded_at` is ignored.
    ///
    /// # Errors
    ///
    /// Same as [`Recording::create`] and [`Recording::finish`].
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

    /// Returns a client that answers instead of a role's model.
    #[must_use]
    pub fn client(&self, role: Role) -> CassetteClient {
        CassetteClient::new(self.clone(), role)
    }

    /// Returns the roles that have recordings, each once, in the order of their first call.
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

    /// Returns what the cassette is known to lack, one sentence each.
    #[must_use]
    pub fn not_captured(&self) -> &[String] {
        &self.header.not_captured
    }

    /// Returns the number of exchanges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.recordings.exchanges().len()
    }

    /// Returns whether there are no exchanges.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.recordings.exchanges().is_empty()
    }

    /// Returns the recordings that were not played yet.
    #[must_use]
    pub fn unused(&self) -> Vec<UnusedRecording> {
        self.recordings.unused()
    }

    /// Returns how often a recording answered again, because a request was repeated more often than it was recorded.
    #[must_use]
    pub fn replay_count(&self) -> usize {
        self.recordings.replays()
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

    /// Returns the exchanges recorded for a role.
    fn exchanges_of(&self, role: &Role) -> impl Iterator<Item = &Arc<Exchange>> {
        let exchanges = self.recordings.exchanges().iter();
        exchanges.filter(move |exchange| exchange.role == *role)
    }
}

fn read_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>, CassetteError> {
    let failed = |source| io_error(path, "read", source);
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    // Read one byte more than allowed, to detect a file that is too large even if its size is unknown.
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
