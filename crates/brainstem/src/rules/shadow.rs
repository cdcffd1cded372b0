//! Finds rules that allow what another rule of the same source never lets through. If the rules are from different
//! sources, one tightens the other, which is not a mistake.

use super::rule::Rule;
use crate::config::Permission;
use crate::error::PolicyError;

/// Refuses a rule that allows calls of tools for which another rule always asks or denies.
pub(crate) fn check(rules: &[(Rule, Vec<String>)]) -> Result<(), PolicyError> {
    let blanket: Vec<_> = rules
        .iter()
        .filter(|(rule, _)| rule.answer > Permission::Allow && is_blanket(rule))
        .collect();
    for (rule, tools) in rules
        .iter()
        .filter(|(rule, _)| rule.answer == Permission::Allow)
    {
        let of_source = |above: &Rule| above.at.source == rule.at.source;
        let above = blanket
            .iter()
            .find(|(above, patterns)| of_source(above) && covers(patterns, tools));
        if let Some((above, _)) = above {
            return Err(PolicyError::Shadowed {
                at: format!("rules.{}", rule.at.name),
                other: above.at.to_string(),
                answer: if above.answer == Permission::Deny {
                    "deny"
                } else {
                    "ask"
                },
            });
        }
    }
    Ok(())
}

/// Returns whether a rule matches all calls of its tools.
fn is_blanket(rule: &Rule) -> bool {
    let Rule {
        at: _,
        answer: _,
        remember: _,
        reason: _,
        class,
        destructive,
        open_world,
        modes,
        channels,
        access: _,
        conditions,
    } = rule;
    class.is_none()
        && destructive.is_none()
        && open_world.is_none()
        && modes.is_none()
        && channels.is_none()
        && conditions.is_empty()
}

fn covers(above: &[String], tools: &[String]) -> bool {
    tools.iter().all(|tool| {
        above
            .iter()
            .any(|pattern| pattern == "*" || pattern == tool)
    })
}
