//! Budgets as one tree (loop rule 10): what an agent uses counts for every agent above it. Each agent reserves enough
//! for one last answer and its one retry. Agents that work for the same agent each get a share of what it has left.

use super::agent::Agent;
use super::agent_step::{AgentStep, place};
use super::context::Gauge;
use super::last_answer::Limit;
use super::shares::part_of;
use crate::effect::Purpose;
use crate::finish::BudgetKind;
use crate::ids::{AgentId, Role};
use crate::limits::{BudgetMeasure, Limits};
use crate::metrics::Cost;
use crate::reply::Reply;
use crate::spec::{AgentSpec, RunSpec};
use crate::usage::{CountLabel, Usage};

/// Maximum number of model calls for a last answer: the call itself and its retry without tools (loop rule 6).
const LAST_ANSWER_CALLS: u64 = 2;

/// Consecutive turns with an unknown tool before the run proceeds to its last answer (loop rule 4).
const MAX_UNKNOWN_TURNS: u32 = 3;

/// Assumed size of a reply if no limit is set, and the maximum assumption otherwise, in tokens.
const REPLY_TOKENS: u64 = 1_024;

/// What an agent used of its budget, including its sub-agents. Time is not counted by agent: it passes for all of them
/// at once (`time_passed.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SpentByAgent {
    pub(super) tool_calls: u32,
    pub(super) tokens: u64,
    pub(super) cost: u64,
    /// The cost of its last model call, used as the estimate for the next one.
    pub(super) last_cost: u64,
}

impl SpentByAgent {
    fn charge(&mut self, usage: &Usage, cost: Cost) {
        self.charge_tokens(usage.all_tokens());
        self.cost = self.cost.saturating_add(cost.amount.0);
    }

    const fn charge_tokens(&mut self, tokens: u64) {
        self.tokens = self.tokens.saturating_add(tokens);
    }

    const fn count_tool_call(&mut self) {
        self.tool_calls = self.tool_calls.saturating_add(1);
    }
}

/// Returns an agent's own limit on what agents at work at the same time share, in the unit of [`Limits::most`].
fn limit_of(agent: &Agent, run: &RunSpec, measure: BudgetMeasure) -> Option<u64> {
    match measure {
        BudgetMeasure::Tokens | BudgetMeasure::Cost | BudgetMeasure::ToolCalls => {
            agent.spec(run).limits.most(measure)
        }
        // It is not divided: each agent may work until shortly before the end of the one that it works for.
        BudgetMeasure::Time => None,
    }
}

/// Returns what an agent used of what agents share.
fn spent_by(agent: &Agent, measure: BudgetMeasure) -> u64 {
    match measure {
        BudgetMeasure::Tokens => agent.spent.tokens,
        BudgetMeasure::Cost => agent.spent.cost,
        BudgetMeasure::ToolCalls => agent.spent.tool_calls.into(),
        BudgetMeasure::Time => 0,
    }
}

/// Returns the measures that model calls use up: no call begins if too little of one is left.
fn measures_of_model_calls() -> impl Iterator<Item = BudgetMeasure> {
    let measures = BudgetMeasure::ALL.into_iter();
    measures.filter(|measure| match measure {
        BudgetMeasure::Tokens | BudgetMeasure::Cost => true,
        BudgetMeasure::Time | BudgetMeasure::ToolCalls => false,
    })
}

impl AgentStep<'_> {
    /// Returns the tree of budgets from this agent's point of view.
    pub(super) const fn budgets(&self) -> Budgets<'_> {
        Budgets {
            run: self.run,
            agent: self.agent,
            above: self.above,
            below: self.below,
        }
    }

    /// Adds the usage of an attempt of a model call, for the agent and those above it.
    pub(super) fn charge(&mut self, role: &Role, usage: Usage, cost: Cost) {
        self.agent.spent.charge(&usage, cost);
        self.agent.usage.add(role, usage);
        // An attempt of unknown cost, whether for lack of a price or of a count, does not predict the next one.
        if cost.label != CountLabel::Unknown {
            self.agent.spent.last_cost = cost.amount.0;
        }
        self.each_above(|agent| {
            agent.spent.charge(&usage, cost);
            agent.usage_below.add(role, usage);
        });
    }

    /// Counts an estimate toward token limits if a reply came without usage, and records a warning about this once per
    /// run if tokens or money are limited. The usage itself stays unknown in every sum (loop rule 12).
    pub(super) fn charge_uncounted(&mut self, purpose: Purpose, reply: &Reply) {
        let is_counted =
            reply.usage.total.label != CountLabel::Unknown || reply.usage.all_tokens() > 0;
        // The choice of a role is short and is not sent the conversation; a refusal comes from the program.
        let is_exempt = purpose == Purpose::Routing || reply.is_refusal();
        let goes_uncharged = self.state.loop_version < 2;
        if is_counted || is_exempt || goes_uncharged || !self.budgets().are_limited() {
            return;
        }
        let sent = self.agent.size();
        let definitions = self.agent.definitions(self.spec);
        let arguments = reply.calls().map(|call| call.arguments.as_str().len());
        let reply_bytes = reply.text().len() + reply.reasoning().len() + arguments.sum::<usize>();
        let tokens = sent
            .saturating_add(definitions)
            .saturating_add(Gauge::tokens_of_new(reply_bytes));
        self.agent.spent.charge_tokens(tokens);
        self.each_above(|agent| agent.spent.charge_tokens(tokens));
        if !std::mem::replace(&mut self.state.warned_of_counts, true) {
            let message = "a reply came without counts of tokens: limits on tokens go by estimates in this run, and limits on \
                           money and the budgets of sessions and days count such replies as nothing";
            self.warn("uncounted", message.to_owned());
        }
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

    /// Applies a change to each agent that this one works for, nearest first.
    fn each_above(&mut self, mut change: impl FnMut(&mut Agent)) {
        let mut next = self.agent.parent_id();
        while let Some(agent) = next.and_then(|id| self.above.get_mut(place(id))) {
            change(agent);
            next = agent.parent_id();
        }
    }
}

