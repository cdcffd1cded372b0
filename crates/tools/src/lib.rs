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

mod ask_user;
mod built_in;
mod calculate;
mod current_time;
mod function;
mod health;
mod project;
#[cfg(target_os = "linux")]
mod sandbox;
#[cfg(not(target_os = "linux"))]
#[path = "no_sandbox.rs"]
mod sandbox;
mod suggest;
mod update_plan;
mod wording;
mod work;

pub use ask_user::{QUESTION_MAX_CHARS, QUESTION_MAX_OPTIONS, ask_user};
pub use built_in::built_in;
pub use calculate::{
    CALCULATION_TIMEOUT, EXPRESSION_MAX_CHARS, EXPRESSION_MAX_DEPTH, RESULT_MAX_CHARS, calculate,
};
pub use current_time::current_time;
pub use function::{DefinitionError, FunctionTool, NoArguments};
pub use health::{
    DISK_WARNING_PERCENT, ERROR_LOG_MAX_LINE_CHARS, ERROR_LOG_MAX_LINES, LOAD_WARNING_PER_CORE,
    MEMORY_WARNING_PERCENT, TEMPERATURE_WARNING_CELSIUS, TEMPERATURE_WARNING_MARGIN_CELSIUS,
    system_health,
};
#[cfg(target_os = "linux")]
pub use project::{
    COMMAND_DEFAULT_TIMEOUT, COMMAND_ENVIRONMENT, COMMAND_MAX_BYTES, COMMAND_MAX_LIVE_BYTES,
    COMMAND_MAX_OUTPUT_BYTES, COMMAND_MAX_TIMEOUT,
};
pub use project::{
    LIST_MAX_ENTRIES, OwnFiles, PATCH_MAX_BYTES, PATCH_MAX_FILE_BYTES, PATCH_MAX_FILES,
    PROTECTED_NAMES, ProjectError, READ_DEFAULT_LINES, READ_MAX_LINE_CHARS, READ_MAX_LINES,
    READ_MAX_SCANNED_BYTES, READ_MAX_TEXT_BYTES, SEARCH_DEFAULT_HITS, SEARCH_MAX_FILE_BYTES,
    SEARCH_MAX_HITS, SEARCH_MAX_LINE_BYTES, SEARCH_MAX_PATTERN_BYTES, SEARCH_MAX_TOTAL_BYTES,
    SECRET_FILES, WALK_MAX_DEPTH, WALK_MAX_ENTRIES, WRITE_MAX_BYTES, project_files,
    project_files_without,
};
pub use sandbox::run_sandbox_helper;
#[cfg(target_os = "linux")]
pub use sandbox::{SandboxFeature, SandboxFeatures, sandbox_features, use_sandbox_helper};
pub use update_plan::{PLAN_MAX_STEP_CHARS, PLAN_MAX_STEPS, update_plan};
