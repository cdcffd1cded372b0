//! Which roles would serve instead of those whose models do not work, according to the checks of this process.

use neuraxis::Role;

use super::check::{Check, Outcome};

/// Lists the roles whose models failed a check, and which roles would serve instead in a run. `None` if none failed.
pub(super) fn check(models: &[(Role, Vec<Check>)]) -> Option<Check> {
    let mut down = Vec::new();
    let mut up = Vec::new();
    for (role, checks) in models {
        match checks.iter().any(|it| it.outcome == Outcome::Failed) {
            true => down.push(role.as_str()),
            false => up.push(role),
        }
    }
    if down.is_empty() {
        return None;
    }
    let first = Role::BUILT_IN.iter().find(|role| up.contains(role));
    let first = first.or_else(|| up.first().copied());
    let who = match first {
        Some(role) => {
            format!("in a run, {role} takes over after a few attempts if the mode allows it")
        }
        None => "no other role could take over".to_owned(),
    };
    let detail = format!("{} failed just now; {who}", down.join(", "));
    Some(Check::new("roles", "fallback", Outcome::Warning, detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(of: &[(Role, Outcome)]) -> Vec<(Role, Vec<Check>)> {
        let models = of.iter().map(|(role, outcome)| {
            let checks = [Outcome::Ok, *outcome];
            let checks = checks.map(|outcome| Check::new("model", "key", outcome, ""));
            (role.clone(), checks.to_vec())
        });
        models.collect()
    }

    #[test]
    fn failed_roles_are_named_with_their_fallback() {
        let models = models(&[
            (Role::CODING, Outcome::Failed),
            (Role::REASONING, Outcome::Failed),
            (Role::ROUTER, Outcome::Ok),
        ]);
        let said = check(&models).unwrap();
        assert_eq!(
            said.detail,
            "coding, reasoning failed just now; in a run, router takes over after a few attempts if the mode allows it"
        );
        assert_eq!(said.outcome, Outcome::Warning);
    }

    #[test]
    fn no_fallback_is_reported_when_all_roles_work_or_none_does() {
        assert_eq!(check(&models(&[(Role::REASONING, Outcome::Ok)])), None);
        let none = check(&models(&[(Role::REASONING, Outcome::Failed)])).unwrap();
        assert_eq!(
            none.detail,
            "reasoning failed just now; no other role could take over"
        );
    }
}
