//! A tool runner with scripted tools.

use std::sync::Arc;

use neuraxis_core::{JsonText, ToolName, ToolOutput, ToolSpec};
use neuraxis_ports::{Tool, ToolContext, ToolError, ToolRunner, async_trait};

use crate::tool::ScriptedTool;

/// Runs scripted tools by name, like a worker elsewhere. Fails for a tool that it does not have.
///
/// ```
/// use std::sync::Arc;
///
/// use neuraxis_testkit::{ScriptedRunner, ScriptedTool, spec};
///
/// let runner = ScriptedRunner::new([Arc::new(ScriptedTool::echoing(spec("look")))]);
/// assert_eq!(runner.specs().len(), 1);
/// ```
#[derive(Debug)]
pub struct ScriptedRunner(Vec<Arc<ScriptedTool>>);

impl ScriptedRunner {
    /// Creates a runner with these tools.
    pub fn new(tools: impl IntoIterator<Item = Arc<ScriptedTool>>) -> Self {
        Self(tools.into_iter().collect())
    }

    /// Returns the specs of its tools.
    #[must_use]
    pub fn specs(&self) -> Vec<ToolSpec> {
        self.0.iter().map(|tool| tool.spec().clone()).collect()
    }
}

#[async_trait]
impl ToolRunner for ScriptedRunner {
    async fn run_tool(
        &self,
        tool: &ToolName,
        arguments: JsonText,
        ctx: ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let mut tools = self.0.iter();
        match tools.find(|other| other.spec().name == *tool) {
            Some(tool) => tool.call(arguments, ctx).await,
            None => Err(ToolError::permanent("the test's runner has no such tool")),
        }
    }
}
