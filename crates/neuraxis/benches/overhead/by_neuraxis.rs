//! The same exchanges through the engine, with governance, validation of arguments and the log of records on.

use std::sync::Arc;

use anyhow::{Result, ensure};
use neuraxis::core::{LiveBody, RunStatus, ToolClass};
use neuraxis::engine::{Delivery, UserRequest};
use neuraxis::memory::MemoryStore;
use neuraxis::ports::{ToolContext, ToolError};
use neuraxis::tools::FunctionTool;
use neuraxis::{Channel, Event, Mode, Orchestrator, Policy, PolicyConfig, Role};
use neuraxis_llama::{LlamaClient, LlamaConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) const SYSTEM_PROMPT: &str =
    "You are a helpful assistant. Use the tools you are offered.";
pub(crate) const QUESTION: &str = "Please add up the numbers from 1 to 100.";
pub(crate) const ADD_SCHEMA: &str = r#"{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}"#;

/// As many turns as the longest workload has, and the same prompt as by hand.
const POLICY: &str = r#"
[modes.bench]
roles = ["*"]
max_turns = 100
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
    Ok(Sum {
        sum: numbers.a + numbers.b,
    })
}

/// One engine for all runs.
pub(crate) struct ByNeuraxis {
    orchestrator: Orchestrator,
}

impl ByNeuraxis {
    pub(crate) fn new(url: &str) -> Result<Self> {
        let client = LlamaClient::new(LlamaConfig::new(url))?;
        let add = FunctionTool::new("add", "Adds two numbers.", add)?;
        let orchestrator = Orchestrator::builder()
            .model(Role::REASONING, Arc::new(client))
            .tool(add.class(ToolClass::ReadOnly).never_blocks().build())
            .policy(Policy::layered(PolicyConfig::from_toml(POLICY)?)?)
            .store(Arc::new(MemoryStore::new()))
            .build()?;
        Ok(Self { orchestrator })
    }

    /// One run: the model is called until it answers.
    pub(crate) async fn run(&self, number: usize) -> Result<String> {
        let result = self
            .orchestrator
            .handle(request(number)?.delivery(Delivery::Whole))
            .await?;
        ensure!(result.status == RunStatus::Done, "{}", result.reply);
        Ok(result.reply)
    }

    /// One streamed answer; returns how many bytes of text were shown.
    pub(crate) async fn stream(&self, number: usize) -> Result<usize> {
        let (_, mut events) = self.orchestrator.stream(request(number)?).await?;
        let mut shown = 0;
        let mut last = String::new();
        while let Some(event) = events.next().await {
            let Event::Live(live) = event else { continue };
            if let LiveBody::TextDelta { text } = live.body {
                shown += text.len();
                last = text;
            }
        }
        ensure!(last.ends_with("word399"), "the stream was cut");
        Ok(shown)
    }
}

fn request(number: usize) -> Result<UserRequest> {
    let session = format!("s{number}").parse()?;
    Ok(UserRequest::new(session, QUESTION)
        .mode(Mode::new("bench"))
        .channel(Channel::new("bench")))
}
