//! Rule 2: what follows from a reply; and what it costs (rule 12).

use std::time::Duration;

use neuraxis_core::{
    Attempt, FinishReason, Input, JsonText, LlmError, LlmErrorKind, Message, ModelFailed,
    NextAttempt, Purpose, RecordBody, ReplyFinish, ReplyPart, Role, RunStatus, ToolChoice,
};

use crate::support::*;

#[test]
fn a_reply_without_calls_ends_the_run_with_its_text() {
    let mut run = Script::start(spec());
    run.reply(says("It is blue."));
    assert_eq!(run.step.status, RunStatus::Done);
    assert_eq!(run.outcome().content, "It is blue.");
    assert_eq!(run.outcome().finish_reason, FinishReason::Stop);
    assert_eq!(run.outcome().turns, 1);
    assert_eq!(run.just_recorded(), ["llm_call", "final"]);
}

#[test]
fn a_reply_without_text_is_the_empty_string() {
    let mut run = Script::start(spec());
    run.reply(says(""));
    assert_eq!(run.outcome().content, "");
    assert_eq!(run.outcome().finish_reason, FinishReason::Stop);
    assert_eq!(
        run.conversation(),
        "user: Please help.",
        "an empty message is none"
    );
}

#[test]
fn a_reply_with_calls_is_vetted_run_and_followed_by_the_next_turn() {
    let mut run = Script::start(spec());
    run.reply(calls("Let me look.", &[(READ, r#"{"path":"a"}"#)]));
    assert_eq!(run.just_recorded(), ["llm_call"]);
    assert_eq!(run.to_vet().calls[0].arguments.as_str(), r#"{"path":"a"}"#);
    run.allow();
    assert_eq!(run.just_recorded(), ["verdict", "tool_call"]);
    run.finish(0, done(r#"{"text":"hi"}"#));
    assert_eq!(run.just_recorded(), ["tool_result"]);
    insta::assert_snapshot!(run.conversation(), @r#"
    user: Please help.
    assistant: Let me look. [read_file {"path":"a"}]
    tool: {"text":"hi"}
    "#);
    assert_eq!(run.model_call().purpose, Purpose::Turn);
    assert_eq!(run.model_call().request.tool_choice, ToolChoice::Auto);
    assert_eq!(*run.model_call().request.tools, *tools());
}

#[test]
fn a_result_reaches_the_model_as_the_json_text_of_its_value_byte_for_byte() {
    let values = ["\"blue\"", "null", "{ \"b\":1,  \"a\":1.50 }", "[]"];
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, READ, READ, READ])).allow();
    for (index, value) in (0..).zip(values) {
        run.finish(index, done(value));
    }
    assert_eq!(run.tool_messages(), values);
}

#[test]
fn a_value_that_is_not_json_on_one_line_becomes_a_string() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ, READ])).allow();
    let mut raw = done("null");
    raw.output.value = JsonText::from_text("two\nlines");
    run.finish(0, raw.clone());
    raw.output.value = JsonText::from_text("[1,\n2]");
    run.finish(1, raw);
    assert_eq!(run.tool_messages(), [r#""two\nlines""#, r#""[1,\n2]""#]);
}

#[test]
fn an_empty_tool_catalog_is_sent_as_an_empty_list() {
    let mut spec = spec();
    spec.root.tools = [].into();
    let run = Script::start(spec);
    assert!(run.model_call().request.tools.is_empty());
}

#[test]
fn a_truncated_answer_ends_the_run_with_the_available_text() {
    let mut run = Script::start(spec());
    run.reply(ended(says("It is"), ReplyFinish::Length));
    assert_eq!(run.outcome().content, "It is");
    assert_eq!(run.outcome().finish_reason, FinishReason::Length);
    assert_eq!(run.step.status, RunStatus::Done);
}

#[test]
fn an_answer_withheld_by_the_provider_has_its_own_finish_reason() {
    let mut run = Script::start(spec());
    run.reply(ended(says(""), ReplyFinish::ContentFilter));
    assert_eq!(run.outcome().finish_reason, FinishReason::ContentFilter);
}

#[test]
fn an_answer_in_which_the_model_refuses_has_its_own_finish_reason() {
    let mut run = Script::start(spec());
    run.reply(ended(says("I can't."), ReplyFinish::Refused));
    assert_eq!(run.outcome().content, "I can't.");
    assert_eq!(run.outcome().finish_reason, FinishReason::Refused);
    assert_eq!(run.step.status, RunStatus::Done);
}

#[test]
fn calls_of_a_reply_that_was_cut_off_are_not_run() {
    for finish in [
        ReplyFinish::Length,
        ReplyFinish::ContentFilter,
        ReplyFinish::Refused,
    ] {
        let mut run = Script::start(spec());
        run.reply(ended(calls_to(&[READ, SEND]), finish));
        assert_eq!(
            run.just_recorded(),
            ["llm_call", "tool_result", "tool_result"]
        );
        assert_eq!(run.model_call().turn.0, 2, "the model may try again");
        assert!(run.result(1).value.as_str().contains("not run"));
        assert_valid(run.tree.messages());
    }
}

#[test]
fn calls_get_loop_ids_and_keep_the_provider_ids_for_echoing() {
    let mut reply = calls_to(&[READ, READ]);
    for part in &mut reply.parts {
        if let ReplyPart::ToolCall(call) = part {
            call.provider_id = Some("call_0".into());
        }
    }
    let mut run = Script::start(spec());
    run.reply(reply);
    let messages = run.tree.messages();
    let calls: Vec<_> = messages.last().unwrap().tool_calls().collect();
    assert_ne!(calls[0].id, calls[1].id);
    assert!(
        calls
            .iter()
            .all(|call| call.provider_id.as_deref() == Some("call_0"))
    );
    assert!(calls.iter().all(|call| call.id.as_str().len() <= 64));
}

#[test]
fn the_system_prompt_is_first_unless_the_history_has_one() {
    let mut spec = spec();
    spec.root.system_prompt = Some("Be brief.".into());
    let run = Script::start_after(
        spec.clone(),
        [Message::user("Hi."), Message::assistant("Hello.")]
            .into_iter()
            .collect(),
    );
    insta::assert_snapshot!(run.conversation(), @"
    system: Be brief.
    user: Hi.
    assistant: Hello.
    user: Please help.
    ");
    let run = Script::start_after(spec, [Message::system("Be verbose.")].into_iter().collect());
    insta::assert_snapshot!(run.conversation(), @"
    system: Be verbose.
    user: Please help.
    ");
}

#[test]
fn a_failed_attempt_is_recorded_and_the_next_one_answers_the_same_call() {
    let mut run = Script::start(spec());
    run.fail_model(1, NextAttempt::Follows);
    assert_eq!(run.just_recorded(), ["llm_failed"]);
    assert_eq!(
        (run.step.status, run.step.effects.len()),
        (RunStatus::Running, 0)
    );
    run.fail_model(2, NextAttempt::Follows);
    run.reply(says("Blue."));
    let RecordBody::LlmCall(call) = &run.step.records[0].body else {
        panic!("a model call")
    };
    assert_eq!(call.attempt, Attempt(3));
    assert_eq!(call.effect_id, run.model_call().effect_id);
}

#[test]
fn a_permanently_failing_model_call_fails_the_run_with_a_valid_history() {
    let mut run = Script::start(spec());
    run.reply(calls("Let me look.", &[(READ, "{}")])).allow();
    run.finish(0, done("1")).fail_model(1, NextAttempt::None);
    assert_eq!(run.step.status, RunStatus::Failed);
    assert_eq!(run.just_recorded(), ["llm_failed", "run_failed"]);
    assert_eq!(run.outcome().content, "Let me look.");
    assert_eq!(
        run.outcome().finish_reason,
        FinishReason::Failed("the model did not answer in time: nothing came in 60 s".to_owned())
    );
    assert_valid(run.tree.messages());
}

#[test]
fn usage_adds_up_over_attempts_and_calls_per_role_and_in_total() {
    let mut run = Script::start(spec());
    let call = run.model_call();
    let error = LlmError::new(LlmErrorKind::Incomplete, "cut off").with_usage(usage(10, 1));
    run.send(Input::ModelFailed(ModelFailed {
        cost: None,
        cost_label: Default::default(),
        model: None,
        effect_id: call.effect_id,
        attempt: Attempt(1),
        error,
        next: NextAttempt::Follows,
        served_by: Role::REASONING,
        downgraded: None,
        degraded: None,
        duration: Duration::ZERO,
    }));
    let mut second = run.replied(says("Blue."));
    if let Input::ModelReplied(second) = &mut second {
        second.served_by = Role::ROUTER;
    }
    run.send(second);
    let used = &run.outcome().usage;
    assert_eq!(used.total, usage(20, 3));
    assert_eq!(used.roles[&Role::REASONING], usage(10, 1));
    assert_eq!(used.roles[&Role::ROUTER], usage(10, 2));
}
