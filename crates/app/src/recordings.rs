//! Records the replies of models, and replays them.

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

/// Whether to record or replay the replies of models.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum CassetteUse {
    /// Neither.
    #[default]
    Off,
    /// Record to this file, which must not exist yet.
    Record(PathBuf),
    /// Replay a recording instead of calling models.
    Replay(CassetteConfig),
}

/// The recordings of an engine: those being recorded, and those being replayed.
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

    /// Starts a recording.
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

    /// Wraps a client with a recorder, if there is a recording.
    pub(crate) fn wrap(&self, role: &Role, client: Arc<dyn LlmClient>) -> Arc<dyn LlmClient> {
        match &self.recording {
            Some((_, recording)) => Arc::new(recording.wrap(role.clone(), client)),
            None => client,
        }
    }

    /// Ends recordings and replays, and returns notices about them, a sentence each. An empty recording is removed.
    ///
    /// # Errors
    ///
    /// A [`CassetteError`] if something could not be recorded, or was not played although the replay is strict.
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
                notices.push(format!("no model was called: {file} was not kept"));
            }
            notices.extend(secrets_notice(&summary, file));
        }
        for cassette in &self.cassettes {
            cassette.finish()?;
            let unused = cassette.unused();
            if let Some(first) = unused.first() {
                let (unused, all) = (unused.len(), cassette.len());
                notices.push(format!(
                    "{unused} of {all} recordings were not played; the first is {first}"
                ));
            }
            if cassette.replay_count() > 0 {
                let again = counted(cassette.replay_count() as u64, "answer");
                notices.push(format!(
                    "some requests were repeated more often than recorded: {again} played again"
                ));
            }
        }
        Ok(notices)
    }
}

/// Returns a notice if a recording only answers if the same secrets are configured.
#[must_use]
pub fn secrets_notice(summary: &RecordingSummary, file: &Path) -> Option<String> {
    summary.depends_on_secrets.then(|| {
        format!(
            "the requests to models contained a key or another secret, possibly as an ordinary word, and it was \
             removed: {} answers only where the same secret is configured",
            file.display()
        )
    })
}
