//! Tests of the spans of model calls, tool calls and questions to users.

use std::time::Duration;

use neuraxis_core::{
    CallIndex, CountLabel, EffectId, JsonText, LlmError, LlmErrorKind, MicroUsd, RunId,
    ToolFailure, ToolOutcome, Transcript,
};
use neuraxis_ports::Ids as _;
use neuraxis_testkit::{CountingIds, RunLog, reply};
use opentelemetry::InstrumentationScope;

use super::*;

/// Creates a failed attempt that reported its token usage and had a cost.
fn attempt_failed(run: RunId, number: u32, next: NextAttempt) -> LlmFailed {
    let cut = LlmError::new(LlmErrorKind::Incomplete, "cut off");
    LlmFailed {
        effect_id: EffectId { run, number: 1 },
        attempt: Attempt(number),
        purpose: Purpose::Turn,
        role: Role::REASONING,
        served_by: Role::REASONING,
        downgraded: None,
        degraded: None,
        error: cut.with_usage(reply::using(reply::empty(), 7, 1).usage),
        next,
        cost: Some(MicroUsd(8)),
        cost_label: CountLabel::Measured,
        model: Some(Box::new(ModelRef::new("openai", "m1"))),
        duration: Duration::ZERO,
    }
}

fn told(attributes: &[KeyValue], name: &str) -> Option<String> {
    let attribute = attributes.iter().find(|it| it.key.as_str() == name)?;
    Some(attribute.value.as_str().into_owned())
}

#[test]
fn model_calls_with_their_own_settings_do_not_report_the_agents_temperature() {
    let run = RunId(CountingIds::default().new_id());
    let mut log = RunLog::new(run, "s".parse().unwrap());
    let mut started = Arc::unwrap_or_clone(log.started("Hello"));
    if let RecordBody::RunStarted(started) = &mut started.body {
        Arc::make_mut(&mut started.spec).root.temperature = Some(0.7);
    }
    let scope = InstrumentationScope::builder("test").build();
    let mut spans = RunSpans::new(scope, run, None, Arc::default());
    let started = Arc::new(started);
    spans.record(&started);
    let is_told = |purpose| {
        let attributes = spans.of_model_call(&started, Attempt(1), purpose);
        let mut keys = attributes.iter().map(|it| it.key.as_str());
        keys.any(|key| key == names::TEMPERATURE)
    };
    assert!(is_told(Purpose::Turn) && is_told(Purpose::SelfCheck));
    assert!(!is_told(Purpose::Compaction) && !is_told(Purpose::Routing));
}

#[test]
fn the_span_of_a_call_includes_usage_and_cost_of_failed_attempts() {
    let run = CountingIds::nth_run(1);
    let mut log = RunLog::new(run, "s".parse().unwrap());
    let mut replied = Arc::unwrap_or_clone(log.replied(reply::using(reply::text("Hi."), 10, 2)));
    let RecordBody::LlmCall(call) = &mut replied.body else {
        panic!("a reply")
    };
    (call.attempt, call.cost) = (Attempt(2), Some(MicroUsd(12)));
    let failed = attempt_failed(run, 1, NextAttempt::Follows);
    let failed = log.record(RecordBody::LlmFailed(Box::new(failed)));
    let scope = InstrumentationScope::builder("test").build();
    let mut spans = RunSpans::new(scope, run, None, Arc::default());
    assert!(spans.record(&failed).is_empty());
    let ended = spans.record(&Arc::new(replied));
    let told = |name: &str| told(&ended[0].attributes, name);
    assert_eq!(told(names::INPUT_TOKENS).as_deref(), Some("17"));
    assert_eq!(told(names::OUTPUT_TOKENS).as_deref(), Some("3"));
    assert_eq!(told(names::COST).as_deref(), Some("20"));
}

