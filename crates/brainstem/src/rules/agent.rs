//! A checked agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuraxis_core::{
    AgentName, Arguments, Compaction, Limits, NoCalls, Profile, Repeats, ResultRule, Role,
    ToolChoice, ToolErrors, ToolName,
};
use serde::de::IgnoredAny;

use super::channel::{data_policy, opening_of};
use super::limits::{check_temperature, check_tool_retries};
use super::{KnownNames, ToolPatterns, check_limits, no_zero};
use crate::config::{
    AgentConfig, AnswerConfig, CompactionConfig, Layered, NoCallsConfig, PartialLimits,
};
use crate::error::PolicyError;
use crate::names;

/// An agent's instructions, tools and behavior.
#[derive(Debug, Clone)]
pub(crate) struct AgentRules {
    pub(crate) instructions: Option<Arc<str>>,
    pub(crate) description: Option<Arc<str>>,
    pub(crate) role: Option<Role>,
    pub(crate) temperature: Option<f32>,
    pub(crate) max_output_tokens: Option<u32>,
    pub(crate) limits: PartialLimits,
    /// The tools that it uses, among those on offer; `None` for all.
    pub(crate) tools: Option<ToolPatterns>,
    /// The agents that it may call.
    pub(crate) agents: Vec<AgentName>,
    /// The tool that other agents call it with.
    pub(crate) tool: ToolName,
    pub(crate) fan_out: Option<String>,
    pub(crate) tool_choice: Option<ToolChoice>,
    pub(crate) context_tokens: Option<u64>,
    pub(crate) tool_retries: Option<u32>,
    /// How it behaves.
    pub(crate) profile: Profile,
}

impl AgentRules {
    pub(crate) fn check(
        name: &AgentName,
        config: &AgentConfig,
        known: &KnownNames,
    ) -> Result<Self, PolicyError> {
        let at = format!("agents.{name}");
        check_numbers(&at, config)?;
        for (key, role) in [
            ("role", &config.role),
            ("first_role", &config.first_role),
            ("after_calls_role", &config.after_calls_role),
        ] {
            let check = |role: &Role| known.role(&format!("{at}.{key}"), role);
            role.as_ref().map(check).transpose()?;
        }
        check_answer(&at, &config.answer)?;
        let tools = config.tools.as_deref();
        let tools = tools.map(|tools| ToolPatterns::check(&format!("{at}.tools"), tools));
        let agents = config.agents.clone().unwrap_or_default();
        for agent in &agents {
            known.agent(&format!("{at}.agents"), agent)?;
        }
        Ok(Self {
            instructions: text(config.instructions.as_deref()),
            description: text(config.description.as_deref()).filter(|text| !text.is_empty()),
            role: config.role.clone(),
            temperature: config.temperature,
            max_output_tokens: config.max_output_tokens,
            limits: check_limits(&at, config.limits())?,
            tools: tools.transpose()?,
            agents,
            tool: tool_of(&at, name, config)?,
            fan_out: config.fan_out.clone(),
            tool_choice: config.tool_choice.clone(),
            context_tokens: config.context_tokens,
            tool_retries: config.tool_retries,
            profile: profile(&at, name, config, known)?,
        })
    }

    /// Returns the limits of the agent if nothing else sets any.
    pub(crate) fn own_limits(&self) -> Limits {
        self.limits.completed()
    }
}

fn text(given: Option<&str>) -> Option<Arc<str>> {
    given.map(str::trim).map(Arc::from)
}

fn tool_of(at: &str, name: &AgentName, config: &AgentConfig) -> Result<ToolName, PolicyError> {
    if let Some(tool) = &config.tool_name {
        return Ok(tool.clone());
    }
    name.as_str()
        .parse()
        .map_err(|_| PolicyError::Contradiction {
            at: at.to_owned(),
            why: "its name is not a valid tool name; set tool_name",
        })
}

