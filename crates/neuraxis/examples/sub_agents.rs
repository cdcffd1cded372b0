//! A model assigns topics to sub-agents, which work concurrently. Their answers come in the order of the topics.
//!
//! `cargo run -p neuraxis --example sub_agents`; the models are scripted, so it needs no key and no network.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use anyhow::Result;
use neuraxis::core::RecordBody;
use neuraxis::engine::Agent;
use neuraxis::memory::MemoryStore;
use neuraxis::{Mode, Orchestrator, Role, UserRequest};
use neuraxis_testkit::{ScriptedModel, reply};

#[tokio::main]
async fn main() -> Result<()> {
    let lead = ScriptedModel::new()
        .then(reply::calls([(
            "research",
            r#"{"topics":["tides","moons"]}"#,
        )]))
        .then(reply::text("Moons make tides."));
    let researchers = ScriptedModel::answering(|request| {
        let task = request
            .messages
            .messages()
            .last()
            .map(|message| message.text());
        reply::text(format!("All about {}.", task.unwrap_or_default()))
    });

    // One agent per item of the argument `topics`, each with a separate conversation, within the request's limits.
    let research = Agent::builder("research")
        .description("Has topics researched, each by an agent of its own.")
        .instructions("You research one topic.")
        .role(Role::CODING)
        .fan_out("topics")
        .build()?;
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(lead))
        .model(Role::CODING, Arc::new(researchers))
        .agent_tool(research)
        .store(Arc::new(MemoryStore::default()))
        .build()?;

    let request = UserRequest::new("example".parse()?, "Why are there tides?");
    let (handle, _) = orchestrator.stream(request.mode(Mode::EXPLORATORY)).await?;
    let result = handle.result().await;
    for record in handle.records() {
        match &record.body {
            RecordBody::Final(end) => println!("{} ended: {}", record.agent, end.content),
            RecordBody::ToolResult(result) => println!("{} gave {}", result.name, result.value),
            _ => {}
        }
    }
    anyhow::ensure!(result.is_ok_and(|result| result.reply == "Moons make tides."));
    Ok(())
}
