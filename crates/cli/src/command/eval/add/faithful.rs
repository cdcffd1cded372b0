//! How near a case comes to the run that it is made of: the role that it has to name, and what it cannot hold.

use std::sync::Arc;

use neuraxis::brainstem::Request;
use neuraxis::core::log::RunView;
use neuraxis::core::{Decision, Record, Role, Transcript};
use neuraxis::evals::Case;
use neuraxis_app::{Config, holds_instructions};

/// Returns the role that served, where policy would choose another one for the case, and lets that one serve, too.
pub(super) fn named_role(case: &Case, decision: &Decision, config: &Config) -> Option<Role> {
    let roles: Vec<Role> = config.models().keys().cloned().collect();
    let mut request = Request::new(&case.mode, &case.channel, &case.message).with_roles(&roles);
    request.agent = case.agent.as_ref();
    // What policy refuses now is told when the case is run.
    let chosen = config.policy().evaluate_request(&request).ok()?;
    let is_same =
        chosen.role == decision.role && chosen.routing.is_some() == decision.routing.is_some();
    let is_named = !is_same && chosen.allowed_roles.contains(&decision.role);
    is_named.then(|| decision.role.clone())
}

/// Names what models read in the run that the case does not hold, for a person; nothing if it asks the very same.
pub(super) fn left_out(
    history: &Transcript,
    records: &[Arc<Record>],
    view: &RunView,
) -> Option<String> {
    let parts = Case::left_out(history, records);
    let mut parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
    let told = view.spec().and_then(|spec| spec.root.system_prompt.clone());
    if told.is_some_and(|prompt| holds_instructions(&prompt)) {
        parts.push("what the project's own files told the agent (AGENTS.md)".to_owned());
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}
