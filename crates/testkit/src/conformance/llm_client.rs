//! The rules of the [`LlmClient`] port.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use std::any::Any;
use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use neuraxis_core::{LlmError, LlmErrorKind, ModelRequest, Reply, ReplyAssembler, ReplyDelta};
use neuraxis_ports::{LlmClient, ReplyStream};

use super::promptly;
use crate::call::call_context;

/// Mounts the rules of the [`LlmClient`](neuraxis_ports::LlmClient) port as tests. Takes a
/// [`Subject`](crate::conformance::llm_client::Subject).
#[macro_export]
macro_rules! llm_client_suite {
    ($subject:expr) => {
        $crate::mount_rules! { llm_client, $subject, [
            a_streamed_reply_is_the_same_as_a_whole_one
            a_stream_has_exactly_one_end_as_its_last_item
            a_call_cancelled_before_it_starts_returns_a_cancelled_error
            a_stream_cancelled_midway_ends_with_a_cancelled_error
            a_call_cancelled_while_it_waits_returns_a_cancelled_error
            a_dropped_call_leaves_the_client_usable
            a_stream_dropped_midway_leaves_the_client_usable
            concurrent_calls_each_return_their_own_reply
            the_model_info_does_not_change_and_replies_name_its_provider
        ] }
    };
}

/// A client under test, and requests for it.
#[derive(Debug)]
pub struct Subject {
    client: Arc<dyn LlmClient>,
    requests: Vec<ModelRequest>,
    stalled: Option<Arc<dyn LlmClient>>,
    _server: Option<Box<dyn Any + Send + Sync>>,
}

impl Subject {
    /// Takes a client, and requests to which it always gives the same reply, whole or streamed. Pass at least one;
    /// ideally requests that lead to a text, to a text with reasoning, and to tool calls. Each reply must stream in at
    /// least two pieces.
    pub fn new(client: impl LlmClient, requests: impl IntoIterator<Item = ModelRequest>) -> Self {
        let requests = requests.into_iter().collect();
        Self {
            client: Arc::new(client),
            requests,
            stalled: None,
            _server: None,
        }
    }

    /// Adds a client whose calls wait for an answer that never comes. Leave this out for a client that never waits.
    #[must_use]
    pub fn with_stalled(mut self, client: impl LlmClient) -> Self {
        self.stalled = Some(Arc::new(client));
        self
    }

    /// Keeps the server of the clients running for as long as they need it.
    #[must_use]
    pub fn keeping(mut self, server: impl Any + Send + Sync) -> Self {
        self._server = Some(Box::new(server));
        self
    }

    fn first(&self) -> &ModelRequest {
        self.requests.first().expect("the subject has a request")
    }
}

/// The assembled pieces of a streamed reply are the same as the whole reply.
pub async fn a_streamed_reply_is_the_same_as_a_whole_one(subject: Subject) {
    assert!(!subject.requests.is_empty(), "the subject has no request");
    for request in &subject.requests {
        let whole = respond(&subject, request).await;
        let mut assembler = ReplyAssembler::default();
        for delta in stream(&subject, request).await.expect("the stream holds") {
            assembler
                .push(delta)
                .expect("the stream does not contradict itself");
        }
        assert_eq!(assembler.finish().expect("the stream is whole"), whole);
    }
}

/// A stream has exactly one end, as its last item.
pub async fn a_stream_has_exactly_one_end_as_its_last_item(subject: Subject) {
    for request in &subject.requests {
        let deltas = stream(&subject, request).await.expect("the stream holds");
        let ends: Vec<_> = deltas
            .iter()
            .map(|delta| matches!(delta, ReplyDelta::End(_)))
            .collect();
        assert_eq!(
            ends.iter().filter(|end| **end).count(),
            1,
            "not exactly one end: {deltas:?}"
        );
        assert_eq!(
            ends.last(),
            Some(&true),
            "a delta follows the end: {deltas:?}"
        );
    }
}

/// A call whose token is already cancelled returns only the error that says so.
pub async fn a_call_cancelled_before_it_starts_returns_a_cancelled_error(subject: Subject) {
    let ctx = call_context();
    ctx.cancellation.cancel();
    let whole = promptly(
        "respond continues",
        subject.client.respond(subject.first(), &ctx),
    )
    .await;
    assert_cancelled(whole);
    let streamed = promptly("the stream continues", async {
        let stream: ReplyStream = subject.client.stream_respond(subject.first(), &ctx).await?;
        stream.try_collect::<Vec<_>>().await
    });
    assert_cancelled(streamed.await);
}

