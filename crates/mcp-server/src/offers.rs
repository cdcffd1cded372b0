//! The tools offered to clients: one for each agent, and one for a plain question.

use std::collections::BTreeMap;

use neuraxis_brainstem::{AgentConfig, Policy};
use neuraxis_core::{AgentName, Channel, Mode, ToolName};
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::outcome;

/// The tool that asks the agent that answers on a channel.
const ASK: &str = "ask";

/// The maximum length of a message, in characters.
pub(crate) const MAX_MESSAGE_CHARS: usize = 1024 * 1024;

/// What clients may choose.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pub(crate) modes: Vec<Mode>,
    /// The channels that clients may choose; all if `None`.
    pub(crate) channels: Option<Vec<Channel>>,
    /// The agents that clients may call; all if `None`.
    pub(crate) agents: Option<Vec<AgentName>>,
    /// Whether clients may ask a plain question.
    pub(crate) ask: bool,
}

impl Choice {
    pub(crate) const fn of_modes(modes: Vec<Mode>) -> Self {
        Self {
            modes,
            channels: None,
            agents: None,
            ask: true,
        }
    }
}

/// The tools, by name.
#[derive(Debug)]
pub(crate) struct Offers(BTreeMap<String, OfferedTool>);

/// A tool, and the defaults for a call of it.
#[derive(Debug)]
pub(crate) struct OfferedTool {
    pub(crate) tool: Tool,
    /// The agent that answers; the channel's agent if `None`.
    pub(crate) agent: Option<AgentName>,
    pub(crate) channel: Channel,
    pub(crate) mode: Mode,
}

impl Offers {
    /// Builds the tools of a policy, restricted to what clients may choose. The agent that talks with users answers the
    /// plain question and is not a separate tool. An agent that has the plain question's name is not offered either.
    pub(crate) fn of(policy: &Policy, choice: &Choice) -> Self {
        let mut offers = BTreeMap::new();
        let ask = "Asks the assistant of this installation, which may use its tools, and returns the answer.";
        let mut add = |name: &str, description: &str, agent: Option<&AgentName>| {
            let (channel, mode) = usual(policy, choice, agent);
            let schema = input_schema(policy, choice, &channel, &mode);
            let annotations = ToolAnnotations::new()
                .read_only(false)
                .destructive(true)
                .idempotent(false)
                .open_world(true);
            let tool = Tool::new(name.to_owned(), description.to_owned(), schema)
                .with_raw_output_schema(outcome::schema().into())
                .with_annotations(annotations);
            let agent = agent.cloned();
            let offer = OfferedTool {
                tool,
                agent,
                channel,
                mode,
            };
            offers.insert(name.to_owned(), offer);
        };
        if choice.ask {
            add(ASK, ask, None);
        }
        for name in policy.agents() {
            // Not every agent name is valid as a tool name.
            let is_name = name.as_str().parse::<ToolName>().is_ok();
            let is_open = choice
                .agents
                .as_ref()
                .is_none_or(|open| open.contains(name));
            let is_taken = name.as_str() == ASK || *name == AgentName::MAIN_THREAD;
            if is_taken || !is_name || !is_open {
                continue;
            }
            let description = description(name, policy.agent(name));
            add(name.as_str(), &description, Some(name));
        }
        Self(offers)
    }

    pub(crate) fn tools(&self) -> impl Iterator<Item = &Tool> {
        self.0.values().map(|offer| &offer.tool)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&OfferedTool> {
        self.0.get(name)
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }
}

fn description(name: &AgentName, config: Option<&AgentConfig>) -> String {
    let configured = config.and_then(|config| config.description.as_deref());
    match configured {
        Some(description) => description.to_owned(),
        None => format!(
            "Hands a task to the agent {name}, which works on it independently and returns an answer."
        ),
    }
}

/// Returns the channel and the mode of a call that names none. The channel is the agent's own if clients may use it,
/// else the only one that they may use, else `chat`.
fn usual(policy: &Policy, choice: &Choice, agent: Option<&AgentName>) -> (Channel, Mode) {
    let own = policy.channels().find(|channel| {
        let answers = policy.config().channels.get(*channel);
        agent.is_some() && answers.and_then(|config| config.agent.as_ref()) == agent
    });
    let of_own =
        own.and_then(|channel| Some((channel.clone(), usual_mode(policy, choice, channel)?)));
    of_own.unwrap_or_else(|| {
        let channel = match choice.channels.as_deref() {
            Some([only]) => only.clone(),
            _ => Channel::CHAT,
        };
        let mode = usual_mode(policy, choice, &channel);
        (channel, mode.unwrap_or(Mode::MODERATE))
    })
}

/// Returns the mode of a call on a channel that names none: the usual default, or the most restrictive mode that
/// clients may choose there if all of those are freer. Returns `None` if they may choose none.
pub(crate) fn usual_mode(policy: &Policy, choice: &Choice, channel: &Channel) -> Option<Mode> {
    let usable: Vec<Mode> = usable(policy, choice, channel)
        .into_iter()
        .cloned()
        .collect();
    let usual = policy.usual_mode(&usable);
    let freedom = |mode: &Mode| policy.modes_no_freer_than(mode).len();
    usual.or_else(|| usable.into_iter().min_by_key(freedom))
}

/// Returns the modes that clients may choose on a channel; none if they may not use the channel.
pub(crate) fn usable<'a>(policy: &Policy, choice: &'a Choice, channel: &Channel) -> Vec<&'a Mode> {
    let channels = choice.channels.as_ref();
    if channels.is_some_and(|open| !open.contains(channel)) {
        return Vec::new();
    }
    let config = policy.config().channels.get(channel);
    let allowed_modes = config.and_then(|config| config.allowed_modes.as_ref());
    let is_allowed = |mode: &&Mode| allowed_modes.is_none_or(|allowed| allowed.contains(*mode));
    choice.modes.iter().filter(is_allowed).collect()
}

