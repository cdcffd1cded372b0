//! The port to runners of tools that are not code of this process.

use std::fmt::Debug;

use async_trait::async_trait;
use neuraxis_core::{JsonText, ToolName, ToolOutput};

use crate::tool::{ToolContext, ToolError};

/// Runs tools by name: a worker, a sandbox, another service. Their specs describe the tools separately.
///
/// The rules of [`Tool::call`](crate::Tool::call) apply: arguments are checked before, the engine retries, and a
/// dropped future means that the result is no longer awaited.
#[async_trait]
pub trait ToolRunner: Debug + Send + Sync + 'static {
    /// Runs one call of a tool.
    ///
    /// # Errors
    ///
    /// A [`ToolError`] with a message that the model can act on; the run continues.
    async fn run_tool(
        &self,
        tool: &ToolName,
        arguments: JsonText,
        ctx: ToolContext,
    ) -> Result<ToolOutput, ToolError>;
}