/// A stream whose token is cancelled after the first piece ends with the error that says so.
pub async fn a_stream_cancelled_midway_ends_with_a_cancelled_error(subject: Subject) {
    for request in &subject.requests {
        let ctx = call_context();
        let mut stream = subject
            .client
            .stream_respond(request, &ctx)
            .await
            .expect("the stream begins");
        let first = stream
            .next()
            .await
            .expect("a first piece arrives")
            .expect("the first piece is not an error");
        assert!(
            !matches!(first, ReplyDelta::End(_)),
            "the reply streams in one piece: nothing can be tested"
        );
        ctx.cancellation.cancel();
        let rest = promptly("the stream continues", stream.try_collect::<Vec<_>>()).await;
        assert_cancelled(rest);
    }
}

/// A call that waits for its answer ends immediately when its token is cancelled.
pub async fn a_call_cancelled_while_it_waits_returns_a_cancelled_error(subject: Subject) {
    let Some(client) = &subject.stalled else {
        return;
    };
    let ctx = call_context();
    let mut whole = client.respond(subject.first(), &ctx);
    assert!(
        (&mut whole).now_or_never().is_none(),
        "the stalled client answers"
    );
    ctx.cancellation.cancel();
    assert_cancelled(promptly("respond continues", whole).await);

    let ctx = call_context();
    let streamed = async {
        let stream = client.stream_respond(subject.first(), &ctx).await?;
        stream.try_collect::<Vec<_>>().await
    };
    let mut streamed = Box::pin(streamed);
    assert!(
        (&mut streamed).now_or_never().is_none(),
        "the stalled client answers"
    );
    ctx.cancellation.cancel();
    assert_cancelled(promptly("the stream continues", streamed).await);
}

/// A call whose future is dropped leaves the client usable.
pub async fn a_dropped_call_leaves_the_client_usable(subject: Subject) {
    let expected = respond(&subject, subject.first()).await;
    let ctx = call_context();
    drop(subject.client.respond(subject.first(), &ctx).now_or_never());
    drop(
        subject
            .client
            .stream_respond(subject.first(), &ctx)
            .now_or_never(),
    );
    assert_eq!(respond(&subject, subject.first()).await, expected);
}

/// A stream that is dropped after the first piece leaves the client usable.
pub async fn a_stream_dropped_midway_leaves_the_client_usable(subject: Subject) {
    let expected = respond(&subject, subject.first()).await;
    let ctx = call_context();
    let mut stream = subject
        .client
        .stream_respond(subject.first(), &ctx)
        .await
        .expect("the stream begins");
    stream
        .next()
        .await
        .expect("a first piece arrives")
        .expect("the first piece is not an error");
    drop(stream);
    assert_eq!(respond(&subject, subject.first()).await, expected);
}

/// Simultaneous calls each return their own reply.
pub async fn concurrent_calls_each_return_their_own_reply(subject: Subject) {
    let mut expected = Vec::new();
    for request in &subject.requests {
        expected.push(respond(&subject, request).await);
    }
    let together = || {
        join_all(
            subject
                .requests
                .iter()
                .map(|request| respond(&subject, request)),
        )
    };
    let (one, other) = tokio::join!(together(), together());
    assert_eq!((&one, &other), (&expected, &expected));
}

/// The info about the model does not change, and replies name its provider.
pub async fn the_model_info_does_not_change_and_replies_name_its_provider(subject: Subject) {
    let before = subject.client.info();
    assert!(
        !before.model.provider.is_empty() && !before.model.model.is_empty(),
        "no name: {before:?}"
    );
    let reply = respond(&subject, subject.first()).await;
    assert_eq!(subject.client.info(), before);
    assert_eq!(
        reply.model.provider, before.model.provider,
        "the reply names another provider"
    );
}

async fn respond(subject: &Subject, request: &ModelRequest) -> Reply {
    let ctx = call_context();
    promptly("respond hangs", subject.client.respond(request, &ctx))
        .await
        .expect("the client answers")
}

async fn stream(subject: &Subject, request: &ModelRequest) -> Result<Vec<ReplyDelta>, LlmError> {
    let ctx = call_context();
    let deltas = async {
        subject
            .client
            .stream_respond(request, &ctx)
            .await?
            .try_collect()
            .await
    };
    promptly("the stream hangs", deltas).await
}

fn assert_cancelled<T: std::fmt::Debug>(result: Result<T, LlmError>) {
    let kind = result.expect_err("a cancelled call gives no reply").kind;
    assert_eq!(kind, LlmErrorKind::Cancelled);
}
