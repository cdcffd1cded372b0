//! `neuraxis policy explain`: what a request may do, whether a call may run, and why.

use clap::{Args, ValueEnum};
use neuraxis::brainstem::{Call, Judgment, Request};
use neuraxis::core::{JsonText, PlanName, Taint, ToolSpec};
use neuraxis::engine::RequestError;
use neuraxis::{Channel, Mode};
use serde_json::{Value, json};

use super::table;
use crate::error::CommandError;
use crate::output::Output;
use crate::setup::Setup;

const EXAMPLES: &str = "\
Examples:
  neuraxis policy explain \"What time is it?\"
  neuraxis policy explain --mode exploratory --channel code_task \"Fix the build\"
  neuraxis policy explain --channel code_task --tool read_file --args '{\"path\": \"../x\"}'
  neuraxis policy explain --format json \"What time is it?\" | jq .decision.role";

/// Say what the policy decides about a request, or a tool call in it, and why
///
/// Nothing is done: no model is called and no tool runs.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Explain {
    /// What the user would write
    #[arg(default_value = "")]
    text: String,

    /// Where the request comes from
    #[arg(long, default_value = "chat")]
    channel: String,

    /// How much freedom it has
    #[arg(long, default_value = "moderate")]
    mode: String,

    /// The plan of the key or user that asks
    #[arg(long)]
    plan: Option<String>,

    /// Judge a call of this tool as well
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,

    /// The arguments of that call, a JSON object
    #[arg(
        long = "args",
        value_name = "JSON",
        default_value = "{}",
        requires = "tool"
    )]
    arguments: String,

    /// As if the conversation held what this tool brought from outside
    #[arg(long, value_name = "NAME")]
    untrusted: Option<String>,

    /// What to print: a table for people, or one JSON object
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// What to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One JSON object
    Json,
}

impl Explain {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let config = setup.config()?;
        let app = setup.app_without_sessions().await?;
        let specs: Vec<ToolSpec> = app.orchestrator.tools().specs().cloned().collect();
        let (mode, channel) = (Mode::new(self.mode), Channel::new(self.channel));
        let plan = self.plan.map(PlanName::new);
        let mut taint = Taint::default();
        if let Some(source) = &self.untrusted {
            taint.add(&source.parse().map_err(CommandError::usage)?, None);
        }
        let mut request = Request::new(&mode, &channel, &self.text)
            .with_tools(&specs)
            .with_taint(&taint)
            .with_history(0);
        if let Some(plan) = &plan {
            request = request.with_plan(plan);
        }
        let policy = config.policy();
        let decision = policy
            .evaluate_request(&request)
            .map_err(RequestError::from)?;
        let arguments = JsonText::from_text(self.arguments);
        if self.tool.is_some() && !arguments.is_valid() {
            let error = anyhow::anyhow!("--args is not JSON");
            return Err(
                CommandError::usage(error).hint("quote it: --args '{\"path\": \"README.md\"}'")
            );
        }
        let tool = self.tool.as_deref();
        let tool = tool.map(|name| find(&specs, name)).transpose()?;
        let root = config.project_root().display().to_string();
        let judgment = tool.map(|tool| {
            let call = Call::new(tool, &arguments).with_root(&root);
            (tool, policy.explain(&decision, &call))
        });
        let text = match self.format {
            Format::Text => {
                let called = judgment
                    .as_ref()
                    .map(|(tool, judgment)| (tool.name.as_str(), judgment));
                table::decision(&decision, called)
            }
            Format::Json => {
                let call = judgment
                    .as_ref()
                    .map(|(tool, judgment)| in_json(tool, &arguments, judgment));
                format!("{:#}\n", json!({ "decision": decision, "call": call }))
            }
        };
        Output::new().text(&text)?;
        Ok(())
    }
}

fn find<'a>(specs: &'a [ToolSpec], name: &str) -> Result<&'a ToolSpec, CommandError> {
    let found = specs.iter().find(|spec| spec.name.as_str() == name);
    found.ok_or_else(|| {
        let known = specs
            .iter()
            .map(|spec| spec.name.to_string())
            .collect::<Vec<_>>()
            .join(", ");
        let name = crate::harmless::one_line(name);
        CommandError::usage(anyhow::anyhow!("unknown tool \"{name}\"; known: {known}"))
            .hint("`neuraxis tools list` says what each tool does")
    })
}

fn in_json(tool: &ToolSpec, arguments: &JsonText, judgment: &Judgment) -> Value {
    json!({
        "tool": tool.name,
        "arguments": arguments.decode::<Value>().unwrap_or_default(),
        "verdict": judgment.verdict,
        "rule": judgment.rule,
        "reasons": judgment.reasons,
    })
}