fn check_numbers(at: &str, config: &AgentConfig) -> Result<(), PolicyError> {
    check_temperature(at, config.temperature)?;
    let no_tokens = config.max_output_tokens == Some(0);
    no_zero(
        at,
        &[
            ("max_output_tokens", no_tokens, "1"),
            ("context_tokens", config.context_tokens == Some(0), "1"),
            ("parallel_agents", config.parallel_agents == Some(0), "1"),
        ],
    )?;
    check_tool_retries(at, config.tool_retries)?;
    if config
        .fan_out
        .as_deref()
        .is_some_and(|list| !names::is_valid(list))
    {
        return Err(PolicyError::Contradiction {
            at: format!("{at}.fan_out"),
            why: "the name of a list must be 1 to 64 of A-Z a-z 0-9 _ -",
        });
    }
    Ok(())
}

/// Checks that the form of an answer is that of an object. Whether it is a valid schema is checked by the code that
/// uses it.
fn check_answer(at: &str, answer: &AnswerConfig) -> Result<(), PolicyError> {
    if answer.is_unset() {
        return Ok(());
    }
    let at = format!("{at}.answer.schema");
    let Some(schema) = &answer.schema else {
        let values = "a JSON Schema of an object, or a file that contains one";
        return Err(PolicyError::IncompleteRule { at, values });
    };
    let object = schema.decode::<BTreeMap<String, IgnoredAny>>();
    let why = "a schema must be a JSON object";
    object
        .map(drop)
        .map_err(|_| PolicyError::Contradiction { at, why })
}

fn profile(
    at: &str,
    name: &AgentName,
    config: &AgentConfig,
    known: &KnownNames,
) -> Result<Profile, PolicyError> {
    let mut profile = Profile::named(name.as_str());
    profile.opening = opening_of(at, config.opening.as_ref(), known)?;
    profile.usage = config.usage.unwrap_or_default();
    profile.parallel = config.parallel.unwrap_or_default();
    profile.unknown_tool = config.unknown_tool.unwrap_or_default();
    if config.stop_on_error == Some(true) {
        profile.tool_errors = ToolErrors::Stop;
    }
    profile.limit_reached = config.limit_reached.unwrap_or_default();
    if let Some(NoCallsConfig::Remind(remind)) = &config.no_calls {
        profile.no_calls = NoCalls::Remind {
            prompt: remind.prompt.clone(),
            at_most: remind.at_most,
        };
    }
    profile.offer = config.offer.unwrap_or_default();
    profile.roles.first.clone_from(&config.first_role);
    profile
        .roles
        .after_calls
        .clone_from(&config.after_calls_role);
    profile.stop_after = config.stop_after.clone().unwrap_or_default();
    let rules = config.results.iter().map(|(tool, result)| {
        let mut rule = ResultRule::new(tool.clone());
        rule.max_chars = result.max_chars;
        rule.keep = result.keep;
        rule.then.clone_from(&result.then);
        rule.note.clone_from(&result.note);
        rule
    });
    profile.results = rules.collect();
    if config.lenient_arguments == Some(true) {
        profile.arguments = Arguments::Lenient;
    }
    profile.digest_after = config.digest_after;
    profile.citations = config.citations.unwrap_or_default();
    profile.compaction = match &config.compaction {
        None => Compaction::default(),
        Some(CompactionConfig::Drop) => Compaction::Drop,
        Some(CompactionConfig::Summarize(by)) => {
            known.role(&format!("{at}.compaction.summarize.role"), &by.role)?;
            let role = by.role.clone();
            Compaction::Summarize { role }
        }
    };
    let usual = Repeats::default();
    profile.repeats = Repeats {
        warn: config.repeats.warn.unwrap_or(usual.warn),
        stop: config.repeats.stop.unwrap_or(usual.stop),
    };
    profile.data = data_policy(&config.data);
    if let Some(agents) = config.parallel_agents {
        profile.parallel_agents = agents;
    }
    if let Some(retries) = config.tool_retries {
        profile.tool_retries = retries;
    }
    Ok(profile)
}
