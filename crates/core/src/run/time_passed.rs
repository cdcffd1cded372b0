//! Handles time: a soft end that keeps enough back for one last answer, then the hard one (loop rule 10).

use std::time::Duration;

use crate::finish::FinishReason;
use crate::ids::AgentId;
use crate::outcome::ToolFailure;
use crate::record::{LimitKind, LimitReachedRecord, RecordBody};
use crate::run::RunTree;
use crate::run::agent::{Agent, Phase};
use crate::run::draft::Draft;

impl RunTree {
    /// Returns the active time at which the next limit on time is reached.
    pub(super) fn wake_at(&self) -> Option<Duration> {
        if self.status.is_ended() {
            return None;
        }
        let limits = self.spec.root.limits;
        let deadline = limits.deadline?;
        let closing = self
            .agent(AgentId::ROOT)
            .is_some_and(|root| root.closing.is_some());
        let reserve = if closing {
            Duration::ZERO
        } else {
            limits.answer_reserve().unwrap_or_default()
        };
        Some(deadline.saturating_sub(reserve))
    }

    pub(super) fn time_passed(&mut self, draft: &mut Draft) {
        let now = draft.stamp.active_elapsed;
        if self.wake_at().is_none_or(|due| now < due) {
            return;
        }
        let is_up = self
            .spec
            .root
            .limits
            .deadline
            .is_some_and(|deadline| now >= deadline);
        if is_up {
            self.time_is_up(draft);
        } else {
            self.time_is_nearly_up(draft);
        }
    }

    /// No new tool runs from now on. A model call under way may still bring the answer.
    fn time_is_nearly_up(&mut self, draft: &mut Draft) {
        self.record_limit(draft, LimitKind::DeadlineReserve);
        for id in self.agent_ids() {
            let Some(agent) = self.agent_mut(id) else {
                continue;
            };
            agent.closing.get_or_insert(FinishReason::Deadline);
            if matches!(agent.phase, Phase::Tools(_)) {
                self.abandon_batch(
                    draft,
                    id,
                    ToolFailure::Timeout,
                    "the time limit of the run is reached",
                );
                self.schedule(draft, id);
            }
        }
    }

    fn time_is_up(&mut self, draft: &mut Draft) {
        self.record_limit(draft, LimitKind::Deadline);
        for id in self.agent_ids() {
            self.abandon_batch(
                draft,
                id,
                ToolFailure::Timeout,
                "the time limit of the run is reached",
            );
            self.append_results(id);
        }
        if let Some(root) = self.agent_mut(AgentId::ROOT) {
            root.closing = Some(FinishReason::Deadline);
        }
        self.finish_with_what_there_is(draft, AgentId::ROOT);
    }

    fn record_limit(&mut self, draft: &mut Draft, limit: LimitKind) {
        let content = self
            .agent(AgentId::ROOT)
            .map(|root: &Agent| root.text.clone())
            .unwrap_or_default();
        let reached = RecordBody::LimitReached(LimitReachedRecord {
            limit,
            content,
            prompt: None,
        });
        self.record(draft, AgentId::ROOT, None, reached);
    }
}
