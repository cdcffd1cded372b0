//! What the data policy keeps out of the log is in no record, and such a log is not replayed.

use std::sync::Arc;

use neuraxis_core::{
    Advice, AdvisedCall, ApprovalDecision, BlockIndex, CallAdvice, Cancelled, DataPolicy,
    FinishReason, GrantScope, Hook, Input, JsonText, Keep, LlmError, LlmErrorKind, MediaPart,
    MediaSource, Message, NextAttempt, Part, ReasoningPart, RecordBody, Remember, ReplyPart,
    RestoreError, RunSpec, RunTree, ToolClass, ToolFailure, ToolKind, ToolOutcome, ToolOutput,
    ToolSignal, Transcript, Vetted, Vetting, continued_history,
};

use crate::support::*;

/// A marker for each kind of content.
const TEXT: &str = "canary-text";
const CALLS: &str = "canary-calls";
const RESULTS: &str = "canary-results";
const THOUGHTS: &str = "canary-thoughts";

const ARGUMENTS: &str = r#"{"q":"canary-calls"}"#;

fn runs_command() -> GrantScope {
    GrantScope::Command {
        pattern: format!("{CALLS} **"),
        access: Vec::new(),
    }
}

fn asks_about_it() -> Vetting {
    Vetting::Ask {
        class: ToolClass::Irreversible,
        untrusted: false,
        reason: format!("It runs `{CALLS}`."),
        causes: Vec::new(),
        rule: None,
        remember: Remember::Arguments,
        choices: vec![
            runs_command(),
            GrantScope::Host {
                pattern: CALLS.to_owned(),
            },
            GrantScope::Path {
                pattern: CALLS.to_owned(),
            },
        ],
        again: false,
    }
}

fn runs_it() -> Vetting {
    Vetting::Run {
        class: ToolClass::ReadOnly,
        untrusted: false,
        reason: Some(format!("A rule allows `{CALLS}`.").into()),
        rule: None,
        grant: None,
    }
}

/// A result that uses everything a tool can return.
fn found() -> ToolOutcome {
    let text = || JsonText::string(RESULTS);
    let mut output = ToolOutput::new(text());
    output.keep = Keep::Summary;
    output.summary = Some(RESULTS.to_owned());
    output.metadata = Some(text());
    output.signal = Some(ToolSignal::Plan { plan: text() });
    ToolOutcome::done(output)
}

/// The user sends a picture and a question; the model reasons, answers in part, and makes calls that read, are invalid,
/// and require approval.
fn at_work(mut spec: RunSpec) -> Script {
    let picture = MediaPart {
        media_type: "image/png".to_owned(),
        source: MediaSource::Base64(TEXT.into()),
    };
    let parts = vec![Part::text(TEXT), Part::Media(picture)];
    spec.messages = vec![Arc::new(Message::User { parts })];
    spec.root.system_prompt = Some(format!("Answer briefly.\n\n{TEXT}").into());
    spec.client_instructions = Some(TEXT.into());
    let mut run = Script::start(spec);
    let mut reply = calls(
        TEXT,
        &[(READ, ARGUMENTS), (READ, ARGUMENTS), (SEND, ARGUMENTS)],
    );
    for part in &mut reply.parts {
        if let ReplyPart::ToolCall(call) = part {
            call.state = Some(JsonText::string(THOUGHTS));
        }
    }
    let thought = ReasoningPart {
        index: BlockIndex(0),
        text: THOUGHTS.to_owned(),
        id: None,
        signature: Some(THOUGHTS.to_owned()),
        state: Some(JsonText::string(THOUGHTS)),
    };
    reply.parts.insert(0, ReplyPart::Reasoning(thought));
    run.reply(reply);
    let message = format!("at /q: {CALLS:?} is not a number");
    run.vet([runs_it(), Vetting::Invalid { message }, asks_about_it()]);
    run.steer(TEXT);
    run.finish(0, ToolOutcome::failed(ToolFailure::Temporary, RESULTS));
    run.finish(0, found());
    run
}

/// A user approves the call with other arguments, and the last turn ends.
fn approved() -> Script {
    let mut run = at_work(spec_with_limits(|limits| limits.max_turns = Some(1)));
    run.decide(ApprovalDecision::Approve {
        arguments: Some(JsonText::from_text(format!("{{\"to\":{CALLS:?}}}"))),
        remember: Some(runs_command()),
    });
    run.vet([asks_about_it()]).finish(2, found());
    run.reply(says(TEXT));
    run
}

