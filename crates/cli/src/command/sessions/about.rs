//! What lists say about sessions and runs: the title or the words with which a conversation began, and the words that a
//! run answers.
//!
//! A run that branched off from another and answers the same message again has no message of its own: its words are in
//! the history that it began with. A session that branched off is named by its own first words as well as by the title
//! or first words of the original conversation, since several branches of one conversation would otherwise look the
//! same.

use std::sync::Arc;

use neuraxis::core::Message;
use neuraxis::engine::Sessions;
use neuraxis::ports::{RunSummary, Session};

use crate::error::CommandError;
use crate::harmless::one_line_of;

/// The maximum number of characters of a message, the same as a run keeps of it.
const MAX_CHARS: usize = 120;

/// Returns the title of a session, or else the first words of its conversation, given its runs, the oldest first. If the
/// session branched off, its own first words are added.
pub(in crate::command) async fn about(
    sessions: &Sessions,
    session: &Session,
    runs: &[RunSummary],
) -> Result<Option<String>, CommandError> {
    let title = session.title.clone();
    let Some(first) = runs.first() else {
        return Ok(title);
    };
    let before = sessions.history_before(first.run_id).await?;
    let earlier = before.messages().iter().find_map(words_of);
    let own = runs.iter().find_map(|run| run.text.clone());
    Ok(match (title, own, earlier) {
        // A fork begins with the title of the original.
        (Some(title), Some(own), Some(earlier)) if own != earlier => {
            Some(format!("{title} (fork: {own})"))
        }
        (None, Some(own), Some(earlier)) if own != earlier => {
            Some(format!("{own} (fork of: {earlier})"))
        }
        (title, own, earlier) => title.or(earlier).or(own),
    })
}

/// Returns the message that a run answers, shortened.
pub(in crate::command) async fn question_of(
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
