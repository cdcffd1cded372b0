//! A typed answer, with a tool in the same run.
//!
//! `cargo run -p neuraxis --example typed_answer`; the model is scripted, so it needs no key and no network.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use anyhow::Result;
use neuraxis::core::ToolClass;
use neuraxis::memory::MemoryStore;
use neuraxis::ports::{ToolContext, ToolError};
use neuraxis::tools::FunctionTool;
use neuraxis::{Orchestrator, Role, TypedError, UserRequest};
use neuraxis_testkit::{ScriptedModel, reply};
use schemars::JsonSchema;
use serde::Deserialize;

/// A city and how warm it is there.
#[derive(Debug, Deserialize, JsonSchema)]
struct Weather {
    city: String,
    /// In degrees Celsius.
    temperature: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Place {
    city: String,
}

async fn measure(place: Place, _: ToolContext) -> Result<String, ToolError> {
    Ok(format!("11.5 °C in {}", place.city))
}

#[tokio::main]
async fn main() -> Result<()> {
    // The model calls the tool, gives an answer that does not fit, is told so, and gives one that does.
    let model = ScriptedModel::new()
        .then(reply::calls([("measure", r#"{"city":"Delft"}"#)]))
        .then(reply::calls([(
            "final_answer",
            r#"{"city":"Delft","temperature":"11.5 °C"}"#,
        )]))
        .then(reply::calls([(
            "final_answer",
            r#"{"city":"Delft","temperature":11.5}"#,
        )]));
    let measure = FunctionTool::new("measure", "Measures how warm it is in a city.", measure)?
        .class(ToolClass::ReadOnly)
        .build();
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tool(measure)
        .store(Arc::new(MemoryStore::default()))
        .build()?;
    let request = UserRequest::new("typed".parse()?, "How warm is it in Delft?");
    match orchestrator.handle_typed::<Weather>(request).await {
        Ok(done) => println!("{}: {} °C", done.value.city, done.value.temperature),
        Err(TypedError::NoAnswer { fault, result }) => {
            anyhow::bail!("{fault}; the model said: {}", result.reply)
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
