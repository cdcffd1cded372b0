//! Recording what models say, and replaying it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use neuraxis_cassette::{
    Cassette, CassetteConfig, CassetteError, Recording, RecordingOptions, RecordingSummary,
    Redactor,
};
use neuraxis_core::Role;
use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::describe::counted;
use neuraxis_ports::LlmClient;

/// What is done with what models say.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum CassetteUse {
    /// Nothing.
    #[default]
    Off,
    /// It is recorded to this file, which must not exist yet.
    Record(PathBuf),
    /// A recording answers in their place: none is asked.
    Replay(CassetteConfig),
}

/// The recordings of an engine: what is being recorded, and what is being replayed.
#[derive(Debug, Clone, Default)]
pub struct Recordings {
    recording: Option<(PathBuf, Arc<Recording>)>,
    cassettes: Vec<Cassette>,
}

impl Recordings {
    pub(crate) const fn replaying(cassettes: Vec<Cassette>) -> Self {
        Self {
            recording: None,
            cassettes,
        }
    }

    /// Begins a recording.
    pub(crate) fn record(
        &mut self,
        file: PathBuf,
        now: Timestamp,
        redactor: Redactor,
    ) -> Result<(), CassetteError> {
        let options = RecordingOptions::new(now).redactor(redactor);
        let recording = Recording::create(&file, options)?;
        self.recording = Some((file, recording));
        Ok(())
    }

    /// Puts a recorder before a client, if there is a recording.
    pub(crate) fn before(&self, role: &Role, client: Arc<dyn LlmClient>) -> Arc<dyn LlmClient> {
        match &self.recording {
            Some((_, recording)) => Arc::new(recording.wrap(role.clone(), client)),
            None => client,
        }
    }

    /// Ends recordings and replays, and returns what a user should know of them, a sentence each. A recording of
    /// nothing is removed.
    ///
    /// # Errors
    ///
    /// A [`CassetteError`], when something could not be recorded, or was not played though the replay is strict.
    pub fn finish(&self) -> Result<Vec<String>, CassetteError> {
        let mut notices = Vec::new();
        if let Some((file, recording)) = &self.recording {
            let summary = recording.finish()?;
            if summary.exchanges == 0 {
                fs::remove_file(file).map_err(|source| CassetteError::Io {
                    file: file.clone(),
                    doing: "remove",
                    source,
                })?;
                let file = file.display();
                notices.push(format!("no model was asked: {file} was not kept"));
            }
            notices.extend(secrets_notice(&summary, file));
        }
        for cassette in &self.cassettes {
            cassette.finish()?;
            let unused = cassette.unused();
            if let Some(first) = unused.first() {
                let (unused, all) = (unused.len(), cassette.len());
                notices.push(format!(
                    "{unused} of {all} recordings were not played, the first of them {first}"
                ));
            }
            if cassette.played_again() > 0 {
                let again = counted(cassette.played_again() as u64, "answer");
                notices.push(format!(
                    "the same was asked more often than it was recorded: {again} given again"
                ));
            }
        }
        Ok(notices)
    }
}

/// Says that a recording answers only where the same secrets are configured, if so.
#[must_use]
pub fn secrets_notice(summary: &RecordingSummary, file: &Path) -> Option<String> {
    summary.depends_on_secrets.then(|| {
        format!(
            "a key or another secret stands in what models were asked, as an ordinary word may, and was taken out: {} \
             answers only where the same one is configured",
            file.display()
        )
    })
}
