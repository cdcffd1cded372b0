//! `neuraxis tools list`: which tools there are.

use clap::Args;
use neuraxis::core::ToolSpec;
use neuraxis_app::why_no_commands;
use serde_json::{Value, json};

use crate::error::CommandError;
use crate::output::{ListFormat, Output};
use crate::progress::Progress;
use crate::setup::{Setup, close};

const EXAMPLES: &str = "\
Examples:
  neuraxis tools list
  neuraxis tools list --format json | jq '.[] | select(.name == \"read_file\") | .parameters'";

/// List the tools there are
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    /// What to print: a line or two a tool, or a JSON array with everything that is known of them
    #[arg(long, value_enum, default_value_t = ListFormat::Text)]
    format: ListFormat,
}

impl List {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let loaded = setup.load()?;
        let app = loaded.app_of_tools().await?;
        let whys = [
            loaded.config.why_no_project_tools(),
            why_no_commands(&loaded.config),
        ];
        for why in whys.into_iter().flatten() {
            Progress::new().notice(&why);
        }
        let tools = app.orchestrator.tools();
        close(&app).await;
        Output::new().list(self.format, tools.specs(), in_text, in_json)?;
        Ok(())
    }
}

fn in_text(spec: &ToolSpec) -> String {
    let summary = spec.description.split(". ").next().unwrap_or_default();
    let summary = summary.trim_end_matches('.');
    format!("{} ({})\n    {summary}\n", spec.name, spec.class)
}

fn in_json(spec: &ToolSpec) -> Value {
    let timeout = spec.timeout.map(|timeout| timeout.as_millis());
    json!({
        "name": spec.name,
        "description": spec.description,
        "class": spec.class,
        "annotations": spec.annotations,
        "timeout_ms": timeout.map(|millis| u64::try_from(millis).unwrap_or(u64::MAX)),
        "parameters": spec.parameters.decode::<Value>().unwrap_or_default(),
    })
}
