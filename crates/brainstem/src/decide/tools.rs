//! Chooses the tools that a request is offered.

use std::fmt;

use neuraxis_core::{ToolName, ToolSpec};

use crate::config::{Permission, UnlistedTools};
use crate::names::Listed;
use crate::policy::Policy;
use crate::request::Request;
use crate::rules::{ChannelRules, ModeRules};
use crate::trust::could_be_abused;

/// The most names that a reason lists: reasons are recorded with every run, and tools can be thousands.
const MAX_LISTED: usize = 12;

/// The tools on offer, in the order in which they were given, and why.
pub(super) struct ToolChoice {
    pub(super) tools: Vec<ToolName>,
    pub(super) reasons: Vec<String>,
}

/// The given tools, by what becomes of them.
#[derive(Default)]
struct Sorted<'a> {
    run: Vec<&'a ToolName>,
    ask: Vec<&'a ToolName>,
    denied: Vec<&'a ToolName>,
    not_offered: Vec<&'a ToolName>,
    unlisted: Vec<&'a ToolName>,
}

impl Policy {
    pub(super) fn offer_tools(
        &self,
        mode: &ModeRules,
        channel: &ChannelRules,
        request: &Request<'_>,
    ) -> ToolChoice {
        let offer = channel.offer(request.mode);
        let (mut sorted, mut tools) = (Sorted::default(), Vec::new());
        for tool in request.tools {
            let name = &tool.name;
            let listed = offer.tools.matches(name);
            let withheld =
                || offer.unlisted == UnlistedTools::Withheld || self.listed.matches(name);
            if !listed && withheld() {
                sorted.not_offered.push(name);
                continue;
            }
            match self.standing(mode, tool, request) {
                Permission::Allow => sorted.run.push(name),
                Permission::Ask => sorted.ask.push(name),
                Permission::Deny => {
                    sorted.denied.push(name);
                    continue;
                }
            }
            if !listed {
                sorted.unlisted.push(name);
            }
            tools.push(name.clone());
        }
        let reasons = sorted.reasons(request);
        ToolChoice { tools, reasons }
    }
}

impl Policy {
    /// Returns what calls of a tool get whatever their arguments are.
    fn standing(&self, mode: &ModeRules, tool: &ToolSpec, request: &Request<'_>) -> Permission {
        let by_mode = mode.tools.answer(tool);
        if by_mode == Permission::Deny {
            return Permission::Deny;
        }
        let rules = self.rules.about(tool, request.mode, request.channel);
        let blanket = rules.iter().filter(|rule| rule.conditions.is_empty());
        let by_rules = blanket.map(|rule| rule.answer).max();
        let floors = self
            .floors
            .iter()
            .filter(|floor| floor.mode == *request.mode);
        let by_floors = floors.map(|floor| floor.answers.answer(tool)).max();
        let tainted = request.taint.is_some_and(|taint| !taint.is_clean()) && could_be_abused(tool);
        let after_untrusted = tainted.then_some(mode.after_untrusted);
        let answers = [
            Some(by_rules.unwrap_or(by_mode)),
            by_floors,
            after_untrusted,
        ];
        answers
            .into_iter()
            .flatten()
            .max()
            .unwrap_or(Permission::Deny)
    }
}

impl Sorted<'_> {
    fn reasons(&self, request: &Request<'_>) -> Vec<String> {
        let (mode, channel) = (request.mode, request.channel);
        let mut reasons = Vec::new();
        if self.run.is_empty() && self.ask.is_empty() {
            reasons.push("No tools are on offer.".to_owned());
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
            format_args!("Mode {mode} asks a person before these tools run"),
        );
        explain(
            &self.denied,
            format_args!("Mode {mode} denies these tools, so they are not on offer"),
        );
        explain(
            &self.unlisted,
            format_args!("No channel names these tools, so channel {channel} has them too"),
        );
        explain(
            &self.not_offered,
            format_args!("Channel {channel} does not offer these tools in mode {mode}"),
        );
        reasons
    }
}

/// How many names are left out of a list.
struct More(usize);

impl fmt::Display for More {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
