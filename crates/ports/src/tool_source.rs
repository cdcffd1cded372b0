//! The port to tools that come and go while the process runs.

use std::fmt::Debug;
use std::sync::Arc;

use crate::tool::Tool;

/// A third-party server whose set of tools may change at any time.
///
/// The engine reads a source when a run starts, and a run keeps using the tools it started with: a tool that has been
/// removed meanwhile must answer its calls with an error. What the tools say about themselves is only a claim, as with
/// [`OrchestratorBuilder::foreign_tools`](https://docs.rs/neuraxis-engine).
///
/// **Retries.** None: what a source cannot report now it reports with a later version. **Order.** The order of
/// [`tools`](Self::tools) is that of every prompt, so it should not change without need.
pub trait ToolSource: Debug + Send + Sync + 'static {
    /// Returns the name of the server. Each of its tools must be named `NAME__TOOL`. Must stay the same for the life of
    /// the process.
    fn name(&self) -> &str;

    /// Returns how often the tools have changed; 0 while there have never been any. Read at the start of every run, so
    /// it must be quick.
    fn version(&self) -> u64;

    /// Returns the current tools. Must never wait, least of all for the network.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;
}
