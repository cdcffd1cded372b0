//! Finds the sessions and runs that users name, and checks them before anything continues from them.

use anyhow::anyhow;
use neuraxis::SessionId;
use neuraxis::core::jiff::{SignedDuration, Timestamp};
use neuraxis::engine::{FindError, Sessions, UuidV7};
use neuraxis::evals::is_session_of_eval;
use neuraxis::ports::{Ids, RunFilter, RunSummary, SessionFilter};

use super::chat::nearest;
use crate::confirm::{ask_yes_no, can_ask_user};
use crate::error::CommandError;
use crate::glyphs::ELLIPSIS;
use crate::harmless::one_line;
use crate::progress;

/// The word for the newest run that is not part of an eval, and for its session.
const LAST: &str = "last";

/// The minimum length of the end of an id, or of a beginning with a digit in it, to be treated as such.
const MIN_END: usize = 4;

/// The minimum length of a new session's name to be treated as a likely beginning of an id.
const MIN_BEGINNING: usize = 8;

/// How many of the newest sessions and runs are searched for the end of an id.
const MAX_LOOKED_THROUGH: usize = 10_000;

/// How many runs are read at a time if the first one is most likely the one wanted.
const FEW_RUNS: usize = 20;

/// How much the clocks of machines on one store may differ without a notice.
const MAX_AHEAD: SignedDuration = SignedDuration::from_secs(10);

/// The maximum number of ids in an error.
const MAX_NAMED: usize = 5;

/// Creates the id of a new session.
pub(crate) fn new_session() -> Result<SessionId, CommandError> {
    let id = UuidV7.new_id().to_string().parse();
    id.map_err(CommandError::failed)
}

/// Refuses to continue a session that was altered.
pub(crate) async fn check_unaltered(
    sessions: &Sessions,
    session: &SessionId,
) -> Result<(), CommandError> {
    let Some(why) = sessions.alteration(session).await? else {
        return Ok(());
    };
    let error = anyhow!(why).context(format!(
        "session {session} was altered after it was stored, so it cannot be continued"
    ));
    let error = CommandError::failed(error).hint(format!(
        "`neuraxis sessions verify {session}` checks it again; `neuraxis doctor --offline` checks the file itself, but not whether its text was altered"
    ));
    let runs = sessions.runs(session).await.unwrap_or_default();
    Err(match runs.unwrap_or_default().last() {
        Some(last) => error.hint(format!(
            "`neuraxis runs fork {} --message TEXT` continues its current content in a new session, if you trust it",
            last.run_id
        )),
        None => error,
    })
}

/// Warns if a session that is shown was altered.
pub(crate) async fn warn_if_altered(sessions: &Sessions, session: &SessionId) {
    if let Ok(Some(why)) = sessions.alteration(session).await {
        let why = one_line(&why);
        progress::warn(&format!(
            "session {session} was altered after it was stored: {why}"
        ));
    }
}

/// Returns the session with this id, this beginning or end of its id, or `last`.
pub(crate) async fn session(sessions: &Sessions, text: &str) -> Result<SessionId, CommandError> {
    let missing = match sessions.find(text).await {
        Err(missing @ FindError::NoSession(_)) => missing,
        found => return Ok(found?),
    };
    // Nothing is created here, so the search accepts a beginning of any length.
    let found = existing(sessions, text).await?;
    found.ok_or_else(|| match text {
        LAST => nothing(
            "last session",
            "`neuraxis sessions list` lists your sessions",
        ),
        _ => missing.into(),
    })
}

/// Returns the session with this full id, for commands that do not ask for confirmation: a part of an id would mean
/// another session once the first is gone. Ids that were created within a minute begin with the same eight digits.
pub(crate) async fn named_session(
    sessions: &Sessions,
    text: &str,
) -> Result<SessionId, CommandError> {
    let found = match sessions.find(text).await {
        Ok(found) => found,
        Err(several @ FindError::Ambiguous { .. }) => {
            return Err(CommandError::usage(several).hint("give the full id of the one you mean"));
        }
        Err(_) => session(sessions, text).await?,
    };
    let id = found.as_str();
    if id == text {
        return Ok(found);
    }
    let error = anyhow!(
        "{:?} is not a full session id, and this command does not ask whether you mean {id}",
        one_line(text)
    );
    Err(CommandError::usage(error).hint(format!("give the full id: {id}, if you mean that one")))
}

/// Returns the run with this id, this beginning or end of its id, or `last`.
pub(crate) async fn run(sessions: &Sessions, text: &str) -> Result<RunSummary, CommandError> {
    let found = run_if_any(sessions, text).await?;
    found.ok_or_else(|| FindError::NoRun(text.to_owned()).into())
}

