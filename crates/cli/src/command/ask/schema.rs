//! `--schema FILE`: what the answer has to look like, and what is told where it does not.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::anyhow;
use neuraxis::engine::AnswerSchema;
use neuraxis::{FinishReason, OrchestratorResult, RunStatus};

use crate::error::CommandError;
use crate::harmless::one_line;

/// The most bytes of a file; a schema is smaller.
const MAX_BYTES: u64 = 1024 * 1024;

/// How many letters of an answer that does not fit are shown.
const MAX_SHOWN: usize = 200;

/// Reads the schema.
pub(super) fn read(path: &Path) -> Result<AnswerSchema, CommandError> {
    let cannot = |error: anyhow::Error| {
        let what = format!("cannot use the schema {}", path.display());
        CommandError::usage(error.context(what))
    };
    let text = text(path).map_err(cannot)?;
    AnswerSchema::from_json(text).map_err(|error| cannot(error.into()))
}

fn text(path: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    // Of a pipe or a device nobody knows whether it ever ends.
    File::open(path)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)?;
    // One that is cut off would be said to be no text, or no JSON.
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_BYTES) {
        return Err(anyhow!("it has more than {MAX_BYTES} bytes"));
    }
    Ok(String::from_utf8(bytes)?)
}

/// Says that a run came to no answer that fits, if it ended and one was asked for. A run that failed for another reason tells
/// that one.
pub(super) fn missed(result: &OrchestratorResult) -> Option<CommandError> {
    let fault = result.answer_fault.clone()?;
    let gave_none = matches!(result.finish_reason, Some(FinishReason::InvalidAnswer(_)));
    if result.status != RunStatus::Done && !gave_none {
        return None;
    }
    let error = anyhow!(fault).context("there is no answer that fits the schema");
    let error = CommandError::failed(error);
    let said: String = result.reply.chars().take(MAX_SHOWN).collect();
    Some(match said.trim().is_empty() {
        true => error,
        false => error.hint(format!("the model said: {}", one_line(&said))),
    })
}
