//! Budgets as one tree (loop rule 10): what an agent uses counts for every agent above it, and each keeps back enough
//! for one last answer and its one retry.

use serde::{Deserialize, Serialize};

use super::agent::Agent;
use super::last_answer::Limit;
use super::turn::{AgentTurn, place};
use crate::finish::BudgetKind;
use crate::ids::{AgentId, Role};
use crate::limits::{Limits, MicroUsd};
use crate::spec::{AgentSpec, RunSpec};
use crate::usage::Usage;

/// How many model calls a last answer may take: itself and its retry without tools (loop rule 6).
const LAST_ANSWER_CALLS: u64 = 2;

/// Turns in a row with an unknown tool before the run is brought to its last answer (loop rule 4).
const MAX_UNKNOWN_TURNS: u32 = 3;

/// What a reply is taken to need where no limit is set, and at most, in tokens.
const REPLY_TOKENS: u64 = 1_024;

/// What an agent used of its budget, its sub-agents included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Spent {
    pub(super) tool_calls: u32,
    pub(super) tokens: u64,
    pub(super) cost: u64,
    /// What its last model call cost: what the next one is taken to cost.
    pub(super) last_cost: u64,
}

impl Spent {
    fn charge(&mut self, usage: &Usage, cost: Option<MicroUsd>) {
        self.tokens = self.tokens.saturating_add(used(usage));
        self.cost = self.cost.saturating_add(cost.unwrap_or_default().0);
    }

    const fn count_tool_call(&mut self) {
        self.tool_calls = self.tool_calls.saturating_add(1);
    }
}

/// What one model call of an agent is taken to need, by what is counted.
type Needs<'a> = &'a dyn Fn(&Agent) -> u64;

impl AgentTurn<'_> {
    /// Returns the tree of budgets as this agent sees it.
    pub(super) const fn budgets(&self) -> Budgets<'_> {
        Budgets {
            run: self.run,
            agent: self.agent,
            above: self.above,
            below: self.below,
        }
    }

    /// Counts what an attempt of a model call used, for the agent and those above it.
    pub(super) fn charge(&mut self, role: &Role, usage: Usage, cost: Option<MicroUsd>) {
        self.agent.spent.charge(&usage, cost);
        self.agent.usage.add(role, usage);
        // An attempt of which nobody says what it cost tells nothing of the next one.
        if let Some(cost) = cost {
            self.agent.spent.last_cost = cost.0;
        }
        self.each_above(|agent| {
            agent.spent.charge(&usage, cost);
            agent.usage_below.add(role, usage);
        });
    }

    /// Counts a tool call for the agent and those above it (loop rule 7), unless a limit of one of them is reached.
    pub(super) fn admit_tool_call(&mut self) -> bool {
        if self.budgets().is_out_of_tool_calls() {
            return false;
        }
        self.agent.spent.count_tool_call();
        self.each_above(|agent| agent.spent.count_tool_call());
        true
    }

    /// Does something to each agent that this one works for, the nearest first.
    fn each_above(&mut self, mut change: impl FnMut(&mut Agent)) {
        let mut next = self.agent.parent_id();
        while let Some(agent) = next.and_then(|id| self.above.get_mut(place(id))) {
            change(agent);
            next = agent.parent_id();
        }
    }
}

/// The tree of budgets, as one agent sees it.
pub(super) struct Budgets<'a> {
    run: &'a RunSpec,
    agent: &'a Agent,
    above: &'a [Agent],
    below: &'a [Agent],
}

