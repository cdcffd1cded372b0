//! The reference server: axum, which forwards a request to the model server and passes the answer on, byte for byte.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::post;
use axum::serve::ListenerExt as _;
use futures_util::stream;

use crate::process::announce;

/// Serves until it is killed.
pub(crate) async fn serve(url: &str) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url: Arc<str> = format!("{url}/v1/chat/completions").into();
    let answer = move |body: String| answer(client, url, body);
    let router = Router::new().fallback(post(answer));
    // Otherwise the end of an answer waits 40 milliseconds for the delayed acknowledgment of the preceding data.
    let listener = announce()
        .await
        .tap_io(|stream| stream.set_nodelay(true).unwrap());
    axum::serve(listener, router).await.unwrap();
}

async fn answer(client: reqwest::Client, url: Arc<str>, body: String) -> impl IntoResponse {
    let asked = client.post(&*url).body(body).send().await.unwrap();
    let pieces = stream::unfold(asked, |mut asked| async move {
        let piece = asked.chunk().await.transpose()?;
        Some((piece, asked))
    });
    (
        [(header::CONTENT_TYPE, "text/event-stream")],
        Body::from_stream(pieces),
    )
}
