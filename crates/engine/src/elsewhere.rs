//! Tools that this process does not run itself: those that start agents, a client's tools, and those of a runner elsewhere.

use std::sync::Arc;

use neuraxis_core::{JsonText, ToolKind, ToolOutput, ToolSpec};
use neuraxis_ports::{Tool, ToolContext, ToolError, ToolRunner, async_trait};

/// Stands in the catalog for a tool that is never run here: the loop starts its agents, or waits for its client.
#[derive(Debug)]
pub(crate) struct RunElsewhere(pub(crate) ToolSpec);

#[async_trait]
impl Tool for RunElsewhere {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: JsonText, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let what = match self.0.kind {
            ToolKind::Agent => "it starts a sub-agent, which works only within a run",
            ToolKind::Client | ToolKind::Server => "whoever asks runs it",
        };
        Err(ToolError::permanent(format!("not run here: {what}")))
    }
}

/// A tool of a runner.
#[derive(Debug)]
pub(crate) struct RunByRunner {
    pub(crate) spec: ToolSpec,
    pub(crate) runner: Arc<dyn ToolRunner>,
}

#[async_trait]
impl Tool for RunByRunner {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, arguments: JsonText, ctx: ToolContext) -> Result<ToolOutput, ToolError> {
        self.runner.run_tool(&self.spec.name, arguments, ctx).await
    }
}
