//! Chooses the tools that a request is offered.

use std::fmt;

use neuraxis_core::{AgentName, Channel, Mode, READ_OUTPUT, RuleRef, ToolKind, ToolName, ToolSpec};

use crate::config::{Permission, UnlistedTools};
use crate::names::Listed;
use crate::policy::Policy;
use crate::request::Request;
use crate::rules::{ChannelRules, ModeRules, Rule};
use crate::trust::could_be_abused;

/// The maximum number of names that a reason lists: reasons are recorded with every run, and there can be thousands of
/// tools.
const MAX_LISTED: usize = 12;

/// The tools on offer, in the order in which they were given, and the reasons.
#[derive(Default)]
pub(super) struct ToolChoice {
    pub(super) tools: Vec<ToolName>,
    /// The additional tools that sub-agents may use.
    pub(super) sub_agent_tools: Vec<ToolName>,
    pub(super) reasons: Vec<String>,
}

/// The given tools, sorted by outcome.
#[derive(Default)]
struct Sorted<'a> {
    run: Vec<&'a ToolName>,
    ask: Vec<&'a ToolName>,
    denied: Vec<&'a ToolName>,
    /// Tools that a rule denies regardless of their arguments, grouped by rule.
    denied_by: Vec<(&'a RuleRef, Vec<&'a ToolName>)>,
    not_offered: Vec<&'a ToolName>,
    unlisted: Vec<&'a ToolName>,
    not_used: Vec<&'a ToolName>,
    of_sub_agents: Vec<&'a ToolName>,
}

impl Policy {
    pub(super) fn offer_tools(
        &self,
        mode: &ModeRules,
        channel: &ChannelRules,
        agent: &AgentName,
        request: &Request<'_>,
    ) -> ToolChoice {
        let offer = channel.offer(request.mode);
        let below = self.sub_agents(agent);
        let (mut sorted, mut choice) = (Sorted::default(), ToolChoice::default());
        let (readers, tools): (Vec<_>, Vec<_>) = request.tools.iter().partition(|it| is_reader(it));
        // Whether any offered tool may return long results.
        let (mut is_needed, mut is_needed_below) = (false, false);
        for tool in tools {
            let name = &tool.name;
            let comes_along = |agent: &AgentName| self.starts_named_agent(agent, tool);
            let of_sub_agents = below.values().any(|below| self.uses(below, tool));
            let belongs_to_other_agent = self.belongs_to_other_agent(agent, tool);
            if belongs_to_other_agent && !of_sub_agents {
                continue;
            }
            let listed =
                offer.tools.matches(name) || comes_along(agent) || below.values().any(comes_along);
            if !listed && self.withholds(offer.unlisted, name) {
                sorted.not_offered.push(name);
                continue;
            }
            let permission = self.blanket_permission(mode, tool, request);
            if permission == Permission::Deny {
                sorted.deny(name, self.denying_rule(mode, tool, request));
                continue;
            }
            if belongs_to_other_agent || !self.uses(agent, tool) {
                if of_sub_agents {
                    is_needed_below |= tool.kind == ToolKind::Server;
                    sorted.of_sub_agents.push(name);
                    choice.sub_agent_tools.push(name.clone());
                } else {
                    sorted.not_used.push(name);
                }
                continue;
            }
            match permission {
                Permission::Ask => sorted.ask.push(name),
                Permission::Allow | Permission::Deny => sorted.run.push(name),
            }
            if !listed {
                sorted.unlisted.push(name);
            }
            is_needed |= tool.kind == ToolKind::Server;
            choice.tools.push(name.clone());
        }
        for reader in readers {
            let name = &reader.name;
            match self.blanket_permission(mode, reader, request) {
                Permission::Deny => {
                    sorted.deny(name, self.denying_rule(mode, reader, request));
                }
                _ if !is_needed && is_needed_below => {
                    sorted.of_sub_agents.push(name);
                    choice.sub_agent_tools.push(name.clone());
                }
                _ if !is_needed => {}
                permission => {
                    match permission {
                        Permission::Ask => sorted.ask.push(name),
                        Permission::Allow | Permission::Deny => sorted.run.push(name),
                    }
                    choice.tools.push(name.clone());
                }
            }
        }
        choice.reasons = sorted.reasons(agent, request);
        choice
    }
}

