//! `neuraxis doctor`: checks whether everything works, and says how to fix what does not.

mod advice;
mod check;
mod driver;
mod fallback;
mod instructions;
mod models;
mod request;
mod search;
mod server;
mod shell;
mod surroundings;
mod telemetry;

use anyhow::anyhow;
use clap::Args;
use neuraxis::core::log::describe::counted;
use neuraxis_app::discover;
use serde_json::json;

use crate::error::CommandError;
use crate::output::{ObjectFormat, Output};
use crate::setup::Setup;
use check::{Check, Outcome};

const EXAMPLES: &str = "\
Examples:
  neuraxis doctor
  neuraxis doctor --offline
  neuraxis doctor --format json | jq '.checks[] | select(.outcome == \"failed\")'";

/// Check that everything works, and say how to fix what does not
///
/// Checks the configuration, the store, the project folder and the terminal; then each role's model: its key, its
/// server, whether the model exists, one tiny request as a whole and one streamed, and one tool call. That costs a few
/// tokens. A configured search service and a configured trace endpoint each get one request. Whether the text of
/// sessions was altered is not checked: `neuraxis sessions verify` does that. The exit code is 1 if a check failed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Doctor {
    /// Send nothing: check only this machine
    #[arg(long)]
    offline: bool,

    /// What to print: a table, or one JSON object
    #[arg(long, value_enum, default_value_t = ObjectFormat::Text)]
    format: ObjectFormat,
}

/// Whether requests are sent to the services being checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Requests {
    Sent,
    NotSent,
}

impl Doctor {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let environment = setup.environment()?;
        let requests = match self.offline {
            true => Requests::NotSent,
            false => Requests::Sent,
        };
        let mut checks = Vec::new();
        match setup.config(&environment) {
            Err(error) => checks.push(surroundings::broken_configuration(&error)),
            Ok(config) => {
                checks.extend(surroundings::all(&config, &environment).await);
                checks.extend(instructions::checks(&environment));
                checks.extend(shell::check(&config));
                checks.extend(server::checks(&config, &environment));
                checks.push(search::check(&config, &environment, requests).await);
                checks.extend(driver::check(&config, requests).await);
                checks.extend(telemetry::checks(&config, &environment, requests).await);
                let discovery = discover(&config, &environment).await;
                checks.push(surroundings::choice(&discovery.choice));
                checks.extend(discovery.skipped.iter().map(surroundings::skipped));
                let models = models::all(discovery.endpoints, requests).await;
                let fallback = fallback::check(&models);
                checks.extend(models.into_iter().flat_map(|(_, checks)| checks));
                checks.extend(fallback);
            }
        }
        let failed = checks
            .iter()
            .filter(|check| check.outcome == Outcome::Failed);
        let failed = failed.count();
        let text = match self.format {
            ObjectFormat::Text => check::table(&checks),
            ObjectFormat::Json => {
                let list: Vec<_> = checks.iter().map(Check::in_json).collect();
                format!("{:#}\n", json!({"ok": failed == 0, "checks": list}))
            }
        };
        let mut output = Output::new();
        match self.format {
            ObjectFormat::Text => output.lines(&text)?,
            ObjectFormat::Json => output.text(&text)?,
        }
        if failed == 0 {
            return Ok(());
        }
        let all = counted(checks.len() as u64, "check");
        Err(CommandError::failed(anyhow!("{failed} of {all} failed")))
    }
}
