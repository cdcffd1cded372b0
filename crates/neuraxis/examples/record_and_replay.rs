//! Records a model's replies, and replays them in another run: the same answer, without the model.
//!
//! `cargo run -p neuraxis --features cassette --example record_and_replay`; the model answers by rules, so it needs no
//! key and no network.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use anyhow::{Result, ensure};
use neuraxis::cassette::{Cassette, CassetteConfig, Recording, RecordingOptions, Redactor};
use neuraxis::engine::SystemClock;
use neuraxis::memory::MemoryStore;
use neuraxis::offline::OfflineModel;
use neuraxis::ports::{Clock, LlmClient};
use neuraxis::{Channel, Mode, Orchestrator, Role};

/// Asks for the time, in a separate session.
async fn ask(model: Arc<dyn LlmClient>) -> Result<String> {
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, model)
        .tools(neuraxis::tools::built_in(Arc::new(SystemClock))?)
        .store(Arc::new(MemoryStore::default()))
        .build()?;
    let session = "example".parse()?;
    let message = "What time is it?";
    let result = orchestrator
        .handle_user_request(&session, message, Mode::MODERATE, Channel::CHAT)
        .await?;
    Ok(result.reply)
}

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("time.cassette");

    // One recording holds the calls of every role whose client it wraps.
    let recording = Recording::create(&file, RecordingOptions::new(SystemClock.now()))?;
    let recorded = ask(Arc::new(
        recording.wrap(Role::REASONING, Arc::new(OfflineModel)),
    ))
    .await?;
    let summary = recording.finish()?;
    println!("{} exchanges recorded:\n", summary.exchanges);
    println!("{}", std::fs::read_to_string(&file)?);

    // The tool runs again and returns a later time; the model's replies come from the recording.
    let mut config = CassetteConfig::new(&file);
    config.strict = true;
    let cassette = Cassette::open(&config, Redactor::default())?;
    let replayed = ask(Arc::new(cassette.client(Role::REASONING))).await?;
    cassette.finish()?;
    ensure!(replayed == recorded, "the replay differs: {replayed}");
    println!("replayed: {replayed}");
    Ok(())
}