/// Returns whether a tool is the one that reads long results. It accompanies every tool that the engine runs, even if
/// no channel or agent names it: it reads only what calls of those tools returned.
pub(crate) fn is_reader(tool: &ToolSpec) -> bool {
    tool.name.as_str() == READ_OUTPUT
}

impl Policy {
    /// Returns whether a channel with this setting withholds a tool that it does not list.
    pub(crate) fn withholds(&self, unlisted: UnlistedTools, tool: &ToolName) -> bool {
        unlisted == UnlistedTools::Withheld || self.listed.matches(tool)
    }

    /// Returns the first rule that denies a tool regardless of its arguments.
    pub(crate) fn rule_denying(
        &self,
        tool: &ToolSpec,
        mode: &Mode,
        channel: &Channel,
    ) -> Option<&Rule> {
        let rules = self.rules.about(tool, mode, channel);
        let mut blanket = rules.into_iter().filter(|rule| rule.conditions.is_empty());
        blanket.find(|rule| rule.answer == Permission::Deny)
    }

    /// Returns the rule that denies a tool which its mode does not deny.
    fn denying_rule(
        &self,
        mode: &ModeRules,
        tool: &ToolSpec,
        request: &Request<'_>,
    ) -> Option<&RuleRef> {
        if mode.tools.answer(tool) == Permission::Deny {
            return None;
        }
        let rule = self.rule_denying(tool, request.mode, request.channel)?;
        Some(&rule.at)
    }

    /// Returns what calls of a tool get regardless of their arguments.
    fn blanket_permission(
        &self,
        mode: &ModeRules,
        tool: &ToolSpec,
        request: &Request<'_>,
    ) -> Permission {
        let by_mode = mode.tools.answer(tool);
        if by_mode == Permission::Deny {
            return Permission::Deny;
        }
        let rules = self.rules.about(tool, request.mode, request.channel);
        let blanket = rules.iter().filter(|rule| rule.conditions.is_empty());
        let by_rules = blanket.map(|rule| rule.answer).max();
        let tainted = request.taint.is_some_and(|taint| !taint.is_clean()) && could_be_abused(tool);
        let after_untrusted = tainted.then_some(mode.after_untrusted);
        let answers = [
            Some(by_rules.unwrap_or(by_mode)),
            self.floor(request.mode, tool),
            after_untrusted,
        ];
        answers
            .into_iter()
            .flatten()
            .max()
            .unwrap_or(Permission::Deny)
    }
}

impl<'a> Sorted<'a> {
    fn deny(&mut self, name: &'a ToolName, rule: Option<&'a RuleRef>) {
        let Some(rule) = rule else {
            self.denied.push(name);
            return;
        };
        match self.denied_by.iter_mut().find(|(known, _)| *known == rule) {
            Some((_, names)) => names.push(name),
            None => self.denied_by.push((rule, vec![name])),
        }
    }

    fn reasons(&self, agent: &AgentName, request: &Request<'_>) -> Vec<String> {
        let (mode, channel) = (request.mode, request.channel);
        let mut reasons = Vec::new();
        if self.run.is_empty() && self.ask.is_empty() {
            reasons.push("No tools are offered.".to_owned());
        }
        let mut explain = |names: &[&ToolName], sentence: fmt::Arguments<'_>| {
            if !names.is_empty() {
                let shown = names.get(..MAX_LISTED).unwrap_or(names);
                let more = More(names.len() - shown.len());
                reasons.push(format!("{sentence}: {}{more}.", Listed(shown)));
            }
        };
        explain(
            &self.run,
            format_args!("Mode {mode} lets these tools run without asking"),
        );
        explain(
            &self.ask,
            format_args!("Mode {mode} asks before these tools run"),
        );
        explain(
            &self.denied,
            format_args!("Mode {mode} denies these tools, so they are not offered"),
        );
        for (rule, names) in &self.denied_by {
            explain(
                names,
                format_args!("Rule {rule} denies these tools, so they are not offered"),
            );
        }
        explain(
            &self.unlisted,
            format_args!("No channel names these tools, so channel {channel} has them too"),
        );
        explain(
            &self.not_offered,
            format_args!("Channel {channel} does not offer these tools in mode {mode}"),
        );
        explain(
            &self.not_used,
            format_args!("Agent {agent} does not use these tools"),
        );
        explain(
            &self.of_sub_agents,
            format_args!("Agent {agent} does not use these tools, but agents that it starts may"),
        );
        reasons
    }
}

/// The number of names left out of a list.
struct More(usize);

impl fmt::Display for More {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
