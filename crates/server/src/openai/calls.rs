//! The calls of a conversation while it is parsed, used to match each result to its call.

use std::collections::{BTreeMap, BTreeSet};

use neuraxis::core::{Message, ToolCallId};

use super::content::result;
use crate::problem::Problem;

/// The calls so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The names of the calls without a result so far.
    open: BTreeMap<ToolCallId, String>,
    answered: BTreeSet<ToolCallId>,
}

impl Calls {
    /// Adds a call. A later one may reuse the id of an earlier one.
    pub(super) fn take(&mut self, id: ToolCallId, name: String) {
        self.answered.remove(&id);
        self.open.insert(id, name);
    }

    /// Creates the message of a result. As in OpenAI's API, a result without a preceding call is refused, because no
    /// model would receive it. Calls of a run on this server may be omitted, because its session holds them.
    pub(super) fn answer(
        &mut self,
        id: ToolCallId,
        text: &str,
        field: &str,
    ) -> Result<Message, Problem> {
        let named = self.open.remove(&id);
        let is_kept_here = id.run().is_some();
        if named.is_none() && (!is_kept_here || self.answered.contains(&id)) {
            let why = match self.answered.contains(&id) {
                true => "the call already has a result",
                false => "no such call precedes this result",
            };
            return Err(Problem::invalid(field, why));
        }
        self.answered.insert(id.clone());
        let name = named.unwrap_or_else(|| "tool".to_owned());
        Ok(Message::tool_result(id, name, result(text)))
    }
}