/// Same as [`run`]; `None` if no run has this id or this part of one.
pub(crate) async fn run_if_any(
    sessions: &Sessions,
    text: &str,
) -> Result<Option<RunSummary>, CommandError> {
    if text == LAST {
        let newest = newest_run(sessions).await?;
        return newest.map(Some).ok_or_else(|| {
            let hint = "`neuraxis runs list` lists your runs: name one by its id";
            nothing("last run", hint)
        });
    }
    match sessions.find_run(text).await {
        Err(FindError::NoRun(_)) if is_end(text) => {}
        Err(FindError::NoRun(_)) => return Ok(None),
        found => return Ok(Some(found?)),
    }
    let mut each = sessions.each_run(RunFilter::default());
    let mut ending = Vec::new();
    let mut count = 0;
    while count < MAX_LOOKED_THROUGH
        && let Some(run) = each.next().await?
    {
        count += 1;
        if run.run_id.to_string().ends_with(text) {
            ending.push(run);
        }
    }
    let ids = ending.iter().map(|run| run.run_id.to_string());
    only_one(text, ids.collect())?;
    Ok(ending.pop())
}

/// Returns the session of the newest run, and prints which it is.
pub(crate) async fn last_session(sessions: &Sessions) -> Result<SessionId, CommandError> {
    let Some(run) = newest_run(sessions).await? else {
        let hint = "leave out --continue to start one";
        return Err(nothing("session to continue", hint));
    };
    let session = sessions.get(&run.session).await?;
    let about = session
        .title
        .or_else(|| run.text.clone())
        .unwrap_or_default();
    let about: String = one_line(&about).chars().take(60).collect();
    progress::done(&format!("session {}: {about}", run.session));
    check_unaltered(sessions, &run.session).await?;
    Ok(run.session)
}

/// Who reports that a session is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Announcing {
    /// The function that found no other session.
    Here,
    /// Its caller.
    Caller,
}

/// Returns the session to continue: an existing, unaltered one, found as by [`session`], or else a new one. If a new
/// session is most likely a typo, a user at the terminal is asked, and otherwise a notice is printed. If nobody can be
/// asked, a number is a full name: a ticket number may happen to be the end of an unrelated id.
pub(crate) async fn session_to_continue(
    sessions: &Sessions,
    id: SessionId,
    announcing: Announcing,
) -> Result<SessionId, CommandError> {
    let found = match is_number_of_script(id.as_str()) {
        true => sessions.runs(&id).await?.map(|_| id.clone()),
        false => existing(sessions, id.as_str()).await?,
    };
    let Some(found) = found else {
        confirm_new_session(sessions, &id, announcing).await?;
        return Ok(id);
    };
    match id.as_str() {
        _ if found == id => {}
        LAST => progress::done(&format!("session {found}")),
        part => progress::notice_with_id(
            &format!("{part} is part of the id of session {found}, which this continues"),
            found.as_str(),
        ),
    }
    check_unaltered(sessions, &found).await?;
    Ok(found)
}

/// Returns the name of a session to create, whatever it looks like.
pub(crate) async fn new_session_named(
    sessions: &Sessions,
    id: SessionId,
) -> Result<SessionId, CommandError> {
    match sessions.runs(&id).await? {
        None => Ok(id),
        Some(_) => Err(CommandError::usage(anyhow!("session {id} already exists"))
            .hint("leave out --new to continue it")),
    }
}

/// Returns the run that began last, except those of evals: they are not conversations, and many may have run meanwhile.
async fn newest_run(sessions: &Sessions) -> Result<Option<RunSummary>, CommandError> {
    let mut each = sessions.each_run(RunFilter::default().limited_to(FEW_RUNS));
    let mut count = 0;
    while count < MAX_LOOKED_THROUGH
        && let Some(run) = each.next().await?
    {
        count += 1;
        if !is_session_of_eval(&run.session) {
            if is_ahead(run.started_at, Timestamp::now()) {
                progress::notice(&format!(
                    "the last run is {} of session {}, by a clock that was ahead of this one: other runs may have started \
                     after it; name those by their ids",
                    run.run_id, run.session
                ));
            }
            return Ok(Some(run));
        }
    }
    Ok(None)
}

/// Returns whether something began in the future: runs are ordered by their ids, and so by the clocks that created
/// them.
fn is_ahead(started: Option<Timestamp>, now: Timestamp) -> bool {
    started.is_some_and(|at| at.duration_since(now) > MAX_AHEAD)
}

/// Returns the error for a missing last run, with why there may be none although a list shows some.
fn nothing(what: &str, hint: &str) -> CommandError {
    let error = anyhow!("there is no {what} (runs of evals do not count)");
    CommandError::usage(error).hint(hint)
}

