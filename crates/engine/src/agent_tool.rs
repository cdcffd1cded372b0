//! Tools that this process does not run itself: sub-agents, a client's tools, and those of a runner elsewhere.

use std::sync::Arc;

use neuraxis_core::{AgentSpec, JsonText, ToolKind, ToolName, ToolOutput, ToolSpec};
use neuraxis_ports::{Tool, ToolContext, ToolError, ToolRunner, async_trait};

/// A sub-agent, offered to models as a tool.
///
/// It works inside its parent's run: with a conversation, tools and limits of its own, but within its parent's budget and
/// policy.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentTool {
    /// The tool by which it is called.
    pub spec: ToolSpec,
    /// How it behaves. Its `tools` are filled in from the names below.
    pub agent: AgentSpec,
    /// The tools it may use, of those that its parent's request may use.
    pub tools: Vec<ToolName>,
}

impl AgentTool {
    /// Makes an agent without tools.
    #[must_use]
    pub fn new(spec: ToolSpec, agent: AgentSpec) -> Self {
        let kind = ToolKind::Agent;
        Self {
            spec: ToolSpec { kind, ..spec },
            agent,
            tools: Vec::new(),
        }
    }

    /// Lets it use tools, by name. They must be among those of the orchestrator.
    #[must_use]
    pub fn with_tools(mut self, tools: impl IntoIterator<Item = ToolName>) -> Self {
        self.tools = tools.into_iter().collect();
        self
    }
}

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
