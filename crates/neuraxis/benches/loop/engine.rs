//! The engine as it is measured: with governance, validation of arguments, and the store in memory.

use std::sync::Arc;

use anyhow::Result;
use neuraxis::core::ToolClass;
use neuraxis::memory::MemoryStore;
use neuraxis::ports::{LlmClient, ToolContext, ToolError};
use neuraxis::tools::FunctionTool;
use neuraxis::{Channel, Mode, Orchestrator, Policy, PolicyConfig, Role, UserRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::runtime::{Builder, Runtime};

/// More turns than the longest run has.
const POLICY: &str = r#"
[modes.bench]
roles = ["*"]
max_turns = 1000
tools = { read_only = "allow" }

[channels.bench]
role = "reasoning"
tools = ["add"]
system_prompt = "You are a helpful assistant. Use the tools you are offered."
"#;

/// What to add.
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
    let add = FunctionTool::new("add", "Adds two numbers.", add)?;
    Ok(Orchestrator::builder()
        .model(Role::REASONING, model)
        .tool(add.class(ToolClass::ReadOnly).never_blocks().build())
        .policy(Policy::layered(PolicyConfig::from_toml(POLICY)?)?)
        .store(Arc::new(MemoryStore::new()))
        .build()?)
}

/// A request in a session of its own.
pub(crate) fn request(number: usize) -> Result<UserRequest> {
    let session = format!("s{number}").parse()?;
    Ok(
        UserRequest::new(session, "Please add up the numbers from 1 to 100.")
            .mode(Mode::new("bench"))
            .channel(Channel::new("bench")),
    )
}

/// One thread, so that processor time is the work of the run and not of threads that look for some.
pub(crate) fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}
