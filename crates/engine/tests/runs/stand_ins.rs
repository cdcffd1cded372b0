//! Requests to a model with less context than the conversation needs: a fallback, or a model that refuses long replies.

use std::sync::Arc;

use neuraxis_core::{LlmError, LlmErrorKind, ModelRequest, RecordBody, Role, RunStatus};
use neuraxis_engine::{Orchestrator, RetryPolicy};
use neuraxis_testkit::{Script, ScriptedModel, assert_paired, reply};

use crate::support::{FinishedRun, builder, request, run_to_end};

fn bytes(request: &ModelRequest) -> u64 {
    let messages = request.messages.messages().iter();
    let bytes: usize = messages.map(|message| message.text().len()).sum();
    u64::try_from(bytes).unwrap()
}

/// Two models that may serve, the first with a large context, after a conversation of about 4,000 tokens.
async fn after_much_talk(stand_in: Arc<ScriptedModel>) -> (Orchestrator, Arc<ScriptedModel>) {
    let large = ScriptedModel::always(reply::text("word ".repeat(400))).with_context(100_000);
    let large = Arc::new(large);
    let orchestrator = builder(large.clone())
        .model(Role::CODING, stand_in)
        .retry(RetryPolicy::never())
        .build()
        .unwrap();
    for _ in 0..8 {
        let finished = run_to_end(&orchestrator, request("tell me more")).await;
        finished.assert_valid(RunStatus::Done);
    }
    large.push(LlmError::new(LlmErrorKind::Connection, "gone"));
    (orchestrator, large)
}

/// Returns how many messages were left out of the fallback role's requests.
fn left_out(finished: &FinishedRun) -> Vec<u64> {
    let records = finished.records();
    let left_out = records.iter().filter_map(|record| match &record.body {
        RecordBody::RoleDowngraded(downgraded) => Some(downgraded.left_out),
        _ => None,
    });
    left_out.collect()
}

fn count(finished: &FinishedRun, kind: &str) -> usize {
    finished.kinds().iter().filter(|it| **it == kind).count()
}

#[tokio::test(start_paused = true)]
async fn a_substitute_model_gets_a_shortened_request_but_the_original_a_full_one() {
    let small = ScriptedModel::always(reply::text("Yes.")).with_context_when_asked(3_000);
    let small = Arc::new(small);
    let (orchestrator, large) = after_much_talk(small.clone()).await;
    let finished = run_to_end(&orchestrator, request("and now?")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "Yes.");
    assert_eq!(count(&finished, "llm_failed"), 1);
    assert_eq!(count(&finished, "context_trimmed"), 0);
    let whole = large.requests().pop().unwrap();
    let sent = small.requests().pop().unwrap();
    assert!(bytes(&sent) / 4 < 3_000, "{}", bytes(&sent));
    assert_eq!(sent.messages.last_user_text(), "and now?");
    assert_paired(sent.messages.since(1));
    let missing = whole.messages.len() - sent.messages.len();
    assert!(missing > 0);
    assert_eq!(left_out(&finished), [u64::try_from(missing).unwrap()]);

    let finished = run_to_end(&orchestrator, request("go on")).await;
    finished.assert_valid(RunStatus::Done);
    let again = large.requests().pop().unwrap();
    assert_eq!(again.messages.len(), whole.messages.len() + 2);
}

#[tokio::test(start_paused = true)]
async fn a_substitute_that_reports_its_context_in_an_overflow_is_retried_shortened() {
    let small = ScriptedModel::answering(|request| {
        let needed = bytes(request) / 3;
        if needed < 2_000 {
            return Script::from(reply::text("Yes."));
        }
        let overflow = LlmErrorKind::ContextOverflow {
            limit: Some(2_000),
            needed: Some(needed),
        };
        Script::from(LlmError::new(overflow, "too long"))
    });
    let small = Arc::new(small);
    let (orchestrator, _) = after_much_talk(small.clone()).await;
    let finished = run_to_end(&orchestrator, request("and now?")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "Yes.");
    assert_eq!(small.requests().len(), 2);
    assert_eq!(count(&finished, "llm_failed"), 2);
    assert_eq!(count(&finished, "context_trimmed"), 0);
    assert!(left_out(&finished).pop().unwrap() > 0);
}

#[tokio::test(start_paused = true)]
async fn the_maximum_reply_is_limited_to_the_rest_of_a_known_context() {
    let model = ScriptedModel::answering(|request| {
        let needed = bytes(request) / 4;
        let most = request.max_output_tokens.unwrap();
        if needed + u64::from(most) <= 8_192 {
            return Script::from(reply::text("Yes."));
        }
        let overflow = LlmErrorKind::ContextOverflow {
            limit: Some(8_192),
            needed: Some(needed),
        };
        Script::from(LlmError::new(overflow, "'max_tokens' is too large"))
    });
    let model = Arc::new(model.with_context(8_192));
    let orchestrator = builder(model.clone()).build().unwrap();
    let finished = run_to_end(&orchestrator, request(&"word ".repeat(3_400))).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(count(&finished, "llm_failed"), 0);
    let most = model.requests().pop().unwrap().max_output_tokens.unwrap();
    assert!((2_048..4_096).contains(&most), "{most}");
    // A request that fits is sent unchanged.
    let finished = run_to_end(&builder(model.clone()).build().unwrap(), request("Hello.")).await;
    finished.assert_valid(RunStatus::Done);
    let most = model.requests().pop().unwrap().max_output_tokens;
    assert_eq!(most, Some(4_096));
}
