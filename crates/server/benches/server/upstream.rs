//! A model server: each request receives deltas at a steady rate, and each delta contains the time it was sent.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::serve::ListenerExt as _;
use futures_util::stream;
use tokio::time::{MissedTickBehavior, interval};

use crate::RATE;
use crate::listen::micros;
use crate::process::announce;

/// Serves until it is killed. Each answer takes this many seconds, or is sent immediately for 0.
pub(crate) async fn serve(seconds: u64) {
    let deltas = seconds * RATE;
    let answer = move || async move { answer(deltas) };
    let router = Router::new().route("/v1/chat/completions", post(answer));
    // Otherwise the end of an answer waits 40 milliseconds for the delayed acknowledgment of the preceding data.
    let listener = announce()
        .await
        .tap_io(|stream| stream.set_nodelay(true).unwrap());
    axum::serve(listener, router).await.unwrap();
}

fn answer(deltas: u64) -> impl IntoResponse {
    let mut ticks = interval(Duration::from_millis(1_000 / RATE));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let pieces = stream::unfold((0, ticks), move |(number, mut ticks)| async move {
        if number > deltas {
            return None;
        }
        ticks.tick().await;
        let piece = if number < deltas {
            delta(&format!("{{\"content\":\"t{:016} \"}}", micros()), "null")
        } else if deltas == 0 {
            delta("{\"content\":\"Hello.\"}", "\"stop\"") + "data: [DONE]\n\n"
        } else {
            delta("{}", "\"stop\"") + "data: [DONE]\n\n"
        };
        Some((Ok::<_, Infallible>(Bytes::from(piece)), (number + 1, ticks)))
    });
    (
        [(header::CONTENT_TYPE, "text/event-stream")],
        Body::from_stream(pieces),
    )
}

fn delta(delta: &str, finish: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":\
         [{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
    )
}