/// The tree of budgets from one agent's point of view.
pub(super) struct Budgets<'a> {
    run: &'a RunSpec,
    agent: &'a Agent,
    above: &'a [Agent],
    below: &'a [Agent],
}

impl Budgets<'_> {
    /// Returns the limit that prevents another turn of the agent, if any (loop rules 6, 7 and 10).
    pub(super) fn limit_reached(&self) -> Option<Limit> {
        let (agent, max_turns) = (self.agent, self.agent.spec(self.run).limits.max_turns);
        let is_out_of_time = agent.closing == Some(Limit::Deadline);
        let is_out_of_turns = max_turns.is_some_and(|most| agent.turns_used >= most);
        if is_out_of_turns && !is_out_of_time {
            Some(Limit::Turns)
        } else if agent.closing.is_some() {
            agent.closing
        } else {
            let mut kinds = BudgetKind::ALL.into_iter();
            kinds.find(|kind| self.is_over(*kind)).map(Limit::Budget)
        }
    }

    /// Returns whether a limit is reached that is checked after every turn.
    fn is_over(&self, kind: BudgetKind) -> bool {
        match kind {
            BudgetKind::ToolCalls => self.is_out_of_tool_calls(),
            BudgetKind::ModelCalls => {
                let most = self.agent.spec(self.run).limits.max_turns;
                let most = most.map(|turns| turns.saturating_mul(Limits::MODEL_CALLS_PER_TURN));
                most.is_some_and(|most| self.agent.model_calls >= most)
            }
            BudgetKind::UnknownTools => self.agent.unknown_turns >= MAX_UNKNOWN_TURNS,
            // The first two are compared with what a model call needs, before it (`exceeded_by`). The others are
            // reported by what finds them: the decision, the count of repeats, and the driver.
            BudgetKind::Tokens
            | BudgetKind::Cost
            | BudgetKind::Time
            | BudgetKind::RepeatedCalls
            | BudgetKind::Log => false,
        }
    }

    /// Returns whether anything that model calls use up is limited for the agent or one above it.
    fn are_limited(&self) -> bool {
        let is_limited = |agent, measure| limit_of(agent, self.run, measure).is_some();
        self.path()
            .any(|agent| measures_of_model_calls().any(|measure| is_limited(agent, measure)))
    }

    fn is_out_of_tool_calls(&self) -> bool {
        let calls = BudgetMeasure::ToolCalls;
        self.path().any(|agent| {
            let most = limit_of(agent, self.run, calls);
            most.is_some_and(|most| spent_by(agent, calls) >= most)
                || self.part(agent, calls) == Some(0)
        })
    }

    /// Returns the budget that this many further model calls, each as large as the next one, would exceed: the agent's
    /// own or that of one above it. Each budget reserves what the last answers of all working agents below it need.
    pub(super) fn exceeded_by(&self, calls: u64) -> Option<BudgetKind> {
        let mut path = self.path();
        path.find_map(|above| self.would_break_into(above, calls))
            .map(BudgetKind::from)
    }

    /// Returns whether the agents above have nothing left for this agent, or too little for one call.
    pub(super) fn parents_exhausted(&self) -> bool {
        let is_short = |measure| {
            let of_parent = || self.left(self.of_id(self.agent.parent_id()?)?, measure);
            let left = self.part(self.agent, measure).or_else(of_parent);
            left.is_some_and(|left| left == 0 || self.of_a_call(self.agent, measure) > left)
        };
        measures_of_model_calls().any(is_short)
    }

    fn would_break_into(&self, above: &Agent, calls: u64) -> Option<BudgetMeasure> {
        measures_of_model_calls().find(|measure| {
            let most = limit_of(above, self.run, *measure);
            let is_spent = match measure {
                // Without a known price, only what was spent can be compared.
                BudgetMeasure::Cost => most.is_some_and(|most| above.spent.cost >= most),
                BudgetMeasure::Tokens | BudgetMeasure::Time | BudgetMeasure::ToolCalls => false,
            };
            is_spent || self.is_beyond(above, *measure, calls)
        })
    }

    /// Returns whether the calls would exceed an agent's budget: its own limit, or its share of what the agents above
    /// it have left.
    fn is_beyond(&self, above: &Agent, measure: BudgetMeasure, calls: u64) -> bool {
        let most = limit_of(above, self.run, measure);
        let part = self.part(above, measure);
        if most.is_none() && part.is_none() {
            return false;
        }
        let needed = self.needed(above.id, calls, measure);
        let in_all = spent_by(above, measure).saturating_add(needed);
        most.is_some_and(|most| in_all > most) || part.is_some_and(|part| needed > part)
    }

    /// Returns the need of the calls plus the reserves for the last answers of all working agents at or below `above`.
    fn needed(&self, above: AgentId, calls: u64, measure: BudgetMeasure) -> u64 {
        let at_work = self.all().filter(|agent| agent.is_at_work());
        let below = at_work.filter(|agent| self.works_for(agent, above));
        let reserves = below.map(|agent| self.reserve(agent, measure));
        let taken = self.of_a_call(self.agent, measure);
        reserves.fold(taken.saturating_mul(calls), u64::saturating_add)
    }

    /// Returns what an agent reserves for its last answer.
    fn reserve(&self, agent: &Agent, measure: BudgetMeasure) -> u64 {
        let of_a_call = self.of_a_call(agent, measure);
        of_a_call.saturating_mul(LAST_ANSWER_CALLS)
    }

    /// Returns the estimated need of an agent's next model call.
    fn of_a_call(&self, agent: &Agent, measure: BudgetMeasure) -> u64 {
        match measure {
            BudgetMeasure::Tokens => self.tokens_of_a_call(agent),
            BudgetMeasure::Cost => agent.spent.last_cost,
            BudgetMeasure::Time | BudgetMeasure::ToolCalls => 0,
        }
    }

    /// Returns how much an agent may still use of what its parent has left, including its last answer. `None` if that
    /// is not limited, or no other agent works or will work for the parent.
    fn part(&self, agent: &Agent, measure: BudgetMeasure) -> Option<u64> {
        let parent = agent.parent_id()?;
        let is_sharing = |it: &&Agent| it.parent_id() == Some(parent) && !it.has_ended();
        let sharing: Vec<&Agent> = self.all().filter(is_sharing).collect();
        if sharing.len() < 2 {
            return None;
        }
        let at = sharing.iter().position(|it| it.id == agent.id)?;
        let left = self.left(self.of_id(parent)?, measure)?;
        let used: Vec<u64> = sharing.iter().map(|it| spent_by(it, measure)).collect();
        Some(part_of(left, &used, at))
    }

    /// Returns how much an agent has left for its sub-agents, without its own reserve; `None` if it is not limited.
    fn left(&self, agent: &Agent, measure: BudgetMeasure) -> Option<u64> {
        let most = limit_of(agent, self.run, measure);
        let own = most.map(|most| most.saturating_sub(spent_by(agent, measure)));
        let of_parent = || self.left(self.of_id(agent.parent_id()?)?, measure);
        let from_above = self.part(agent, measure).or_else(of_parent);
        let left = own.into_iter().chain(from_above).min()?;
        Some(left.saturating_sub(self.reserve(agent, measure)))
    }

    fn of_id(&self, id: AgentId) -> Option<&Agent> {
        self.all().nth(place(id))
    }

    /// Returns whether an agent is `above`, or was started by it or by an agent below it.
    fn works_for(&self, agent: &Agent, above: AgentId) -> bool {
        let mut at = Some(agent);
        while let Some(agent) = at {
            if agent.id == above {
                return true;
            }
            at = agent.parent_id().and_then(|id| self.of_id(id));
        }
        false
    }

    /// Estimates the tokens of one model call with the current conversation and the tool definitions.
    fn tokens_of_a_call(&self, agent: &Agent) -> u64 {
        let spec = agent.spec(self.run);
        let sent = agent.size().saturating_add(agent.definitions(spec));
        sent.saturating_add(spec.reply_tokens())
    }

    /// Returns the agent and the agents it works for, up to the root agent.
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
    /// Returns the assumed size of a reply of the agent, in tokens.
    pub(super) fn reply_tokens(&self) -> u64 {
        let most = self.max_output_tokens;
        most.map_or(REPLY_TOKENS, u64::from).min(REPLY_TOKENS)
    }
}
