//! What the ids that people type stand for: a whole id, or the beginning of one that no other begins with.

use anyhow::anyhow;
use neuraxis::SessionId;
use neuraxis::core::RunId;
use neuraxis::engine::UuidV7;
use neuraxis::ports::{Ids, RunFilter, RunSummary, SessionFilter, SessionStore, StoreError};

use crate::error::CommandError;
use crate::harmless::one_line;
use crate::progress::Progress;

/// How many ids a complaint names.
const MAX_NAMED: usize = 5;

/// The shortest beginning of an id that is not taken for the name of a new session.
const MIN_PREFIX: usize = 8;

/// Makes the id of a new session.
pub(crate) fn new_session() -> Result<SessionId, CommandError> {
    let id = UuidV7.new_id().to_string().parse();
    id.map_err(CommandError::failed)
}

/// Returns the session that is meant.
pub(crate) async fn session(
    store: &dyn SessionStore,
    text: &str,
) -> Result<SessionId, CommandError> {
    if let Ok(id) = text.parse::<SessionId>()
        && is_there(store, &id).await?
    {
        return Ok(id);
    }
    let found = beginning_with(store, text).await?;
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            let error = anyhow!("there is no session {:?}", one_line(text));
            let hint = "`neuraxis sessions list` shows those that there are";
            Err(CommandError::usage(error).hint(hint))
        }
        several => Err(ambiguous(text, several)),
    }
}

/// Makes sure that a session is what was kept: whoever can alter its log could slip words and permissions into what a model
/// goes on from.
pub(crate) async fn unaltered(
    store: &dyn SessionStore,
    session: &SessionId,
) -> Result<(), CommandError> {
    let why = match store.verify(session, None).await {
        Ok(_) | Err(StoreError::NoSuchSession(_)) => return Ok(()),
        Err(StoreError::Damaged(why)) => why,
        Err(error) => return Err(error.into()),
    };
    let error = anyhow!(why).context(format!(
        "session {session} is not what was kept, so that nothing goes on from it"
    ));
    let error = CommandError::failed(error).hint(format!(
        "`neuraxis sessions verify {session}` looks at it again, `neuraxis doctor --offline` checks the file itself, but not whether its text was altered"
    ));
    let runs = store.runs(session).await.unwrap_or_default();
    Err(match runs.last() {
        Some(last) => error.hint(format!(
            "`neuraxis runs fork {} --message TEXT` goes on in a new session from what stands there now, if you trust it",
            last.run_id
        )),
        None => error,
    })
}

/// Warns where a session is shown that is not what was kept.
pub(crate) async fn warn_if_altered(store: &dyn SessionStore, session: &SessionId) {
    if let Err(StoreError::Damaged(why)) = store.verify(session, None).await {
        let why = one_line(&why);
        Progress::new().warn(&format!("session {session} is not what was kept: {why}"));
    }
}

/// Returns the session that is to go on: one that is there and is what was kept, by its id or the beginning of it, or else
/// a new one.
///
/// A name may be anything, so only what looks like the beginning of an id that was made here is taken for one.
pub(crate) async fn continued(
    store: &dyn SessionStore,
    id: SessionId,
) -> Result<SessionId, CommandError> {
    let id = meant(store, id).await?;
    unaltered(store, &id).await?;
    Ok(id)
}

async fn meant(store: &dyn SessionStore, id: SessionId) -> Result<SessionId, CommandError> {
    let text = id.as_str();
    let is_of_uuid = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    if text.len() < MIN_PREFIX || !text.bytes().all(is_of_uuid) || is_there(store, &id).await? {
        return Ok(id);
    }
    let found = beginning_with(store, text).await?;
    match found.as_slice() {
        [] => Ok(id),
        [one] => {
            Progress::new().done(&format!("session {one}"));
            Ok(one.clone())
        }
        several => Err(ambiguous(text, several)),
    }
}

/// Returns the run that is meant.
pub(crate) async fn run(store: &dyn SessionStore, text: &str) -> Result<RunSummary, CommandError> {
    let filter = RunFilter::beginning_with(text).filter(|_| !text.is_empty());
    let mut found = match filter {
        Some(filter) => store.find_runs(&filter.limited_to(MAX_NAMED + 1)).await?,
        None => Vec::new(),
    };
    if found.len() > 1 {
        let ids: Vec<RunId> = found.iter().map(|run| run.run_id).collect();
        return Err(ambiguous(text, &ids));
    }
    found.pop().ok_or_else(|| {
        let error = anyhow!("there is no run {:?}", one_line(text));
        CommandError::usage(error).hint("`neuraxis runs list` shows those that there are")
    })
}

async fn is_there(store: &dyn SessionStore, id: &SessionId) -> Result<bool, CommandError> {
    match store.session(id).await {
        Ok(_) => Ok(true),
        Err(StoreError::NoSuchSession(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn beginning_with(
    store: &dyn SessionStore,
    prefix: &str,
) -> Result<Vec<SessionId>, CommandError> {
    // Nothing begins every id.
    if prefix.is_empty() {
        return Ok(Vec::new());
    }
    let filter = SessionFilter::default().beginning_with(prefix);
    let found = store.sessions(&filter.limited_to(MAX_NAMED + 1)).await?;
    Ok(found.into_iter().map(|session| session.id).collect())
}

fn ambiguous(text: &str, ids: &[impl ToString]) -> CommandError {
    let mut named: Vec<String> = ids.iter().map(ToString::to_string).collect();
    if named.len() > MAX_NAMED {
        named.truncate(MAX_NAMED);
        named.push("…".to_owned());
    }
    let error = anyhow!(
        "{:?} begins several ids: {}",
        one_line(text),
        named.join(", ")
    );
    CommandError::usage(error).hint("type more of it")
}
