//! What sessions and runs are about: the words with which a conversation began, and those that a run answers.
//!
//! A run that branched off from another has no message of its own where it answers the same one again: what it is about stands in
//! the history that it began with. A session that branched off goes on with a conversation, and so keeps its title, behind what it
//! went on with: several that branched off from one would look the same.

use std::sync::Arc;

use neuraxis::core::Message;
use neuraxis::engine::Sessions;
use neuraxis::ports::RunSummary;

use crate::error::CommandError;
use crate::harmless::one_line_of;

/// The most characters of a message that say what something is about, as many as a run keeps of its own.
const MAX_CHARS: usize = 120;

/// Returns the words with which the conversation of a session began, of which these are the runs, the oldest first; in front of them
/// its own where it branched off.
pub(in crate::command) async fn title(
    sessions: &Sessions,
    runs: &[RunSummary],
) -> Result<Option<String>, CommandError> {
    let Some(first) = runs.first() else {
        return Ok(None);
    };
    let before = sessions.history_before(first.run_id).await?;
    let said = before.messages().iter().find_map(words_of);
    let own = runs.iter().find_map(|run| run.text.clone());
    Ok(match (own, said) {
        (Some(own), Some(said)) if own != said => Some(format!("{own} (fork of: {said})")),
        (own, said) => said.or(own),
    })
}

/// Returns the words that a run answers.
pub(in crate::command) async fn asked(
    sessions: &Sessions,
    run: &RunSummary,
) -> Result<Option<String>, CommandError> {
    if run.text.is_some() {
        return Ok(run.text.clone());
    }
    let before = sessions.history_before(run.run_id).await?;
    Ok(before.messages().iter().rev().find_map(words_of))
}

fn words_of(message: &Arc<Message>) -> Option<String> {
    let Message::User { .. } = message.as_ref() else {
        return None;
    };
    let text = one_line_of(&message.text(), MAX_CHARS);
    (!text.is_empty()).then_some(text)
}
