//! The spec of an agent in a run: its instructions, role, tools, limits and behavior, in the form that a record keeps.

use std::sync::Arc;

use neuraxis_core::{
    AgentName, AgentSpec, Decision, Opening, Profile, Role, ToolChoice, ToolKind, ToolSpec,
};

use crate::decide::is_reader;
use crate::policy::{Policy, opening};
use crate::rules::AgentRules;

impl Policy {
    /// Describes an agent as it is configured, without narrowing it: with all of the given tools that it wants. If it
    /// names no role, the given one serves. [`narrow_sub_agent`](crate::narrow_sub_agent) fits it to a decision.
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
        let used = tools
            .iter()
            .filter(|it| self.uses(name, it) && !is_reader(it));
        let mut used: Vec<ToolSpec> = used.cloned().collect();
        if used.iter().any(|tool| tool.kind == ToolKind::Server) {
            used.extend(tools.iter().filter(|it| is_reader(it)).cloned());
        }
        agent.tools = used.into();
        let instructions = rules.instructions.clone();
        agent.system_prompt = instructions.filter(|text| !text.is_empty());
        agent.limits = rules.own_limits();
        agent.max_output_tokens = rules.max_output_tokens;
        agent.temperature = rules.temperature;
        agent.context_tokens = rules.context_tokens;
        agent.tool_choice.clone_from(&rules.tool_choice);
        agent.fan_out.clone_from(&rules.fan_out);
        drop_impossible_choices(&mut agent);
        agent.profile.opening = fitting_opening(&agent);
        Some(agent)
    }

    /// Describes the agent that answers under a decision, with those of the given tools that the decision offers it.
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

    /// Returns how the main agent behaves in the loop under a decision.
    ///
    /// An opening that gathers needs its tool: if the decision does not offer it, the run starts directly.
    #[must_use]
    pub fn profile(&self, decision: &Decision) -> Profile {
        let channel = self.channels.get(&decision.channel);
        let (Some(channel), Some(rules)) = (channel, self.rules_of(decision)) else {
            return Profile::named(decision.profile.as_str());
        };
        let mut profile = rules.profile.clone();
        profile.opening = opening(begins(&channel.opening, &profile.opening), decision);
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

    /// Returns the system prompt of the main agent under a decision: that of its channel, unless the request asks for
    /// an agent that has its own instructions.
    #[must_use]
    pub fn system_prompt(&self, decision: &Decision) -> Option<Arc<str>> {
        let channel = self.channels.get(&decision.channel);
        let by_channel = channel.and_then(|channel| channel.system_prompt.clone());
        let by_agent = self
            .rules_of(decision)
            .and_then(|rules| rules.instructions.clone());
        let prompt = match &decision.agent {
            Some(_) => by_agent.or(by_channel),
            None => by_channel.or(by_agent),
        };
        prompt.filter(|text| !text.is_empty())
    }

    /// Returns whether the agent that answers under a decision gets its own instructions instead of those of its
    /// channel.
    #[must_use]
    pub fn instructs_itself(&self, decision: &Decision) -> bool {
        let channel = self.channels.get(&decision.channel);
        let by_channel = channel.is_some_and(|channel| channel.system_prompt.is_some());
        decision.agent.is_some() || !by_channel
    }

    /// Returns the name of the agent that answers under a decision; `None` if the channel does not exist.
    #[must_use]
    pub fn agent_of<'a>(&'a self, decision: &'a Decision) -> Option<&'a AgentName> {
        let of_channel = || Some(&self.channels.get(&decision.channel)?.agent);
        decision.agent.as_ref().or_else(of_channel)
    }

    fn rules_of(&self, decision: &Decision) -> Option<&AgentRules> {
        self.agents.get(self.agent_of(decision)?)
    }
}

/// Returns how a run starts: as the channel says, or else as the agent says.
pub(crate) const fn begins<'a>(channel: &'a Opening, agent: &'a Opening) -> &'a Opening {
    match channel {
        Opening::Direct => agent,
        Opening::Gather { .. } => channel,
    }
}

/// Returns the opening of an agent with these tools. Without the tool that it gathers with, it starts directly.
pub(crate) fn fitting_opening(agent: &AgentSpec) -> Opening {
    match &agent.profile.opening {
        Opening::Gather { tool, .. } if agent.tools.iter().all(|it| it.name != *tool) => {
            Opening::Direct
        }
        opening => opening.clone(),
    }
}

/// Removes tool choices that require a tool which is not on offer.
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