impl Budgets<'_> {
    /// Returns the limit that keeps the agent from another turn, if it reached one (loop rules 6, 7 and 10).
    pub(super) fn limit_reached(&self) -> Option<Limit> {
        let (agent, limits) = (self.agent, &self.agent.spec(self.run).limits);
        let model_calls = limits
            .max_turns
            .map(|turns| turns.saturating_mul(Limits::MODEL_CALLS_PER_TURN));
        let reached = |most: Option<u32>, used: u32| most.is_some_and(|most| used >= most);
        let is_out_of_time = agent.closing == Some(Limit::Deadline);
        if reached(limits.max_turns, agent.turns_used) && !is_out_of_time {
            Some(Limit::Turns)
        } else if agent.closing.is_some() {
            agent.closing
        } else if self.is_out_of_tool_calls() {
            Some(Limit::Budget(BudgetKind::ToolCalls))
        } else if reached(model_calls, agent.model_calls) {
            Some(Limit::Budget(BudgetKind::ModelCalls))
        } else if agent.unknown_turns >= MAX_UNKNOWN_TURNS {
            Some(Limit::Budget(BudgetKind::UnknownTools))
        } else {
            None
        }
    }

    fn is_out_of_tool_calls(&self) -> bool {
        self.path().any(|agent| {
            let most = agent.spec(self.run).limits.max_tool_calls;
            most.is_some_and(|most| agent.spent.tool_calls >= most)
        })
    }

    /// Returns the budget that so many model calls as large as the next would break into: the agent's own or that of one
    /// above it, each of which keeps back what the last answers of all agents at work below it take.
    pub(super) fn short_of(&self, calls: u64) -> Option<BudgetKind> {
        self.path()
            .find_map(|above| self.would_break_into(above, calls))
    }

    fn would_break_into(&self, above: &Agent, calls: u64) -> Option<BudgetKind> {
        let limits = &above.spec(self.run).limits;
        if let Some(most) = limits.max_tokens {
            let needed = self.needed(above.id, calls, &|agent| self.tokens_of_a_call(agent));
            if above.spent.tokens.saturating_add(needed) > most {
                return Some(BudgetKind::Tokens);
            }
        }
        let most = limits.max_cost?.0;
        let needed = self.needed(above.id, calls, &|agent| agent.spent.last_cost);
        let spent = above.spent.cost;
        // Where no price is known there is nothing to go by but what was spent.
        (spent >= most || spent.saturating_add(needed) > most).then_some(BudgetKind::Cost)
    }

    /// Returns what the calls take, and what all agents at work below `above` keep back for their last answers.
    fn needed(&self, above: AgentId, calls: u64, call: Needs<'_>) -> u64 {
        let at_work = self.all().filter(|agent| agent.is_at_work());
        let below = at_work.filter(|agent| self.works_for(agent, above));
        let reserves = below.map(|agent| call(agent).saturating_mul(LAST_ANSWER_CALLS));
        reserves.fold(call(self.agent).saturating_mul(calls), u64::saturating_add)
    }

    /// Tells whether an agent is another one, or was started by it or by one below it.
    fn works_for(&self, agent: &Agent, above: AgentId) -> bool {
        let mut at = Some(agent);
        while let Some(agent) = at {
            if agent.id == above {
                return true;
            }
            at = agent.parent_id().and_then(|id| self.all().nth(place(id)));
        }
        false
    }

    /// Estimates what one model call with the conversation as it stands takes.
    fn tokens_of_a_call(&self, agent: &Agent) -> u64 {
        let reply = agent.spec(self.run).reply_tokens();
        agent.size().saturating_add(reply)
    }

    /// Returns the agent and those it works for, up to the root agent.
    fn path(&self) -> impl Iterator<Item = &Agent> {
        std::iter::successors(Some(self.agent), |agent| {
            self.above.get(place(agent.parent_id()?))
        })
    }

    /// Returns all agents of the run, in the order in which they were started.
    fn all(&self) -> impl Iterator<Item = &Agent> {
        let above = self.above.iter();
        above.chain([self.agent]).chain(self.below.iter())
    }
}

impl AgentSpec {
    /// Returns what a reply of the agent is taken to need, in tokens.
    pub(super) fn reply_tokens(&self) -> u64 {
        let most = self.max_output_tokens;
        most.map_or(REPLY_TOKENS, u64::from).min(REPLY_TOKENS)
    }
}

/// The tokens of an attempt, as far as anybody said: the provider's total, or the sum of its parts.
fn used(usage: &Usage) -> u64 {
    let parts = usage.prompt.tokens.saturating_add(usage.completion.tokens);
    usage.total.tokens.max(parts)
}
