//! `--schema FILE`: the required form of the answer, and what is reported if the answer does not fit.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use neuraxis::core::{NotUtf8, Record, utf8_text};
use neuraxis::engine::{AnswerFault, AnswerSchema};
use neuraxis::{FinishReason, OrchestratorResult, RunStatus};

use super::follow::{at_a_limit, is_a_limit};
use super::outcome::{Outcome, Served};
use crate::error::CommandError;
use crate::harmless::one_line;

/// The maximum size of the file in bytes; schemas are smaller.
const MAX_BYTES: u64 = 1024 * 1024;

/// The maximum number of characters shown of an answer that does not fit.
const MAX_SHOWN: usize = 200;

/// Reads the schema.
pub(super) fn read(path: &Path) -> Result<AnswerSchema, CommandError> {
    let cannot = |error: anyhow::Error| {
        let what = format!("cannot use the schema {}", path.display());
        let is_encoded = error.is::<NotUtf8>();
        let error = CommandError::usage(error.context(what));
        match is_encoded {
            true => error.hint("save it as UTF-8"),
            false => error,
        }
    };
    let text = text(path).map_err(cannot)?;
    // Some editors begin a file with a byte order mark, which is not valid JSON.
    AnswerSchema::from_json(text.trim_start_matches('\u{feff}'))
        .map_err(|error| cannot(error.into()))
}

fn text(path: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    // A pipe or a device may never end.
    File::open(path)?
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)?;
    // A truncated file would be reported as invalid text or JSON.
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_BYTES) {
        return Err(anyhow!("it is larger than {MAX_BYTES} bytes"));
    }
    Ok(utf8_text(bytes)?)
}

/// Returns an error if a run with a schema ended without an answer that fits. A run that failed for another reason
/// reports that reason, and so does one that a limit ended before there was anything to parse.
pub(super) fn missed(
    result: &OrchestratorResult,
    outcome: &Outcome,
    records: &[Arc<Record>],
) -> Option<CommandError> {
    let fault = result.answer_fault.clone()?;
    let gave_none = matches!(result.finish_reason, Some(FinishReason::InvalidAnswer(_)));
    if result.status != RunStatus::Done && !gave_none {
        return None;
    }
    // An answer that the model repeated until that ended the run is still invalid.
    let is_at_limit = matches!(&fault, AnswerFault::StoppedEarly(reason) if is_a_limit(reason));
    if is_at_limit && outcome.instead.is_some() {
        return None;
    }
    let error = anyhow!(fault).context("there is no answer that fits the schema");
    if is_at_limit {
        return Some(CommandError::at_limit(error).hint(at_a_limit(records)));
    }
    let error = CommandError::failed(error);
    let shown = |text: &str| one_line(&text.chars().take(MAX_SHOWN).collect::<String>());
    Some(match (outcome.text.trim(), &outcome.instead) {
        ("", Some(instead)) if outcome.served == Served::No => error.hint(shown(instead)),
        ("", _) => error,
        (said, _) => error.hint(format!("the model said: {}", shown(said))),
    })
}
