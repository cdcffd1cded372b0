//! The scripted model follows its scripts and records its requests.

use std::time::Duration;

use futures_util::StreamExt;
use neuraxis_core::{LlmError, LlmErrorKind, ReplyDelta};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{CallMode, Script, ScriptedModel, call_context, reply, request};

fn broken() -> LlmError {
    LlmError::new(LlmErrorKind::Connection, "reset by peer")
}

#[tokio::test]
async fn scripts_are_played_in_order_and_requests_are_recorded() {
    let model = ScriptedModel::new()
        .then(reply::text("one"))
        .then(broken())
        .then(reply::text("two"));
    let ctx = call_context();
    assert_eq!(
        model.respond(&request("a"), &ctx).await.unwrap().text(),
        "one"
    );
    assert_eq!(model.respond(&request("b"), &ctx).await, Err(broken()));
    let stream = model.stream_respond(&request("c"), &ctx).await.unwrap();
    assert_eq!(stream.count().await, 2);
    let seen: Vec<_> = model
        .calls()
        .iter()
        .map(|call| (call.request.messages.messages()[0].text(), call.mode))
        .collect();
    let expected = [
        ("a", CallMode::Whole),
        ("b", CallMode::Whole),
        ("c", CallMode::Streamed),
    ];
    assert_eq!(seen, expected.map(|(text, mode)| (text.to_owned(), mode)));
    assert_eq!(model.remaining(), 0);
}

#[tokio::test]
async fn without_scripts_left_the_model_fails_permanently() {
    let error = ScriptedModel::new()
        .respond(&request("a"), &call_context())
        .await
        .unwrap_err();
    assert!(!error.is_retryable());
    assert_eq!(error.message, "the test has no script for model call 1");
}

#[tokio::test]
async fn a_script_that_fails_midway_sends_its_deltas_first() {
    let script = || {
        Script::from(reply::text("abcdef"))
            .split(2)
            .fail_at(2, broken())
    };
    let model = ScriptedModel::new().then(script()).then(script());
    let stream = model
        .stream_respond(&request("a"), &call_context())
        .await
        .unwrap();
    let items: Vec<_> = stream.collect().await;
    let text = |item: &Result<ReplyDelta, LlmError>| match item {
        Ok(ReplyDelta::Text { text, .. }) => text.clone(),
        other => format!("{other:?}"),
    };
    assert_eq!(
        items[..2].iter().map(text).collect::<Vec<_>>(),
        ["ab", "cd"]
    );
    assert_eq!(items[2..], [Err(broken())]);
    assert_eq!(
        model.respond(&request("a"), &call_context()).await,
        Err(broken())
    );
}

#[tokio::test]
async fn a_script_that_fails_at_once_fails_before_the_stream_starts() {
    let model = ScriptedModel::new().then(broken());
    assert_eq!(
        model
            .stream_respond(&request("a"), &call_context())
            .await
            .err(),
        Some(broken())
    );
}

#[tokio::test]
async fn a_truncated_script_has_no_end() {
    let model = ScriptedModel::always(Script::from(reply::text("abcdef")).split(2).cut_at(3));
    let stream = model
        .stream_respond(&request("a"), &call_context())
        .await
        .unwrap();
    assert_eq!(stream.count().await, 3);
    let error = model
        .respond(&request("a"), &call_context())
        .await
        .unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Incomplete);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_call_is_open_until_it_is_cancelled_or_dropped() {
    let model = ScriptedModel::always(Script::from(reply::text("ab")).split(1).hang_at(1));
    let (cancelled, dropped) = (call_context(), call_context());
    let mut one = model
        .stream_respond(&request("a"), &cancelled)
        .await
        .unwrap();
    let mut other = model.stream_respond(&request("b"), &dropped).await.unwrap();
    assert!(one.next().await.unwrap().is_ok());
    let hour = Duration::from_secs(3_600);
    assert!(tokio::time::timeout(hour, one.next()).await.is_err());
    assert!(
        tokio::time::timeout(hour, async { other.next().await.and(other.next().await) })
            .await
            .is_err()
    );
    assert_eq!((model.open_calls(), model.most_open_calls()), (2, 2));

    cancelled.cancellation.cancel();
    assert_eq!(
        one.next().await.unwrap().unwrap_err().kind,
        LlmErrorKind::Cancelled
    );
    assert!(one.next().await.is_none());
    drop((one, other));
    assert_eq!(model.open_calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_script_takes_the_time_it_was_given() {
    let model = ScriptedModel::new()
        .then(Script::from(reply::text("abc")).after(Duration::from_secs(5)))
        .then(
            Script::from(reply::text("abc"))
                .split(1)
                .paced(Duration::from_secs(1)),
        );
    let begin = tokio::time::Instant::now();
    model.respond(&request("a"), &call_context()).await.unwrap();
    assert_eq!(begin.elapsed(), Duration::from_secs(5));
    model.respond(&request("a"), &call_context()).await.unwrap();
    assert_eq!(
        begin.elapsed(),
        Duration::from_secs(9),
        "three letters and the end take a second each"
    );
}
