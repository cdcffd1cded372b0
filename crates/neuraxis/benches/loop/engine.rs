//! The engine as it is measured: with governance, validation of arguments, and the in-memory store. `overhead` measures
//! the same configuration.

use std::sync::Arc;

use anyhow::Result;
use neuraxis::core::ToolClass;
use neuraxis::memory::MemoryStore;
use neuraxis::ports::{LlmClient, ToolContext, ToolError};
use neuraxis::tools::FunctionTool;
use neuraxis::{Channel, Mode, Orchestrator, Policy, PolicyConfig, Role, UserRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) const SYSTEM_PROMPT: &str =
    "You are a helpful assistant. Use the tools you are offered.";
pub(crate) const QUESTION: &str = "Please add up the numbers from 1 to 100.";

/// Allows more turns than the longest run has. The channel's prompt follows.
const POLICY: &str = r#"
[modes.bench]
roles = ["*"]
max_turns = 1000
tools = { read_only = "allow" }

[channels.bench]
role = "reasoning"
tools = ["add"]
"#;

/// The numbers to add.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Numbers {
    a: u64,
    b: u64,
}

#[derive(Serialize)]
struct Sum {
    sum: u64,
}

async fn add(numbers: Numbers, _ctx: ToolContext) -> Result<Sum, ToolError> {
    let sum = numbers.a.saturating_add(numbers.b);
    Ok(Sum { sum })
}

pub(crate) fn orchestrator(model: Arc<dyn LlmClient>) -> Result<Orchestrator> {
    let policy = format!("{POLICY}system_prompt = {SYSTEM_PROMPT:?}\n");
    let add = FunctionTool::new("add", "Adds two numbers.", add)?;
    Ok(Orchestrator::builder()
        .model(Role::REASONING, model)
        .tool(add.class(ToolClass::ReadOnly).never_blocks().build())
        .policy(Policy::layered(PolicyConfig::from_toml(&policy)?)?)
        .store(Arc::new(MemoryStore::new()))
        .build()?)
}

/// Creates a request in a separate session.
pub(crate) fn request(number: usize) -> Result<UserRequest> {
    let session = format!("s{number}").parse()?;
    Ok(UserRequest::new(session, QUESTION)
        .mode(Mode::new("bench"))
        .channel(Channel::new("bench")))
}
