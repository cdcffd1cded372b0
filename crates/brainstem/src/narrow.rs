//! Sub-agents: none gets more than its parent has.

use neuraxis_core::{AgentSpec, DataPolicy, Decision, Limits, Opening, Role, ToolName};

use crate::agents::{drop_impossible_choices, fitting_opening};

/// Narrows an agent that another one starts to what the decision allows and to what its parent has: its tools, roles, limits,
/// length of replies and what may be stored. To be called for every agent that a tool of the run starts, before the run
/// begins; the root agent is made of the decision and needs none of it.
///
/// Tools that the request does not offer are taken away; of those that it does, an agent may use some that its parent is
/// not offered, since each call is judged by itself. A role that may not serve becomes the decision's own, and limits become
/// the tighter ones. The agent is returned with a sentence for each thing that was taken away.
#[must_use]
pub fn narrow_sub_agent(
    decision: &Decision,
    parent: &AgentSpec,
    agent: AgentSpec,
) -> (AgentSpec, Vec<String>) {
    let by_decision = Bounds {
        roles: &decision.allowed_roles,
        role: &decision.role,
        limits: decision.limits,
        max_output_tokens: decision.max_output_tokens,
        data: decision.data,
    };
    let (agent, mut notes) = with_offered(decision, agent);
    let (agent, more) = by_decision.narrow(agent);
    notes.extend(more);
    let by_parent = Bounds {
        roles: &decision.allowed_roles,
        role: &parent.role,
        limits: parent.limits,
        max_output_tokens: parent.max_output_tokens,
        data: parent.profile.data,
    };
    let (mut agent, more) = by_parent.narrow(agent);
    notes.extend(more);
    drop_impossible_choices(&mut agent);
    agent.profile.opening = fitting_opening(&agent);
    (agent, notes)
}

/// Takes the tools away that the request does not offer to any agent.
fn with_offered(decision: &Decision, mut agent: AgentSpec) -> (AgentSpec, Vec<String>) {
    let tools = agent.tools.iter().cloned();
    let (kept, gone): (Vec<_>, Vec<_>) = tools.partition(|tool| decision.offers(&tool.name));
    if gone.is_empty() {
        return (agent, Vec::new());
    }
    let names: Vec<ToolName> = gone.into_iter().map(|tool| tool.name).collect();
    let note = format!(
        "Agent {} does not get {}, which the request does not offer.",
        agent.profile.name,
        crate::names::Listed(&names)
    );
    agent.tools = kept.into();
    (agent, vec![note])
}

struct Bounds<'a> {
    roles: &'a [Role],
    role: &'a Role,
    limits: Limits,
    max_output_tokens: Option<u32>,
    data: DataPolicy,
}

impl Bounds<'_> {
    fn narrow(&self, mut agent: AgentSpec) -> (AgentSpec, Vec<String>) {
        let mut notes = Vec::new();
        if !self.roles.contains(&agent.role) {
            let (name, wanted) = (&agent.profile.name, &agent.role);
            notes.push(format!(
                "Agent {name} is served by {}, because {wanted} may not serve.",
                self.role
            ));
            agent.role = self.role.clone();
        }
        agent.profile.roles.first = self.allowed(agent.profile.roles.first);
        agent.profile.roles.after_calls = self.allowed(agent.profile.roles.after_calls);
        if let Opening::Gather { role, .. } = &mut agent.profile.opening
            && !self.roles.contains(role)
        {
            *role = agent.role.clone();
        }
        agent.limits = agent.limits.tightest(self.limits);
        agent.max_output_tokens = match (agent.max_output_tokens, self.max_output_tokens) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let data = &mut agent.profile.data;
        data.text &= self.data.text;
        data.tool_calls &= self.data.tool_calls;
        data.tool_results &= self.data.tool_results;
        data.reasoning &= self.data.reasoning;
        (agent, notes)
    }

    fn allowed(&self, role: Option<Role>) -> Option<Role> {
        role.filter(|role| self.roles.contains(role))
    }
}