/// A user gives a reason for denying, and no more calls may be made.
fn denied() -> Script {
    let mut run = at_work(spec_with_limits(|limits| limits.max_tool_calls = Some(1)));
    run.decide(ApprovalDecision::Deny {
        reason: Some(TEXT.to_owned()),
    });
    run.reply(says(TEXT));
    run
}

/// Policy forbids the call, and a client's tool supplies the other result.
fn forbidden() -> Script {
    let mut run = Script::start(spec());
    run.reply(calls("", &[(SEND, ARGUMENTS), (PICK, ARGUMENTS)]));
    let reason = format!("Nobody runs `{CALLS}`.");
    run.vet([Vetting::Deny { reason, rule: None }, writes()]);
    assert_eq!(run.started(1).kind, ToolKind::Client);
    run.finish(1, found()).reply(says(TEXT));
    run
}

/// A hook of calls ends the loop while one of them runs.
fn ended_by_a_hook_of_calls() -> Script {
    let mut run = Script::start(spec());
    run.reply(calls("", &[(SEND, ARGUMENTS), (SEND, ARGUMENTS)]));
    run.vet([writes(), asks()]).decide(approve());
    let vet = run.to_vet();
    let mut vetted = Vetted::new(vet.effect_id, vec![asks()]);
    vetted.advised = vec![AdvisedCall {
        tool_call_id: vet.calls[0].tool_call_id.clone(),
        arguments: None,
        advice: CallAdvice::Stop {
            reason: format!("It sends {CALLS}."),
        },
        code: None,
    }];
    run.send(Input::Vetted(vetted));
    assert_eq!(run.result(0).failure, Some(ToolFailure::OutcomeUnknown));
    assert_eq!(run.result(1).failure, Some(ToolFailure::Cancelled));
    run
}

/// A hook that is shown all calls of a reply ends the loop.
fn ended_by_a_hook() -> Script {
    let hooks = vec![Hook::ProcessCalls];
    let mut run = Script::start(spec_with_profile(|profile| profile.hooks = hooks));
    run.reply(calls("", &[(READ, ARGUMENTS)]));
    let reason = format!("It reads {CALLS}.");
    run.advise(Advice::Stop { reason });
    assert_eq!(run.result(0).failure, Some(ToolFailure::Cancelled));
    run
}

/// A call had begun when the process died, and policy now forbids it.
fn forbidden_by_now() -> Script {
    let mut run = Script::start(spec());
    run.reply(calls("", &[(READ, ARGUMENTS)])).allow();
    let reason = format!("Nobody reads `{CALLS}`.");
    run.resume_checking();
    run.vet([Vetting::Deny { reason, rule: None }]);
    assert_eq!(run.result(0).failure, Some(ToolFailure::OutcomeUnknown));
    run
}

/// A conversation with calls outgrows its context and is summarized.
fn summed_up() -> Script {
    let mut spec = spec();
    spec.root.context_tokens = Some(1_000);
    spec.root.max_output_tokens = Some(50);
    let mut run = Script::start(spec);
    for turn in 0..8 {
        let text = format!("{TEXT} {}", "x".repeat(800));
        let arguments = format!("{{\"q\":{CALLS:?},\"turn\":{turn}}}");
        let mut reply = calls(&text, &[(READ, &arguments)]);
        reply.usage = neuraxis_core::Usage::default();
        run.reply(reply).allow().finish(0, found());
        if run.model_call().purpose == neuraxis_core::Purpose::Compaction {
            let sent = run.model_call().request.messages.messages()[1].text();
            assert!(sent.contains(CALLS) && sent.contains(RESULTS));
            // The model is told to keep names and numbers verbatim.
            let summary = format!("{TEXT} {CALLS} {RESULTS}");
            run.reply(says(&summary)).reply(says(TEXT));
            return run;
        }
    }
    panic!("it was never summed up")
}

/// An agent is started with a task from the arguments of a call.
fn delegated() -> Script {
    let mut run = Script::start(researching());
    run.reply(research(&[CALLS])).allow();
    let sent = run.call_of(1).request.messages.messages().last().unwrap();
    assert_eq!(sent.text(), CALLS);
    // Its answer becomes a result for its parent.
    run.reply_as(1, says("It is done.")).reply(says(TEXT));
    run
}

