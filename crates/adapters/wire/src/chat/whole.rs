//! Reads a reply that comes whole.

use std::collections::VecDeque;

use neuraxis_core::{LlmError, LlmErrorKind, ModelRef, Reply, ReplyAssembler};

use crate::chat::blocks::Blocks;
use crate::endpoint::Voice;
use crate::stream::Decode;

/// Decodes a whole reply. It goes the way of a stream of one chunk, so that both give the same.
pub(super) fn decode(body: &[u8], model: &ModelRef, voice: &Voice) -> Result<Reply, LlmError> {
    let invalid = |said: &str| LlmError::new(LlmErrorKind::InvalidResponse, said);
    let text = std::str::from_utf8(body).map_err(|_| invalid("the reply is not UTF-8"))?;
    let mut blocks = Blocks::new(model.clone());
    let mut deltas = VecDeque::new();
    blocks
        .take(text, &mut deltas, voice)
        .and_then(|_| blocks.end(&mut deltas))
        .map_err(|error| blocks.with_usage(error))?;
    let mut assembler = ReplyAssembler::default();
    for delta in deltas {
        assembler.push(delta)?;
    }
    assembler.finish()
}