async fn existing(sessions: &Sessions, text: &str) -> Result<Option<SessionId>, CommandError> {
    let exact = match text.parse::<SessionId>() {
        Ok(id) => sessions.runs(&id).await?.map(|_| id),
        Err(_) => None,
    };
    if exact.is_some() {
        return Ok(exact);
    }
    if text == LAST {
        return Ok(newest_run(sessions).await?.map(|run| run.session));
    }
    // A name may be anything: only what looks like part of a generated id is treated as one.
    if is_end(text) || (text.len() >= MIN_BEGINNING && is_part_of_id(text)) {
        match sessions.find(text).await {
            Ok(found) if is_made_here(found.as_str()) => return Ok(Some(found)),
            // The beginning of a user-chosen name is a name of its own.
            Ok(_) | Err(FindError::NoSession(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    match is_end(text) {
        true => ending_with(sessions, text).await,
        false => Ok(None),
    }
}

async fn ending_with(sessions: &Sessions, end: &str) -> Result<Option<SessionId>, CommandError> {
    let mut each = sessions.each(SessionFilter::default());
    let mut found = Vec::new();
    let mut count = 0;
    while count < MAX_LOOKED_THROUGH
        && let Some(session) = each.next().await?
    {
        count += 1;
        // A user-chosen name cannot be referred to by its end.
        if session.id.as_str().ends_with(end) && is_made_here(session.id.as_str()) {
            found.push(session.id);
        }
    }
    only_one(end, found.iter().map(ToString::to_string).collect())?;
    Ok(found.pop())
}

fn only_one(end: &str, mut ids: Vec<String>) -> Result<(), CommandError> {
    if ids.len() < 2 {
        return Ok(());
    }
    if ids.len() > MAX_NAMED {
        ids.truncate(MAX_NAMED);
        ids.push(ELLIPSIS.to_string());
    }
    let (end, ids) = (one_line(end), ids.join(", "));
    Err(
        CommandError::usage(anyhow!("several ids end with {end:?}: {ids}"))
            .hint("type more of the id"),
    )
}

fn is_part_of_id(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Returns whether a text may be the end of an id. It must have a digit, since words such as `cafe` would match
/// otherwise.
fn is_end(text: &str) -> bool {
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    text.len() >= MIN_END && has_digit && is_part_of_id(text)
}

/// Returns whether a text is a number and nobody can be asked what it means.
fn is_number_of_script(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && !can_ask_user()
}

fn is_made_here(id: &str) -> bool {
    id.len() == 36 && is_part_of_id(id)
}

/// Checks that a new session is wanted if its name is most likely a typo: part of an id, or similar to the name of
/// another session. If nobody can be asked, a name that looks like part of an id is refused, whichever sessions exist.
/// A name that is similar to another one is accepted, since scripts choose similar names.
async fn confirm_new_session(
    sessions: &Sessions,
    id: &SessionId,
    announcing: Announcing,
) -> Result<(), CommandError> {
    let name = id.as_str();
    let is_of_id = name.len() >= MIN_BEGINNING && is_part_of_id(name) && !is_made_here(name);
    // Scripts also choose dates and build numbers as names.
    let is_of_id = is_of_id && !is_number_of_script(name);
    let alike = match is_of_id || is_made_here(name) {
        true => None,
        false => similar_session(sessions, name).await?,
    };
    if !is_of_id && alike.is_none() {
        if announcing == Announcing::Here {
            progress::done(&format!("session {name} is new"));
        }
        return Ok(());
    }
    let meant = alike.map(|name| format!(" (did you mean {}?)", one_line(&name)));
    let what = format!(
        "there is no session {name} yet{}",
        meant.unwrap_or_default()
    );
    if !can_ask_user() && is_of_id {
        return Err(CommandError::usage(anyhow!(what)).hint(
            "type more of the id (`neuraxis sessions list`), or add --new to start a session with this name",
        ));
    }
    if !can_ask_user() {
        progress::notice(&format!("{what}: this starts it"));
        return Ok(());
    }
    match ask_yes_no(&format!("{what}. Start it?"))? {
        true => Ok(()),
        false => Err(CommandError::usage(anyhow!("no session was started"))
            .hint("`neuraxis sessions list` lists your sessions")),
    }
}

/// Returns the name of a session that is similar to this one.
async fn similar_session(sessions: &Sessions, name: &str) -> Result<Option<String>, CommandError> {
    let mut each = sessions.each(SessionFilter::default());
    let mut names = Vec::new();
    while names.len() < SessionFilter::MAX_LIMIT
        && let Some(session) = each.next().await?
    {
        if !is_made_here(session.id.as_str()) {
            names.push(session.id.to_string());
        }
    }
    // Numbered names are similar on purpose, wherever the numbers are. Digits do not make other names more similar.
    let stem = |text: &str| text.replace(|it: char| it.is_ascii_digit(), "");
    let wanted = stem(name);
    let is_alike = |other: &&String| {
        let other = stem(other);
        other != wanted && nearest(&wanted, std::iter::once(other.as_str())).is_some()
    };
    let others = names.iter().filter(is_alike);
    Ok(nearest(name, others.map(String::as_str)).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_time_minutes_ahead_is_reported_and_a_small_difference_is_not() {
        let now: Timestamp = "2026-05-01T12:00:00Z".parse().unwrap();
        for (started, expected) in [
            ("2026-05-01T12:07:00Z", true),
            ("2026-05-01T12:00:03Z", false),
            ("2026-05-01T11:59:00Z", false),
        ] {
            let started = started.parse().unwrap();
            assert_eq!(is_ahead(Some(started), now), expected, "{started}");
        }
        assert!(!is_ahead(None, now));
    }
}
