//! Probes: whether the process lives, and whether it can be given work.

use axum::Json;
use serde::Serialize;

/// The answer of a probe.
#[derive(Debug, Serialize)]
pub(crate) struct Health {
    status: &'static str,
}

const OK: Json<Health> = Json(Health { status: "ok" });

/// `GET /healthz`: 200 as long as the process can answer.
pub(crate) async fn is_alive() -> Json<Health> {
    OK
}

/// `GET /readyz`: 200 while the server takes turns. It opens its port once the engine is wired and closes it before the
/// engine stops, so that whoever gets here finds it ready.
pub(crate) async fn is_ready() -> Json<Health> {
    OK
}
