//! `neuraxis approvals show`: shows exactly what would run.

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use neuraxis::core::{JsonText, Record};
use neuraxis::engine::{ToolCatalog, WaitingApproval};
use neuraxis_app::App;

use super::waiting::{self, CallSelector};
use crate::approve::{ApprovalView, ConflictingCall, Extent, question_text, scope, spec_of};
use crate::error::CommandError;
use crate::glyphs::BAR;
use crate::output::Output;
use crate::rows::with_real_order;
use crate::setup::{Setup, with_app};

const EXAMPLES: &str = "\
Examples:
  neuraxis approvals show 01990000-0000-7000-8000-000000000000";

/// Show exactly what a call would run, or every call that a run waits for
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    #[command(flatten)]
    which: CallSelector,
}

impl Show {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let loaded = setup.load()?;
        loaded.require_visible_sessions()?;
        loaded.warn_store_incomplete();
        let app = loaded.app().build().await?;
        let mut output = Output::new();
        let (root, columns) = (loaded.config.project_root(), output.width());
        let shown = with_app(app, async |app| self.shown(app, root, columns).await).await?;
        output.painted(&shown)?;
        Ok(())
    }

    /// Returns the selected questions, wrapped to this many columns.
    async fn shown(&self, app: &App, root: &Path, columns: usize) -> Result<String, CommandError> {
        let mut shown = Vec::new();
        for waiting in &waiting::several(app, &self.which).await? {
            let records = app.orchestrator.sessions().records(waiting.run_id).await?;
            let tools = app.orchestrator.tools();
            shown.push(in_full((waiting, &records), None, &tools, root, columns));
        }
        Ok(shown.join("\n"))
    }
}

/// Returns a question with everything needed to answer it, wrapped to this many columns. If other arguments are given,
/// it shows what would run with them.
pub(super) fn in_full(
    (waiting, records): (&WaitingApproval, &[Arc<Record>]),
    given: Option<&JsonText>,
    tools: &ToolCatalog,
    root: &Path,
    columns: usize,
) -> String {
    let mut question = waiting.ask();
    if let Some(given) = given {
        question.arguments = given.clone();
        // What may be remembered applies to the original arguments.
        question.choices.clear();
    }
    let spec = spec_of(tools, &question.name);
    let conflict = ConflictingCall::find(&question, records, root, |name| spec_of(tools, name));
    let mut asked = ApprovalView::new(&question, spec, records, root).with_conflict(conflict);
    if let Some(given) = given {
        asked = asked.with_arguments(given.clone());
    }
    let (text, _) = question_text(&asked, Extent::Exact, columns);
    let scopes = (1..).zip(&question.choices);
    let scopes: String = scopes
        .map(|(number, calls)| format!("--for-session {number}: {}", scope(calls)))
        .map(|line| with_real_order(&line, columns, &format!("    {BAR} ")))
        .collect();
    let name = waiting.question();
    let altered = waiting::alteration(waiting, columns);
    let expiry = waiting::expiry(waiting);
    format!("question {name}\n{text}{altered}{scopes}{expiry}")
}
