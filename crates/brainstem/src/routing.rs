//! What happens to a decision after it was made: a model chose the role, or it did not go well.

use neuraxis_core::{Decision, Role};

/// Reads what the model said that a decision has asked about the role, and settles the decision: the role it named, if it
/// named one of the choices and nothing else; otherwise (`None` stands for a call that failed) the decision's own.
#[must_use]
pub fn route(mut decision: Decision, reply: Option<&str>) -> Decision {
    let Some(routing) = decision.routing.take() else {
        return decision;
    };
    let said = reply.map(|reply| {
        reply
            .trim()
            .trim_matches(['"', '\'', '`', '.', '*'])
            .to_lowercase()
    });
    let chosen = said.and_then(|said| {
        routing
            .choices
            .into_iter()
            .find(|role| role.as_str() == said)
    });
    let asked = &routing.asks;
    match chosen {
        Some(role) if role == decision.role => {
            decision
                .reasons
                .push(format!("Role {asked} was asked and agrees: {role} serves."));
        }
        Some(role) => {
            decision
                .reasons
                .push(format!("Role {asked} was asked and chose role {role}."));
            serve(&mut decision, role);
        }
        None => {
            let role = &decision.role;
            decision.reasons.push(format!(
                "Role {asked} was asked and named no role; the rules' choice, {role}, serves."
            ));
        }
    }
    decision
}

/// What comes of failures in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Escalated {
    /// Nothing yet.
    No,
    /// A larger role takes over.
    Role(Role),
    /// A person is asked.
    Person,
}

/// Tells who takes over after so many failures in a row (failed turns, or drafts that the self-check turned down): first
/// the larger role, then after as many failures again a person.
#[must_use]
pub fn escalate(decision: &Decision, failures: u32) -> Escalated {
    let Some(escalation) = &decision.escalation else {
        return Escalated::No;
    };
    let steps = failures / escalation.after_failures.max(1);
    match (steps, &escalation.role) {
        (0, _) => Escalated::No,
        (1, Some(role)) => Escalated::Role(role.clone()),
        (_, None) | (2.., _) if escalation.person => Escalated::Person,
        (_, Some(role)) => Escalated::Role(role.clone()),
        (_, None) => Escalated::No,
    }
}

/// What a self-check said about a draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// It stands.
    Accepted,
    /// This takes its place.
    Corrected(String),
}

/// Reads what the model said that checked a draft. Nothing, or a call that failed (`None`), lets the draft stand: a check
/// never leaves the user without an answer.
#[must_use]
pub fn read_check(reply: Option<&str>) -> Checked {
    match reply.map(str::trim) {
        None | Some("") => Checked::Accepted,
        Some(said)
            if said
                .trim_matches(['"', '\'', '`', '.', '*'])
                .eq_ignore_ascii_case("accept") =>
        {
            Checked::Accepted
        }
        Some(corrected) => Checked::Corrected(corrected.to_owned()),
    }
}

fn serve(decision: &mut Decision, role: Role) {
    decision.allowed_roles.retain(|other| *other != role);
    decision.allowed_roles.insert(0, role.clone());
    if let Some(check) = &mut decision.self_check {
        check.role = role.clone();
    }
    if let Some(escalation) = &mut decision.escalation {
        escalation.role = escalation.role.take().filter(|larger| *larger != role);
    }
    decision.role = role;
}
