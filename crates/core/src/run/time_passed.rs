//! Handles time: a soft end that reserves enough for one last answer, then the hard end (loop rule 10).
//!
//! Each agent has its own time limit, never later than that of the agent that started it: a sub-agent's hard end is its
//! parent's soft end, so its answer still counts.

use std::time::Duration;

use super::agent::{Agent, ConsultedAbout, Phase};
use super::agent_step::StepBuilder;
use super::last_answer::Limit;
use super::{Next, RunTree};
use crate::error::InputError;
use crate::ids::AgentId;
use crate::limits::Limits;
use crate::outcome::ToolFailure;
use crate::record::LimitKind;

impl RunTree {
    /// Returns the active time at which the next time limit is reached.
    pub(super) fn wake_at(&self) -> Option<Duration> {
        if self.state.status.is_ended() {
            return None;
        }
        let at_work = self.agents.iter().filter(|agent| agent.is_at_work());
        at_work.filter_map(|agent| self.due(agent)).min()
    }

    /// Determines which agents' time is up, or nearly up.
    pub(super) fn time_passed(&self, step: &mut StepBuilder) -> Next {
        let now = step.stamp.active_elapsed;
        let is_due = |agent: &&Agent| self.due(agent).is_some_and(|due| now >= due);
        let at_work = self.agents.iter().filter(|agent| agent.is_at_work());
        let last_first = at_work.filter(is_due).rev().map(|agent| agent.id);
        step.todo
            .extend(last_first.map(|id| (id, Next::TimePassed)));
        Next::Wait
    }

    /// Handles an agent whose time is up, or nearly up: no new tool runs from then on, but a model call in progress may
    /// still return the answer.
    pub(super) fn time_is_up(
        &mut self,
        step: &mut StepBuilder,
        id: AgentId,
    ) -> Result<Next, InputError> {
        let agent = self.agent(id).filter(|agent| !agent.has_ended());
        let Some(agent) = agent else {
            // The agent that it worked for ended in the same step.
            return Ok(Next::Wait);
        };
        let hard = self.hard_end(agent);
        let is_up = hard.is_some_and(|hard| step.stamp.active_elapsed >= hard);
        let mut agent_step = self.agent_step(id, step)?;
        let why = agent_step.texts.stops.time;
        if is_up {
            agent_step.record_limit(LimitKind::Deadline, None);
        } else {
            agent_step.record_limit(LimitKind::DeadlineReserve, None);
            agent_step.agent.closing.get_or_insert(Limit::Deadline);
        }
        if agent_step.agent.awaits_check() {
            agent_step.cancel_model_call();
            return Ok(Next::FinishWithDraft);
        }
        if let Phase::Consulting(consulting) = &agent_step.agent.phase
            && let ConsultedAbout::Answer(reason, text) = &consulting.about
        {
            // At a limit there is no time for another answer: the current one is used.
            return Ok(Next::Finish(reason.clone(), text.clone()));
        }
        if is_up {
            self.stop_work(step, id, ToolFailure::Timeout, why)?;
            self.agent_step(id, step)?.agent.closing = Some(Limit::Deadline);
            return Ok(Next::FinishWithoutAnswer);
        }
        agent_step.agent.restore_batch();
        match agent_step.agent.phase {
            Phase::Tools(_) => {
                self.abandon_batch(step, id, ToolFailure::Timeout, why)?;
                Ok(Next::Schedule)
            }
            // It was waiting for a hook between two turns.
            Phase::Between => Ok(Next::Continue),
            Phase::Model(_) | Phase::Consulting(_) | Phase::Queued | Phase::Ended => Ok(Next::Wait),
        }
    }

    /// Returns the next time limit that applies to an agent.
    fn due(&self, agent: &Agent) -> Option<Duration> {
        let hard = self.hard_end(agent)?;
        Some(if agent.closing.is_some() {
            hard
        } else {
            soft_end(agent, hard)
        })
    }

    /// Returns when an agent's time is up, regardless of what it is doing.
    fn hard_end(&self, agent: &Agent) -> Option<Duration> {
        let deadline = |agent: &Agent| {
            let own = agent.spec(&self.spec).limits.deadline?;
            Some(agent.started.saturating_add(own))
        };
        if agent.parent.is_none() {
            return deadline(agent);
        }
        let above = |agent: &&Agent| self.agent(agent.parent_id()?);
        let path: Vec<&Agent> = std::iter::successors(Some(agent), above).collect();
        let mut end: Option<Duration> = None;
        let mut parent: Option<&Agent> = None;
        for agent in path.into_iter().rev() {
            let above = parent.zip(end).map(|(parent, end)| soft_end(parent, end));
            end = deadline(agent).into_iter().chain(above).min();
            parent = Some(agent);
        }
        end
    }
}

/// Returns when an agent must start nothing more, so that its last answer is complete before its hard end.
fn soft_end(agent: &Agent, hard: Duration) -> Duration {
    let reserve = Limits::answer_reserve_of(hard.saturating_sub(agent.started));
    hard.saturating_sub(reserve)
}
