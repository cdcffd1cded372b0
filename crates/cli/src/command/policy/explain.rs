//! `neuraxis policy explain`: explains what a request may do, whether a call may run, and why.

use clap::Args;
use clap_complete::ArgValueCandidates;
use neuraxis::brainstem::{Call, Judgment, Request};
use neuraxis::core::{
    AgentLimits, AgentName, Decision, JsonText, PlanName, Role, SERVER_SEPARATOR, Taint, ToolName,
    ToolSpec,
};
use neuraxis::engine::RequestError;
use neuraxis::{Channel, Mode, Policy};
use neuraxis_app::{App, Config};
use serde_json::{Value, json};

use super::table;
use crate::command::tools::unknown_tool;
use crate::completion;
use crate::error::CommandError;
use crate::output::{ObjectFormat, Output};
use crate::setup::{Loaded, Setup, with_app};

const EXAMPLES: &str = "\
Examples:
  neuraxis policy explain \"What time is it?\"
  neuraxis policy explain --mode exploratory --channel code_task \"Fix the build\"
  neuraxis policy explain --channel code_task --tool read_file --arguments '{\"path\": \"../x\"}'
  neuraxis policy explain --format json \"What time is it?\" | jq .decision.role";

/// Explain what the policy decides about a request, or a tool call in it, and why
///
/// Nothing is executed: no model is called and no tool runs. MCP servers are asked for their tools.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Explain {
    /// The user's message
    #[arg(default_value = "")]
    text: String,

    /// What kind of request it is
    #[arg(long, default_value = "chat", add = ArgValueCandidates::new(completion::channels))]
    channel: String,

    /// How much freedom the request has
    #[arg(long, default_value = "moderate", add = ArgValueCandidates::new(completion::modes))]
    mode: String,

    /// The agent that is asked for, instead of the channel's default
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::agents))]
    agent: Option<String>,

    /// The plan of the key or user that makes the request
    #[arg(long, add = ArgValueCandidates::new(completion::plans))]
    plan: Option<String>,

    /// Also judge a call of this tool
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::tools))]
    tool: Option<String>,

    /// The arguments of that call, as a JSON object; default: judge the tool whatever the arguments
    #[arg(long, alias = "args", value_name = "JSON", requires = "tool")]
    arguments: Option<String>,

    /// The owner of the session, for rules that name owners; default: unknown
    #[arg(long, value_name = "NAME", requires = "tool")]
    owner: Option<String>,

    /// Assume that the conversation contains external content from this tool
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::tools))]
    untrusted: Option<String>,

    /// What to print: a table, or one JSON object
    #[arg(long, value_enum, default_value_t = ObjectFormat::Text)]
    format: ObjectFormat,
}

