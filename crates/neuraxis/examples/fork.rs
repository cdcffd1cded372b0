//! A conversation is forked at an earlier turn and continues differently; the original stays as it was.
//!
//! `cargo run -p neuraxis --example fork`; the model is scripted, so it needs no key and no network.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use anyhow::{Context, Result};
use neuraxis::core::Turn;
use neuraxis::engine::ForkOptions;
use neuraxis::memory::MemoryStore;
use neuraxis::ports::SessionIndex as _;
use neuraxis::{Channel, Mode, Orchestrator, Role};
use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};

#[tokio::main]
async fn main() -> Result<()> {
    let model = ScriptedModel::new()
        .then(reply::calls([("look", r#"{"at":"the left door"}"#)]))
        .then(reply::text("I take the left door."))
        .then(reply::text("Then I take the right door."));
    let store = Arc::new(MemoryStore::default());
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tool(Arc::new(ScriptedTool::echoing(spec("look").read_only())))
        .store(store.clone())
        .build()?;
    let session = "first".parse()?;
    let first = orchestrator
        .handle_user_request(&session, "Which door?", Mode::EXPLORATORY, Channel::CHAT)
        .await?;

    // After turn 1, the model had looked but not decided yet.
    let options = ForkOptions::new("second".parse()?).message("Not the left one.");
    let fork = orchestrator
        .runs()
        .fork(first.run_id, Turn(1), options)
        .await?;
    let second = fork.result().await.context("the run has a result")?;
    for (name, session) in [("first", &session), ("second", fork.session_id())] {
        println!("{name}:");
        for message in store.history(session).await?.messages() {
            println!("  {}", message.text());
        }
    }
    anyhow::ensure!(second.reply == "Then I take the right door.");
    Ok(())
}
