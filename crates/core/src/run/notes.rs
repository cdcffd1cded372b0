//! What the loop itself tells the model: system messages after the results of a turn.

use crate::ids::AgentId;
use crate::message::Message;
use crate::record::{PromptInjected, PromptReason, RecordBody};
use crate::run::RunTree;
use crate::run::draft::Draft;

/// What the model is told after a turn that brought many results.
const DIGEST: &str = "Several results came at once. Before you go on, note what each of them says about the question, \
     and where they disagree.";

impl RunTree {
    /// Tells the model what was noted during the batch, and to digest its results if there were many.
    pub(super) fn tell_notes(&mut self, draft: &mut Draft, id: AgentId, results: u32) {
        let digest_after = self.agent_spec(id).profile.digest_after;
        let Some(agent) = self.agent_mut(id) else {
            return;
        };
        let mut notes = std::mem::take(&mut agent.notes);
        // A last answer is told to use what there is, anyway.
        if digest_after.is_some_and(|most| results > most) && agent.closing.is_none() {
            notes.push((PromptReason::DigestResults, DIGEST.to_owned()));
        }
        for (reason, message) in notes {
            self.tell(draft, id, reason, message);
        }
    }

    /// Appends a system message and records it.
    pub(super) fn tell(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        reason: PromptReason,
        message: String,
    ) {
        if let Some(agent) = self.agent_mut(id) {
            agent.transcript.push(Message::system(message.as_str()));
        }
        let injected = PromptInjected { reason, message };
        self.record(
            draft,
            id,
            None,
            RecordBody::PromptInjected(Box::new(injected)),
        );
    }
}