fn input_schema(policy: &Policy, choice: &Choice, channel: &Channel, mode: &Mode) -> JsonObject {
    let open = policy.channels();
    let open: Vec<&str> = open
        .filter(|channel| !usable(policy, choice, channel).is_empty())
        .map(Channel::as_str)
        .collect();
    let modes: Vec<&str> = choice.modes.iter().map(Mode::as_str).collect();
    object(json!({
        "type": "object",
        "properties": {
            "message": {
                "type": "string",
                "description": "The task or question, with everything the agent needs to know.",
                "minLength": 1,
                "maxLength": MAX_MESSAGE_CHARS,
            },
            "session": {
                "type": "string",
                "description": "The session to continue: the `session_id` of an earlier result. It does not remember \
                    `channel` or `mode`. Default: a new session.",
                "pattern": "^[A-Za-z0-9._:-]{1,128}$",
            },
            "channel": {
                "type": "string",
                "description": "The kind of request, which determines the available tools.",
                "enum": open,
                "default": channel.as_str(),
            },
            "mode": {
                "type": "string",
                "description": "How much freedom the run has.",
                "enum": modes,
                "default": mode.as_str(),
            },
        },
        "required": ["message"],
        "additionalProperties": false,
    }))
}

/// Returns the members of a JSON object, or an empty object for any other value.
pub(crate) fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members,
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_brainstem::PolicyConfig;

    use super::*;

    fn offers(modes: &[Mode]) -> Offers {
        Offers::of(&Policy::built_in(), &Choice::of_modes(modes.to_vec()))
    }

    #[test]
    fn the_built_in_agents_are_tools_next_to_ask() {
        let offers = offers(&[Mode::MODERATE]);
        assert_eq!(offers.names(), ["ask", "deep_research", "researcher"]);
        let researcher = offers.find("researcher").unwrap();
        let description = researcher.tool.description.as_deref().unwrap();
        assert!(description.starts_with("Researches topics"));
        assert_eq!(researcher.channel, Channel::CHAT);
    }

    #[test]
    fn an_agent_named_ask_does_not_replace_the_ask_tool() {
        let config =
            PolicyConfig::from_toml("[agents.ask]\ndescription = 'Asks others'\n").unwrap();
        let policy = Policy::layered(config).unwrap();
        assert!(policy.agent(&AgentName::new(ASK)).is_some());
        let offers = Offers::of(&policy, &Choice::of_modes(vec![Mode::MODERATE]));
        let ask = offers.find(ASK).unwrap();
        assert_eq!(ask.agent, None);
        assert_ne!(ask.tool.description.as_deref(), Some("Asks others"));
    }

    #[test]
    fn a_call_without_a_mode_uses_moderate_or_the_strictest_allowed_mode() {
        let usual = |modes: &[Mode]| offers(modes).find(ASK).unwrap().mode.clone();
        assert_eq!(usual(&[Mode::EXPLORATORY]), Mode::EXPLORATORY);
        assert_eq!(usual(&[]), Mode::MODERATE, "refused");
        let two = [Mode::CONSERVATIVE, Mode::EXPLORATORY];
        assert_eq!(usual(&two), Mode::CONSERVATIVE);
        assert_eq!(
            usual(&[two.as_slice(), &[Mode::MODERATE]].concat()),
            Mode::MODERATE
        );
    }

    #[test]
    fn only_the_channels_and_agents_allowed_to_clients_are_offered() {
        let policy = Policy::built_in();
        let choice = Choice {
            modes: vec![Mode::MODERATE, Mode::EXPLORATORY],
            channels: Some(vec![Channel::DEEP_RESEARCH]),
            agents: Some(vec![AgentName::new("researcher")]),
            ask: true,
        };
        let offers = Offers::of(&policy, &choice);
        assert_eq!(offers.names(), ["ask", "researcher"]);
        let ask = offers.find(ASK).unwrap();
        let usual = (&ask.channel, &ask.mode);
        assert_eq!(usual, (&Channel::DEEP_RESEARCH, &Mode::EXPLORATORY));
        let schema = &ask.tool.input_schema["properties"];
        assert_eq!(schema["channel"]["enum"], json!(["deep_research"]));
        assert!(usable(&policy, &choice, &Channel::CHAT).is_empty());
    }

    #[test]
    fn an_agent_uses_its_own_channel_when_clients_may_use_it() {
        let free = offers(&[Mode::MODERATE, Mode::EXPLORATORY]);
        let research = free.find("deep_research").unwrap();
        let usual = (&research.channel, &research.mode);
        assert_eq!(usual, (&Channel::DEEP_RESEARCH, &Mode::EXPLORATORY));

        let bound = offers(&[Mode::MODERATE]);
        let research = bound.find("deep_research").unwrap();
        let usual = (&research.channel, &research.mode);
        assert_eq!(usual, (&Channel::CHAT, &Mode::MODERATE));
        let schema = &research.tool.input_schema["properties"];
        let channels = schema["channel"]["enum"].as_array().unwrap();
        assert!(!channels.contains(&json!("deep_research")));
        assert_eq!(schema["mode"]["enum"], json!(["moderate"]));
    }
}
