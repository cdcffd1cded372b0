//! The built-in tools, and how to turn a function into a tool.
//!
//! **For** giving a model something to call. The attribute [`macro@tool`] and [`FunctionTool`] turn any async function
//! into a tool: this is what an embedding team needs first. [`built_in`] returns the tools that need only this machine,
//! and [`project_files`] those that read and write the files of one folder, which they cannot leave, and run commands
//! there.
//!
//! **Not for** deciding whether a call may run (`neuraxis-brainstem` does that), for running it with time limits and
//! retries (`neuraxis-engine`), or for tools of other servers (the `mcp` adapter). Only `write_file`, `apply_patch` and
//! `run_command` change anything.
//!
//! All features are on by default. Without any of them, only [`macro@tool`] and [`FunctionTool`] are available, at the
//! cost of `schemars`:
//!
//! - `built-in`: [`built_in`] and its tools, with a calculator, time zones and system information;
//! - `files`: the tools of [`project_files`] that read and write, with searching and path confinement;
//! - `commands`: also `run_command` and the sandbox it runs in, which exists only on Linux. Without a sandbox, the tool
//!   is not offered unless [`Commands::Unconfined`] allows it.
//!
//! Every built-in tool returns an object whose `summary` (a string or a list of strings) gives the result in plain
//! language, for users and for adapters without a model. Optional arguments may be left out or `null`.
//!
//! ```
//! use neuraxis_core::{AgentId, EffectId, JsonText, RunId, ToolCallId, ToolClass, Turn, uuid::Uuid};
//! use neuraxis_ports::{ToolContext, ToolError, TurnContext};
//! use neuraxis_tools::FunctionTool;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize, JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Divide {
//!     /// The number to be divided.
//!     dividend: f64,
//!     /// The number to divide by. By default 2.
//!     divisor: Option<f64>,
//! }
//!
//! #[derive(Serialize)]
//! struct Quotient {
//!     quotient: f64,
//! }
//!
//! async fn divide(arguments: Divide, _ctx: ToolContext) -> Result<Quotient, ToolError> {
//!     let divisor = arguments.divisor.unwrap_or(2.0);
//!     if divisor == 0.0 {
//!         return Err(ToolError::permanent("the divisor is zero; choose another one"));
//!     }
//!     Ok(Quotient { quotient: arguments.dividend / divisor })
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tool = FunctionTool::new("divide", "Divides one number by another.", divide)?
//!     .class(ToolClass::ReadOnly)
//!     .build();
//!
//! // The engine calls it like this.
//! # let run = RunId(Uuid::nil());
//! # let turn = TurnContext::new(run, None, AgentId::ROOT, Turn(1));
//! # let ctx = ToolContext::new(turn, ToolCallId::from_text("call_1"), EffectId { run, number: 1 });
//! let output = tool.call(JsonText::from_text(r#"{"dividend": 84}"#), ctx).await?;
//! assert_eq!(output.value.as_str(), r#"{"quotient":42.0}"#);
//! # Ok(())
//! # }
//! ```

mod blocking;
#[cfg(feature = "built-in")]
mod built_in;
#[cfg(feature = "files")]
mod commands;
mod function;
#[doc(hidden)]
pub mod macro_parts;
#[cfg(feature = "files")]
mod project;
#[cfg(feature = "commands")]
mod sandbox;
#[cfg(any(feature = "built-in", feature = "files"))]
mod suggest;
#[cfg(any(feature = "built-in", feature = "files"))]
mod summary;

#[cfg(feature = "built-in")]
pub use built_in::{ask_user, built_in, calculate, current_time, system_health, update_plan};
#[cfg(feature = "commands")]
pub use commands::CommandAvailability;
#[cfg(feature = "files")]
pub use commands::Commands;
pub use function::{DefinitionError, FunctionTool, NoArguments};
#[cfg(feature = "commands")]
pub use project::COMMAND_ENVIRONMENT;
#[cfg(feature = "files")]
pub use project::{
    PROTECTED_NAMES, ProgramFiles, ProjectError, SECRET_FILES, content_as_written, is_protected,
    is_secret, patch_as_applied, project_files, project_files_without,
};
#[cfg(feature = "commands")]
pub use sandbox::{NoSandbox, SandboxFeature, SandboxFeatures, sandbox_features};
#[cfg(all(feature = "commands", target_os = "linux"))]
pub use sandbox::{run_sandbox_helper, use_sandbox_helper};

/// Turns an async function into a tool: the function's doc comment tells the model what the tool does, and the doc
/// comments of the parameters describe its arguments.
///
/// The function itself stays unchanged, so tests can call it. The attribute adds a type of the same name whose `tool()`
/// creates the tool.
///
/// ```
/// use neuraxis_ports::ToolContext;
/// use neuraxis_tools::tool;
///
/// /// Adds up the lengths of texts.
/// #[tool(class = "read_only", crate = "neuraxis_tools")]
/// async fn total_length(
///     /// The texts.
///     texts: Vec<String>,
///     /// The upper limit on the result. Unlimited if omitted.
///     most: Option<usize>,
///     ctx: ToolContext,
/// ) -> Result<usize, std::num::TryFromIntError> {
///     ctx.progress.report("adding up", None, None);
///     let total: u32 = texts.len().try_into()?;
///     Ok(total.try_into().unwrap_or(usize::MAX).min(most.unwrap_or(usize::MAX)))
/// }
///
/// let tool = total_length::tool()?;
/// assert_eq!(tool.spec().name.as_str(), "total_length");
/// assert_eq!(&*tool.spec().description, "Adds up the lengths of texts.");
/// assert!(tool.spec().parameters.as_str().contains("The upper limit on the result."));
/// # Ok::<(), neuraxis_tools::DefinitionError>(())
/// ```
///
/// **Parameters** are the arguments that the model gives; each type must be `Deserialize` and `JsonSchema`. A parameter
/// of type `ToolContext` receives the context of the call instead. Use `Option` for optional arguments. Attributes of
/// serde and schemars apply to the argument: `#[serde(default)]`, `#[schemars(range(max = 10))]`. Arguments that the
/// function does not have are refused. So is `#[serde(alias = "…")]`, since a call with a name that the schema does not
/// list is rejected before it gets here.
///
/// **The result** is a `Serialize` value, or a `Result` of one with any error that `?` accepts: see
/// [`ToolError`](neuraxis_ports::ToolError) for what the model reads of the error. Return a `ToolOutput` to supply more
/// than a value.
///
/// **Options**
///
/// | option | meaning |
/// | --- | --- |
/// | `class = "read_only"` | what a call may change: `read_only`, `idempotent`, or `irreversible` (the default) |
/// | `open_world`, `destructive` | the tool reaches outside this machine; it may destroy something |
/// | `timeout_ms = 500` | how long a call may take |
/// | `non_iterative` | turns that use only such tools do not count toward the turn limit |
/// | `never_blocks` | the promise described at [`FunctionTool::never_blocks`] |
/// | `name = "get-weather"` | the tool's name, if it differs from the function's |
/// | `crate = "neuraxis_tools"` | the path of this crate, if it is not `neuraxis::tools` |
pub use neuraxis_tool_macro::tool;

/// The library that derives the schemas of arguments: `JsonSchema` must come from this version. If the program does not
/// depend on it directly, name its path with `#[schemars(crate = "neuraxis::schemars")]`.
pub use schemars;

/// Does nothing: the helper process exists only on Linux. `main` should still call this first.
#[cfg(all(feature = "commands", not(target_os = "linux")))]
#[must_use]
pub fn run_sandbox_helper() -> Option<std::process::ExitCode> {
    None
}
