//! The built-in tools, and how to make a tool of a function.
//!
//! **For** giving a model something to call. [`FunctionTool`] makes a tool of any async function: this is what an
//! embedding team needs first. [`built_in`] has the tools that need nothing but this machine, and [`project_files`] those
//! that read and write the files of one folder and cannot leave it, and run commands there.
//!
//! **Not for** deciding whether a call may run (that is `neuraxis-brainstem`'s), for running it with time limits and
//! retries (`neuraxis-engine`'s), or for tools of other servers (the `mcp` adapter's). Only `write_file`, `apply_patch`
//! and `run_command` change anything.
//!
//! Features, all on by default; without any there is [`FunctionTool`] alone, at the price of `schemars`:
//!
//! - `built-in`: [`built_in`] and its tools, with a calculator, time zones and system information;
//! - `files`: the tools of [`project_files`] that read and write, with what searches and confines paths;
//! - `commands`: besides, on Linux, `run_command` and the sandbox that it runs in.
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

#[cfg(any(feature = "built-in", feature = "files"))]
mod blocking;
#[cfg(feature = "built-in")]
mod built_in;
mod function;
#[cfg(feature = "files")]
mod project;
#[cfg(all(feature = "commands", target_os = "linux"))]
mod sandbox;
#[cfg(any(feature = "built-in", feature = "files"))]
mod suggest;
#[cfg(any(feature = "built-in", feature = "files"))]
mod summary;

#[cfg(feature = "built-in")]
pub use built_in::{ask_user, built_in, calculate, current_time, system_health, update_plan};
pub use function::{DefinitionError, FunctionTool, NoArguments};
#[cfg(all(feature = "commands", target_os = "linux"))]
pub use project::COMMAND_ENVIRONMENT;
#[cfg(feature = "files")]
pub use project::{
    OwnFiles, PROTECTED_NAMES, ProjectError, SECRET_FILES, project_files, project_files_without,
};
#[cfg(all(feature = "commands", target_os = "linux"))]
pub use sandbox::{
    SandboxFeature, SandboxFeatures, run_sandbox_helper, sandbox_features, use_sandbox_helper,
};

/// Does nothing: there is a helper process on Linux only. `main` calls it all the same, first.
#[cfg(all(feature = "commands", not(target_os = "linux")))]
#[must_use]
pub fn run_sandbox_helper() -> Option<std::process::ExitCode> {
    None
}