/// A provider quotes what it was sent, when it is overloaded and when it refuses the request.
fn refused() -> Script {
    let mut run = Script::start(spec());
    let quoting = |kind| {
        let said = format!("Invalid input: '{TEXT} {CALLS} {RESULTS} {THOUGHTS}'");
        LlmError::new(kind, said)
    };
    let overloaded = LlmErrorKind::server(Some(503));
    run.fail_model_with(quoting(overloaded), 1, NextAttempt::Follows);
    run.fail_model_with(quoting(LlmErrorKind::BadRequest), 2, NextAttempt::None);
    run
}

/// The run is cancelled, with a reason.
fn cancelled() -> Script {
    let mut run = Script::start(spec());
    let cancelled = Cancelled::new(run.new_id(), TEXT);
    run.send(Input::Cancelled(cancelled));
    run
}

/// The program's code adds something to a request, and then rejects the answer.
fn turned_down() -> Script {
    let hooks = vec![Hook::Request, Hook::Answer];
    let mut run = Script::start(spec_with_profile(|profile| profile.hooks = hooks));
    run.advise(Advice::Amend {
        text: None,
        notes: vec![format!("Somebody else said {TEXT}.")],
    });
    let message = format!("{TEXT} is no answer.");
    run.reply(says(TEXT)).advise(Advice::TurnDown { message });
    run.advise(Advice::Continue);
    run.reply(says(TEXT)).advise(Advice::Continue);
    run
}

/// Tools return what they were called with: a plan, the changes to a file, and something that does not exist.
fn made_of_arguments() -> Script {
    let mut run = Script::start(spec());
    run.reply(calls("", &[(READ, ARGUMENTS), (SEND, ARGUMENTS)]));
    run.vet([reads(), writes()]);
    let text = || JsonText::string(CALLS);
    let mut output = ToolOutput::new(JsonText::string("Noted."));
    output.metadata = Some(text());
    output.signal = Some(ToolSignal::Plan { plan: text() });
    run.finish(0, ToolOutcome::failed(ToolFailure::Temporary, CALLS));
    run.finish(0, ToolOutcome::done(output));
    run.finish(1, failed(CALLS)).reply(says(TEXT));
    run
}

fn all() -> Vec<Script> {
    vec![
        approved(),
        denied(),
        forbidden(),
        ended_by_a_hook_of_calls(),
        ended_by_a_hook(),
        forbidden_by_now(),
        summed_up(),
        delegated(),
        refused(),
        cancelled(),
        turned_down(),
        made_of_arguments(),
    ]
}

/// Returns all records as they may be stored, one per line.
fn stored(policy: DataPolicy) -> Vec<String> {
    let runs = all();
    let records = runs.iter().flat_map(|run| &run.records);
    let lines = records.map(|record| match record.withheld(policy) {
        Some(withheld) => withheld.to_json(),
        None => record.to_json(),
    });
    lines.collect()
}

fn but_for(change: fn(&mut DataPolicy)) -> DataPolicy {
    let mut policy = DataPolicy::ALL;
    change(&mut policy);
    policy
}

#[test]
fn withheld_content_is_in_no_record_of_any_type() {
    let kinds = [
        (TEXT, but_for(|policy| policy.text = false)),
        (CALLS, but_for(|policy| policy.tool_calls = false)),
        (RESULTS, but_for(|policy| policy.tool_results = false)),
        (THOUGHTS, but_for(|policy| policy.reasoning = false)),
    ];
    for (withheld, policy) in kinds {
        let lines = stored(policy);
        for line in &lines {
            assert!(!line.contains(withheld), "{withheld} is in {line}");
            assert_eq!(read_line(line).to_json(), *line);
        }
        for (other, _) in kinds.iter().filter(|(other, _)| *other != withheld) {
            let kept = lines.iter().filter(|line| line.contains(other)).count();
            assert!(kept > 0, "{other} went with {withheld}");
        }
    }
}

#[test]
fn every_record_type_with_content_is_withheld_from() {
    let nothing = but_for(|policy| {
        (policy.text, policy.tool_calls) = (false, false);
        (policy.tool_results, policy.reasoning) = (false, false);
    });
    let runs = all();
    let records = runs.iter().flat_map(|run| &run.records);
    let mut kinds: Vec<_> = records
        .filter(|record| record.to_json().contains("canary"))
        .inspect(|record| {
            let stored = record.withheld(nothing).unwrap().to_json();
            assert!(!stored.contains("canary"), "{stored}");
        })
        .map(|record| record.body.kind())
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "advised",
            "approval_decided",
            "approval_requested",
            "cancelled",
            "context_trimmed",
            "final",
            "limit_reached",
            "llm_call",
            "llm_failed",
            "max_turns_reached",
            "plan",
            "prompt_injected",
            "run_failed",
            "run_started",
            "steered",
            "summary",
            "tool_call",
            "tool_failed",
            "tool_result",
            "verdict",
        ]
    );
}

