//! The agents of a policy: those of `[agents.NAME]`, and those that an embedding program defines.
//!
//! What an agent says only ever narrows: which of the tools on offer it uses, which limits it keeps besides the others. What
//! it may do is decided by mode, channel and rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use neuraxis_core::{
    AgentName, AgentSpec, Decision, JsonText, Profile, Role, ToolAnnotations, ToolChoice,
    ToolClass, ToolKind, ToolName, ToolSpec,
};

use crate::config::{AgentConfig, Layered};
use crate::error::PolicyError;
use crate::names;
use crate::policy::{Policy, opening};
use crate::rules::AgentRules;

/// An agent that an embedding program defines, as far as governance has to know it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AgentDefinition {
    /// Its name.
    pub name: AgentName,
    /// What a deployment could write about it in `[agents.NAME]`, and may lay over this, key by key.
    pub config: AgentConfig,
    /// The tools that it owns: no other agent is offered them, unless that owns them too.
    pub own_tools: Vec<ToolName>,
    /// The role of a model of its own: no other agent is served by it.
    pub own_role: Option<Role>,
    /// Whether its tool is one that every agent may be offered, as tools that no agent owns are.
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

/// What the configuration does not say of an agent that a program defines.
#[derive(Debug, Clone)]
pub(crate) struct Owned {
    tools: Vec<ToolName>,
    role: Option<Role>,
    is_shared: bool,
}

impl Policy {
    /// Adds the agents that an embedding program defines, which may name the given roles besides those of this policy. What
    /// a deployment says in `[agents.NAME]` is laid over what the program says.
    ///
    /// An agent that ships gives way to a program's of the same name. Where a configured agent and one of a program are
    /// called by the same tool, that tool calls the program's.
    ///
    /// # Errors
    ///
    /// A [`PolicyError`] that names the first key that cannot stand, as for [`Policy::layered`].
    pub fn with_agents(
        &self,
        agents: impl IntoIterator<Item = AgentDefinition>,
        roles: impl IntoIterator<Item = Role>,
    ) -> Result<Self, PolicyError> {
        let (mut config, mut owned) = (self.config.clone(), self.owned.clone());
        config.extra_roles.extend(roles);
        let mut said = self.hash;
        for agent in agents {
            config.extra_roles.extend(agent.own_role.clone());
            let own = Owned {
                tools: agent.own_tools,
                role: agent.own_role,
                is_shared: agent.is_shared,
            };
            owned.insert(agent.name.clone(), own);
            said = said.chain(text_of(&agent.name, &agent.config).hash());
            // What ships under its name, it takes the place of.
            let configured = self.said_of_agents.get(&agent.name).cloned();
            let whole = configured.unwrap_or_default().over(agent.config);
            config.agents.insert(agent.name, whole);
        }
        let mut policy = Self::new(config)?;
        policy.hash = said;
        policy.floors.clone_from(&self.floors);
        policy.listed.clone_from(&self.listed);
        policy.said_of_agents.clone_from(&self.said_of_agents);
        policy.owned = owned;
        Ok(policy)
    }

    /// Returns the agents there are, in alphabetical order.
    pub fn agents(&self) -> impl Iterator<Item = &AgentName> {
        self.agents.keys()
    }

    /// Returns what is configured of an agent.
    #[must_use]
    pub fn agent(&self, name: &AgentName) -> Option<&AgentConfig> {
        self.config.agents.get(name)
    }

    /// Returns the name of the agent that was most likely meant, if any is close.
    #[must_use]
    pub fn nearest_agent(&self, given: &str) -> Option<&AgentName> {
        let nearest = names::nearest(given, self.agents().map(AgentName::as_str))?;
        self.agents().find(|name| name.as_str() == nearest)
    }

    /// Returns the tools by which agents call others: one for each agent that another one names, or that is shared.
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

    /// Returns the agents that an agent may come to start, itself or by way of others, by the tool that starts each.
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

    /// Describes an agent as it is configured, narrowed by nothing: with all it wants of the given tools. Where it names no
    /// role, the given one serves. [`narrow_sub_agent`](crate::narrow_sub_agent) fits it to a decision.
    #[must_use]
    pub fn agent_spec(
        &self,
        name: &AgentName,
        role: &Role,
        tools: &[ToolSpec],
    ) -> Option<AgentSpec> {
        let rules = self.agents.get(name)?;
        let role = rules.role.as_ref().unwrap_or(role);
        let mut agent = AgentSpec::new(rules.profile.clone(), role.clone());
        agent.tools = tools
            .iter()
            .filter(|tool| self.uses(name, tool))
            .cloned()
            .collect();
        let instructions = rules.instructions.clone();
        agent.system_prompt = instructions.filter(|text| !text.is_empty());
        agent.limits = rules.own_limits();
        agent.max_output_tokens = rules.max_output_tokens;
        agent.temperature = rules.temperature;
        agent.context_tokens = rules.context_tokens;
        agent.tool_choice.clone_from(&rules.tool_choice);
        agent.fan_out.clone_from(&rules.fan_out);
        drop_impossible_choices(&mut agent);
        Some(agent)
    }

