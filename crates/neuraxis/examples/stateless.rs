//! One prompt, without sessions and without governance: its result and all events on the way.
//!
//! `cargo run -p neuraxis --example stateless`; it answers by rules, so it needs no key and no network.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use anyhow::Result;
use neuraxis::engine::SystemClock;
use neuraxis::offline::OfflineModel;
use neuraxis::{Orchestrator, Role};

#[tokio::main]
async fn main() -> Result<()> {
    let agent = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(OfflineModel))
        .tools(neuraxis::tools::built_in(Arc::new(SystemClock))?)
        .tool_call_limit(5)
        .build_agent()?;
    let done = agent.execute("You are brief.", "What time is it?").await?;
    println!("{}", done.content);
    for call in &done.tool_calls {
        println!(
            "{}({}) = {} in {} ms",
            call.name, call.arguments, call.result, call.duration_ms
        );
    }
    println!(
        "{} trace records, {} messages",
        done.traces.len(),
        done.message_history.len()
    );
    anyhow::ensure!(done.tool_calls.len() == 1, "the clock was asked once");
    Ok(())
}
