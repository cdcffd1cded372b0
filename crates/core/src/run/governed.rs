//! What a decision asks of the loop in addition to models, tools and limits: to ask first which role serves, to check
//! the draft, and to escalate. This concerns only the agent that answers the user.
//!
//! A run whose decision asks for none of this has no [`GovernedRun`] and no overhead.

use super::Next;
use super::agent::Agent;
use super::agent_step::{AgentStep, StepBuilder};
use crate::decision::{
    Clarification, Decision, Escalation, Routing, SelfCheck, SpentBudget, TakesOver,
};
use crate::finish::{BudgetKind, FinishReason};
use crate::ids::Role;
use crate::record::{Escalated, LimitKind, LimitReachedRecord, RecordBody};

/// What a run's decision asks for, and its state so far.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GovernedRun {
    /// The routing question, until it has been answered.
    pub(super) routing: Option<Routing>,
    pub(super) self_check: Option<SelfCheck>,
    pub(super) escalation: Option<Escalation>,
    /// The role that a model chose.
    pub(super) chosen: Option<Role>,
    /// The larger role that has taken over.
    pub(super) larger: Option<Role>,
    /// The number of consecutive failures.
    pub(super) failures: u32,
}

impl GovernedRun {
    /// Extracts from a decision what the loop must do, if anything.
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

    /// Returns the role that serves instead of the agent's own: the larger one, or the one that was chosen.
    pub(super) fn role(&self) -> Option<&Role> {
        self.larger.as_ref().or(self.chosen.as_ref())
    }

    /// Makes a role other than the agent's own serve. A role cannot take over from itself.
    pub(super) fn choose(&mut self, role: &Role) {
        self.chosen = Some(role.clone());
        if let Some(escalation) = &mut self.escalation {
            escalation.role.take_if(|larger| larger == role);
        }
    }

    /// Returns who takes over after the failures so far; `None` if no one does, or that takeover already happened.
    fn take_over(&mut self, question: &str) -> Option<Escalated> {
        let failures = self.failures;
        match self.escalation.as_ref()?.after(failures) {
            TakesOver::Role(role) if self.larger.is_none() => {
                self.larger = Some(role.clone());
                Some(Escalated {
                    failures,
                    role: Some(role),
                    question: None,
                })
            }
            TakesOver::Person => Some(Escalated {
                failures,
                role: None,
                question: Some(question.to_owned()),
            }),
            TakesOver::Role(_) | TakesOver::Nobody => None,
        }
    }
}

/// A reply that needs no model, because the decision contains it.
pub(super) enum ImmediateReply {
    Spent(SpentBudget),
    Question(Clarification),
}

impl ImmediateReply {
    /// Extracts it from a decision, if present: a budget that is used up takes precedence over a question.
    pub(super) fn of(decision: &Decision) -> Option<Self> {
        let spent = decision.spent.clone().map(Self::Spent);
        spent.or_else(|| decision.clarify.clone().map(Self::Question))
    }

    /// Ends the root agent with this reply, before any model call.
    pub(super) fn end(self, root: &mut Agent, step: &mut StepBuilder) -> Next {
        let (reason, content) = match self {
            Self::Question(clarify) => (FinishReason::Clarify, clarify.question),
            Self::Spent(SpentBudget { measure, reply, .. }) => {
                let kind = BudgetKind::from(measure);
                let reached = LimitReachedRecord {
                    limit: LimitKind::Budget(kind),
                    content: String::new(),
                    prompt: None,
                };
                step.record(root, None, RecordBody::LimitReached(Box::new(reached)));
                (FinishReason::Budget(kind), reply)
            }
        };
        root.conversation.add_answer(&content);
        Next::Finish(reason, content)
    }
}

impl AgentStep<'_> {
    /// Determines who takes over after the failures so far, if anyone, and records it.
    pub(super) fn take_over(&mut self) -> TakesOver {
        let governed = self.agent.governed.as_deref_mut();
        let question = self.texts.notes.ask_user;
        let Some(escalated) = governed.and_then(|governed| governed.take_over(question)) else {
            return TakesOver::Nobody;
        };
        let role = escalated.role.clone();
        self.record(RecordBody::Escalated(Box::new(escalated)));
        role.map_or(TakesOver::Person, TakesOver::Role)
    }
}

impl Agent {
    /// Counts a failed attempt of a turn's model call, a turn whose calls all failed, or a rejected draft.
    pub(super) fn count_failure(&mut self) {
        if let Some(governed) = self.governed.as_deref_mut() {
            governed.failures = governed.failures.saturating_add(1);
        }
    }

    /// Resets the count of consecutive failures.
    pub(super) fn succeeded(&mut self) {
        if let Some(governed) = self.governed.as_deref_mut() {
            governed.failures = 0;
        }
    }

    /// Ends the agent with a question to the user.
    pub(super) fn finish_with_question(&mut self, question: &str) -> Next {
        let text = self.conversation.text();
        let content = if text.is_empty() {
            question.to_owned()
        } else {
            format!("{text}\n\n{question}")
        };
        self.conversation.add_answer(question);
        Next::Finish(FinishReason::Clarify, content)
    }
}