impl Explain {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let format = self.format;
        let loaded = setup.load()?;
        let app = loaded.app_with_tools().await?;
        let text = with_app(app, async |app| self.explained(&loaded, app)).await?;
        let mut output = Output::new();
        match format {
            ObjectFormat::Text => output.lines(&text)?,
            ObjectFormat::Json => output.text(&text)?,
        }
        Ok(())
    }

    /// Returns the explanation in the requested format.
    fn explained(self, loaded: &Loaded, app: &App) -> Result<String, CommandError> {
        let specs: Vec<ToolSpec> = app.orchestrator.tools().specs().cloned().collect();
        let (mode, channel) = (Mode::new(self.mode), Channel::new(self.channel));
        let agent = self.agent.map(AgentName::new);
        let plan = self.plan.map(PlanName::new);
        let taint = taint_of(self.untrusted.as_deref(), &specs, &loaded.config)?;
        let models: Vec<_> = app.orchestrator.models().collect();
        let roles: Vec<Role> = models.iter().map(|(role, _)| (*role).clone()).collect();
        let mut request = Request::new(&mode, &channel, &self.text)
            .with_tools(&specs)
            .with_taint(&taint)
            .with_roles(&roles)
            .with_history(0);
        if let Some(agent) = &agent {
            request = request.with_agent(agent);
        }
        if let Some(plan) = &plan {
            request = request.with_plan(plan);
        }
        let policy = loaded.config.policy();
        let decision = policy
            .evaluate_request(&request)
            .map_err(RequestError::from)?;
        let offer = app.orchestrator.tool_offer(&decision, &self.text);
        let offer = Some(offer).filter(|offer| offer.found_on_demand > 0);
        let are_given = self.arguments.is_some();
        let arguments = self.arguments.unwrap_or_else(|| "{}".to_owned());
        let arguments = JsonText::from_text(arguments);
        if !arguments.is_valid() {
            let error = anyhow::anyhow!("--arguments is not JSON");
            return Err(CommandError::usage(error)
                .hint("quote it: --arguments '{\"path\": \"README.md\"}'"));
        }
        let tool = self.tool.as_deref();
        let tool = tool
            .map(|name| find(&specs, name, &loaded.config))
            .transpose()?;
        let root = loaded.config.project_root().display().to_string();
        let judged = tool.map(|tool| {
            let name = tool.name.as_str();
            let tools = app.orchestrator.tools();
            let checked = tools.check(name, &arguments);
            let outcome = match checked {
                Err(error) if are_given => Err(error.to_string()),
                _ => {
                    let call = Call::new(tool, &arguments).with_root(&root);
                    Ok(policy.explain(&decision, &call.with_owner(self.owner.as_deref())))
                }
            };
            JudgedCall { tool, outcome }
        });
        let serves = models.iter().find(|(role, _)| **role == decision.role);
        let model = serves.map(|(_, info)| info.model.to_string());
        Ok(match self.format {
            ObjectFormat::Text => {
                let agents = agent_limits(policy, &decision);
                let (offer, judged) = (offer.as_ref(), judged.as_ref());
                table::decision(&decision, model.as_deref(), offer, agents, judged)
            }
            ObjectFormat::Json => {
                let call = judged.as_ref().map(|judged| judged.in_json(&arguments));
                let mut explained = json!({ "decision": decision, "model": model, "call": call });
                // Included only if there are tools to search, as in the table.
                if let (Some(offer), Value::Object(explained)) = (&offer, &mut explained) {
                    explained.insert("tool_offer".to_owned(), json!(offer));
                }
                format!("{explained:#}\n")
            }
        })
    }
}

/// Returns how many agents the answering agent may start, and how deep; `None` if it may start none.
fn agent_limits(policy: &Policy, decision: &Decision) -> Option<AgentLimits> {
    let agents = policy.sub_agents(policy.agent_of(decision)?);
    let may_start = agents.keys().any(|tool| decision.offers(tool));
    may_start.then_some(decision.agent_limits)
}

/// Returns the taint of a conversation that contains content from this tool.
fn taint_of(
    source: Option<&str>,
    specs: &[ToolSpec],
    config: &Config,
) -> Result<Taint, CommandError> {
    let mut taint = Taint::default();
    if let Some(source) = source {
        let name: ToolName = source.parse().map_err(CommandError::usage)?;
        // The tools of a server that is not connected are unknown here.
        if !source.contains(SERVER_SEPARATOR) {
            find(specs, source, config)?;
        }
        taint.add(&name, None);
    }
    Ok(taint)
}

fn find<'a>(
    specs: &'a [ToolSpec],
    name: &str,
    config: &Config,
) -> Result<&'a ToolSpec, CommandError> {
    let found = specs.iter().find(|spec| spec.name.as_str() == name);
    found.ok_or_else(|| unknown_tool(name, specs.iter().map(|spec| spec.name.as_str()), config))
}

/// A call and its result: its judgment, or why it would be refused before being judged.
pub(super) struct JudgedCall<'a> {
    pub(super) tool: &'a ToolSpec,
    pub(super) outcome: Result<Judgment, String>,
}

impl JudgedCall<'_> {
    fn in_json(&self, arguments: &JsonText) -> Value {
        let judgment = self.outcome.as_ref().ok();
        let invalid = self.outcome.as_ref().err();
        json!({
            "tool": self.tool.name,
            "arguments": arguments.decode::<Value>().unwrap_or_default(),
            "invalid_arguments": invalid,
            "verdict": judgment.map(|judgment| &judgment.verdict),
            "rule": judgment.and_then(|judgment| judgment.rule.as_ref()),
            "reasons": self.reasons(),
        })
    }

    /// Returns the reasons, one sentence each.
    pub(super) fn reasons(&self) -> Vec<String> {
        match &self.outcome {
            Ok(judgment) => judgment.reasons.clone(),
            Err(_) => vec![format!(
                "The call would be refused before policy judges it, because its arguments do not match the schema of \
                 {}.",
                self.tool.name
            )],
        }
    }
}
