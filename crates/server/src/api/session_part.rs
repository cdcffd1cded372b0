//! `GET /api/v1/sessions/{id}`: shows a session, a long one page by page.

use std::fmt;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use neuraxis::Orchestrator;
use neuraxis::engine::SessionOverview;
use neuraxis::ports::SessionFilter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::session_id;
use super::sessions::page_size;
use crate::caller::Caller;
use crate::problem::Problem;
use crate::query::Parameters;

/// The default maximum number of runs, and of messages: most conversations are on one page.
const PART: usize = 200;

/// The page of a session to return.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionQuery {
    /// The maximum number of runs, and the maximum number of messages; 200 by default.
    #[schemars(range(min = 1, max = SessionFilter::MAX_LIMIT - 1))]
    limit: Option<usize>,
    /// Only the runs and messages after this position, the `next` of the previous page.
    after: Option<Position>,
}

/// A session with a page of its runs and messages.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionOverview")]
pub(crate) struct SessionPart {
    #[serde(flatten)]
    overview: SessionOverview,
    /// The value of `after` for the next page, which continues `runs`, `history` or both. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// How many runs and messages precede a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(with = "String", extend("pattern" = "^[0-9]{1,9}~[0-9]{1,9}$"))]
struct Position {
    runs: usize,
    messages: usize,
}

impl Position {
    /// Leaves of a session only what follows this position, at most `most` runs and as many messages. Returns the position
    /// of the rest, if there is any.
    fn cut(self, overview: &mut SessionOverview, most: usize) -> Option<Self> {
        let (runs, messages) = (overview.runs.len(), overview.history.len());
        overview.runs.truncate(self.runs.saturating_add(most));
        overview.runs.drain(..self.runs.min(overview.runs.len()));
        let shown = overview.history.since(self.messages).iter().take(most);
        let shown: Vec<_> = shown.cloned().collect();
        let end = Self {
            runs: self.runs.saturating_add(overview.runs.len()),
            messages: self.messages.saturating_add(shown.len()),
        };
        overview.history = shown.into_iter().collect();
        let is_more = end.runs < runs || end.messages < messages;
        is_more.then_some(end)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}~{}", self.runs, self.messages)
    }
}

impl TryFrom<String> for Position {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let count = |digits: &str| {
            let is_count =
                (1..=9).contains(&digits.len()) && digits.bytes().all(|it| it.is_ascii_digit());
            is_count.then(|| digits.parse().ok()).flatten()
        };
        let (runs, messages) = text.split_once('~').unwrap_or_default();
        match (count(runs), count(messages)) {
            (Some(runs), Some(messages)) => Ok(Self { runs, messages }),
            _ => Err("expected the `next` of a page"),
        }
    }
}

/// `GET /api/v1/sessions/{id}`
pub(crate) async fn show(
    State(orchestrator): State<Orchestrator>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
    Parameters(query): Parameters<SessionQuery>,
) -> Result<Json<SessionPart>, Problem> {
    let id = session_id(id)?;
    let most = page_size(query.limit.or(Some(PART)), SessionFilter::MAX_LIMIT)?;
    caller.session(&orchestrator, &id).await?;
    let mut overview = orchestrator.sessions().overview(&id).await?;
    let next = query.after.unwrap_or_default().cut(&mut overview, most);
    let next = next.map(|next| next.to_string());
    Ok(Json(SessionPart { overview, next }))
}
