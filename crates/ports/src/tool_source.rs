//! The port to tools that come and go while the process runs.

use std::fmt::Debug;
use std::sync::Arc;

use crate::tool::Tool;

/// Somebody else's server, whose tools may become more, fewer or others at any time.
///
/// The engine looks at a source when a run starts, and a run keeps working with the tools it started with: one that is gone
/// meanwhile has to answer its calls with an error. What the tools say about themselves is a claim, as that of
/// [`OrchestratorBuilder::foreign_tools`](https://docs.rs/neuraxis-engine).
///
/// **Who repeats.** Nobody: what a source cannot say now it says with a later version.
/// **Order.** The order of [`tools`](Self::tools) is that of every prompt, so it should not change without need.
pub trait ToolSource: Debug + Send + Sync + 'static {
    /// Names the server. Each of its tools has to be named `NAME__TOOL`. The same for the whole life of the process.
    fn name(&self) -> &str;

    /// Counts how often the tools changed; 0 while there have never been any. Read at the start of every run: must be quick.
    fn version(&self) -> u64;

    /// Returns the tools there are now. Never waits, least of all for the network.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;
}
