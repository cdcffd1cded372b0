//! Which tools an agent uses, which agents it may call, and which roles may serve it.

use std::collections::BTreeMap;

use neuraxis_core::{AgentName, Role, ToolKind, ToolName, ToolSpec};

use crate::error::PolicyError;
use crate::policy::Policy;
use crate::rules::AgentRules;

impl Policy {
    /// Returns whether an agent uses a tool if it is on offer: its own tools, those that start the agents it names, and
    /// those of no agent that its patterns match.
    pub(crate) fn uses(&self, agent: &AgentName, tool: &ToolSpec) -> bool {
        let started = self.started_by(tool);
        if let Some(started) = started {
            let is_named = self.names_agent(agent, started);
            if is_named || !self.is_shared(started) {
                return is_named;
            }
        }
        let mut owners = self
            .program_agents
            .iter()
            .filter(|(_, owned)| owned.tools.contains(&tool.name))
            .peekable();
        if owners.peek().is_some() {
            return owners.any(|(owner, _)| owner == agent);
        }
        let rules = self.agents.get(agent);
        let wants = |rules: &AgentRules| match &rules.tools {
            Some(tools) => tools.matches(&tool.name),
            // No agent calls itself, unless its configuration says so.
            None => started != Some(agent),
        };
        rules.is_some_and(wants)
    }

    /// Returns whether an agent owns a tool, or asks for it by its full name instead of a pattern.
    #[must_use]
    pub fn names_tool(&self, agent: &AgentName, tool: &ToolName) -> bool {
        let owned = self.program_agents.get(agent);
        let listed = self.config.agents.get(agent);
        let listed = listed.and_then(|agent| agent.tools.as_ref());
        owned.is_some_and(|owned| owned.tools.contains(tool))
            || listed.is_some_and(|names| names.iter().any(|name| name == tool.as_str()))
    }

    /// Returns whether a tool starts an agent that the given agent names. Such a tool comes with the agent on every
    /// channel.
    pub(crate) fn starts_named_agent(&self, agent: &AgentName, tool: &ToolSpec) -> bool {
        let started = self.started_by(tool);
        started.is_some_and(|started| self.names_agent(agent, started))
    }

    /// Returns whether a tool belongs to other agents: one of them owns it, or names the agent that it starts.
    pub(crate) fn belongs_to_other_agent(&self, agent: &AgentName, tool: &ToolSpec) -> bool {
        let is_owned = || {
            let mut owned = self.program_agents.values();
            owned.any(|owned| owned.tools.contains(&tool.name))
        };
        let starts = self.started_by(tool);
        let of_agents = starts.is_some_and(|started| !self.is_shared(started)) || is_owned();
        of_agents && !self.uses(agent, tool)
    }

    /// Returns whether a role may serve an agent and those that it starts. A role of another agent's own model may not.
    pub(crate) fn is_open_to(&self, role: &Role, agent: &AgentName) -> bool {
        let owner = self
            .program_agents
            .iter()
            .find(|(_, owned)| owned.role.as_ref() == Some(role));
        owner.is_none_or(|(owner, _)| {
            owner == agent || self.sub_agents(agent).values().any(|below| below == owner)
        })
    }

    /// Refuses two agents that are called by the same tool. A program's agent takes precedence over a configured one.
    pub(crate) fn check_agent_tools(&self) -> Result<(), PolicyError> {
        let mut taken = BTreeMap::new();
        for agent in self.agents.values().flat_map(|agent| &agent.agents) {
            let Some(rules) = self.agents.get(agent) else {
                continue;
            };
            let is_defined = self.program_agents.contains_key(agent);
            let other = taken.insert((&rules.tool, is_defined), agent);
            if other.is_some_and(|other| other != agent) {
                return Err(PolicyError::Contradiction {
                    at: format!("agents.{agent}.tool_name"),
                    why: "another agent already uses this tool_name",
                });
            }
        }
        Ok(())
    }

    pub(super) fn callable_by(&self, name: &AgentName) -> impl Iterator<Item = &AgentName> {
        let named = self.agents.get(name).map(|rules| rules.agents.iter());
        named.into_iter().flatten().chain(self.shared_agents())
    }

    pub(super) fn shared_agents(&self) -> impl Iterator<Item = &AgentName> {
        let shared = self
            .program_agents
            .iter()
            .filter(|(_, owned)| owned.is_shared);
        shared.map(|(name, _)| name)
    }

    fn is_shared(&self, agent: &AgentName) -> bool {
        self.program_agents
            .get(agent)
            .is_some_and(|owned| owned.is_shared)
    }

    fn names_agent(&self, agent: &AgentName, other: &AgentName) -> bool {
        let rules = self.agents.get(agent);
        rules.is_some_and(|rules| rules.agents.contains(other))
    }

    /// Returns the agent that a tool starts.
    fn started_by(&self, tool: &ToolSpec) -> Option<&AgentName> {
        (tool.kind == ToolKind::Agent).then(|| self.called_by(&tool.name))?
    }

    /// Returns the agent that a tool of this name calls; a program's agent takes precedence over a configured one.
    pub(super) fn called_by(&self, tool: &ToolName) -> Option<&AgentName> {
        let mut agents = self
            .agents
            .iter()
            .filter(|(_, rules)| rules.tool == *tool)
            .map(|(name, _)| name);
        let is_defined = |name: &&AgentName| self.program_agents.contains_key(*name);
        agents.clone().find(is_defined).or_else(|| agents.next())
    }
}
