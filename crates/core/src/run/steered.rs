//! Handles a message for a run at work (loop rule 16).

use std::mem;

use crate::error::InputError;
use crate::input::Steered;
use crate::message::Message;
use crate::record::RecordBody;
use crate::run::RunTree;
use crate::run::agent::Agent;
use crate::run::draft::Draft;

impl RunTree {
    pub(super) fn steered(
        &mut self,
        draft: &mut Draft,
        steered: Steered,
    ) -> Result<(), InputError> {
        if self.inputs_seen.contains(&steered.id) {
            return Ok(());
        }
        if !matches!(steered.message.as_ref(), Message::User { .. }) {
            return Err(InputError::NotFromUser);
        }
        if self.status.is_ended() {
            return Err(InputError::RunEnded);
        }
        let id = steered.agent;
        let agent = self.agent_mut(id).filter(|agent| !agent.has_ended());
        let agent = agent.ok_or(InputError::NoSuchAgent(id))?;
        agent.steered.push(steered.message.clone());
        self.first_time(&steered.id);
        self.record(draft, id, None, RecordBody::Steered(Box::new(steered)));
        Ok(())
    }
}

impl Agent {
    /// Adds the messages that came meanwhile to the conversation.
    pub(super) fn join_steered(&mut self) {
        for message in mem::take(&mut self.steered) {
            self.transcript.push(message);
        }
    }
}
