//! `neuraxis approvals show`: exactly what would run.

use clap::Args;

use super::waiting::{self, Which};
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
        let columns = output.width();
        let waiting_is_alone = waiting.len() == 1;
        let shown = waiting.iter().map(|waiting| {
            let question = waiting.question();
            let spec = spec_of(app.orchestrator.tools(), &question.name);
            let asked = Asked::new(&question, spec, &waiting.records, config.project_root());
            let (text, _) = question_text(&asked, Whole::All, columns);
            let scopes = (1..).zip(&question.choices);
            let scopes: String = scopes
                .map(|(number, calls)| format!("--for-session {number}: {}", scope(calls)))
                .map(|line| broken(&line, columns, "    │ ") + "\n")
                .collect();
            let scopes = scopes + &waiting.expiry();
            match waiting_is_alone {
                true => text + &scopes,
                false => {
                    let call = waiting::brief_call(&waiting.asked.tool_call_id);
                    format!("call {call}\n{text}{scopes}")
                }
            }
        });
        let shown: Vec<String> = shown.collect();
        output.styled(&shown.join("\n"))?;
        Ok(())
    }
}
