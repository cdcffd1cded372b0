//! `/api/v1/sessions`: lists and searches sessions, creates, renames and deletes them.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use neuraxis::core::jiff::Timestamp;
use neuraxis::ports::{
    MAX_TITLE_CHARS, Session, SessionCursor, SessionFilter, SessionOrder, SessionSummary,
    StoreError,
};
use neuraxis::{Orchestrator, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::session_id;
use crate::body;
use crate::caller::Caller;
use crate::problem::{INVALID_QUERY, Problem};
use crate::query::Parameters;
use crate::request_body::{self, RequestBody};

/// The default number of sessions or runs per page.
pub(super) const PAGE: usize = 50;

/// The maximum number of characters of a text to search for.
const MAX_SEARCHED: usize = 200;

/// The page of a list to return.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionsQuery {
    /// The maximum number of sessions; 50 by default.
    #[schemars(range(min = 1, max = SessionFilter::MAX_LIMIT - 1))]
    limit: Option<usize>,
    /// Only sessions of this owner.
    #[schemars(regex(pattern = request_body::WITHOUT_NUL))]
    owner: Option<String>,
    /// Only sessions whose ids begin with this.
    #[schemars(regex(pattern = request_body::WITHOUT_NUL))]
    prefix: Option<String>,
    /// Only sessions whose title, or the user's message of one of their runs, contains this text, in upper or lower case.
    #[schemars(length(min = 1, max = MAX_SEARCHED), regex(pattern = request_body::WITHOUT_NUL))]
    q: Option<String>,
    /// Only sessions after this position, the `next` of the previous page, or after the session with this id.
    after: Option<After>,
}

/// The position after which a page of sessions begins.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", extend("pattern" = "^([0-9]{1,16}~)?[A-Za-z0-9._:-]{1,128}$"))]
enum After {
    /// After an existing session.
    Session(SessionId),
    /// After the position of a session that may have been used or deleted since.
    Position(SessionCursor),
}

impl After {
    /// Separates the time of a session's last activity, in microseconds, from its id. It occurs in neither.
    const SEPARATOR: char = '~';

    /// Encodes the position of a session.
    fn position_of(place: &SessionCursor) -> String {
        format!(
            "{}{}{}",
            place.at.as_microsecond(),
            Self::SEPARATOR,
            place.id
        )
    }
}

impl TryFrom<String> for After {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let Some((at, id)) = text.split_once(Self::SEPARATOR) else {
            let id = text.parse::<SessionId>();
            return id.map(Self::Session).map_err(|error| error.to_string());
        };
        let at = at.parse().ok();
        let at = at.and_then(|at| Timestamp::from_microsecond(at).ok());
        match (at, id.parse::<SessionId>()) {
            (Some(at), Ok(id)) => Ok(Self::Position(SessionCursor { at, id })),
            _ => Err("expected the `next` of a page, or a session id".to_owned()),
        }
    }
}

