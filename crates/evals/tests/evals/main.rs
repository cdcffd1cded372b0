//! Running cases: what passes, what fails, what is an error, and what is left out.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests may panic"
)]

mod checks;
mod compare;
mod judge;
mod runner;
mod served;

use std::sync::Arc;

use neuraxis_core::{ModelRequest, Role};
use neuraxis_engine::{Orchestrator, OrchestratorBuilder};
use neuraxis_evals::{Case, CheckOutcome, CheckReport, Evals, Report};
use neuraxis_memory::MemoryStore;
use neuraxis_testkit::{ScriptedModel, ScriptedTool, spec};

/// Returns the builder of an orchestrator with a model and two tools.
fn builder(model: ScriptedModel) -> OrchestratorBuilder {
    Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tool(Arc::new(ScriptedTool::echoing(spec("weather").read_only())))
        .tool(Arc::new(ScriptedTool::echoing(spec("refund"))))
        .store(Arc::new(MemoryStore::default()))
}

/// Runs a case with a model.
async fn run(model: ScriptedModel, case: Case) -> Report {
    Evals::new(&builder(model).build().unwrap())
        .run(&[case])
        .await
}

/// Returns the results of the checks, of the only attempt of the only case.
fn found(report: &Report) -> &[CheckReport] {
    &report.cases[0].attempts[0].checks
}

/// Returns their verdicts.
fn verdicts(report: &Report) -> Vec<CheckOutcome> {
    found(report).iter().map(|check| check.verdict).collect()
}

/// Returns the last message to the model.
fn asked(request: &ModelRequest) -> String {
    let last = request.messages.messages().last();
    last.map(|message| message.text()).unwrap_or_default()
}
