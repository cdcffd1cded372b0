//! The calls of a conversation that is being read, so that each result is that of one of them.

use std::collections::{BTreeMap, BTreeSet};

use neuraxis::core::{Message, ToolCallId};

use super::content::result;
use crate::problem::Problem;

/// The calls so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// The names of those that have no result yet.
    open: BTreeMap<ToolCallId, String>,
    answered: BTreeSet<ToolCallId>,
}

impl Calls {
    /// Takes a call. A later one may have the id of an earlier one.
    pub(super) fn take(&mut self, id: ToolCallId, name: String) {
        self.answered.remove(&id);
        self.open.insert(id, name);
    }

    /// Makes the message of a result. As at OpenAI's API, one that is of no call before it is refused: no model would be told
    /// of it. The calls of a run here may be left out, since its session knows them.
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
                true => "the call has a result already",
                false => "there is no such call before its result",
            };
            return Err(Problem::invalid(field, why));
        }
        self.answered.insert(id.clone());
        let name = named.unwrap_or_else(|| "tool".to_owned());
        Ok(Message::tool_result(id, name, result(text)))
    }
}
