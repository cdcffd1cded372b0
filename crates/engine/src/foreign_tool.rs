//! Tools of third-party servers, and tools that this process does not run itself: those that start agents, those of a
//! client, and those of a runner elsewhere.
//!
//! What a server says about its own tools is only a claim. Governance relies on what local configuration trusts, and a
//! tool whose definition changes after it was added is no longer called. Not for talking to servers, which an adapter
//! does.

use std::sync::Arc;

use neuraxis_brainstem::Policy;
use neuraxis_core::{JsonText, SERVER_SEPARATOR, ToolKind, ToolName, ToolOutput, ToolSpec};
use neuraxis_ports::{
    Isolation, Tool, ToolContext, ToolError, ToolRunner, TurnContext, async_trait,
};

use crate::catalog::CatalogError;

/// A server's tool, as far as it is trusted.
#[derive(Debug)]
pub(crate) struct ForeignTool {
    tool: Arc<dyn Tool>,
    /// The spec that the server claimed when the tool was added.
    claimed: ToolSpec,
    /// The spec that governance relies on.
    trusted: ToolSpec,
}

impl ForeignTool {
    /// Wraps a server's tool.
    ///
    /// # Errors
    ///
    /// [`CatalogError::ForeignName`] unless the tool is named after its server: otherwise it could be mistaken for a
    /// tool of another server or a built-in tool.
    pub(crate) fn new(
        server: &str,
        tool: Arc<dyn Tool>,
        policy: &Policy,
    ) -> Result<Self, CatalogError> {
        let claimed = tool.spec().clone();
        if !is_named_after(&claimed.name, server) {
            return Err(CatalogError::ForeignName {
                server: server.to_owned(),
                name: claimed.name,
            });
        }
        Ok(Self {
            trusted: policy.apply_trust(claimed.clone()),
            claimed,
            tool,
        })
    }

    fn has_changed(&self) -> bool {
        *self.tool.spec() != self.claimed
    }
}

fn is_named_after(name: &ToolName, server: &str) -> bool {
    let rest = name.as_str().strip_prefix(server);
    let tool = rest.and_then(|rest| rest.strip_prefix(SERVER_SEPARATOR));
    !server.is_empty()
        && !server.contains(SERVER_SEPARATOR)
        && tool.is_some_and(|tool| !tool.is_empty())
}

#[async_trait]
impl Tool for ForeignTool {
    fn spec(&self) -> &ToolSpec {
        &self.trusted
    }

    fn should_use(&self, turn: &TurnContext) -> bool {
        !self.has_changed() && self.tool.should_use(turn)
    }

    fn isolation(&self) -> Isolation {
        self.tool.isolation()
    }

    async fn dry_run(&self, arguments: &JsonText) -> Result<(), ToolError> {
        self.tool.dry_run(arguments).await
    }

    async fn call(&self, arguments: JsonText, ctx: ToolContext) -> Result<ToolOutput, ToolError> {
        // The tool may have changed since the call was checked, for instance while a user was asked for approval.
        if self.has_changed() {
            let message = "not run: the tool has changed since it was loaded";
            return Err(ToolError::permanent(message));
        }
        self.tool.call(arguments, ctx).await
    }
}

/// The catalog entry of a tool that never runs here: the loop starts its agents, or waits for its client.
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
            ToolKind::Client | ToolKind::Server => "its client runs it",
        };
        Err(ToolError::permanent(format!("not run here: {what}")))
    }
}

/// A tool that a runner runs.
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
