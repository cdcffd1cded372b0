//! Writes inputs that name an agent as part of a record, which names it already: once, not twice.

use serde::{Serialize, Serializer};

use crate::ids::AgentId;
use crate::input::{Cancelled, Steered};

pub(super) fn steered<S: Serializer>(input: &Steered, serializer: S) -> Result<S::Ok, S::Error> {
    let agent = AgentId::ROOT;
    let input = Steered {
        agent,
        ..input.clone()
    };
    input.serialize(serializer)
}

pub(super) fn cancelled<S: Serializer>(
    input: &Cancelled,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let agent = AgentId::ROOT;
    let input = Cancelled {
        agent,
        ..input.clone()
    };
    input.serialize(serializer)
}
