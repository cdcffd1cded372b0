//! The built-in tools, and how to make a tool of a function.
//!
//! **For** giving a model something to call. The attribute [`macro@tool`] and [`FunctionTool`] make a tool of any async
//! function: this is what an embedding team needs first. [`built_in`] has the tools that need nothing but this machine, and [`project_files`] those
//! that read and write the files of one folder and cannot leave it, and run commands there.
//!
//! **Not for** deciding whether a call may run (that is `neuraxis-brainstem`'s), for running it with time limits and
//! retries (`neuraxis-engine`'s), or for tools of other servers (the `mcp` adapter's). Only `write_file`, `apply_patch`
//! and `run_command` change anything.
//!
//! Features, all on by default; without any there are [`macro@tool`] and [`FunctionTool`] alone, at the price of `schemars`:
//!
//! - `built-in`: [`built_in`] and its tools, with a calculator, time zones and system information;
//! - `files`: the tools of [`project_files`] that read and write, with what searches and confines paths;
//! - `commands`: besides `run_command`, and the sandbox that it runs in: there is one on Linux alone. Where there is none
//!   the tool is not offered, unless [`Commands::Unconfined`] says so.
//!
//! Every built-in tool returns an object whose `summary` (a text, or a list of texts) says the result in plain language,
//! for people and for adapters without a model. Optional arguments may be left out or `null`.
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
#[cfg(feature = "files")]
pub use commands::Commands;
#[cfg(feature = "commands")]
pub use commands::CommandsHere;
pub use function::{DefinitionError, FunctionTool, NoArguments};
#[cfg(feature = "commands")]
pub use project::COMMAND_ENVIRONMENT;
#[cfg(feature = "files")]
pub use project::{
    OwnFiles, PROTECTED_NAMES, ProjectError, SECRET_FILES, content_as_written, is_protected,
    is_secret, patch_as_applied, project_files, project_files_without,
};
#[cfg(feature = "commands")]
pub use sandbox::{NoSandbox, SandboxFeature, SandboxFeatures, sandbox_features};
#[cfg(all(feature = "commands", target_os = "linux"))]
pub use sandbox::{run_sandbox_helper, use_sandbox_helper};

/// Makes a tool of an async function: its doc comment tells the model what it does, those of its parameters what they are.
///
/// The function stays as it is, for tests to call. Beside it stands a type of the same name, whose `tool()` makes the tool.
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
///     /// The most that is told. Without it, all is.
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
/// assert!(tool.spec().parameters.as_str().contains("The most that is told."));
/// # Ok::<(), neuraxis_tools::DefinitionError>(())
/// ```
///
/// **Parameters** are the arguments that the model gives, each of a type that is `Deserialize` and `JsonSchema`; a parameter of
/// type `ToolContext` is the context of the call instead. What may be left out is an `Option`. Attributes of serde and
/// schemars go to the argument: `#[serde(default)]`, `#[schemars(range(max = 10))]`. Arguments that the function does not
/// have are refused; so is `#[serde(alias = "…")]`, since a call by a name that the schema does not have never gets here.
///
/// **The result** is a value that is `Serialize`, or a `Result` of one with any error that `?` takes: see
/// [`ToolError`](neuraxis_ports::ToolError) for what the model reads of it. A `ToolOutput` says more than a value.
///
/// **Options**
///
/// | option | what it says |
/// | --- | --- |
/// | `class = "read_only"` | what a call may change: `read_only`, `idempotent`, or `irreversible` if nothing is said |
/// | `open_world`, `destructive` | that it reaches outside this machine; that it may destroy something |
/// | `timeout_ms = 500` | how long a call may take |
/// | `non_iterative` | that turns of such tools alone do not use up the turn limit |
/// | `never_blocks` | what [`FunctionTool::never_blocks`] promises |
/// | `name = "get-weather"` | the tool's name, if not the function's |
/// | `crate = "neuraxis_tools"` | where this crate is found, if not as `neuraxis::tools` |
pub use neuraxis_tool_macro::tool;

/// The library that derives the schemas of arguments: `JsonSchema` has to be its own. Where it is no dependency of the
/// program, `#[schemars(crate = "neuraxis::schemars")]` says where it is.
pub use schemars;

/// Does nothing: there is a helper process on Linux only. `main` calls it all the same, first.
#[cfg(all(feature = "commands", not(target_os = "linux")))]
#[must_use]
pub fn run_sandbox_helper() -> Option<std::process::ExitCode> {
    None
}
