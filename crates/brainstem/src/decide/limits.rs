//! Chooses the limits of a request: the tightest value that any source sets for each.

use std::fmt::Write as _;

use neuraxis_core::{AgentLimits, Limits, duration_text};

use crate::config::PartialLimits;

/// The kind of a [`Source`] that is an agent.
pub(super) const AGENT: &str = "agent";

/// A source of limits.
pub(super) struct Source<'a> {
    pub(super) kind: &'static str,
    pub(super) name: &'a str,
    pub(super) limits: PartialLimits,
}

/// Returns the tightest limits and adds a reason for each. If no source limits the turns or the time of a call, the
/// loop's default applies, so that a policy cannot forget to bound a run.
pub(super) fn tightest(sources: &[Source<'_>], reasons: &mut Vec<String>) -> Limits {
    let mut choice = Choice { sources, reasons };
    let default = Limits::default();
    let turns = |turns: u32| format!("At most {turns} turns");
    let timeout = |timeout| format!("A tool call may take {}", duration_text::text(&timeout));
    let set_timeout = |limits: &PartialLimits| limits.tool_timeout;
    // A configured time limit applies to every tool; the loop's default applies only to tools that set none.
    let max_tool_timeout = sources
        .iter()
        .filter_map(|source| set_timeout(&source.limits))
        .min();
    Limits {
        max_turns: choice
            .set(|limits| limits.max_turns, turns)
            .or_else(|| default.max_turns.map(|value| choice.default(value, turns))),
        max_tool_calls: choice.set(
            |limits| limits.max_tool_calls,
            |calls| format!("At most {calls} tool calls"),
        ),
        max_tokens: choice.set(
            |limits| limits.max_tokens,
            |tokens| format!("At most {tokens} tokens in total"),
        ),
        max_cost: choice.set(
            |limits| limits.max_cost,
            |cost| format!("At most {} US dollars", cost.dollars()),
        ),
        deadline: choice.set(
            |limits| limits.deadline,
            |deadline| format!("At most {} of active time", duration_text::text(&deadline)),
        ),
        tool_timeout: choice
            .set(set_timeout, timeout)
            .unwrap_or_else(|| choice.default(default.tool_timeout, timeout)),
        max_tool_timeout,
    }
}

/// Returns the limits on the number and depth of sub-agents: the lowest value that any source sets. The limit of the
/// agent that answers applies only if it is lower than the others.
pub(super) fn agents(sources: &[Source<'_>], reasons: &mut Vec<String>) -> AgentLimits {
    let default = AgentLimits::default();
    let mut choice = Choice { sources, reasons };
    AgentLimits {
        depth: choice.agents(
            |limits| limits.max_agent_depth,
            default.depth,
            |depth| format!("Sub-agents are nested at most {depth} deep"),
        ),
        total: choice.agents(
            |limits| limits.max_agents,
            default.total,
            |total| format!("At most {total} sub-agents are started"),
        ),
    }
}

struct Choice<'a> {
    sources: &'a [Source<'a>],
    reasons: &'a mut Vec<String>,
}

impl Choice<'_> {
    fn set<T: Ord + Copy>(
        &mut self,
        limit: impl Fn(&PartialLimits) -> Option<T>,
        sentence: impl Fn(T) -> String,
    ) -> Option<T> {
        let values = self
            .sources
            .iter()
            .filter_map(|source| Some((limit(&source.limits)?, source)));
        let (value, source) = values.min_by_key(|(value, _)| *value)?;
        let (kind, name) = (source.kind, source.name);
        let mut reason = sentence(value);
        // Writing to a string cannot fail.
        let _ = write!(reason, ", set by {kind} {name}.");
        self.reasons.push(reason);
        Some(value)
    }

    fn agents(
        &mut self,
        limit: impl Fn(&PartialLimits) -> Option<u32>,
        default: u32,
        sentence: impl Fn(u32) -> String,
    ) -> u32 {
        let governing = self.sources.iter().filter(|source| source.kind != AGENT);
        let most = governing.filter_map(|source| limit(&source.limits)).min();
        let most = most.unwrap_or(default);
        let within = |limits: &PartialLimits| limit(limits).filter(|value| *value <= most);
        self.set(within, sentence).unwrap_or(most)
    }

    fn default<T: Copy>(&mut self, value: T, sentence: impl Fn(T) -> String) -> T {
        self.reasons
            .push(format!("{}, the default.", sentence(value)));
        value
    }
}