#[test]
fn a_failed_call_that_ends_with_its_run_has_a_span_with_its_attempts() {
    let run = CountingIds::nth_run(1);
    let mut log = RunLog::new(run, "s".parse().unwrap());
    let scope = InstrumentationScope::builder("test").build();
    let mut spans = RunSpans::new(scope, run, None, Arc::default());
    spans.record(&log.started("Hello"));
    for number in 1..=2 {
        let failed = attempt_failed(run, number, NextAttempt::Follows);
        let failed = log.record(RecordBody::LlmFailed(Box::new(failed)));
        assert!(spans.record(&failed).is_empty());
    }
    let last = log.finished("");
    let ended = spans.record(&last);
    let spans: Vec<&str> = ended.iter().map(|span| span.name.as_ref()).collect();
    assert_eq!(spans, ["chat m1", "invoke_agent main_thread"]);
    let call = &ended[0];
    assert_eq!(call.status, Status::error("incomplete"));
    assert_eq!(call.end_time, time(last.at));
    let of_call = |name: &str| told(&call.attributes, name);
    assert_eq!(of_call(names::ERROR_TYPE).as_deref(), Some("incomplete"));
    assert_eq!(of_call(names::ATTEMPTS).as_deref(), Some("2"));
    assert_eq!(of_call(names::INPUT_TOKENS).as_deref(), Some("14"));
    assert_eq!(of_call(names::COST).as_deref(), Some("16"));
    assert_eq!(call.events.events.len(), 2);
    let of_attempt = |name: &str| told(&call.events.events[0].attributes, name);
    assert_eq!(of_attempt(names::ROLE).as_deref(), Some("reasoning"));
    assert_eq!(of_attempt(names::REQUEST_MODEL).as_deref(), Some("m1"));
}

#[test]
fn the_input_of_a_failed_model_call_is_exported_with_content() {
    let run = CountingIds::nth_run(1);
    let mut log = RunLog::new(run, "s".parse().unwrap());
    let scope = InstrumentationScope::builder("test").build();
    let history = Some(Transcript::default());
    let mut spans = RunSpans::new(scope, run, history, Arc::default());
    spans.record(&log.started("Hello"));
    let failed = attempt_failed(run, 1, NextAttempt::None);
    let ended = spans.record(&log.record(RecordBody::LlmFailed(Box::new(failed))));
    let sent = told(&ended[0].attributes, names::INPUT_MESSAGES);
    assert!(sent.is_some_and(|sent| sent.contains("Hello")));
}

#[test]
fn an_unanswered_approval_ends_with_its_call_and_without_a_decision() {
    let run = CountingIds::nth_run(1);
    let mut log = RunLog::new(run, "s".parse().unwrap());
    let call = ToolCallId::from_text("call_1");
    let arguments = JsonText::from_text("{}");
    let asked = ApprovalRequested {
        effect_id: EffectId { run, number: 1 },
        tool_call_id: call.clone(),
        name: "refund".into(),
        arguments_hash: arguments.hash(),
        arguments,
        reason: "it costs money".to_owned(),
        causes: Vec::new(),
        rule: None,
        choices: Vec::new(),
        expires_at: None,
    };
    let stopped = ToolOutcome::failed(ToolFailure::Cancelled, "not run");
    let result = ToolResult::of(call, "refund", CallIndex(0), stopped);
    let scope = InstrumentationScope::builder("test").build();
    let mut spans = RunSpans::new(scope, run, None, Arc::default());
    spans.record(&log.started("Hello"));
    spans.record(&log.record(RecordBody::ApprovalRequested(Box::new(asked))));
    let ended = spans.record(&log.record(RecordBody::ToolResult(Box::new(result))));
    let told: Vec<&str> = ended.iter().map(|span| span.name.as_ref()).collect();
    assert_eq!(told, ["approval refund", "execute_tool refund"]);
    let mut attributes = ended[0].attributes.iter();
    assert!(attributes.all(|it| it.key.as_str() != names::DECISION));
}

#[test]
fn a_temperature_is_exported_as_written() {
    for (given, told) in [(0.7_f32, 0.7_f64), (1.0, 1.0), (0.1, 0.1), (0.0, 0.0)] {
        assert_eq!(as_written(given).to_bits(), told.to_bits());
    }
}
