//! The port to whoever runs tools that are not code of this process.

use std::fmt::Debug;

use async_trait::async_trait;
use neuraxis_core::{JsonText, ToolName, ToolOutput};

use crate::tool::{ToolContext, ToolError};

/// Runs tools by name: a worker, a sandbox, another service. What the tools are is told apart from it, by their specs.
///
/// What holds for [`Tool::call`](crate::Tool::call) holds here: arguments are checked before, the engine repeats, and a
/// dropped future means that nobody waits any more.
#[async_trait]
pub trait ToolRunner: Debug + Send + Sync + 'static {
    /// Runs one call of a tool.
    ///
    /// # Errors
    ///
    /// A [`ToolError`] with a message the model can act on; the run goes on.
    async fn run_tool(
        &self,
        tool: &ToolName,
        arguments: JsonText,
        ctx: ToolContext,
    ) -> Result<ToolOutput, ToolError>;
}
