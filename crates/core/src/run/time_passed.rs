//! Handles time: a soft end that keeps enough back for one last answer, then the hard one (loop rule 10).
//!
//! Each agent has its own time, and none more than the agent that started it: a sub-agent's hard end is its parent's
//! soft one, so that its answer still counts.

use std::time::Duration;

use crate::finish::FinishReason;
use crate::ids::AgentId;
use crate::limits::Limits;
use crate::outcome::ToolFailure;
use crate::record::{LimitKind, LimitReachedRecord, RecordBody};
use crate::run::RunTree;
use crate::run::agent::{Agent, Phase};
use crate::run::draft::Draft;

const TIME_IS_UP: &str = "the time limit of the run is reached";

impl RunTree {
    /// Returns the active time at which the next limit on time is reached.
    pub(super) fn wake_at(&self) -> Option<Duration> {
        if self.status.is_ended() {
            return None;
        }
        self.at_work().filter_map(|agent| self.due(agent)).min()
    }

    pub(super) fn time_passed(&mut self, draft: &mut Draft) {
        if self.status.is_ended() {
            return;
        }
        let now = draft.stamp.active_elapsed;
        let is_due = |agent: &&Agent| self.due(agent).is_some_and(|due| now >= due);
        let due: Vec<AgentId> = self
            .at_work()
            .filter(is_due)
            .map(|agent| agent.id)
            .collect();
        for id in due {
            let Some(agent) = self.agent(id).filter(|agent| !agent.has_ended()) else {
                continue;
            };
            let hard = self.hard_end(agent);
            if hard.is_some_and(|hard| now >= hard) {
                self.time_is_up(draft, id);
            } else {
                self.time_is_nearly_up(draft, id);
            }
        }
    }

    fn at_work(&self) -> impl Iterator<Item = &Agent> {
        self.agents
            .iter()
            .filter(|agent| !matches!(agent.phase, Phase::Queued | Phase::Ended))
    }

    /// Returns when time has something to say to an agent next.
    fn due(&self, agent: &Agent) -> Option<Duration> {
        if agent.closing.is_some() {
            self.hard_end(agent)
        } else {
            self.soft_end(agent)
        }
    }

    /// Returns when an agent's time is up, whatever it is doing.
    fn hard_end(&self, agent: &Agent) -> Option<Duration> {
        let own = agent.spec(&self.spec).limits.deadline;
        let own = own.map(|deadline| agent.started.saturating_add(deadline));
        let parent = agent.parent.as_ref();
        let above = parent.and_then(|parent| self.soft_end(self.agent(parent.agent)?));
        match (own, above) {
            (Some(own), Some(above)) => Some(own.min(above)),
            (own, above) => own.or(above),
        }
    }

    /// Returns when an agent starts nothing more, so that its last answer comes in time.
    fn soft_end(&self, agent: &Agent) -> Option<Duration> {
        let hard = self.hard_end(agent)?;
        let reserve = Limits::answer_reserve_of(hard.saturating_sub(agent.started));
        Some(hard.saturating_sub(reserve))
    }

    /// No new tool runs from now on. A model call under way may still bring the answer.
    fn time_is_nearly_up(&mut self, draft: &mut Draft, id: AgentId) {
        self.record_limit(draft, id, LimitKind::DeadlineReserve);
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        agent.closing.get_or_insert(FinishReason::Deadline);
        if self.give_up_check(draft, id) {
            return;
        }
        self.take_back_batch(id);
        match self.agent(id).map(|agent| &agent.phase) {
            Some(Phase::Tools(_)) => {
                self.abandon_batch(draft, id, ToolFailure::Timeout, TIME_IS_UP);
                self.schedule(draft, id);
            }
            // It was between two turns, waiting for a hook.
            Some(Phase::Ended) => self.go_on(draft, id),
            _ => {}
        }
    }

    fn time_is_up(&mut self, draft: &mut Draft, id: AgentId) {
        self.record_limit(draft, id, LimitKind::Deadline);
        if self.give_up_check(draft, id) {
            return;
        }
        self.cancel_model_call(draft, id);
        self.take_back_batch(id);
        self.abandon_batch(draft, id, ToolFailure::Timeout, TIME_IS_UP);
        self.append_results(id);
        if let Some(agent) = self.agent_mut(id) {
            agent.closing = Some(FinishReason::Deadline);
        }
        self.finish_with_what_there_is(draft, id);
    }

    fn record_limit(&mut self, draft: &mut Draft, id: AgentId, limit: LimitKind) {
        let content = self
            .agent(id)
            .map(|agent| agent.text.clone())
            .unwrap_or_default();
        let reached = RecordBody::LimitReached(Box::new(LimitReachedRecord {
            limit,
            content,
            prompt: None,
        }));
        self.record(draft, id, None, reached);
    }
}
