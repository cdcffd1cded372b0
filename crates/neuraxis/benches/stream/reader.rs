//! The readers of a stream.

use std::sync::Arc;

use futures_util::StreamExt;
use neuraxis::core::{LiveBody, ReplyDelta};
use neuraxis::memory::MemoryStore;
use neuraxis::ports::LlmClient;
use neuraxis::{Event, Orchestrator, Role, UserRequest};
use neuraxis_openai::{Api, OpenAiClient, OpenAiConfig};
use neuraxis_testkit::{call_context, request};

use crate::shape::Protocol;

/// Reads streams from one server, on a connection that it keeps.
pub(crate) enum Reader {
    /// The underlying HTTP client, which passes on the bytes of the body.
    Body(reqwest::Client, String),
    Client(Arc<OpenAiClient>),
    /// A listener to the events of a run.
    Listener(Orchestrator),
}

impl Reader {
    pub(crate) fn body(url: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self::Body(client, url.to_owned())
    }

    pub(crate) fn client(url: &str, protocol: Protocol) -> Self {
        Self::Client(client(url, protocol))
    }

    pub(crate) fn listener(url: &str, protocol: Protocol) -> Self {
        let engine = Orchestrator::builder()
            .model(Role::REASONING, client(url, protocol))
            .store(Arc::new(MemoryStore::new()))
            .build();
        Self::Listener(engine.unwrap())
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Body(..) => "the HTTP client, bytes only",
            Self::Client(_) => "the client",
            Self::Listener(_) => "a listener of the run's events",
        }
    }

    /// Reads a stream to its end, reporting the number of bytes of text as they arrive, or of the raw body.
    pub(crate) async fn read(&self, on_text: impl FnMut(usize)) {
        match self {
            Self::Body(client, url) => bytes(client, url, on_text).await,
            Self::Client(client) => deltas(client, on_text).await,
            Self::Listener(engine) => events(engine, on_text).await,
        }
    }
}

fn client(url: &str, protocol: Protocol) -> Arc<OpenAiClient> {
    let mut config = OpenAiConfig::new("m");
    config.base_url = url.to_owned();
    config.api = match protocol {
        Protocol::Chat => Api::Chat,
        Protocol::Responses => Api::Responses,
    };
    Arc::new(OpenAiClient::new(config).unwrap())
}

async fn bytes(client: &reqwest::Client, url: &str, mut on_text: impl FnMut(usize)) {
    let request = client.post(url).body("{}");
    let mut response = request.send().await.unwrap();
    while let Some(chunk) = response.chunk().await.unwrap() {
        on_text(std::hint::black_box(chunk).len());
    }
}

async fn deltas(client: &OpenAiClient, mut on_text: impl FnMut(usize)) {
    let (request, ctx) = (request("hi"), call_context());
    let mut stream = client.stream_respond(&request, &ctx).await.unwrap();
    while let Some(delta) = stream.next().await {
        if let ReplyDelta::Text { text, .. } = std::hint::black_box(delta.unwrap()) {
            on_text(text.len());
        }
    }
}

async fn events(engine: &Orchestrator, mut on_text: impl FnMut(usize)) {
    let request = UserRequest::new("bench".parse().unwrap(), "hi");
    let (_, mut events) = engine.stream(request).await.unwrap();
    while let Some(event) = events.next().await {
        let Event::Live(live) = std::hint::black_box(event) else {
            continue;
        };
        if let LiveBody::TextDelta { text } = live.body {
            on_text(text.len());
        }
    }
}
