//! Budgets as one tree (loop rule 10): what an agent uses counts for every agent above it, and each keeps back enough
//! for one last answer and its one retry.

use serde::{Deserialize, Serialize};

use crate::finish::BudgetKind;
use crate::ids::{AgentId, Role};
use crate::limits::{Limits, MicroUsd};
use crate::run::RunTree;
use crate::run::agent::{Agent, Phase};
use crate::usage::Usage;

/// How many model calls a last answer may take: itself and its retry without tools (loop rule 6).
const LAST_ANSWER_CALLS: u64 = 2;

/// What an agent used of its budget, its sub-agents included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Spent {
    pub(super) tool_calls: u32,
    pub(super) tokens: u64,
    pub(super) cost: u64,
    /// What its last model call cost: what the next one is taken to cost.
    pub(super) last_cost: u64,
}

impl RunTree {
    /// Counts what an attempt of a model call used, for the agent and those above it.
    pub(super) fn charge(
        &mut self,
        id: AgentId,
        role: &Role,
        usage: Usage,
        cost: Option<MicroUsd>,
    ) {
        let known = cost;
        let cost = cost.unwrap_or_default().0;
        self.each_on_path(id, |agent| {
            agent.spent.tokens = agent.spent.tokens.saturating_add(used(&usage));
            agent.spent.cost = agent.spent.cost.saturating_add(cost);
            if agent.id == id {
                agent.usage.add(role, usage);
                // An attempt of which nobody says what it cost tells nothing of the next one.
                agent.spent.last_cost = known.map_or(agent.spent.last_cost, |cost| cost.0);
            } else {
                agent.usage_below.add(role, usage);
            }
        });
    }

    /// Counts a tool call for the agent and those above it (loop rule 7), unless a limit of one of them is reached.
    pub(super) fn admit_tool_call(&mut self, id: AgentId) -> bool {
        if self.is_out_of_tool_calls(id) {
            return false;
        }
        self.each_on_path(id, |agent| {
            agent.spent.tool_calls = agent.spent.tool_calls.saturating_add(1);
        });
        true
    }

    pub(super) fn is_out_of_tool_calls(&self, id: AgentId) -> bool {
        self.path(id).any(|agent| {
            let most = self.agent_spec(agent.id).limits.max_tool_calls;
            most.is_some_and(|most| agent.spent.tool_calls >= most)
        })
    }

    /// Returns the budget that one more turn would break into: the agent's own or that of one above it, each of which
    /// keeps back what the last answers of all agents at work below it take.
    pub(super) fn short_of(&self, id: AgentId) -> Option<BudgetKind> {
        self.short_of_calls(id, 1)
    }

    /// As [`short_of`](Self::short_of), for several model calls as large as the next.
    pub(super) fn short_of_calls(&self, id: AgentId, calls: u64) -> Option<BudgetKind> {
        let bounded = |limits: &Limits| limits.max_tokens.is_some() || limits.max_cost.is_some();
        self.path(id)
            .filter(|agent| bounded(&self.agent_spec(agent.id).limits))
            .find_map(|agent| self.would_break_into(agent, id, calls))
    }

    fn would_break_into(&self, above: &Agent, id: AgentId, calls: u64) -> Option<BudgetKind> {
        let limits = &self.agent_spec(above.id).limits;
        let next = self.agent(id)?;
        let kept_back = |reserve: &dyn Fn(&Agent) -> u64| {
            // The agent itself is between two phases: as yet it is not at work, and about to be.
            let is_at_work = |agent: &Agent| !matches!(agent.phase, Phase::Ended | Phase::Queued);
            let at_work = self
                .agents
                .iter()
                .filter(|agent| agent.id == id || is_at_work(agent))
                .filter(|agent| self.is_below(agent.id, above.id));
            at_work.map(reserve).fold(0_u64, u64::saturating_add)
        };
        if let Some(most) = limits.max_tokens {
            let call = |agent: &Agent| self.tokens_of_a_call(agent);
            let reserve = kept_back(&|agent| call(agent).saturating_mul(LAST_ANSWER_CALLS));
            let needed = call(next).saturating_mul(calls).saturating_add(reserve);
            if above.spent.tokens.saturating_add(needed) > most {
                return Some(BudgetKind::Tokens);
            }
        }
        let most = limits.max_cost?.0;
        let reserve = kept_back(&|agent| agent.spent.last_cost.saturating_mul(LAST_ANSWER_CALLS));
        let needed = next
            .spent
            .last_cost
            .saturating_mul(calls)
            .saturating_add(reserve);
        let spent = above.spent.cost;
        // Where no price is known there is nothing to go by but what was spent.
        (spent >= most || spent.saturating_add(needed) > most).then_some(BudgetKind::Cost)
    }

    fn is_below(&self, id: AgentId, above: AgentId) -> bool {
        self.path(id).any(|agent| agent.id == above)
    }

    /// Estimates what one model call with the conversation as it stands takes.
    fn tokens_of_a_call(&self, agent: &Agent) -> u64 {
        let reply = self.reply_tokens(agent.id);
        agent
            .gauge
            .estimate(&agent.transcript)
            .saturating_add(reply)
    }
}

/// The tokens of an attempt, as far as anybody said: the provider's total, or the sum of its parts.
fn used(usage: &Usage) -> u64 {
    let parts = usage.prompt.tokens.saturating_add(usage.completion.tokens);
    usage.total.tokens.max(parts)
}
