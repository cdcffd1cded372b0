//! Those who read a stream.

use std::sync::Arc;

use futures_util::{Stream, StreamExt};
use neuraxis_core::{LlmError, ReplyDelta};
use neuraxis_testkit::{call_context, request};
use neuraxis_wire::{
    ChatClient, Dialect, Endpoint, EndpointConfig, ResponsesClient, ResponsesDialect,
};

use crate::shape::Protocol;

/// Reads streams from one server, on a connection that it keeps.
pub(crate) enum Reader {
    /// The HTTP client below, which hands on the bytes of the body.
    Body(reqwest::Client, String),
    Chat(ChatClient),
    Responses(ResponsesClient),
}

impl Reader {
    pub(crate) fn body(url: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self::Body(client, url.to_owned())
    }

    pub(crate) fn client(url: &str, protocol: Protocol) -> Self {
        let endpoint = Arc::new(Endpoint::new(EndpointConfig::new(url)).unwrap());
        let route = endpoint.route("x");
        match protocol {
            Protocol::Chat => {
                let dialect = Dialect::standard("bench");
                Self::Chat(ChatClient::new(endpoint, route, "m", dialect))
            }
            Protocol::Responses => {
                let dialect = ResponsesDialect::standard("bench");
                Self::Responses(ResponsesClient::new(endpoint, route, "m", dialect))
            }
        }
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Body(..) => "the HTTP client, bytes only",
            Self::Chat(_) | Self::Responses(_) => "the client",
        }
    }

    /// Reads a stream to its end, and tells of each delta of text, or of how many bytes of the bare body came.
    pub(crate) async fn read(&self, heard: impl FnMut(usize)) {
        let (request, ctx) = (request("hi"), call_context());
        match self {
            Self::Body(client, url) => bytes(client, url, heard).await,
            Self::Chat(client) => deltas(client.stream(&request, &ctx).await.unwrap(), heard).await,
            Self::Responses(client) => {
                deltas(client.stream(&request, &ctx).await.unwrap(), heard).await;
            }
        }
    }
}

async fn bytes(client: &reqwest::Client, url: &str, mut heard: impl FnMut(usize)) {
    let request = client.post(url).body("{}");
    let mut response = request.send().await.unwrap();
    while let Some(chunk) = response.chunk().await.unwrap() {
        heard(std::hint::black_box(chunk).len());
    }
}

async fn deltas(
    mut stream: impl Stream<Item = Result<ReplyDelta, LlmError>> + Unpin,
    mut heard: impl FnMut(usize),
) {
    while let Some(delta) = stream.next().await {
        if let ReplyDelta::Text { text, .. } = std::hint::black_box(delta.unwrap())
            && !text.is_empty()
        {
            heard(1);
        }
    }
}
