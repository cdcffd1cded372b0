//! What a decision asks of the loop beside models, tools and limits: to ask first which role serves, to check the draft,
//! to escalate. Only the agent that answers the user is concerned.
//!
//! A run whose decision asks for none of it has no [`Ways`], and pays nothing.

use serde::{Deserialize, Serialize};

use crate::decision::{
    BudgetMeasure, Clarification, Decision, Escalation, Routing, SelfCheck, SpentBudget,
};
use crate::finish::{BudgetKind, FinishReason};
use crate::ids::{AgentId, Role};
use crate::message::Message;
use crate::record::{LimitReachedRecord, RecordBody};
use crate::run::RunTree;
use crate::run::draft::Draft;
use crate::run::last_answer::limit_kind;

/// What a run's decision asks for, and what has come of it so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Ways {
    /// Whom to ask which role serves, until it has answered.
    pub(super) routing: Option<Routing>,
    pub(super) self_check: Option<SelfCheck>,
    pub(super) escalation: Option<Escalation>,
    /// The role that a model chose.
    pub(super) chosen: Option<Role>,
    /// The larger role that has taken over.
    pub(super) larger: Option<Role>,
    /// Failures in a row.
    pub(super) failures: u32,
}

impl Ways {
    /// Takes from a decision what the loop has to do, if anything.
    pub(super) fn of(decision: &Decision) -> Option<Box<Self>> {
        let Decision {
            routing,
            self_check,
            escalation,
            ..
        } = decision;
        let any = routing.is_some() || self_check.is_some() || escalation.is_some();
        any.then(|| {
            Box::new(Self {
                routing: routing.clone(),
                self_check: self_check.clone(),
                escalation: escalation.clone(),
                chosen: None,
                larger: None,
                failures: 0,
            })
        })
    }
}

/// A reply that needs no model, because the decision holds it.
pub(super) enum ReplyAtOnce {
    Spent(SpentBudget),
    Question(Clarification),
}

impl ReplyAtOnce {
    /// Takes it from a decision, if there is one: a budget that is used up comes before a question.
    pub(super) fn of(decision: &Decision) -> Option<Self> {
        let spent = decision.spent.clone().map(Self::Spent);
        spent.or_else(|| decision.clarify.clone().map(Self::Question))
    }
}

impl RunTree {
    /// Ends the run before any model was called.
    pub(super) fn reply_at_once(&mut self, draft: &mut Draft, reply: ReplyAtOnce) {
        let (reason, content) = match reply {
            ReplyAtOnce::Question(clarify) => (FinishReason::Clarify, clarify.question),
            ReplyAtOnce::Spent(SpentBudget { measure, reply, .. }) => {
                let reason = FinishReason::Budget(budget_kind(measure));
                let reached = LimitReachedRecord {
                    limit: limit_kind(&reason),
                    content: String::new(),
                    prompt: None,
                };
                let body = RecordBody::LimitReached(Box::new(reached));
                self.record(draft, AgentId::ROOT, None, body);
                (reason, reply)
            }
        };
        self.say(AgentId::ROOT, &content);
        self.finish(draft, AgentId::ROOT, reason, content);
    }

    /// Lets the agent say something that no model said.
    pub(super) fn say(&mut self, id: AgentId, text: &str) {
        if let Some(agent) = self.agent_mut(id) {
            agent.transcript.push(Message::assistant(text));
        }
    }

    /// Returns the role that serves an agent where nothing else is said: its own, one that a model chose, or the larger
    /// one that took over.
    pub(super) fn own_role(&self, id: AgentId) -> Role {
        let chosen = self
            .ways(id)
            .and_then(|ways| ways.larger.as_ref().or(ways.chosen.as_ref()));
        chosen.unwrap_or(&self.agent_spec(id).role).clone()
    }

    /// Returns the larger role, if it has taken over from this agent.
    pub(super) fn larger_role(&self, id: AgentId) -> Option<&Role> {
        self.ways(id)?.larger.as_ref()
    }

    pub(super) fn ways(&self, id: AgentId) -> Option<&Ways> {
        self.ways.as_deref().filter(|_| id == AgentId::ROOT)
    }

    pub(super) fn ways_mut(&mut self, id: AgentId) -> Option<&mut Ways> {
        self.ways.as_deref_mut().filter(|_| id == AgentId::ROOT)
    }
}

const fn budget_kind(measure: BudgetMeasure) -> BudgetKind {
    match measure {
        BudgetMeasure::Tokens => BudgetKind::Tokens,
        BudgetMeasure::Cost => BudgetKind::Cost,
        BudgetMeasure::Time => BudgetKind::Time,
        BudgetMeasure::ToolCalls => BudgetKind::ToolCalls,
    }
}
