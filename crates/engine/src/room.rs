//! Makes a new run fit the context of the models that serve it, or says what takes the room.
//!
//! Not for a conversation that outgrows its model on the way, which the loop trims.

use std::sync::Arc;

use neuraxis_core::{Message, RunSpec};

use crate::engine::Engine;
use crate::request::RequestError;

impl Engine {
    /// Leaves out tools that would not fit with the messages that a new run begins with, of every agent.
    ///
    /// # Errors
    ///
    /// [`RequestError::TooLarge`] if the messages do not fit without any tool.
    pub(crate) fn fit(
        &self,
        spec: &mut RunSpec,
        messages: &[Arc<Message>],
    ) -> Result<(), RequestError> {
        let root = &mut spec.root;
        let size = root.request_size(messages);
        if let Some(context_tokens) = root.context_tokens
            && size.exceeds(context_tokens)
            && let Some((_, model)) = self.model(&root.role, spec.decision.as_deref())
        {
            return Err(RequestError::TooLarge {
                model: model.info().model,
                context_tokens,
                size,
            });
        }
        root.fit_tools(messages);
        let left_out = &root.left_out;
        spec.agents.retain(|tool, _| !left_out.contains(tool));
        for agent in spec.agents.values_mut() {
            agent.fit_tools(&[]);
        }
        Ok(())
    }
}
