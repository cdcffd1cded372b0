//! What a policy allows for a tool before any request: whether any request could run it at all.

use neuraxis_core::{Channel, Mode, ToolSpec};

use crate::config::Permission;
use crate::policy::Policy;
use crate::rules::{ModeRules, Rule};

/// The best possible outcome of calls of a tool, ordered from worst to best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outlook {
    /// No channel offers it.
    NotOffered,
    /// It is denied wherever it is offered.
    Denied,
    /// The user is asked about each call.
    NeedsApproval,
    /// Some calls run without asking.
    Runs,
}

/// Which rules of a policy to consider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleFilter {
    All,
    /// Only those without conditions.
    Unconditional,
}

impl Policy {
    /// Returns the best possible outcome of a call of a tool in any mode and channel, with any arguments.
    #[must_use]
    pub fn outlook(&self, tool: &ToolSpec) -> Outlook {
        let modes = self.modes.keys().map(|mode| self.outlook_in(mode, tool));
        modes.max().unwrap_or(Outlook::NotOffered)
    }

    /// Like [`outlook`](Self::outlook), but in one mode.
    #[must_use]
    pub fn outlook_in(&self, mode: &Mode, tool: &ToolSpec) -> Outlook {
        self.outlook_by(RuleFilter::All, mode, tool)
    }

    /// Like [`outlook_in`](Self::outlook_in), but only for calls that match no rule with conditions.
    #[must_use]
    pub fn usual_outlook_in(&self, mode: &Mode, tool: &ToolSpec) -> Outlook {
        self.outlook_by(RuleFilter::Unconditional, mode, tool)
    }

    fn outlook_by(&self, filter: RuleFilter, mode: &Mode, tool: &ToolSpec) -> Outlook {
        let Some(rules) = self.modes.get(mode) else {
            return Outlook::NotOffered;
        };
        let channels = self.channels.iter().filter(|(_, channel)| {
            let allowed = channel.allowed_modes.as_ref();
            let offer = channel.offer(mode);
            allowed.is_none_or(|modes| modes.contains(mode))
                && (offer.tools.matches(&tool.name) || !self.withholds(offer.unlisted, &tool.name))
        });
        let outlooks =
            channels.map(
                |(channel, _)| match self.mildest(filter, (mode, rules), channel, tool) {
                    Permission::Allow => Outlook::Runs,
                    Permission::Ask => Outlook::NeedsApproval,
                    Permission::Deny => Outlook::Denied,
                },
            );
        outlooks.max().unwrap_or(Outlook::NotOffered)
    }

    /// Returns the mildest answer that a call can get. A rule without conditions matches all calls. For a rule with
    /// conditions, there are calls that match it and calls that do not.
    fn mildest(
        &self,
        filter: RuleFilter,
        (mode, mode_rules): (&Mode, &ModeRules),
        channel: &Channel,
        tool: &ToolSpec,
    ) -> Permission {
        let by_mode = mode_rules.tools.answer(tool);
        if by_mode == Permission::Deny {
            return Permission::Deny;
        }
        let rules = self.rules.about(tool, mode, channel);
        let (unconditional, conditional): (Vec<&Rule>, Vec<&Rule>) = rules
            .into_iter()
            .partition(|rule| rule.conditions.is_empty());
        let unconditional = unconditional.iter().map(|rule| rule.answer).max();
        let conditional = conditional.iter().filter(|_| filter == RuleFilter::All);
        let conditional = conditional.map(|rule| rule.answer).min();
        let by_rules = match unconditional {
            Some(unconditional) => unconditional,
            None => conditional.map_or(by_mode, |mildest| mildest.min(by_mode)),
        };
        self.floor(mode, tool)
            .map_or(by_rules, |floor| floor.max(by_rules))
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::ToolClass;

    use super::*;
    use crate::config::PolicyConfig;

    fn tool(class: ToolClass) -> ToolSpec {
        ToolSpec::new("refund".parse().unwrap(), "Pays money back.").class(class)
    }

    fn outlook(policy: &str, class: ToolClass) -> Outlook {
        let config = PolicyConfig::from_toml(policy).unwrap();
        Policy::layered(config).unwrap().outlook(&tool(class))
    }

    #[test]
    fn the_most_permissive_mode_and_channel_determines_the_outlook() {
        assert_eq!(outlook("", ToolClass::ReadOnly), Outlook::Runs);
        assert_eq!(outlook("", ToolClass::Irreversible), Outlook::NeedsApproval);
        let idempotent = tool(ToolClass::Idempotent);
        let policy = Policy::built_in();
        let of = |mode| policy.outlook_in(&mode, &idempotent);
        assert_eq!(of(Mode::CONSERVATIVE), Outlook::Denied);
        assert_eq!(of(Mode::MODERATE), Outlook::NeedsApproval);
        assert_eq!(of(Mode::EXPLORATORY), Outlook::Runs);
        assert_eq!(of(Mode::new("no-such-mode")), Outlook::NotOffered);
    }

    #[test]
    fn a_rule_for_some_calls_affects_only_those_and_one_for_all_affects_every_call() {
        let rule = |rest: &str| format!("[rules.r]\ntools = ['refund']\n{rest}");
        let irreversible = |rest| outlook(&rule(rest), ToolClass::Irreversible);
        assert_eq!(irreversible("answer = 'allow'"), Outlook::Runs);
        assert_eq!(
            irreversible("answer = 'allow'\npaths = ['a/**']"),
            Outlook::Runs
        );
        let config = rule("answer = 'allow'\npaths = ['a/**']");
        let policy = Policy::layered(PolicyConfig::from_toml(&config).unwrap()).unwrap();
        let usual = policy.usual_outlook_in(&Mode::MODERATE, &tool(ToolClass::Irreversible));
        assert_eq!(usual, Outlook::NeedsApproval);
        assert_eq!(irreversible("answer = 'deny'"), Outlook::Denied);
        assert_eq!(
            irreversible("answer = 'deny'\npaths = ['a/**']"),
            Outlook::NeedsApproval
        );
    }

    #[test]
    fn a_tool_withheld_on_every_channel_is_not_offered() {
        let withheld = "[channels.chat]\nunlisted_tools = 'withheld'\n\
                        [channels.code_task]\nunlisted_tools = 'withheld'\n\
                        [channels.system_health]\nunlisted_tools = 'withheld'\n\
                        [channels.deep_research]\nunlisted_tools = 'withheld'\n";
        assert_eq!(outlook(withheld, ToolClass::ReadOnly), Outlook::NotOffered);
    }
}
