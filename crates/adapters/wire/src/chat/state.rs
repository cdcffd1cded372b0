//! State of a reply's call that is stored with it, to be sent back.

use std::borrow::Cow;
use std::sync::Arc;

use neuraxis_core::ProviderState;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The server and the model that made a call. The state that they want back is sent to no other: it is sealed for one
/// model, and other servers refuse fields that they do not know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StateOrigin {
    pub(super) server: Arc<str>,
    /// The model that was asked for; the name it reports may be longer.
    pub(super) model: Arc<str>,
}

/// The stored state of a call.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CallState<'a> {
    server: Cow<'a, str>,
    model: Cow<'a, str>,
    #[serde(borrow)]
    extra_content: &'a RawValue,
}

impl<'a> CallState<'a> {
    /// Serializes what came with a call; `None` only if it cannot be serialized.
    pub(super) fn written(origin: &StateOrigin, extra_content: &RawValue) -> Option<ProviderState> {
        let state = CallState {
            server: (&*origin.server).into(),
            model: (&*origin.model).into(),
            extra_content,
        };
        ProviderState::encode(&state).ok()
    }

    /// Returns what came with a call, if it is from this origin.
    pub(super) fn read(state: &'a ProviderState, origin: &StateOrigin) -> Option<&'a RawValue> {
        let state: Self = serde_json::from_str(state.as_str()).ok()?;
        let is_ours = *state.server == *origin.server && *state.model == *origin.model;
        is_ours.then_some(state.extra_content)
    }
}