#[test]
fn what_a_client_adds_to_the_instructions_is_withheld_and_the_rest_of_them_is_not() {
    let policy = but_for(|policy| policy.text = false);
    let stored_prompt = |prompt: &str| {
        let mut spec = spec();
        spec.root.system_prompt = Some(prompt.into());
        spec.client_instructions = Some(TEXT.into());
        let run = Script::start(spec);
        let record = run.records[0].withheld(policy).unwrap();
        let RecordBody::RunStarted(started) = record.body else {
            panic!("it begins with another record");
        };
        started.spec.root.system_prompt.clone().unwrap()
    };
    let stored = stored_prompt(&format!("Answer briefly.\n\n{TEXT}"));
    let begins = "Answer briefly.\n\n[withheld: 11 bytes, sha256 ";
    assert!(stored.starts_with(begins), "{stored}");
    assert!(!stored.contains(TEXT), "{stored}");
    // A part of unknown origin follows.
    let stored = stored_prompt(&format!("Answer briefly.\n\n{TEXT} And more."));
    assert!(
        stored.starts_with("[withheld: ") && !stored.contains("more"),
        "{stored}"
    );
}

#[test]
fn the_kind_of_a_provider_error_is_stored_and_matches_the_end_of_the_run() {
    let run = refused();
    let policy = but_for(|policy| policy.reasoning = false);
    let stored: Vec<_> = run.records.iter().map(|it| it.withheld(policy)).collect();
    let bodies = stored.iter().flatten().rev().map(|record| &record.body);
    let mut ends = bodies.filter_map(|body| match body {
        RecordBody::LlmFailed(failed) => Some(failed.error.to_string()),
        RecordBody::RunFailed(outcome) => match &outcome.finish_reason {
            FinishReason::Failed(why) => Some(why.clone()),
            _ => None,
        },
        _ => None,
    });
    let why = ends.next().unwrap();
    assert!(
        why.starts_with("the provider refuses the request: [withheld: "),
        "{why}"
    );
    assert_eq!(ends.next(), Some(why));
}

#[test]
fn a_log_with_withheld_content_is_not_replayed() {
    for (policy, what) in [
        (but_for(|policy| policy.text = false), "text"),
        (
            but_for(|policy| policy.tool_calls = false),
            "the arguments of calls",
        ),
        (
            but_for(|policy| policy.tool_results = false),
            "the results of calls",
        ),
        (but_for(|policy| policy.reasoning = false), "reasoning"),
    ] {
        let run = Script::start(spec_with_profile(|profile| profile.data = policy));
        assert_eq!(run.kinds(), ["run_started", "warning"]);
        assert!(run.records[1].to_json().contains("cannot be replayed"));
        let error = RunTree::restore(Transcript::default(), &run.records).unwrap_err();
        assert_eq!(error, RestoreError::Withheld(what));
    }
}

#[test]
fn an_unread_message_is_in_the_history_as_far_as_it_may_be_stored() {
    let mut run = Script::start(spec());
    run.steer(TEXT).cancel();
    let policy = but_for(|policy| policy.text = false);
    let stored = run.records.iter().map(|record| record.withheld(policy));
    let stored: Vec<_> = stored.map(|record| Arc::new(record.unwrap())).collect();
    let history = continued_history(&Transcript::default(), &stored);
    assert_eq!(history.len(), 2);
    let unheard = history.last_user_text();
    assert!(
        unheard.starts_with("[withheld: 11 bytes, sha256 "),
        "{unheard}"
    );
}

#[test]
fn content_one_agent_may_not_store_is_withheld_in_the_whole_run() {
    let mut spec = researching();
    let policy = but_for(|policy| policy.tool_results = false);
    researcher(&mut spec).profile.data = policy;
    assert_eq!(spec.data_policy(), policy);
    let run = Script::start(spec);
    let error = RunTree::restore(Transcript::default(), &run.records).unwrap_err();
    assert_eq!(error, RestoreError::Withheld("the results of calls"));
}

#[test]
fn a_run_that_stores_everything_records_no_warning() {
    let run = Script::start(spec());
    assert_eq!(run.kinds(), ["run_started"]);
    assert!(run.records[0].withheld(DataPolicy::ALL).is_none());
    run.assert_replays();
}
