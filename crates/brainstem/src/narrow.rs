//! Sub-agents: none gets more than its parent has.

use neuraxis_core::{AgentSpec, Decision, Opening, Role, ToolName};

use crate::agents::{drop_impossible_choices, fitting_opening};

/// Narrows an agent that another agent starts to what the decision allows and what its parent has: its tools, roles,
/// limits, length of replies, and what may be stored. Call it for every agent that a tool of the run starts, before
/// the run starts; the root agent is built from the decision and does not need it.
///
/// Tools that the request does not offer are removed. An agent may use offered tools that its parent does not have,
/// since each call is judged separately. A role that may not serve is replaced by the decision's role, and the tighter
/// limits apply. Returns the agent with a sentence for each thing that was removed.
#[must_use]
pub fn narrow_sub_agent(
    decision: &Decision,
    parent: &AgentSpec,
    agent: AgentSpec,
) -> (AgentSpec, Vec<String>) {
    let (mut agent, mut notes) = with_offered(decision, agent);
    notes.extend(fit_roles(decision, &mut agent));
    agent.limits = agent
        .limits
        .tightest(decision.limits)
        .tightest(parent.limits);
    let lengths = [
        agent.max_output_tokens,
        decision.max_output_tokens,
        parent.max_output_tokens,
    ];
    agent.max_output_tokens = lengths.into_iter().flatten().min();
    let of_parent = parent.profile.data;
    agent.profile.data = agent.profile.data.and(decision.data).and(of_parent);
    drop_impossible_choices(&mut agent);
    agent.profile.opening = fitting_opening(&agent);
    (agent, notes)
}

/// Removes the tools that the request offers to no agent.
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

/// Removes the roles that may not serve. Returns a sentence if the agent's own role is replaced.
fn fit_roles(decision: &Decision, agent: &mut AgentSpec) -> Option<String> {
    let may_serve = |role: &Role| decision.allowed_roles.contains(role);
    let note = (!may_serve(&agent.role)).then(|| {
        let (name, wanted) = (&agent.profile.name, &agent.role);
        let role = &decision.role;
        format!("Agent {name} is served by {role}, because {wanted} may not serve.")
    });
    if note.is_some() {
        agent.role = decision.role.clone();
    }
    let roles = &mut agent.profile.roles;
    roles.first = roles.first.take().filter(may_serve);
    roles.after_calls = roles.after_calls.take().filter(may_serve);
    if let Opening::Gather { role, .. } = &mut agent.profile.opening
        && !may_serve(role)
    {
        *role = agent.role.clone();
    }
    note
}