/// A page of sessions, most recently used first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionPage")]
pub(crate) struct Page {
    /// The sessions.
    sessions: Vec<SessionSummary>,
    /// The value of `after` for the next page. Absent on the last page. A search may have one although its page is short
    /// or empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// `GET /api/v1/sessions`
pub(crate) async fn list(
    State(orchestrator): State<Orchestrator>,
    caller: Caller,
    Parameters(query): Parameters<SessionsQuery>,
) -> Result<Json<Page>, Problem> {
    let most = page_size(query.limit, SessionFilter::MAX_LIMIT)?;
    let mut filter = SessionFilter::default().by_last_activity();
    filter.owner = caller.list_owner_for(query.owner)?;
    if let Some(prefix) = query.prefix {
        // Not every store supports a search for this character.
        if prefix.contains('\0') {
            let detail = "prefix must not contain the character U+0000, because no id does";
            return Err(Problem::new(&INVALID_QUERY, detail));
        }
        filter = filter.beginning_with(prefix);
    }
    match query.after {
        Some(After::Session(id)) => {
            filter = filter.after(&caller.session(&orchestrator, &id).await?);
        }
        Some(After::Position(place)) => filter.before = Some(place),
        None => {}
    }
    let sessions = orchestrator.sessions();
    if let Some(text) = query.q {
        check_searched(&text)?;
        let search = filter.limited_to(most).containing(&text);
        let found = sessions.search(&search).await?;
        return Ok(Json(Page {
            next: found.next.as_ref().map(After::position_of),
            sessions: found.sessions,
        }));
    }
    // One more, to find out whether there is another page.
    let mut page = sessions.list(&filter.limited_to(most + 1)).await?;
    let is_more = page.len() > most;
    page.truncate(most);
    let last = page.last().filter(|_| is_more);
    let last = last.map(|last| SessionCursor::of(&last.session, SessionOrder::LastActive));
    Ok(Json(Page {
        next: last.as_ref().map(After::position_of),
        sessions: page,
    }))
}

/// Refuses a text that cannot be searched for.
fn check_searched(text: &str) -> Result<(), Problem> {
    let is_valid = (1..=MAX_SEARCHED).contains(&text.chars().count()) && !text.contains('\0');
    if is_valid {
        return Ok(());
    }
    let detail =
        format!("q must have 1 to {MAX_SEARCHED} characters, without the character U+0000");
    Err(Problem::new(&INVALID_QUERY, detail))
}

/// Validates the requested page size.
pub(super) fn page_size(limit: Option<usize>, most: usize) -> Result<usize, Problem> {
    let limit = limit.unwrap_or(PAGE);
    if (1..most).contains(&limit) {
        return Ok(limit);
    }
    let detail = format!(
        "limit: expected a whole number from 1 to {}, not \"{limit}\"",
        most - 1
    );
    Err(Problem::new(&INVALID_QUERY, detail))
}

/// The body of a request to create a session.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "NewSession")]
#[serde(
    deny_unknown_fields,
    expecting = "an object that may have the field id"
)]
pub(crate) struct NewSession {
    /// The session's id; a random one by default.
    id: Option<SessionId>,
}

impl RequestBody for NewSession {
    const FIELDS: &'static [&'static str] = &["id"];
}

/// `POST /api/v1/sessions`
pub(crate) async fn create(
    State(orchestrator): State<Orchestrator>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let new = match body::json_if_any(&headers, body).await? {
        Some(bytes) => request_body::parse(&bytes)?,
        None => NewSession::default(),
    };
    let runs = orchestrator.runs().with_context(caller.creation_context());
    let session = runs.new_session(new.id).await?;
    let address = format!("/api/v1/sessions/{}", session.id);
    Ok((
        StatusCode::CREATED,
        [(header::LOCATION, address)],
        Json(session),
    )
        .into_response())
}

/// The body of a request to rename a session.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with the field title")]
#[schemars(extend("required" = ["title"]))]
pub(crate) struct Renaming {
    /// The new title, which is stored without the white space around it; `null` removes the title.
    // Without this, a missing field would remove the title as well.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schemars(length(max = MAX_TITLE_CHARS), regex(pattern = TITLE))]
    title: Option<String>,
}

/// The schema pattern of a title: not blank, and without line breaks and other control characters.
const TITLE: &str = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*[^\s\x00-\x1f\x7f-\x9f\u2028\u2029][^\x00-\x1f\x7f-\x9f\u2028\u2029]*$";

impl RequestBody for Renaming {
    const FIELDS: &'static [&'static str] = &["title"];
}

/// `PATCH /api/v1/sessions/{id}`
pub(crate) async fn rename(
    State(orchestrator): State<Orchestrator>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Session>, Problem> {
    let id = session_id(id)?;
    let body: Renaming = request_body::parse(&body::json(&headers, body).await?)?;
    caller.session(&orchestrator, &id).await?;
    let sessions = orchestrator.sessions();
    let renamed = sessions.rename(&id, body.title.as_deref());
    let renamed = renamed.await.map_err(|error| match error {
        StoreError::Invalid { rule, .. } => Problem::invalid("title", format!("must be {rule}")),
        error => error.into(),
    })?;
    Ok(Json(renamed))
}

/// `DELETE /api/v1/sessions/{id}`
pub(crate) async fn delete(
    State(orchestrator): State<Orchestrator>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Problem> {
    let id = session_id(id)?;
    caller.session(&orchestrator, &id).await?;
    let deleted = orchestrator.sessions().delete(&id).await;
    deleted.map_err(|error| match error {
        error @ StoreError::SessionBusy { .. } => Problem::from(error)
            .advising("delete it once the run has ended, or cancel the run first"),
        error => error.into(),
    })?;
    Ok(StatusCode::NO_CONTENT)
}