    /// Describes the agent that answers a decided request, with those of the given tools that the decision offers it.
    #[must_use]
    pub fn main_agent(&self, decision: &Decision, tools: Arc<[ToolSpec]>) -> AgentSpec {
        let mut agent = AgentSpec::new(self.profile(decision), decision.role.clone());
        agent.tools = tools;
        agent.system_prompt = self.system_prompt(decision);
        agent.limits = decision.limits;
        agent.max_output_tokens = decision.max_output_tokens;
        agent.temperature = decision.temperature;
        if let Some(rules) = self.rules_of(decision) {
            agent.context_tokens = rules.context_tokens;
            agent.tool_choice.clone_from(&rules.tool_choice);
        }
        drop_impossible_choices(&mut agent);
        agent
    }

    /// Returns how the main agent of a decided request behaves in the loop.
    ///
    /// An opening that gathers needs its tool: where the decision does not offer it, the run begins directly.
    #[must_use]
    pub fn profile(&self, decision: &Decision) -> Profile {
        let channel = self.channels.get(&decision.channel);
        let (Some(channel), Some(rules)) = (channel, self.rules_of(decision)) else {
            return Profile::named(decision.profile.as_str());
        };
        let mut profile = rules.profile.clone();
        profile.opening = opening(&channel.opening, decision);
        profile.data = profile.data.and(channel.data);
        if let Some(mode) = self.modes.get(&decision.mode) {
            let own = rules.tool_retries.unwrap_or(mode.tool_retries);
            profile.tool_retries = own.min(mode.tool_retries);
        }
        let roles = [&mut profile.roles.first, &mut profile.roles.after_calls];
        for role in roles {
            let allowed = role
                .take()
                .filter(|role| decision.allowed_roles.contains(role));
            *role = allowed;
        }
        profile
    }

    /// Returns what the main agent of a decided request is told first: what its channel says, unless the request asks for
    /// an agent that has instructions of its own.
    #[must_use]
    pub fn system_prompt(&self, decision: &Decision) -> Option<Arc<str>> {
        let channel = self.channels.get(&decision.channel);
        let by_channel = channel.and_then(|channel| channel.system_prompt.clone());
        let by_agent = self
            .rules_of(decision)
            .and_then(|rules| rules.instructions.clone());
        let told = match &decision.agent {
            Some(_) => by_agent.or(by_channel),
            None => by_channel.or(by_agent),
        };
        told.filter(|text| !text.is_empty())
    }

    /// Tells whether the agent that answers a decided request would be told its own instructions, not those of its channel.
    #[must_use]
    pub fn instructs_itself(&self, decision: &Decision) -> bool {
        let channel = self.channels.get(&decision.channel);
        let by_channel = channel.is_some_and(|channel| channel.system_prompt.is_some());
        decision.agent.is_some() || !by_channel
    }

    /// Returns the name of the agent that answers a decided request; `None` for a channel that there is not.
    #[must_use]
    pub fn agent_of<'a>(&'a self, decision: &'a Decision) -> Option<&'a AgentName> {
        let of_channel = || Some(&self.channels.get(&decision.channel)?.agent);
        decision.agent.as_ref().or_else(of_channel)
    }

    fn rules_of(&self, decision: &Decision) -> Option<&AgentRules> {
        self.agents.get(self.agent_of(decision)?)
    }

    /// Tells whether an agent uses a tool, where it is on offer: its own, those that start the agents it names, and of
    /// those that no agent owns what its patterns match.
    pub(crate) fn uses(&self, agent: &AgentName, tool: &ToolSpec) -> bool {
        let started = self.started_by(tool);
        if let Some(started) = started {
            let is_named = self.names_agent(agent, started);
            if is_named || !self.is_shared(started) {
                return is_named;
            }
        }
        let mut owners = self
            .owned
            .iter()
            .filter(|(_, owned)| owned.tools.contains(&tool.name))
            .peekable();
        if owners.peek().is_some() {
            return owners.any(|(owner, _)| owner == agent);
        }
        let rules = self.agents.get(agent);
        let wants = |rules: &AgentRules| match &rules.tools {
            Some(tools) => tools.matches(&tool.name),
            // No agent calls itself, unless it says so.
            None => started != Some(agent),
        };
        rules.is_some_and(wants)
    }

    /// Tells whether a tool starts an agent that the given one names: it comes with that agent, on every channel.
    pub(crate) fn comes_with(&self, agent: &AgentName, tool: &ToolSpec) -> bool {
        let started = self.started_by(tool);
        started.is_some_and(|started| self.names_agent(agent, started))
    }

