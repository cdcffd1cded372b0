//! Checks on what runs did: whether an agent still behaves as it should after a prompt, a model or a policy changed.
//!
//! **For** the tests and CI of teams that build on models. A [`Case`] is a message and a list of [`Check`]s. [`Evals`]
//! runs cases on an orchestrator, several at a time and each as often as it asks for, under the orchestrator's own
//! governance. It returns a [`Report`] that can be written, read and compared with an earlier one. A case may also
//! examine a run that is already stored; then no model is called. [`EvalFile`] reads cases from TOML.
//!
//! **Not for** testing a policy (use `[[case]]` in the policy file) or imitating models (use recordings). What a run
//! did is read from its records, never from prose generated from them.
//!
//! ```
//! use std::sync::Arc;
//!
//! use neuraxis_core::Role;
//! use neuraxis_engine::Orchestrator;
//! use neuraxis_evals::{Case, Check, Evals};
//! use neuraxis_memory::MemoryStore;
//! # use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let calls = reply::calls([("weather", r#"{"city":"Delft"}"#)]);
//! # let model = ScriptedModel::new().then(calls).then(reply::text("It rains in Delft."));
//! # let weather = ScriptedTool::echoing(spec("weather").read_only());
//! let orchestrator = Orchestrator::builder()
//!     .model(Role::REASONING, Arc::new(model))
//!     .tool(Arc::new(weather))
//!     .store(Arc::new(MemoryStore::default()))
//!     .build()?;
//! let case = Case::new("weather", "Does it rain in Delft?")
//!     .check(Check::contains("rains"))
//!     .check(Check::tool_called("weather").with_arguments(serde_json::json!({"city": "Delft"})))
//!     .check(Check::max_turns(3));
//! let report = Evals::new(&orchestrator).run(&[case]).await;
//! assert!(report.passed(), "{report}");
//! # Ok(())
//! # }
//! ```

mod case;
mod check;
mod compare;
mod file;
mod judge;
mod matching;
mod observed;
mod recorded;
mod report;
mod runner;

pub use case::{Case, HistoryMessage, Source};
pub use check::{Check, CheckFault};
pub use compare::{CaseChange, ComparedUsage, Comparison, UsageChange};
pub use file::{EvalFile, FileFault};
pub use judge::{JUDGE, Judge, judge};
pub use matching::CallPattern;
pub use neuraxis_engine::is_session_of_eval;
pub use recorded::{LeftOut, NoCase};
pub use report::{
    Attempt, CaseReport, CaseStatus, CheckOutcome, CheckReport, JudgeUsage, REPORT_FORMAT, Report,
    ReportFault, Totals,
};
pub use runner::{CaseFault, Evals};
