//! The tool calls of a reply being received: assigns each piece to its call.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use neuraxis_core::{BlockIndex, LlmError, ReplyDelta};
use serde::de::IgnoredAny;

use super::{Blocks, block_number};
use crate::chat::chunk::CallDelta;
use crate::chat::state::CallState;
use crate::reply::{MAX_CALLS, Text, invalid};

/// A new call: its block, the provider's id for it and its name.
type BegunCall = (BlockIndex, Option<Arc<str>>, Option<Arc<str>>);

/// A call being received.
#[derive(Debug)]
pub(super) struct Call {
    /// The server's number for it; its position if the server sent none.
    index: usize,
    pub(super) block: BlockIndex,
    id: Option<Arc<str>>,
    name: Arc<str>,
    pub(super) has_arguments: bool,
    /// Its first piece brought complete arguments.
    arrived_complete: bool,
}

impl Blocks {
    /// Processes a piece of a call.
    pub(super) fn process_call(
        &mut self,
        delta: CallDelta<'_>,
        out: &mut VecDeque<ReplyDelta>,
    ) -> Result<(), LlmError> {
        let function = delta.function.unwrap_or_default();
        let id = Text::of(delta.id);
        let name = Text::of(function.name);
        let arguments = Text::of(function.arguments);
        let bytes = arguments.as_ref().map_or(0, |text| text.len());
        let position = self.position_of(
            delta.index,
            id.as_deref(),
            name.as_deref(),
            arguments.as_deref(),
        );
        self.shares.calls += bytes;
        let (block, provider_id, name) = match self.calls.get_mut(position) {
            Some(call) => {
                call.check_continues(id.as_deref(), name.as_deref())?;
                (call.block, None, None)
            }
            None => self.begin_call(delta.index.unwrap_or(position), id, name)?,
        };
        if let (Some(text), Some(call)) = (&arguments, self.calls.get_mut(position)) {
            call.arrived_complete = name.is_some() && is_whole(text);
            call.has_arguments |= !text.trim().is_empty();
        }
        if name.is_some() || arguments.is_some() {
            out.push_back(ReplyDelta::ToolCall {
                block,
                provider_id,
                name,
                arguments: arguments.map(Cow::into_owned).unwrap_or_default(),
            });
        }
        if let Some(extra) = delta.extra_content {
            out.push_back(ReplyDelta::State {
                block,
                id: None,
                signature: None,
                state: CallState::written(&self.origin, extra),
            });
        }
        Ok(())
    }

    /// Returns the position of the call that a piece belongs to: the last call that began with its index, or else a new
    /// one. Some servers number from one. Some give all calls of a reply the same number, so a name with a different id
    /// begins another call, and so does a name without any id if the last call is known to be complete.
    fn position_of(
        &self,
        index: Option<usize>,
        id: Option<&str>,
        name: Option<&str>,
        arguments: Option<&str>,
    ) -> usize {
        let next = self.calls.len();
        let Some(index) = index else {
            // Without an index, a name begins a call; anything else continues the last one.
            return match name {
                Some(_) => next,
                None => next.saturating_sub(1),
            };
        };
        let mut begun = self.calls.iter().enumerate();
        match begun.rfind(|(_, call)| call.index == index) {
            Some((_, call)) if call.is_followed_by(id, name, arguments) => next,
            Some((position, _)) => position,
            None => next,
        }
    }

    /// Begins a call; only its first piece has its id and its name.
    fn begin_call(
        &mut self,
        index: usize,
        id: Option<Cow<'_, str>>,
        name: Option<Cow<'_, str>>,
    ) -> Result<BegunCall, LlmError> {
        if self.calls.len() >= MAX_CALLS {
            return Err(invalid(format!(
                "more than {MAX_CALLS} tool calls in one reply"
            )));
        }
        let Some(name) = name else {
            return Err(invalid("a tool call begins without a name"));
        };
        if id.is_some()
            && self
                .calls
                .iter()
                .any(|call| call.id.as_deref() == id.as_deref())
        {
            return Err(invalid("two tool calls have the same id"));
        }
        self.shares.calls += name.len();
        let block = block_number(&mut None, &mut self.next);
        let (id, name): (Option<Arc<str>>, Arc<str>) = (id.map(Into::into), name.into());
        self.calls.push(Call {
            index,
            block,
            id: id.clone(),
            name: name.clone(),
            has_arguments: false,
            arrived_complete: false,
        });
        Ok((block, id, Some(name)))
    }
}

impl Call {
    /// Returns whether a piece with a name begins another call. It does if both have ids that differ. It also does if
    /// neither has an id, and either the names differ, or this call arrived complete and the piece has more arguments.
    /// A server that repeats the name may end with a piece without arguments.
    fn is_followed_by(
        &self,
        id: Option<&str>,
        name: Option<&str>,
        arguments: Option<&str>,
    ) -> bool {
        let Some(name) = name else { return false };
        match (self.id.as_deref(), id) {
            (Some(own), Some(id)) => own != id,
            (None, None) => {
                let brings_more = arguments.is_some_and(|text| !text.trim().is_empty());
                *self.name != *name || (self.arrived_complete && brings_more)
            }
            _ => false,
        }
    }

    /// Checks that another piece belongs to this call.
    fn check_continues(&self, id: Option<&str>, name: Option<&str>) -> Result<(), LlmError> {
        if id.is_some_and(|id| self.id.as_deref() != Some(id)) {
            return Err(invalid("the id of a tool call changed midway"));
        }
        if name.is_some_and(|name| *self.name != *name) {
            return Err(invalid("the name of a tool call changed midway"));
        }
        Ok(())
    }
}

/// Returns whether arguments are a JSON object.
fn is_whole(arguments: &str) -> bool {
    arguments.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(arguments).is_ok()
}
