//! Records the exchanges of any model client to a readable file, and replays them exactly: an adapter of the
//! `LlmClient` port.
//!
//! **For** tests that preserve a real model's answers, for demonstrating a run without a model or a network, and for
//! finding out what a model was asked. A [`Recording`] is one file; [`Recording::wrap`] puts a recorder in front of the
//! client of each role. A [`Cassette`] reads the file, and [`Cassette::client`] answers for a role. The file is JSON
//! Lines with one delta per line, made to be read and compared in version control. Secrets are removed before it is
//! written. [`Cassette::from_records`] creates a cassette from the records of a run.
//!
//! **Not for** imitating a model: a request that was not recorded is refused with a description of what differs. Nor
//! for storing runs: their records do that.
//!
//! ```
//! use std::sync::Arc;
//!
//! use neuraxis_cassette::{Cassette, CassetteConfig, Recording, RecordingOptions, Redactor};
//! use neuraxis_core::{Role, jiff::Timestamp};
//! use neuraxis_ports::LlmClient;
//! # use neuraxis_testkit::{ScriptedModel, call_context, reply, request};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("six.cassette");
//! # let (request, ctx) = (request("What is 6 × 7?"), call_context());
//! # let model: Arc<dyn LlmClient> = Arc::new(ScriptedModel::new().then(reply::text("42")));
//! # let now = Timestamp::UNIX_EPOCH;
//!
//! // Every call of this client goes to the model, and into the file.
//! let recording = Recording::create(&file, RecordingOptions::new(now))?;
//! let client = recording.wrap(Role::REASONING, model);
//! let reply = client.respond(&request, &ctx).await?;
//! recording.finish()?;
//!
//! // This one answers from the file.
//! let cassette = Cassette::open(&CassetteConfig::new(&file), Redactor::default())?;
//! let client = cassette.client(Role::REASONING);
//! assert_eq!(client.respond(&request, &ctx).await?, reply);
//! assert!(cassette.unused().is_empty());
//! # Ok(())
//! # }
//! ```

mod canonical;
mod cassette;
mod config;
mod error;
mod exchange;
mod format;
mod provider;
mod recorder;
mod recording;
mod redact;

pub use cassette::{Cassette, CassetteClient};
pub use config::{CassetteConfig, DEFAULT_MAX_BYTES, Speed, ToolResults};
pub use error::{CassetteError, UnusedRecording};
pub use provider::OpenCassettes;
pub use recorder::Recorder;
pub use recording::{ExistingFile, Recording, RecordingOptions, RecordingSummary, StatePolicy};
pub use redact::{MIN_SECRET_BYTES, REDACTED, Redactor};
