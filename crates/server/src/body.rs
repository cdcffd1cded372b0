//! Reads the body of a request: JSON, of bounded length, in bounded time.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, HeaderValue, header};
use futures_util::StreamExt;
use tokio::time::timeout;

use crate::problem::{BODY_TIMEOUT, BODY_TOO_LARGE, ENCODED_BODY, INVALID_BODY, NOT_JSON, Problem};

/// The most bytes of a body.
const MAX_BYTES: usize = 1024 * 1024;

/// How long a client may take to send a body.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the body of a request that has to be JSON.
pub(crate) async fn json(headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Problem> {
    json_of(headers, body, MAX_BYTES).await
}

/// As [`json`], of at most so many bytes.
pub(crate) async fn json_of(
    headers: &HeaderMap,
    body: Body,
    most: usize,
) -> Result<Vec<u8>, Problem> {
    if !headers.get(header::CONTENT_TYPE).is_some_and(is_json) {
        return Err(Problem::new(
            &NOT_JSON,
            "the body must be JSON, sent with the header Content-Type: application/json",
        ));
    }
    if is_encoded(headers) {
        return Err(Problem::new(
            &ENCODED_BODY,
            "the body must be sent as it is, neither compressed nor with another Content-Encoding than identity",
        ));
    }
    // Whoever waits for leave to send it gets none, and nobody waits for what is not read.
    if length(headers).is_some_and(|length| length > most) {
        return Err(too_large(most));
    }
    let bytes = timeout(TIMEOUT, read(body, most)).await;
    bytes.unwrap_or_else(|_| {
        let seconds = TIMEOUT.as_secs();
        Err(Problem::new(
            &BODY_TIMEOUT,
            format!("the body did not arrive within {seconds} seconds"),
        ))
    })
}

/// Reads the body of a request that has to be JSON if there is any.
pub(crate) async fn json_if_any(
    headers: &HeaderMap,
    body: Body,
) -> Result<Option<Vec<u8>>, Problem> {
    json_of_if_any(headers, body, MAX_BYTES).await
}

/// As [`json_if_any`], of at most so many bytes.
pub(crate) async fn json_of_if_any(
    headers: &HeaderMap,
    body: Body,
    most: usize,
) -> Result<Option<Vec<u8>>, Problem> {
    if body.is_end_stream() {
        return Ok(None);
    }
    json_of(headers, body, most).await.map(Some)
}

fn is_json(content_type: &HeaderValue) -> bool {
    let essence = content_type.to_str().unwrap_or_default().split(';').next();
    essence
        .unwrap_or_default()
        .trim()
        .eq_ignore_ascii_case("application/json")
}

/// Tells whether a body is written otherwise than as it is (RFC 9110, 8.4): what a small one unfolds to has no bound.
fn is_encoded(headers: &HeaderMap) -> bool {
    let said = headers.get_all(header::CONTENT_ENCODING).iter();
    let mut codings = said.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    codings.any(|coding| {
        let coding = coding.trim_ascii();
        !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")
    })
}

async fn read(body: Body, most: usize) -> Result<Vec<u8>, Problem> {
    let mut chunks = body.into_data_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| {
            Problem::new(
                &INVALID_BODY,
                "the body ended early, or its chunks are not framed as HTTP demands",
            )
        })?;
        if bytes.len() + chunk.len() > most {
            return Err(too_large(most));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Returns the length that a request tells. One that is no number never gets here.
fn length(headers: &HeaderMap) -> Option<usize> {
    let length = headers.get(header::CONTENT_LENGTH)?.to_str().ok()?;
    Some(length.trim().parse().unwrap_or(usize::MAX))
}

fn too_large(most: usize) -> Problem {
    let mebibytes = most / MAX_BYTES;
    let detail = format!("the body may have {most} bytes ({mebibytes} MiB) at most");
    Problem::new(&BODY_TOO_LARGE, detail).with("max_bytes", most)
}
