//! The sessions and runs that people name: found, and looked at before anything goes on from them.

use anyhow::anyhow;
use neuraxis::SessionId;
use neuraxis::core::jiff::{SignedDuration, Timestamp};
use neuraxis::engine::{FindError, Sessions, UuidV7};
use neuraxis::evals::is_session_of_eval;
use neuraxis::ports::{Ids, RunFilter, RunSummary, SessionFilter};

use super::chat::nearest;
use crate::confirm::{is_somebody_there, says_yes};
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::progress;

/// What stands for the newest run that is none of an eval, and for the session of it.
const LAST: &str = "last";

/// The shortest end of an id, and beginning with a digit in it, that is taken for one.
const MIN_END: usize = 4;

/// The shortest name of a new session that is most likely the beginning of an id.
const MIN_BEGINNING: usize = 8;

/// How many of the newest sessions and runs are looked through for the end of an id.
const MAX_LOOKED_THROUGH: usize = 10_000;

/// How many runs are read at a time where most likely the first one is what is looked for.
const FEW_RUNS: usize = 20;

/// By how much the clocks of machines on one store may differ and nobody be told.
const MAX_AHEAD: SignedDuration = SignedDuration::from_secs(10);

/// How many ids an error names at the most.
const MAX_NAMED: usize = 5;

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
        "session {session} was altered since it was kept, so nothing goes on from it"
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
        progress::warn(&format!(
            "session {session} was altered since it was kept: {why}"
        ));
    }
}

/// Returns the session that is meant by its id, the beginning or the end of it, or `last`.
pub(crate) async fn session(sessions: &Sessions, text: &str) -> Result<SessionId, CommandError> {
    let missing = match sessions.find(text).await {
        Err(missing @ FindError::NoSession(_)) => missing,
        found => return Ok(found?),
    };
    // Here nothing is begun, so that a beginning of any length was looked for.
    let found = existing(sessions, text).await?;
    found.ok_or_else(|| match text {
        LAST => nothing(
            "last session",
            "`neuraxis sessions list` lists your sessions",
        ),
        _ => missing.into(),
    })
}

/// Returns the session that is meant by its whole id, where nobody is asked whether it is the one that was found: a part means
/// another one once the first is gone. Ids that were made within a minute begin with the same eight digits.
pub(crate) async fn named_session(
    sessions: &Sessions,
    text: &str,
) -> Result<SessionId, CommandError> {
    let found = match sessions.find(text).await {
        Ok(found) => found,
        Err(several @ FindError::Ambiguous { .. }) => {
            return Err(CommandError::usage(several).hint("give the whole id of the one you mean"));
        }
        Err(_) => session(sessions, text).await?,
    };
    let id = found.as_str();
    if id == text {
        return Ok(found);
    }
    let error = anyhow!(
        "{:?} is no whole id of a session, and nobody is asked whether {id} is meant",
        one_line(text)
    );
    Err(CommandError::usage(error).hint(format!("give the whole id: {id}, if you mean that one")))
}

/// Returns the run that is meant by its id, the beginning or the end of it, or `last`.
pub(crate) async fn run(sessions: &Sessions, text: &str) -> Result<RunSummary, CommandError> {
    if text == LAST {
        let newest = newest_run(sessions).await?;
        return newest.ok_or_else(|| {
            let hint = "`neuraxis runs list` lists your runs, and each is found by its id";
            nothing("last run", hint)
        });
    }
    let missing = match sessions.find_run(text).await {
        Err(missing @ FindError::NoRun(_)) if is_end(text) => missing,
        found => return Ok(found?),
    };
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
    ending.pop().ok_or_else(|| missing.into())
}

/// Returns the session of the newest run, and says which it is.
pub(crate) async fn last_session(sessions: &Sessions) -> Result<SessionId, CommandError> {
    let Some(run) = newest_run(sessions).await? else {
        let hint = "leave out --continue to begin one";
        return Err(nothing("session to go on with", hint));
    };
    let about = one_line(run.text.as_deref().unwrap_or_default());
    let about: String = about.chars().take(60).collect();
    progress::done(&format!("session {}: {about}", run.session));
    unaltered(sessions, &run.session).await?;
    Ok(run.session)
}

/// Returns the session that is to go on: one that is there and is what was kept, as [`session`] finds it, or else a new one.
/// Where a new one is most likely a slip, a person is asked, and others are told. Where nobody can be asked, a number is a whole
/// name: that of a ticket may be the end of somebody else's id.
pub(crate) async fn continued(
    sessions: &Sessions,
    id: SessionId,
) -> Result<SessionId, CommandError> {
    let found = match is_number_of_script(id.as_str()) {
        true => sessions.runs(&id).await?.map(|_| id.clone()),
        false => existing(sessions, id.as_str()).await?,
    };
    let Some(found) = found else {
        begin(sessions, &id).await?;
        return Ok(id);
    };
    match id.as_str() {
        _ if found == id => {}
        LAST => progress::done(&format!("session {found}")),
        part => progress::notice(&format!(
            "{part} is a part of the id of session {found}, which goes on"
        )),
    }
    unaltered(sessions, &found).await?;
    Ok(found)
}

