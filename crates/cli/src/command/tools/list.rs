//! `neuraxis tools list`: lists the tools.

use clap::Args;
use clap_complete::ArgValueCandidates;
use neuraxis::Mode;
use neuraxis::brainstem::{Outlook, Policy};
use neuraxis::core::ToolSpec;
use neuraxis_app::why_no_commands;
use serde_json::{Value, json};

use crate::completion;
use crate::error::CommandError;
use crate::glyphs::DOT;
use crate::harmless::one_line;
use crate::output::{ListFormat, Output};
use crate::progress;
use crate::setup::{Setup, close};
use crate::unknown::{LIST_OF_MODES, unknown};

const EXAMPLES: &str = "\
Examples:
  neuraxis tools list
  neuraxis tools list --mode exploratory
  neuraxis tools list --format json | jq '.[] | select(.name == \"read_file\") | .parameters'";

/// List the tools, and which of them a mode allows, asks about or denies
///
/// Classes and permissions have the names that rules use (`neuraxis help rules`). The permission applies to calls that no rule decides otherwise, together with the best one that rules give
/// single calls; a channel may offer fewer tools. `neuraxis policy explain --tool NAME` judges one call.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    /// What to print: a line or two per tool, or a JSON array with everything known about them
    #[arg(long, value_enum, default_value_t = ListFormat::Text)]
    format: ListFormat,

    /// How much freedom a request has: conservative, moderate, exploratory, or a mode of your own
    #[arg(long, default_value = "moderate", add = ArgValueCandidates::new(completion::modes))]
    mode: String,
}

impl List {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let loaded = setup.load()?;
        let policy = loaded.config.policy();
        let mode = known_mode(policy, self.mode)?;
        let app = loaded.app_with_tools().await?;
        let whys = [
            loaded.config.why_no_project_tools(),
            why_no_commands(&loaded.config),
        ];
        for why in whys.into_iter().flatten() {
            progress::notice(&why);
        }
        let tools = app.orchestrator.tools();
        close(&app).await;
        let outlook = |spec: &ToolSpec| policy.outlook_in(&mode, spec);
        Output::new().list(
            self.format,
            tools.specs(),
            |spec| in_text(spec, policy, &mode),
            |spec| in_json(spec, outlook(spec)),
        )?;
        Ok(())
    }
}

/// Describes a tool in two lines: its class, the permission of its calls, and its purpose. Class and permission have the
/// names that rules use.
pub(crate) fn in_text(spec: &ToolSpec, policy: &Policy, mode: &Mode) -> String {
    let summary = spec.description.split(". ").next().unwrap_or_default();
    let summary = one_line(summary.trim_end_matches('.'));
    let in_words = |outlook| match outlook {
        Outlook::NotOffered => "not offered",
        Outlook::Denied => "deny",
        Outlook::NeedsApproval => "ask",
        Outlook::Runs => "allow",
    };
    let (best, usual) = (
        policy.outlook_in(mode, spec),
        policy.usual_outlook_in(mode, spec),
    );
    let becomes = match best == usual {
        true => in_words(best).to_owned(),
        false => format!("{}; {} if a rule says so", in_words(usual), in_words(best)),
    };
    format!(
        "{} ({}){DOT}{becomes}\n    {summary}\n",
        spec.name, spec.class
    )
}

fn known_mode(policy: &Policy, name: String) -> Result<Mode, CommandError> {
    let known: Vec<&str> = policy.modes().map(Mode::as_str).collect();
    if known.contains(&name.as_str()) {
        return Ok(Mode::new(name));
    }
    Err(unknown("mode", &name, known, LIST_OF_MODES))
}

fn in_json(spec: &ToolSpec, outlook: Outlook) -> Value {
    let verdict = match outlook {
        Outlook::NotOffered => "not_offered",
        Outlook::Denied => "deny",
        Outlook::NeedsApproval => "ask",
        Outlook::Runs => "allow",
    };
    let timeout = spec.timeout.map(|timeout| timeout.as_millis());
    json!({
        "name": spec.name,
        "description": spec.description,
        "class": spec.class,
        "verdict": verdict,
        "annotations": spec.annotations,
        "timeout_ms": timeout.map(|millis| u64::try_from(millis).unwrap_or(u64::MAX)),
        "parameters": spec.parameters.decode::<Value>().unwrap_or_default(),
    })
}
