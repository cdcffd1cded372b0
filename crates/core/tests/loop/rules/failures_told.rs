//! Rules 8 and 12: failures that were not retried are reported, and so is how far a sum of tokens can be trusted.

use neuraxis_core::{
    CountLabel, Input, LlmError, LlmErrorKind, NextAttempt, RecordBody, Role, TokenCount, Usage,
};

use crate::support::*;

fn warnings(run: &Script) -> Vec<&str> {
    let warnings = run
        .step
        .records
        .iter()
        .filter_map(|record| match &record.body {
            RecordBody::Warning(warning) if warning.code == "tool_not_retried" => {
                Some(warning.message.as_str())
            }
            _ => None,
        });
    warnings.collect()
}

/// A run in which reading and sending failed, and a note was taken.
fn two_failed() -> Script {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, NOTE, SEND])).allow();
    run.finish(0, failed("no such file"))
        .finish(1, done("1"))
        .finish(2, failed("no network"));
    run
}

#[test]
fn tools_that_failed_last_turn_and_were_not_retried_are_logged() {
    let mut run = two_failed();
    run.reply(another_call_to(READ, 2));
    assert_eq!(run.just_recorded(), ["llm_call", "warning"]);
    assert_eq!(
        warnings(&run),
        ["failed last turn and was not tried again: send_mail"]
    );
    let mut run = two_failed();
    run.reply(says("I could not."));
    let both = "failed last turn and was not tried again: read_file, send_mail";
    assert_eq!(warnings(&run), [both]);
}

#[test]
fn a_tool_that_was_retried_is_not_logged() {
    let mut run = two_failed();
    run.reply(calls_to(&[SEND, READ]));
    assert_eq!(warnings(&run), [""; 0]);
    run.allow().finish(0, done("1")).finish(1, done("2"));
    run.reply(says("Done."));
    assert_eq!(warnings(&run), [""; 0]);
}

#[test]
fn a_call_that_was_not_run_does_not_count_as_a_failed_tool() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[SEND]))
        .vet([denies()])
        .reply(says("I may not."));
    assert_eq!(warnings(&run), [""; 0]);
}

#[test]
fn a_lost_attempt_makes_the_sum_a_lower_bound() {
    let mut run = Script::start(spec());
    run.resume().reply(says("Blue."));
    let total = run.outcome().usage.total;
    assert_eq!(
        (total.prompt.tokens, total.prompt.label),
        (10, CountLabel::Unknown)
    );
    assert_eq!(
        run.outcome().usage.roles[&Role::REASONING].total.label,
        CountLabel::Unknown
    );
}

#[test]
fn a_failed_attempt_counts_reported_tokens_or_is_unknown_if_some_may_be_used() {
    let labels = [
        (
            LlmError::new(LlmErrorKind::Timeout, "slow"),
            CountLabel::Unknown,
            10,
        ),
        (
            LlmError::new(LlmErrorKind::Connection, "refused"),
            CountLabel::Measured,
            10,
        ),
        (
            LlmError::new(LlmErrorKind::Incomplete, "cut").with_usage(usage(5, 1)),
            CountLabel::Measured,
            15,
        ),
    ];
    for (error, label, prompt) in labels {
        let mut run = Script::start(spec());
        run.fail_model_with(error, 1, NextAttempt::Follows)
            .reply(says("Blue."));
        let total = run.outcome().usage.total;
        assert_eq!((total.prompt.tokens, total.prompt.label), (prompt, label));
    }
}

#[test]
fn the_usage_of_a_call_cancelled_in_flight_is_unknown() {
    let mut run = Script::start(spec());
    run.cancel();
    assert_eq!(run.outcome().usage.total, Usage::UNKNOWN);
}

#[test]
fn estimated_counts_stay_estimated_and_all_counts_add_up_per_role() {
    let six = |n| Usage {
        prompt: TokenCount::estimated(n),
        completion: TokenCount::measured(n + 1),
        total: TokenCount::measured(n + 2),
        reasoning: TokenCount::measured(n + 3),
        cached: TokenCount::measured(n + 4),
        action: TokenCount::measured(n + 5),
        cache_written: None,
    };
    let mut run = Script::start(spec());
    let mut reply = calls_to(&[READ]);
    reply.usage = six(10);
    run.reply(reply).allow().finish(0, done("1"));
    let mut reply = says("Blue.");
    reply.usage = six(20);
    let mut replied = run.replied(reply);
    if let Input::ModelReplied(replied) = &mut replied {
        replied.served_by = Role::ROUTER;
    }
    run.send(replied);
    let usage = &run.outcome().usage;
    let counts = [
        usage.total.prompt,
        usage.total.completion,
        usage.total.total,
        usage.total.reasoning,
        usage.total.cached,
        usage.total.action,
    ];
    assert_eq!(counts.map(|count| count.tokens), [30, 32, 34, 36, 38, 40]);
    assert_eq!(usage.total.prompt.label, CountLabel::Estimated);
    assert_eq!(usage.total.completion.label, CountLabel::Measured);
    assert_eq!(usage.roles[&Role::REASONING], six(10));
    assert_eq!(
        usage.roles[&Role::ROUTER],
        six(20),
        "the role that served it"
    );
}
