//! Reads the body of a request: JSON, of bounded length, in bounded time.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use futures_util::StreamExt;
use tokio::time::timeout;

use crate::problem::{BODY_TIMEOUT, BODY_TOO_LARGE, INVALID_BODY, NOT_JSON, Problem};

/// The most bytes of a body.
const MAX_BYTES: usize = 1024 * 1024;

/// How many bytes more are read and forgotten, so that a client that sends somewhat too much gets to hear so. One that is
/// still sending when the connection closes may never read the answer.
const FORGOTTEN_BYTES: usize = 4 * 1024 * 1024;

/// How long a client may take to send a body.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the body of a request that has to be JSON.
pub(crate) async fn json(headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Problem> {
    if !headers.get(header::CONTENT_TYPE).is_some_and(is_json) {
        return Err(Problem::new(
            &NOT_JSON,
            "the body must be JSON, sent with the header Content-Type: application/json",
        ));
    }
    let bytes = timeout(TIMEOUT, read(body)).await;
    bytes.unwrap_or_else(|_| {
        let seconds = TIMEOUT.as_secs();
        Err(Problem::new(
            &BODY_TIMEOUT,
            format!("the body did not arrive within {seconds} seconds"),
        ))
    })
}

fn is_json(content_type: &HeaderValue) -> bool {
    let essence = content_type.to_str().unwrap_or_default().split(';').next();
    essence
        .unwrap_or_default()
        .trim()
        .eq_ignore_ascii_case("application/json")
}

async fn read(body: Body) -> Result<Vec<u8>, Problem> {
    let mut chunks = body.into_data_stream();
    let mut bytes = Vec::new();
    let mut length = 0;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| {
            Problem::new(
                &INVALID_BODY,
                "the body ended early, or its chunks are not framed as HTTP demands",
            )
        })?;
        length += chunk.len();
        if length <= MAX_BYTES {
            bytes.extend_from_slice(&chunk);
        } else if length > MAX_BYTES + FORGOTTEN_BYTES {
            break;
        }
    }
    if length <= MAX_BYTES {
        return Ok(bytes);
    }
    let detail = format!("the body may have {MAX_BYTES} bytes (1 MiB) at most");
    Err(Problem::new(&BODY_TOO_LARGE, detail).with("max_bytes", MAX_BYTES))
}
