//! The agents of a policy: those of `[agents.NAME]`, and those that an embedding program defines.
//!
//! The settings of an agent only narrow: which of the tools on offer it uses, and which additional limits it keeps.
//! Mode, channel and rules decide what it may do.

mod offer;
mod spec;

use std::collections::{BTreeMap, BTreeSet};

use neuraxis_core::{AgentName, JsonText, Role, ToolClass, ToolKind, ToolName, ToolSpec};

pub(crate) use spec::{begins, drop_impossible_choices, fitting_opening};

use crate::config::{AgentConfig, Layered};
use crate::error::PolicyError;
use crate::names;
use crate::policy::Policy;
use crate::rules::AgentRules;

/// An agent that an embedding program defines, as far as governance needs to know it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AgentDefinition {
    /// Its name.
    pub name: AgentName,
    /// The settings that a deployment could write in `[agents.NAME]`; it may override them key by key.
    pub config: AgentConfig,
    /// The tools that it owns. No other agent is offered them, unless it owns them too.
    pub own_tools: Vec<ToolName>,
    /// The role of its own model. It serves no other agent.
    pub own_role: Option<Role>,
    /// Whether its tool may be offered to every agent, like tools that no agent owns.
    pub is_shared: bool,
}

impl AgentDefinition {
    /// Defines an agent that owns nothing.
    #[must_use]
    pub const fn new(name: AgentName, config: AgentConfig) -> Self {
        Self {
            name,
            config,
            own_tools: Vec::new(),
            own_role: None,
            is_shared: false,
        }
    }
}

/// The settings of a program's agent that the configuration does not contain.
#[derive(Debug, Clone)]
pub(crate) struct ProgramAgent {
    tools: Vec<ToolName>,
    role: Option<Role>,
    is_shared: bool,
}

impl Policy {
    /// Adds the agents that an embedding program defines. They may name the given roles in addition to those of this
    /// policy. A deployment's `[agents.NAME]` overrides what the program sets.
    ///
    /// A program's agent replaces a built-in agent of the same name. If a configured agent and a program's agent have
    /// the same tool name, that tool calls the program's agent.
    ///
    /// # Errors
    ///
    /// A [`PolicyError`] that names the first invalid key, as for [`Policy::layered`].
    pub fn with_agents(
        &self,
        agents: impl IntoIterator<Item = AgentDefinition>,
        roles: impl IntoIterator<Item = Role>,
    ) -> Result<Self, PolicyError> {
        let (mut config, mut owned) = (self.config.clone(), self.program_agents.clone());
        config.extra_roles.extend(roles);
        let mut policy_hash = self.hash;
        for agent in agents {
            config.extra_roles.extend(agent.own_role.clone());
            let own = ProgramAgent {
                tools: agent.own_tools,
                role: agent.own_role,
                is_shared: agent.is_shared,
            };
            owned.insert(agent.name.clone(), own);
            policy_hash = policy_hash.chain(text_of(&agent.name, &agent.config).hash());
            // The program's agent replaces a built-in agent of the same name.
            let configured = self.configured_agents.get(&agent.name).cloned();
            let whole = configured.unwrap_or_default().over(agent.config);
            config.agents.insert(agent.name, whole);
        }
        self.rebuilt(config, owned, policy_hash)
    }

    /// Returns the policy's agents, in alphabetical order.
    pub fn agents(&self) -> impl Iterator<Item = &AgentName> {
        self.agents.keys()
    }

    /// Returns the configuration of an agent.
    #[must_use]
    pub fn agent(&self, name: &AgentName) -> Option<&AgentConfig> {
        self.config.agents.get(name)
    }

    /// Returns whether a deployment sets the instructions of an agent, as opposed to the built-in policy or a program.
    #[must_use]
    pub fn configures_instructions(&self, name: &AgentName) -> bool {
        let configured = self.configured_agents.get(name);
        configured.is_some_and(|agent| agent.instructions.is_some())
    }

    /// Returns the name of the agent that was most likely meant, if any is close.
    pub(crate) fn nearest_agent(&self, given: &str) -> Option<&AgentName> {
        let nearest = names::nearest(given, self.agents().map(AgentName::as_str))?;
        self.agents().find(|name| name.as_str() == nearest)
    }

    /// Returns the tools that call agents: one for each agent that another agent names, or that is shared.
    #[must_use]
    pub fn agent_tools(&self) -> Vec<ToolSpec> {
        let called: BTreeSet<&AgentName> = self
            .agents
            .values()
            .flat_map(|agent| &agent.agents)
            .chain(self.shared_agents())
            .collect();
        let rules = called
            .into_iter()
            .filter_map(|name| Some((name, self.agents.get(name)?)));
        rules
            .filter(|(name, rules)| self.called_by(&rules.tool) == Some(name))
            .map(|(name, rules)| tool_of(name, rules))
            .collect()
    }

    /// Returns the agents that an agent may start, directly or through other agents, by the tool that starts each.
    #[must_use]
    pub fn sub_agents(&self, name: &AgentName) -> BTreeMap<ToolName, AgentName> {
        let mut found = BTreeMap::new();
        let mut open: Vec<&AgentName> = self.callable_by(name).collect();
        while let Some(next) = open.pop() {
            let Some(rules) = self.agents.get(next) else {
                continue;
            };
            let is_called = self.called_by(&rules.tool) == Some(next);
            if is_called && found.insert(rules.tool.clone(), next.clone()).is_none() {
                open.extend(self.callable_by(next));
            }
        }
        found
    }
}

fn text_of(name: &AgentName, config: &AgentConfig) -> JsonText {
    JsonText::encode(&(name, config)).unwrap_or_else(|error| JsonText::string(&error.to_string()))
}

/// Describes the tool that calls an agent. The call itself changes nothing: what the agent does is judged call by call.
fn tool_of(name: &AgentName, rules: &AgentRules) -> ToolSpec {
    let generic = || {
        format!(
            "Delegates a task to the agent {name}, which works on it independently and reports the result."
        )
    };
    let description = rules.description.clone();
    let task =
        "The task, with everything that the agent needs to know: it cannot see this conversation.";
    let parameters = match &rules.fan_out {
        None => format!(
            r#"{{"type":"object","properties":{{"task":{{"type":"string","description":"{task}"}}}},"required":["task"],"additionalProperties":false}}"#
        ),
        Some(list) => format!(
            r#"{{"type":"object","properties":{{"{list}":{{"type":"array","description":"One task for each agent; the agents work at the same time. Each item: {task}","items":{{"type":"string"}},"minItems":1}}}},"required":["{list}"],"additionalProperties":false}}"#
        ),
    };
    let description = description.unwrap_or_else(|| generic().into());
    ToolSpec::new(rules.tool.clone(), description)
        .parameters(JsonText::from_text(parameters))
        .class(ToolClass::ReadOnly)
        .kind(ToolKind::Agent)
}
