//! The sessions that people name: found, and looked at before anything goes on from them.

use anyhow::anyhow;
use neuraxis::SessionId;
use neuraxis::engine::{Sessions, UuidV7};
use neuraxis::ports::Ids;

use crate::error::CommandError;
use crate::harmless::one_line;
use crate::progress::Progress;

/// Makes the id of a new session.
pub(crate) fn new_session() -> Result<SessionId, CommandError> {
    let id = UuidV7.new_id().to_string().parse();
    id.map_err(CommandError::failed)
}

/// Refuses to go on from a session that is not what was kept.
pub(crate) async fn unaltered(
    sessions: &Sessions,
    session: &SessionId,
) -> Result<(), CommandError> {
    let Some(why) = sessions.alteration(session).await? else {
        return Ok(());
    };
    let error = anyhow!(why).context(format!(
        "session {session} is not what was kept, so that nothing goes on from it"
    ));
    let error = CommandError::failed(error).hint(format!(
        "`neuraxis sessions verify {session}` looks at it again, `neuraxis doctor --offline` checks the file itself, but not whether its text was altered"
    ));
    let runs = sessions.runs(session).await.unwrap_or_default();
    Err(match runs.unwrap_or_default().last() {
        Some(last) => error.hint(format!(
            "`neuraxis runs fork {} --message TEXT` goes on in a new session from what stands there now, if you trust it",
            last.run_id
        )),
        None => error,
    })
}

/// Warns where a session is shown that is not what was kept.
pub(crate) async fn warn_if_altered(sessions: &Sessions, session: &SessionId) {
    if let Ok(Some(why)) = sessions.alteration(session).await {
        let why = one_line(&why);
        Progress::new().warn(&format!("session {session} is not what was kept: {why}"));
    }
}

/// Returns the session that is to go on: one that is there and is what was kept, by its id or the beginning of it, or else
/// a new one.
pub(crate) async fn continued(
    sessions: &Sessions,
    id: SessionId,
) -> Result<SessionId, CommandError> {
    let found = sessions.find_or_new(id.clone()).await?;
    if found != id {
        Progress::new().done(&format!("session {found}"));
    }
    unaltered(sessions, &found).await?;
    Ok(found)
}
