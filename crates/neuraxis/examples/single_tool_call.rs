//! One tool call through the orchestrator: the model asks for a tool, the tool runs, the model answers.
//!
//! `cargo run -p neuraxis --example single_tool_call`; the model is scripted, so it needs no key and no network.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use anyhow::Result;
use neuraxis::core::ToolClass;
use neuraxis::memory::MemoryStore;
use neuraxis::ports::{ToolContext, ToolError};
use neuraxis::tools::FunctionTool;
use neuraxis::{Channel, Mode, Orchestrator, Role};
use neuraxis_testkit::{ScriptedModel, reply};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where to look.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Place {
    /// The city, such as `Delft`.
    city: String,
}

#[derive(Serialize)]
struct Weather {
    city: String,
    celsius: f32,
}

async fn weather(place: Place, _ctx: ToolContext) -> Result<Weather, ToolError> {
    Ok(Weather {
        city: place.city,
        celsius: 11.5,
    })
}

#[tokio::main]
async fn main() -> Result<()> {
    let model = ScriptedModel::new()
        .then(reply::calls([("weather", r#"{"city": "Delft"}"#)]))
        .then(reply::text("It is 11.5 °C in Delft."));
    let tool = FunctionTool::new("weather", "Tells the weather in a city.", weather)?
        .class(ToolClass::ReadOnly)
        .build();
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tool(tool)
        .store(Arc::new(MemoryStore::default()))
        .build()?;

    let session = "example".parse()?;
    let result = orchestrator
        .handle_user_request(
            &session,
            "How warm is it in Delft?",
            Mode::MODERATE,
            Channel::CHAT,
        )
        .await?;
    for step in &result.steps {
        println!("{:?}: {}", step.kind, step.description);
    }
    println!("{}", result.reply);
    Ok(())
}
