//! What the errors of these servers mean, besides what holds everywhere.

use neuraxis_wire::{ErrorRule, Mark, Meaning};

/// The rules, the first that fits counts.
///
/// llama-server answers a history that it cannot read with status 500, as it does a model that writes what it cannot
/// parse. The first will fail forever, the second may pass: only the words tell.
pub(crate) const RULES: [ErrorRule; 10] = [
    ErrorRule::new(Mark::Message("loading model"), Meaning::Loading).with_status(503),
    ErrorRule::new(
        Mark::Message("does not match the expected"),
        Meaning::InvalidResponse,
    ),
    ErrorRule::new(
        Mark::Message("unexpected empty grammar stack"),
        Meaning::InvalidResponse,
    ),
    ErrorRule::new(Mark::Message("failed to parse"), Meaning::BadRequest),
    ErrorRule::new(
        Mark::Message("exceeds the available context size"),
        Meaning::ContextOverflow,
    ),
    ErrorRule::new(
        Mark::Message("context size has been exceeded"),
        Meaning::ContextOverflow,
    ),
    // LM Studio.
    ErrorRule::new(
        Mark::Message("loaded with context length of only"),
        Meaning::ContextOverflow,
    ),
    // A llama-server that chooses among models.
    ErrorRule::new(Mark::Message("' not found"), Meaning::ModelNotFound).with_status(400),
    ErrorRule::new(Mark::Message("model is not loaded"), Meaning::ModelNotFound).with_status(400),
    ErrorRule::new(
        Mark::Message("model name is missing"),
        Meaning::ModelNotFound,
    )
    .with_status(400),
];
