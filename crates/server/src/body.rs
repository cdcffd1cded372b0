//! Reads the body of a request: JSON, with limits on its size and on the time it takes.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, HeaderValue, header};
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

use crate::problem::{BODY_TIMEOUT, BODY_TOO_LARGE, ENCODED_BODY, INVALID_BODY, NOT_JSON, Problem};

/// The maximum size of a body, in bytes.
const MAX_BYTES: usize = 1024 * 1024;

/// The maximum number of values (strings, numbers, lists, objects) in a body that may exceed [`MAX_BYTES`]. A parsed
/// object takes about a hundred times the space of its text, so 32 MiB of objects alone would take gigabytes.
const MAX_VALUES: usize = 250_000;

/// How long a client may take to send a body, however small.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The number of received bytes that extends the time limit by one second, so files need no fast connection.
const BYTES_A_SECOND: usize = 128 * 1024;

/// Reads the body of a request, which must be JSON.
pub(crate) async fn json(headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Problem> {
    json_of(headers, body, MAX_BYTES).await
}

/// Like [`json`], with a limit of `most` bytes.
pub(crate) async fn json_of(
    headers: &HeaderMap,
    body: Body,
    most: usize,
) -> Result<Vec<u8>, Problem> {
    if !headers.get(header::CONTENT_TYPE).is_some_and(is_json) {
        return Err(Problem::new(
            &NOT_JSON,
            "the body must be JSON, with the header Content-Type: application/json",
        ));
    }
    if is_encoded(headers) {
        return Err(Problem::new(
            &ENCODED_BODY,
            "the body must not be compressed or have any Content-Encoding except identity",
        ));
    }
    // The body is not read, so a client that sent `Expect: 100-continue` gets this answer without sending it.
    if length(headers).is_some_and(|length| length > most) {
        return Err(too_large(most));
    }
    let bytes = read(body, most).await?;
    if most > MAX_BYTES && values(&bytes) > MAX_VALUES {
        let detail = format!(
            "the body may contain at most {MAX_VALUES} strings, numbers, lists and objects"
        );
        return Err(Problem::new(&BODY_TOO_LARGE, detail));
    }
    Ok(bytes)
}

/// Counts the values of a JSON text by the characters that precede each value, outside strings. A member counts once,
/// by its value and not its name.
fn values(json: &[u8]) -> usize {
    let (mut count, mut is_text, mut is_escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' if !is_text => count += 1,
            _ => {}
        }
    }
    count
}

/// Reads the body of a request, which must be JSON if there is one.
pub(crate) async fn json_if_any(
    headers: &HeaderMap,
    body: Body,
) -> Result<Option<Vec<u8>>, Problem> {
    json_of_if_any(headers, body, MAX_BYTES).await
}

/// Like [`json_if_any`], with a limit of `most` bytes.
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

/// Returns whether a body is encoded (RFC 9110, 8.4), which is refused: a small one can decode to any size.
fn is_encoded(headers: &HeaderMap) -> bool {
    let encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    let mut codings = encodings.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    codings.any(|coding| {
        let coding = coding.trim_ascii();
        !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")
    })
}

async fn read(body: Body, most: usize) -> Result<Vec<u8>, Problem> {
    let began = Instant::now();
    let mut chunks = body.into_data_stream();
    let mut bytes = Vec::new();
    loop {
        let chunk = timeout_at(began + allowed(bytes.len()), chunks.next()).await;
        let Some(chunk) = chunk.map_err(|_| too_slow(bytes.len()))? else {
            return Ok(bytes);
        };
        let chunk = chunk.map_err(|_| {
            Problem::new(
                &INVALID_BODY,
                "the body ended early, or its chunked encoding is invalid",
            )
        })?;
        if bytes.len() + chunk.len() > most {
            return Err(too_large(most));
        }
        bytes.extend_from_slice(&chunk);
    }
}

/// Returns how long a client may take, given how many bytes have arrived.
fn allowed(bytes: usize) -> Duration {
    let more = u64::try_from(bytes / BYTES_A_SECOND).unwrap_or_default();
    TIMEOUT + Duration::from_secs(more)
}

fn too_slow(bytes: usize) -> Problem {
    let seconds = allowed(bytes).as_secs();
    let detail =
        format!("the body did not arrive within {seconds} seconds; received {bytes} bytes");
    Problem::new(&BODY_TIMEOUT, detail)
}

/// Returns the length that a request declares. A value that is not a number is refused earlier.
fn length(headers: &HeaderMap) -> Option<usize> {
    let length = headers.get(header::CONTENT_LENGTH)?.to_str().ok()?;
    Some(length.trim().parse().unwrap_or(usize::MAX))
}

fn too_large(most: usize) -> Problem {
    let mebibytes = most / MAX_BYTES;
    let detail = format!("the body exceeds the limit of {most} bytes ({mebibytes} MiB)");
    Problem::new(&BODY_TOO_LARGE, detail).with("max_bytes", most)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Bytes;
    use futures_util::stream;
    use tokio::time::sleep;

    use super::*;

    /// A body of `bytes` bytes, followed by one more byte `seconds` seconds later.
    fn body(bytes: usize, seconds: u64) -> Body {
        let pieces = stream::iter([(0, bytes), (seconds, 1)]);
        let pieces = pieces.then(|(wait, bytes)| async move {
            sleep(Duration::from_secs(wait)).await;
            Ok::<_, Infallible>(Bytes::from(vec![b'x'; bytes]))
        });
        Body::from_stream(pieces)
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_limit_of_a_body_grows_with_the_bytes_received() {
        let most = 16 * BYTES_A_SECOND;
        for (bytes, seconds, arrives) in [
            (1, 29, true),
            (1, 31, false),
            (8 * BYTES_A_SECOND, 37, true),
            (8 * BYTES_A_SECOND, 39, false),
        ] {
            match read(body(bytes, seconds), most).await {
                Ok(read) => assert!(arrives && read.len() == bytes + 1, "{seconds}"),
                Err(refused) => assert!(!arrives && refused.is(&BODY_TIMEOUT), "{seconds}"),
            }
        }
    }

    #[tokio::test]
    async fn the_number_of_json_values_is_limited_only_in_bodies_with_files() {
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, json)]);
        let list = |values: usize| format!("[{}0]", "0,".repeat(values - 1));
        let text = format!(r#"["\"{}"]"#, "[,{".repeat(MAX_VALUES));
        for (body, most, is_taken) in [
            (list(MAX_VALUES), 2 * MAX_BYTES, true),
            (list(MAX_VALUES + 1), 2 * MAX_BYTES, false),
            (list(MAX_VALUES + 1), MAX_BYTES, true),
            (text, 2 * MAX_BYTES, true),
        ] {
            match json_of(&headers, Body::from(body), most).await {
                Ok(_) => assert!(is_taken, "{most}"),
                Err(refused) => assert!(!is_taken && refused.is(&BODY_TOO_LARGE), "{refused:?}"),
            }
        }
    }
}
