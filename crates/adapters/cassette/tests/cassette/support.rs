//! Records scripted models into files that are removed with the test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::StreamExt;
use neuraxis_cassette::{
    Cassette, CassetteConfig, Recorder, Recording, RecordingOptions, Redactor,
};
use neuraxis_core::{LlmError, ModelRequest, ReplyDelta, Role};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{START, ScriptedModel, call_context};
use tempfile::TempDir;

/// A folder with one file in it.
pub(crate) struct CassetteFile {
    folder: TempDir,
}

impl CassetteFile {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("test.cassette")
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap()
    }

    /// Starts a recording of one model as `reasoning`.
    pub(crate) fn record(&self, model: ScriptedModel) -> (Arc<Recording>, Recorder) {
        self.record_with(model, options())
    }

    pub(crate) fn record_with(
        &self,
        model: ScriptedModel,
        options: RecordingOptions,
    ) -> (Arc<Recording>, Recorder) {
        let recording = Recording::create(self.path(), options).unwrap();
        let client = recording.wrap(Role::REASONING, Arc::new(model));
        (recording, client)
    }

    pub(crate) fn config(&self) -> CassetteConfig {
        CassetteConfig::new(self.path())
    }

    pub(crate) fn strict(&self) -> CassetteConfig {
        let mut config = self.config();
        config.strict = true;
        config
    }

    pub(crate) fn open(&self) -> Cassette {
        open(&self.config())
    }
}

pub(crate) fn options() -> RecordingOptions {
    RecordingOptions::new(START)
}

pub(crate) fn open(config: &CassetteConfig) -> Cassette {
    Cassette::open(config, Redactor::default()).unwrap()
}

/// The items of a stream, up to its end, or why there was none.
pub(crate) type Streamed = Result<Vec<Result<ReplyDelta, LlmError>>, LlmError>;

pub(crate) async fn stream(client: &dyn LlmClient, request: &ModelRequest) -> Streamed {
    let stream = client.stream_respond(request, &call_context()).await?;
    Ok(stream.collect().await)
}

/// Writes a file by hand.
pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) {
    std::fs::write(path, text).unwrap();
}
