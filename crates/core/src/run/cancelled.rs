//! Handles a wish that the run end, at whatever point it is.

use crate::finish::FinishReason;
use crate::ids::AgentId;
use crate::input::Cancelled;
use crate::outcome::ToolFailure;
use crate::record::RecordBody;
use crate::run::RunTree;
use crate::run::draft::Draft;

impl RunTree {
    pub(super) fn cancelled(&mut self, draft: &mut Draft, cancelled: Cancelled) {
        if self.status.is_ended() || !self.first_time(&cancelled.id) {
            return;
        }
        self.record(draft, AgentId::ROOT, None, RecordBody::Cancelled(cancelled));
        for agent in self.agent_ids() {
            self.abandon_batch(
                draft,
                agent,
                ToolFailure::Cancelled,
                "the run was cancelled",
            );
            self.append_results(agent);
        }
        let text = self
            .agent(AgentId::ROOT)
            .map(|agent| agent.text.clone())
            .unwrap_or_default();
        self.finish(draft, AgentId::ROOT, FinishReason::Cancelled, text);
    }
}
