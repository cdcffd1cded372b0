//! The same exchanges through the engine, with governance, validation of arguments and the log of records on.

use std::sync::Arc;

use anyhow::{Result, ensure};
use neuraxis::core::{LiveBody, RunStatus};
use neuraxis::engine::Delivery;
use neuraxis::{Event, Orchestrator};
use neuraxis_llama::{LlamaClient, LlamaConfig};

use crate::engine::{orchestrator, request};

/// One engine for all runs.
pub(crate) struct ByNeuraxis {
    orchestrator: Orchestrator,
}

impl ByNeuraxis {
    pub(crate) fn new(url: &str) -> Result<Self> {
        let client = LlamaClient::new(LlamaConfig::new(url))?;
        let orchestrator = orchestrator(Arc::new(client))?;
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

    /// One streamed answer. Returns the number of text bytes shown.
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