/// Returns the name of a session that is to be begun, whatever it looks like.
pub(crate) async fn begun(sessions: &Sessions, id: SessionId) -> Result<SessionId, CommandError> {
    match sessions.runs(&id).await? {
        None => Ok(id),
        Some(_) => Err(
            CommandError::usage(anyhow!("there is a session {id} already"))
                .hint("leave out --new to go on with it"),
        ),
    }
}

/// Returns the run that began last, but for those of evals: they are nobody's conversation, and many may have run meanwhile.
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
                    "the last run is {} of session {}, by a clock that was ahead of this one: others may have begun after it, and are \
                     named by their ids",
                    run.run_id, run.session
                ));
            }
            return Ok(Some(run));
        }
    }
    Ok(None)
}

/// Tells whether something began later than it is now: runs are in the order of their ids, which is that of clocks.
fn is_ahead(started: Option<Timestamp>, now: Timestamp) -> bool {
    started.is_some_and(|at| at.duration_since(now) > MAX_AHEAD)
}

/// Says that none was the last one, and why that may be although a list shows some.
fn nothing(what: &str, hint: &str) -> CommandError {
    let error = anyhow!("there is no {what} (runs of evals are passed over)");
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
    // A name may be anything: only what looks like a part of an id that was made here is taken for one.
    if is_end(text) || (text.len() >= MIN_BEGINNING && is_part_of_id(text)) {
        match sessions.find(text).await {
            Ok(found) if is_made_here(found.as_str()) => return Ok(Some(found)),
            // The beginning of a name that somebody chose is a name of its own.
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
        // A name that somebody chose has no end that stands for it.
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
        ids.push("…".to_owned());
    }
    let (end, ids) = (one_line(end), ids.join(", "));
    Err(CommandError::usage(anyhow!("{end:?} ends several ids: {ids}")).hint("type more of it"))
}

fn is_part_of_id(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// Tells whether a text may be the end of an id: a word such as `cafe` may be, too, so that it takes a digit.
fn is_end(text: &str) -> bool {
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    text.len() >= MIN_END && has_digit && is_part_of_id(text)
}

/// Tells whether a text is a number where nobody can be asked what it means.
fn is_number_of_script(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && !is_somebody_there()
}

fn is_made_here(id: &str) -> bool {
    id.len() == 36 && is_part_of_id(id)
}

/// Makes sure that a new session is wanted where its name is most likely a slip: the part of an id, or nearly the name of
/// another session. Where nobody can be asked, what looks like a part of an id is refused, which it is whatever else is kept;
/// a name that is nearly another one is begun, since scripts choose names that are alike.
async fn begin(sessions: &Sessions, id: &SessionId) -> Result<(), CommandError> {
    let name = id.as_str();
    let is_of_id = name.len() >= MIN_BEGINNING && is_part_of_id(name) && !is_made_here(name);
    // A date or a number of a build is a name that scripts choose, too.
    let is_of_id = is_of_id && !is_number_of_script(name);
    let alike = match is_of_id || is_made_here(name) {
        true => None,
        false => alike(sessions, name).await?,
    };
    if !is_of_id && alike.is_none() {
        progress::done(&format!("session {name} is new"));
        return Ok(());
    }
    let meant = alike.map(|name| format!(" (did you mean {}?)", one_line(&name)));
    let what = format!(
        "there is no session {name} yet{}",
        meant.unwrap_or_default()
    );
    if !is_somebody_there() && is_of_id {
        return Err(CommandError::usage(anyhow!(what)).hint(
            "type more of the id (`neuraxis sessions list`), or add --new to begin a session of this name",
        ));
    }
    if !is_somebody_there() {
        progress::notice(&format!("{what}: this begins it"));
        return Ok(());
    }
    match says_yes(&format!("{what}. Begin it?"))? {
        true => Ok(()),
        false => Err(CommandError::usage(anyhow!("no session was begun"))
            .hint("`neuraxis sessions list` lists your sessions")),
    }
}

/// Returns the name of a session that is nearly this one.
async fn alike(sessions: &Sessions, name: &str) -> Result<Option<String>, CommandError> {
    let mut each = sessions.each(SessionFilter::default());
    let mut names = Vec::new();
    while names.len() < SessionFilter::MAX_LIMIT
        && let Some(session) = each.next().await?
    {
        if !is_made_here(session.id.as_str()) {
            names.push(session.id.to_string());
        }
    }
    // Numbered names are alike on purpose, wherever their numbers stand; others are no more alike for having numbers.
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
    fn what_began_by_a_clock_that_is_minutes_ahead_is_told_and_not_what_differs_by_a_little() {
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
