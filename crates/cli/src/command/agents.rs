//! `neuraxis agents`: lists the agents.

use clap::{Args, Subcommand};
use neuraxis::Policy;
use neuraxis::brainstem::AgentConfig;
use neuraxis::core::AgentName;
use serde_json::{Value, json};

use crate::error::CommandError;
use crate::harmless::one_line;
use crate::output::{ListFormat, Output};
use crate::setup::Setup;

const EXAMPLES: &str = "\
Examples:
  neuraxis agents
  neuraxis ask --agent deep_research --mode exploratory \"Why are there tides?\"
  neuraxis agents --format json | jq '.[] | select(.name == \"researcher\")'";

/// List the agents
///
/// Each is defined in [agents.NAME]; select one with --agent of `ask` or `chat`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct Agents {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    list: List,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(List),
}

/// List the agents; the default without a subcommand
#[derive(Debug, Args)]
struct List {
    /// What to print: some lines per agent, or a JSON array with the full configuration of each
    #[arg(long, value_enum, default_value_t = ListFormat::Text)]
    format: ListFormat,
}

impl Agents {
    pub(crate) fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let list = match self.command {
            Some(Command::List(list)) => list,
            None => self.list,
        };
        let loaded = setup.load()?;
        loaded.warn_settings_ignored();
        let policy = loaded.config.policy();
        let agents = policy
            .agents()
            .filter_map(|name| Some((name, policy.agent(name)?)));
        Output::new().list(
            list.format,
            agents,
            |(name, agent)| in_text(name, agent, policy),
            |(name, agent)| in_json(name, agent),
        )?;
        Ok(())
    }
}

fn in_text(name: &AgentName, agent: &AgentConfig, policy: &Policy) -> String {
    let mut text = format!("{name}\n");
    let mut line = |what: &str, value: String| {
        text.push_str(&format!("    {what}: {}\n", one_line(&value)));
    };
    if let Some(description) = &agent.description {
        line("for", description.clone());
    }
    let channels = policy.config().channels.iter();
    let own = channels
        .filter(|(_, channel)| channel.agent.as_ref().unwrap_or(&AgentName::MAIN_THREAD) == name);
    let own: Vec<&str> = own.map(|(channel, _)| channel.as_str()).collect();
    if !own.is_empty() {
        line("answers on", own.join(", "));
    }
    if let Some(role) = &agent.role {
        line("role", role.to_string());
    }
    let tools = agent.tools.as_ref().map(|tools| tools.join(", "));
    line(
        "tools",
        tools.unwrap_or_else(|| "all offered tools".to_owned()),
    );
    let agents = agent.agents.iter().flatten();
    let agents: Vec<&str> = agents.map(AgentName::as_str).collect();
    if !agents.is_empty() {
        line("calls", agents.join(", "));
    }
    text
}

fn in_json(name: &AgentName, agent: &AgentConfig) -> Value {
    json!({ "name": name, "settings": agent })
}
