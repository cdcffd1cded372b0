//! Who would serve for the roles whose models do not work: as far as the checks of this one process tell.

use std::collections::BTreeSet;

use neuraxis::Role;

use super::check::{Check, Outcome};

/// Names the roles whose models failed a check, and who would serve for them in a run. Nothing, if none failed.
pub(super) fn check(roles: &BTreeSet<Role>, checks: &[Check]) -> Option<Check> {
    let failed = |role: &Role| {
        let is_its = |check: &&Check| {
            let rest = check.subject.strip_prefix(role.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(": "))
        };
        let mut own = checks.iter().filter(is_its);
        own.any(|check| check.outcome == Outcome::Failed)
    };
    let (down, up): (Vec<&Role>, Vec<&Role>) = roles.iter().partition(|role| failed(role));
    let named: Vec<&str> = down.iter().map(|role| role.as_str()).collect();
    if named.is_empty() {
        return None;
    }
    let first = Role::BUILT_IN.iter().find(|role| up.contains(role));
    let first = first.or_else(|| up.first().copied());
    let who = match first {
        Some(role) => {
            format!("in a run {role} takes over after a few attempts, where the mode lets it")
        }
        None => "no other role could take over".to_owned(),
    };
    let detail = format!("{} failed just now; {who}", named.join(", "));
    Some(Check::new("roles", "fallback", Outcome::Warning, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(of: &[(&str, Outcome)]) -> Vec<Check> {
        let checks = of
            .iter()
            .map(|(subject, outcome)| Check::new(*subject, "key", *outcome, ""));
        checks.collect()
    }

    #[test]
    fn the_roles_that_failed_are_named_with_who_serves_for_them() {
        let roles = BTreeSet::from([Role::REASONING, Role::ROUTER, Role::CODING]);
        let found = checks(&[
            ("reasoning: openai/x", Outcome::Failed),
            ("router: llama/y", Outcome::Ok),
            ("coding", Outcome::Failed),
        ]);
        let said = check(&roles, &found).unwrap();
        assert_eq!(
            said.detail,
            "coding, reasoning failed just now; in a run router takes over after a few attempts, where the mode lets it"
        );
        assert_eq!(said.outcome, Outcome::Warning);
    }

    #[test]
    fn where_all_work_or_none_does_that_is_what_is_said() {
        let roles = BTreeSet::from([Role::REASONING]);
        assert_eq!(
            check(&roles, &checks(&[("reasoning: x", Outcome::Ok)])),
            None
        );
        let none = check(&roles, &checks(&[("reasoning: x", Outcome::Failed)])).unwrap();
        assert_eq!(
            none.detail,
            "reasoning failed just now; no other role could take over"
        );
    }
}
