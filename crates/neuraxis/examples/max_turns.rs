//! The turn limit makes a model that never stops calling tools give an answer.
//!
//! `cargo run -p neuraxis --example max_turns`; the model is scripted, so it needs no key and no network.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use anyhow::Result;
use neuraxis::core::{Purpose, RecordBody, ToolClass};
use neuraxis::engine::UserRequest;
use neuraxis::memory::MemoryStore;
use neuraxis::ports::{ToolContext, ToolError};
use neuraxis::tools::{FunctionTool, NoArguments};
use neuraxis::{Event, Mode, Orchestrator, Role};
use neuraxis_testkit::{ScriptedModel, reply};

async fn look(_: NoArguments, _ctx: ToolContext) -> Result<&'static str, ToolError> {
    Ok("nothing new")
}

#[tokio::main]
async fn main() -> Result<()> {
    // It calls the tool as long as it may, and answers when it no longer may.
    let model = ScriptedModel::answering(|request| {
        if request.tool_choice == neuraxis::core::ToolChoice::None {
            reply::text("I looked several times; there is nothing new.")
        } else {
            reply::calls([("look", "{}")])
        }
    });
    let look = FunctionTool::new("look", "Checks whether there is anything new.", look)?;
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tool(look.class(ToolClass::ReadOnly).build())
        .store(Arc::new(MemoryStore::default()))
        .build()?;

    // Conservative mode allows three turns.
    let request = UserRequest::new("example".parse()?, "Anything new?").mode(Mode::CONSERVATIVE);
    let (handle, mut events) = orchestrator.stream(request).await?;
    while let Some(event) = events.next().await {
        let Event::Record(record) = event else {
            continue;
        };
        match &record.body {
            RecordBody::LlmCall(call) if call.purpose == Purpose::Turn => {
                println!("turn {}", record.turn);
            }
            RecordBody::MaxTurnsReached(reached) => {
                println!("max turns reached: {}", reached.turns);
            }
            RecordBody::MaxTurnsPromptInjected(injected) => {
                println!("system: {}", injected.message);
            }
            RecordBody::Final(outcome) => {
                println!("{} ({})", outcome.content, outcome.finish_reason);
            }
            _ => {}
        }
    }
    anyhow::ensure!(handle.result().await.is_ok(), "the run has a result");
    Ok(())
}
