//! Replaced roles: recorded once, until they serve again.

use neuraxis_core::{Input, LlmErrorKind, RecordBody, Reply, Role, RoleDowngraded, Usage};

use super::trimming::exchanges;
use crate::support::*;

fn by_router(run: &Script, text: &str) -> Input {
    let mut input = run.replied(if text.is_empty() {
        calls_to(&[READ])
    } else {
        says(text)
    });
    if let Input::ModelReplied(replied) = &mut input {
        replied.served_by = Role::ROUTER;
        replied.downgraded = Some(downgraded());
    }
    input
}

fn downgraded() -> Box<RoleDowngraded> {
    Box::new(RoleDowngraded {
        from: Role::REASONING,
        to: Role::ROUTER,
        reason: "it failed 3 times".to_owned(),
        left_out: 0,
    })
}

fn records(run: &Script) -> usize {
    let is_it = |kind: &&&str| **kind == "role_downgraded";
    run.kinds().iter().filter(is_it).count()
}

#[test]
fn a_downgraded_role_is_recorded_once() {
    let mut run = Script::start(spec());
    let first = by_router(&run, "");
    run.send(first).allow().finish(0, done("1"));
    let last = by_router(&run, "Blue.");
    run.send(last);
    assert_eq!(records(&run), 1);
    assert!(run.records.iter().any(
        |record| matches!(&record.body, RecordBody::RoleDowngraded(it) if **it == *downgraded())
    ));
    run.assert_replays();
}

#[test]
fn a_downgrade_after_the_role_served_again_is_recorded_again() {
    let mut run = Script::start(spec());
    let first = by_router(&run, "");
    run.send(first).allow().finish(0, done("1"));
    run.reply(calls_to(&[READ])).allow().finish(0, done("1"));
    let last = by_router(&run, "Blue.");
    run.send(last);
    assert_eq!(records(&run), 2);
}

#[test]
fn serving_for_an_unconfigured_role_is_not_a_downgrade() {
    let mut run = Script::start(spec());
    let mut input = run.replied(says("Blue."));
    if let Input::ModelReplied(replied) = &mut input {
        replied.served_by = Role::ROUTER;
    }
    run.send(input);
    assert_eq!(records(&run), 0);
}

#[test]
fn a_failure_that_degrades_a_role_causes_a_warning() {
    let mut run = Script::start(spec());
    let mut input = run.model_failed(LlmErrorKind::Timeout);
    input.degraded = Some("reasoning did not answer in time 3 times".to_owned());
    run.send(Input::ModelFailed(input));
    assert_eq!(run.kinds()[1..], ["llm_failed", "warning", "run_failed"]);
}

#[test]
fn a_fallback_role_receives_what_fits_and_the_conversation_stays_complete() {
    let mut spec = spec();
    spec.root.max_output_tokens = Some(50);
    let run = Script::start_after(spec, exchanges(6));
    let call = run.model_call();
    let whole = run.tree.fitted(call, 100_000).unwrap();
    assert_eq!((whole.left_out, &whole.request), (0, &call.request));
    // Of the 950 tokens beside definitions and reply, 807 may be filled; 12 messages and the question take 1,255.
    let fitted = run.tree.fitted(call, 1_000 + DEFINITIONS).unwrap();
    assert_eq!((fitted.left_out, fitted.request.messages.len()), (6, 7));
    assert_eq!(fitted.request.messages.last_user_text(), "Please help.");
    assert!(fitted.tokens <= 807 + DEFINITIONS, "{}", fitted.tokens);
    assert_eq!(run.tree.messages().len(), 13);
}

#[test]
fn a_reply_limit_is_reduced_in_eighths_to_fit_the_context() {
    let mut spec = spec();
    spec.root.max_output_tokens = Some(4_096);
    let run = Script::start_after(spec, exchanges(6));
    let call = run.model_call();
    let most = |context| {
        let fitted = run.tree.with_shorter_reply(call, context)?;
        assert_eq!(fitted.request.messages, call.request.messages);
        fitted.request.max_output_tokens
    };
    // 1,255 tokens, 143 of definitions, and a tenth of both.
    assert_eq!(most(100_000), None);
    assert_eq!(most(5_000), Some(3_072));
    assert_eq!(most(2_000), Some(500), "what is kept free for it");
}

/// The assumed size of the conversation after the router was sent all but this many messages.
fn size_after(left_out: u64, reply: Reply) -> u64 {
    let mut run = Script::start_after(spec(), exchanges(6));
    for reply in [reply.clone(), reply] {
        let mut input = run.replied(reply);
        if let Input::ModelReplied(replied) = &mut input {
            let mut by_router = downgraded();
            by_router.left_out = left_out;
            replied.served_by = Role::ROUTER;
            replied.downgraded = Some(by_router);
        }
        run.send(input).allow().finish(0, done("1"));
    }
    assert_eq!(records(&run), if left_out == 0 { 1 } else { 2 });
    assert_gives_back(&exchanges(6), &run.records, &run.tree);
    let call = run.model_call();
    run.tree.fitted(call, u64::MAX).unwrap().tokens
}

#[test]
fn usage_of_a_partial_request_does_not_measure_the_conversation() {
    let measured = || calls_to(&[READ]);
    let mut unmeasured = measured();
    unmeasured.usage = Usage::default();
    let estimated = size_after(0, unmeasured);
    assert_eq!(size_after(6, measured()), estimated);
    assert_ne!(size_after(0, measured()), estimated);
}

/// The assumed size of the conversation after the router found all but six messages of it too long, so it was cut.
fn size_after_overflow(needed: Option<u64>) -> u64 {
    let mut run = Script::start_after(spec(), exchanges(6));
    let mut failed = run.model_failed(LlmErrorKind::ContextOverflow {
        limit: Some(1_000),
        needed,
    });
    let mut by_router = downgraded();
    by_router.left_out = 6;
    failed.served_by = Role::ROUTER;
    failed.downgraded = Some(by_router);
    run.send(Input::ModelFailed(failed));
    assert_gives_back(&exchanges(6), &run.records, &run.tree);
    let call = run.model_call();
    run.tree.fitted(call, u64::MAX).unwrap().tokens
}

#[test]
fn an_overflow_of_a_partial_request_does_not_measure_the_conversation() {
    assert_eq!(size_after_overflow(Some(1_100)), size_after_overflow(None));
}

#[test]
fn a_downgrade_without_omitted_messages_round_trips_unchanged() {
    let text = r#"{"from":"reasoning","to":"router","reason":"it failed 3 times"}"#;
    let read: RoleDowngraded = serde_json::from_str(text).unwrap();
    assert_eq!(read, *downgraded());
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
}
