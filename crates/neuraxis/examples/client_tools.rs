//! A tool that the caller runs: the run waits for its result and then continues.
//!
//! `cargo run -p neuraxis --example client_tools`; the model is scripted, so it needs no key and no network.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use neuraxis::core::{JsonText, ToolOutcome, ToolOutput};
use neuraxis::engine::Answer;
use neuraxis::memory::MemoryStore;
use neuraxis::{Channel, Mode, Orchestrator, Role};
use neuraxis_testkit::{ScriptedModel, reply, spec};

#[tokio::main]
async fn main() -> Result<()> {
    let model = ScriptedModel::new()
        .then(reply::calls([("pick_color", r#"{"of":["red","blue"]}"#)]))
        .then(reply::text("Red it is."));
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .client_tool(spec("pick_color").read_only().build())
        .store(Arc::new(MemoryStore::default()))
        .build()?;
    let session = "example".parse()?;
    let waiting = orchestrator
        .handle_user_request(&session, "Paint it.", Mode::EXPLORATORY, Channel::CHAT)
        .await?;
    let pending = waiting.pending.first().context("the run waits")?;
    println!("{:?}: {}", waiting.status, pending.tool_call_id);

    // The caller asks its user, however long that takes. Another process could supply the answer as well.
    let picked = ToolOutput::new(JsonText::string("red"));
    let answer = Answer::ToolResult {
        call: pending.tool_call_id.clone(),
        outcome: ToolOutcome::done(picked),
        duration: Duration::from_secs(7),
    };
    let handle = orchestrator
        .runs()
        .resume(waiting.run_id, vec![answer])
        .await?;
    let result = handle.result().await.context("the run has a result")?;
    println!("{}", result.reply);
    anyhow::ensure!(result.reply == "Red it is.");
    Ok(())
}