    /// Tells whether a tool is of no concern to an agent: another one owns it, or names the agent that it starts.
    pub(crate) fn is_anothers(&self, agent: &AgentName, tool: &ToolSpec) -> bool {
        let is_owned = || {
            let mut owned = self.owned.values();
            owned.any(|owned| owned.tools.contains(&tool.name))
        };
        let starts = self.started_by(tool);
        let of_agents = starts.is_some_and(|started| !self.is_shared(started)) || is_owned();
        of_agents && !self.uses(agent, tool)
    }

    /// Tells whether a role may serve an agent and those that it starts: one of a model that another agent owns may not.
    pub(crate) fn is_open_to(&self, role: &Role, agent: &AgentName) -> bool {
        let owner = self
            .owned
            .iter()
            .find(|(_, owned)| owned.role.as_ref() == Some(role));
        owner.is_none_or(|(owner, _)| {
            owner == agent || self.sub_agents(agent).values().any(|below| below == owner)
        })
    }

    /// Refuses two agents that are called by the same tool.
    pub(crate) fn check_agent_tools(&self) -> Result<(), PolicyError> {
        let mut taken = BTreeMap::new();
        for agent in self.agents.values().flat_map(|agent| &agent.agents) {
            let Some(rules) = self.agents.get(agent) else {
                continue;
            };
            let other = taken.insert(&rules.tool, agent);
            if other.is_some_and(|other| other != agent) {
                return Err(PolicyError::Contradiction {
                    at: format!("agents.{agent}.tool_name"),
                    why: "another agent is called by a tool of that name",
                });
            }
        }
        Ok(())
    }

    fn callable_by(&self, name: &AgentName) -> impl Iterator<Item = &AgentName> {
        let named = self.agents.get(name).map(|rules| rules.agents.iter());
        named.into_iter().flatten().chain(self.shared_agents())
    }

    fn shared_agents(&self) -> impl Iterator<Item = &AgentName> {
        let shared = self.owned.iter().filter(|(_, owned)| owned.is_shared);
        shared.map(|(name, _)| name)
    }

    fn is_shared(&self, agent: &AgentName) -> bool {
        self.owned.get(agent).is_some_and(|owned| owned.is_shared)
    }

    fn names_agent(&self, agent: &AgentName, other: &AgentName) -> bool {
        let rules = self.agents.get(agent);
        rules.is_some_and(|rules| rules.agents.contains(other))
    }

    /// Returns the agent that a tool starts.
    fn started_by(&self, tool: &ToolSpec) -> Option<&AgentName> {
        (tool.kind == ToolKind::Agent).then(|| self.called_by(&tool.name))?
    }

    /// Returns the agent that is called by a tool of this name, a program's before a configured one.
    fn called_by(&self, tool: &ToolName) -> Option<&AgentName> {
        let mut agents = self
            .agents
            .iter()
            .filter(|(_, rules)| rules.tool == *tool)
            .map(|(name, _)| name);
        let is_defined = |name: &&AgentName| self.owned.contains_key(*name);
        agents.clone().find(is_defined).or_else(|| agents.next())
    }
}

fn text_of(name: &AgentName, config: &AgentConfig) -> JsonText {
    JsonText::encode(&(name, config)).unwrap_or_else(|error| JsonText::string(&error.to_string()))
}

/// A model cannot be made to call a tool that it is not offered.
pub(crate) fn drop_impossible_choices(agent: &mut AgentSpec) {
    let tools = Arc::clone(&agent.tools);
    let is_possible = |choice: &ToolChoice| match choice {
        ToolChoice::Auto | ToolChoice::None => true,
        ToolChoice::Required => !tools.is_empty(),
        ToolChoice::Named(name) => tools.iter().any(|tool| tool.name == *name),
    };
    agent.tool_choice = agent.tool_choice.take().filter(is_possible);
    for rule in &mut agent.profile.results {
        rule.then = rule.then.take().filter(is_possible);
    }
}

/// Describes the tool by which an agent is called. It changes nothing itself: what the agent does is judged call by call.
fn tool_of(name: &AgentName, rules: &AgentRules) -> ToolSpec {
    let generic =
        || format!("Hands work to the agent {name}, which does it by itself and answers.");
    let description = rules.description.clone();
    let task =
        "What it is to do, with everything it needs to know: it has not read this conversation.";
    let parameters = match &rules.fan_out {
        None => format!(
            r#"{{"type":"object","properties":{{"task":{{"type":"string","description":"{task}"}}}},"required":["task"],"additionalProperties":false}}"#
        ),
        Some(list) => format!(
            r#"{{"type":"object","properties":{{"{list}":{{"type":"array","description":"One task an agent; they work at the same time. Each: {task}","items":{{"type":"string"}},"minItems":1}}}},"required":["{list}"],"additionalProperties":false}}"#
        ),
    };
    ToolSpec {
        name: rules.tool.clone(),
        description: description.unwrap_or_else(|| generic().into()),
        parameters: JsonText::from_text(parameters),
        class: ToolClass::ReadOnly,
        annotations: ToolAnnotations::default(),
        kind: ToolKind::Agent,
        non_iterative: false,
        timeout: None,
    }
}
