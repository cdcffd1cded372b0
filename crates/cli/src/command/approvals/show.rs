//! `neuraxis approvals show`: exactly what would run.

use std::path::Path;

use clap::Args;
use neuraxis::engine::ToolCatalog;

use super::waiting::{self, Waiting, Which};
use crate::approve::{Asked, Whole, question_text, scope, spec_of};
use crate::error::CommandError;
use crate::output::Output;
use crate::setup::Setup;
use crate::wrap::broken;

const EXAMPLES: &str = "\
Examples:
  neuraxis approvals show 01990000-0000-7000-8000-000000000000";

/// Show exactly what a call would run, or each call that a run waits for
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    #[command(flatten)]
    which: Which,
}

impl Show {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let config = setup.config()?;
        let app = setup.app().await?;
        let waiting = waiting::several(app.store.as_ref(), &self.which).await?;
        let mut output = Output::new();
        let (root, columns) = (config.project_root(), output.width());
        let shown = waiting
            .iter()
            .map(|waiting| in_full(waiting, app.orchestrator.tools(), root, columns));
        let shown: Vec<String> = shown.collect();
        output.styled(&shown.join("\n"))?;
        Ok(())
    }
}

/// Returns a question with all that it takes to answer it, in lines of so many columns.
pub(super) fn in_full(
    waiting: &Waiting,
    tools: &ToolCatalog,
    root: &Path,
    columns: usize,
) -> String {
    let question = waiting.question();
    let spec = spec_of(tools, &question.name);
    let asked = Asked::new(&question, spec, &waiting.records, root);
    let (text, _) = question_text(&asked, Whole::All, columns);
    let scopes = (1..).zip(&question.choices);
    let scopes: String = scopes
        .map(|(number, calls)| format!("--for-session {number}: {}", scope(calls)))
        .map(|line| broken(&line, columns, "    │ ") + "\n")
        .collect();
    let name = waiting.question_name();
    let altered = waiting.alteration(columns);
    let expiry = waiting.expiry();
    format!("question {name}\n{text}{altered}{scopes}{expiry}")
}
