//! `/api/v1/stats`: what the caller's runs add up to.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use neuraxis::Orchestrator;
use neuraxis::core::jiff::Timestamp;
use neuraxis::core::log::Stats;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::caller::Caller;
use crate::problem::Problem;
use crate::said;

/// Which runs are added up.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counted {
    /// Only those that began at this time or later; all if left out.
    since: Option<Timestamp>,
}

/// `GET /api/v1/stats`
pub(crate) async fn show(
    State(orchestrator): State<Orchestrator>,
    caller: Caller,
    counted: Result<Query<Counted>, QueryRejection>,
) -> Result<Json<Stats>, Problem> {
    let counted = said::query(counted)?;
    let mut filter = caller.stats();
    filter.since = counted.since;
    Ok(Json(orchestrator.sessions().stats(&filter).await?))
}
