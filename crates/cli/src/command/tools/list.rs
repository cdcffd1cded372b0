//! `neuraxis tools list`: which tools there are.

use clap::{Args, ValueEnum};
use neuraxis::core::ToolSpec;
use serde_json::{Value, json};

use crate::error::CommandError;
use crate::output::Output;
use crate::progress::Progress;
use crate::setup::Setup;

const EXAMPLES: &str = "\
Examples:
  neuraxis tools list
  neuraxis tools list --format json | jq '.[] | select(.name == \"read_file\") | .parameters'";

/// List the tools there are
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    /// What to print: a line or two a tool, or a JSON array with everything that is known of them
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// The form of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// A JSON array
    Json,
}

impl List {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let loaded = setup.load()?;
        let app = loaded.app_of_tools().await?;
        if let Some(why) = loaded.config.why_no_project_tools() {
            Progress::new().notice(&why);
        }
        let tools = app.orchestrator.tools();
        let specs = tools.specs();
        let text = match self.format {
            Format::Text => specs.map(in_text).collect(),
            Format::Json => {
                let list: Value = specs.map(in_json).collect();
                format!("{list:#}\n")
            }
        };
        app.close().await;
        Output::new().text(&text)?;
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
