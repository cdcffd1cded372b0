//! Hooks: where an embedder is consulted, and what its advice does.

use std::time::Duration;

use neuraxis_core::{
    Advice, BudgetKind, Effect, FinishReason, Hook, Input, InputError, Purpose, RunSpec, RunStatus,
    ToolFailure, Transcript,
};

use crate::support::*;

fn hooked(hooks: &[Hook]) -> RunSpec {
    spec_with_profile(|profile| profile.hooks = hooks.to_vec())
}

fn stop() -> Advice {
    Advice::Stop {
        reason: "the window was closed".to_owned(),
    }
}

fn offer(tools: &[&str]) -> Advice {
    Advice::Offer {
        tools: tools.iter().map(|tool| tool.parse().unwrap()).collect(),
    }
}

/// A run at each of the hooks, having said "One." if it has said anything.
fn at_each_hook() -> [(Hook, Script); 3] {
    let mut selected = Script::start(hooked(&[Hook::ToolsSelected]));
    selected.advise(Advice::Continue);
    selected
        .reply(calls("One.", &[(READ, "{}")]))
        .allow()
        .finish(0, done("1"));
    let mut progress = Script::start(hooked(&[Hook::Progress]));
    progress
        .reply(calls("One.", &[(READ, "{}")]))
        .allow()
        .finish(0, done("1"));
    let mut process = Script::start(hooked(&[Hook::ProcessCalls]));
    process.reply(calls("One.", &[(READ, r#"{"path":"a"}"#), (SEND, "{}")]));
    [
        (Hook::ToolsSelected, selected),
        (Hook::Progress, progress),
        (Hook::ProcessCalls, process),
    ]
}

fn assert_restores(run: &Script) {
    assert_gives_back(&Transcript::default(), &run.records, &run.tree);
    assert_tells_messages(&run.records, &run.tree, 0);
}

#[test]
fn each_hook_is_consulted_at_its_point_with_its_subject() {
    for (hook, run) in at_each_hook() {
        assert!(
            matches!(&run.step.effects[..], [Effect::Consult(consult)] if consult.hook == hook),
            "{hook:?}: {:?}",
            run.step.effects
        );
        assert_eq!(run.step.status, RunStatus::Running);
        assert_restores(&run);
        let told = run.consulted().subject.as_str();
        match hook {
            Hook::ToolsSelected => assert_eq!(
                told,
                r#"{"tools":["read_file","put_file","send_mail","pick_color","take_note","research"]}"#
            ),
            Hook::Progress => {
                assert_eq!(told, r#"{"turns_used":1,"tool_calls":1,"text":"One."}"#);
            }
            _ => assert!(
                told.starts_with(r#"{"calls":[{"tool_call_id":"call_"#)
                    && told.contains(r#""arguments":"{\"path\":\"a\"}"#),
                "{told}"
            ),
        }
    }
}

#[test]
fn a_hook_the_profile_does_not_name_is_not_consulted() {
    let mut run = Script::start(spec());
    run.reply(calls_to(&[READ]))
        .allow()
        .finish(0, done("1"))
        .reply(says("Blue."));
    assert!(
        !run.effects
            .iter()
            .any(|effect| matches!(effect, Effect::Consult(_)))
    );
}

#[test]
fn continue_advice_changes_nothing() {
    for (hook, mut run) in at_each_hook() {
        run.advise(Advice::Continue);
        assert_eq!(run.just_recorded(), ["advised"]);
        if hook == Hook::ProcessCalls {
            assert_eq!(run.to_vet().calls.len(), 2);
            run.allow().finish(0, done("1")).finish(1, done("2"));
        }
        run.reply(says("Blue."));
        assert_eq!(run.outcome().content, "Blue.", "{hook:?}");
        assert_restores(&run);
    }
}

#[test]
fn stop_advice_ends_the_run_as_done_and_keeps_its_text() {
    for (hook, mut run) in at_each_hook() {
        run.advise(stop());
        assert_eq!(run.outcome().content, "One.", "{hook:?}");
        assert_eq!(run.outcome().finish_reason, FinishReason::Stop);
        assert_eq!(run.step.status, RunStatus::Done);
        assert_valid(run.tree.messages());
        assert_restores(&run);
    }
}

#[test]
fn calls_stopped_by_a_hook_say_that_they_were_not_run() {
    let [_, _, (_, mut run)] = at_each_hook();
    run.advise(stop());
    assert_eq!(
        run.just_recorded(),
        ["advised", "tool_result", "tool_result", "final"]
    );
    assert_eq!(run.result(1).failure, Some(ToolFailure::Cancelled));
    let why = r#"{"error":"not run: the run was ended: the window was closed"}"#;
    assert_eq!(run.tool_messages(), [why, why]);
}

#[test]
fn an_offer_narrows_the_tools_of_that_turn_only() {
    let mut run = Script::start(hooked(&[Hook::ToolsSelected]));
    run.advise(offer(&[READ]));
    let tools = &run.model_call().request.tools;
    assert_eq!(
        tools
            .iter()
            .map(|tool| tool.name.as_str())
            .collect::<Vec<_>>(),
        [READ]
    );
    run.reply(calls_to(&[SEND, READ]));
    assert_eq!(run.result(0).failure, Some(ToolFailure::NotEnabled));
    assert_eq!(run.to_vet().calls.len(), 1, "what was offered is checked");
    run.allow().finish(1, done("1"));
    run.advise(Advice::Continue);
    assert_eq!(run.model_call().request.tools.len(), tools_in_all());
}

fn tools_in_all() -> usize {
    tools().len()
}

#[test]
fn the_hook_is_not_consulted_about_calls_that_were_all_refused() {
    let mut run = Script::start(hooked(&[Hook::ToolsSelected, Hook::ProcessCalls]));
    run.advise(offer(&[READ])).reply(calls_to(&[SEND]));
    assert_eq!(run.just_recorded(), ["llm_call", "tool_result"]);
    assert_eq!(
        run.consulted().hook,
        Hook::ToolsSelected,
        "the next turn has begun"
    );
    run.steer("Quick.");
    assert_restores(&run);
    run.advise(Advice::Continue).reply(says("Blue."));
    assert_restores(&run);
}

#[test]
fn an_unknown_tool_gets_its_error_even_if_tools_were_narrowed() {
    let mut run = Script::start(hooked(&[Hook::ToolsSelected]));
    run.advise(offer(&[READ]))
        .reply(calls_to(&["reed_file"]))
        .allow();
    assert_eq!(run.result(0).failure, Some(ToolFailure::UnknownTool));
}

#[test]
fn an_offer_is_not_valid_advice_for_other_hooks() {
    for (hook, mut run) in at_each_hook() {
        let effect = run.consulted().effect_id;
        let advised = run.advised(offer(&[READ]));
        if hook == Hook::ToolsSelected {
            run.send(advised);
        } else {
            assert_eq!(run.refused(advised), InputError::WrongAdvice(effect));
        }
    }
}

#[test]
fn repeated_advice_changes_nothing_and_unrequested_advice_is_refused() {
    for (_, mut run) in at_each_hook() {
        let advised = run.advised(Advice::Continue);
        run.send(advised.clone()).send_in_vain(advised);
    }
    let mut run = Script::start(spec());
    let effect_id = run.model_call().effect_id;
    let wrong = Input::Advised(neuraxis_core::Advised {
        effect_id,
        advice: Advice::Continue,
    });
    assert!(matches!(run.refused(wrong), InputError::WrongAnswer { .. }));
}

#[test]
fn a_hook_is_consulted_again_after_a_crash() {
    for (_, mut run) in at_each_hook() {
        let asked = run.consulted().clone();
        run.resume();
        assert_eq!(run.step.effects, [Effect::Consult(asked)]);
        assert_restores(&run);
        run.advise(Advice::Continue);
        assert_eq!(run.just_recorded(), ["advised"]);
    }
}

#[test]
fn a_run_cancelled_while_a_hook_is_pending_ends_with_a_valid_history() {
    for (_, mut run) in at_each_hook() {
        run.cancel();
        assert_eq!(run.outcome().finish_reason, FinishReason::Cancelled);
        assert_eq!(run.outcome().content, "One.");
        assert_valid(run.tree.messages());
        let late = run.advised(Advice::Continue);
        run.send_in_vain(late);
        assert_restores(&run);
    }
}

#[test]
fn the_deadline_does_not_wait_for_a_hook() {
    for hook in [Hook::ToolsSelected, Hook::Progress, Hook::ProcessCalls] {
        for end in [8_000, 10_000] {
            let mut spec = hooked(&[hook]);
            spec.root.limits.deadline = Some(Duration::from_secs(10));
            let mut run = Script::start(spec);
            if hook != Hook::ToolsSelected {
                run.reply(calls("One.", &[(READ, "{}")]));
            }
            if hook == Hook::Progress {
                run.allow().finish(0, done("1"));
            }
            run.at(end).send(Input::TimePassed);
            if end == 8_000 {
                assert_eq!(run.model_call().purpose, Purpose::LastAnswer, "{hook:?}");
                run.reply(says("This much."));
            }
            assert_eq!(run.outcome().finish_reason, FinishReason::Deadline);
            assert_valid(run.tree.messages());
            let late = run.advised(Advice::Continue);
            run.send_in_vain(late);
            assert_restores(&run);
        }
    }
}

#[test]
fn a_message_sent_while_a_hook_is_pending_is_recorded() {
    for (_, mut run) in at_each_hook() {
        run.steer("Quick.");
        assert_eq!(run.just_recorded(), ["steered"]);
        assert_restores(&run);
        run.advise(Advice::Continue);
        assert_restores(&run);
    }
}

#[test]
fn an_insufficient_budget_also_ends_the_run_after_advice() {
    let mut spec = hooked(&[Hook::ToolsSelected]);
    spec.root.limits.max_tokens = Some(10);
    let mut run = Script::start(spec);
    run.advise(offer(&[READ]));
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    run.reply(says("So."));
    assert_eq!(
        run.outcome().finish_reason,
        FinishReason::Budget(BudgetKind::Tokens)
    );
}

#[test]
fn the_hooks_of_a_sub_agent_are_consulted_about_it() {
    let mut spec = researching();
    researcher(&mut spec).profile.hooks = vec![Hook::ProcessCalls];
    let mut run = Script::start(spec);
    run.reply(research(&["a"])).allow();
    run.reply_as(1, calls("A.", &[(READ, "{}")]));
    assert_eq!(run.consulted().agent.0, 1);
    run.advise(stop());
    assert_eq!(run.tool_messages(), [r#"["A."]"#]);
    assert_eq!(run.just_asking(), [0]);
}

fn amend(text: &str, note: &str) -> Advice {
    Advice::Amend {
        text: Some(text.to_owned()),
        notes: vec![note.to_owned()],
    }
}

#[test]
fn an_amended_request_is_sent_and_its_hook_is_not_consulted_again() {
    let mut run = Script::start(hooked(&[Hook::Request]));
    run.advise(amend("Is it red?", "Be kind."));
    let sent = |run: &Script| {
        let messages = run.model_call().request.messages.clone();
        let texts = messages.messages().iter().map(|message| message.text());
        texts.collect::<Vec<_>>()
    };
    let first = sent(&run);
    assert_eq!(first[first.len() - 2..], ["Is it red?", "Be kind."]);
    assert!(run.model_call().is_first);
    run.resume();
    assert_eq!(sent(&run), first, "what is on record is not asked again");
    run.reply(calls("One.", &[(READ, "{}")]))
        .allow()
        .finish(0, done("1"));
    run.advise(Advice::Continue);
    assert!(!run.model_call().is_first);
    run.reply(says("Red."));
    assert_restores(&run);
}

#[test]
fn a_last_answer_is_the_first_request_if_none_was_sent_before() {
    let mut spec = hooked(&[Hook::Request]);
    spec.root.limits.deadline = Some(Duration::from_secs(10));
    let mut run = Script::start(spec);
    // The hook is still considering the turn that the last answer replaces.
    run.at(8_000).send(Input::TimePassed);
    let told = run.consulted().subject.as_str();
    assert!(told.contains(r#""is_first":true"#), "{told}");
    run.advise(Advice::Continue);
    assert_eq!(run.model_call().purpose, Purpose::LastAnswer);
    assert!(run.model_call().is_first);
    assert_restores(&run);
}

#[test]
fn a_refused_request_ends_the_run_with_the_reply_and_without_a_model() {
    let mut run = Script::start(hooked(&[Hook::Request]));
    let (reply, reason) = ("No.".to_owned(), "a rule".to_owned());
    run.advise(Advice::Refuse { reply, reason });
    let outcome = run.outcome();
    assert_eq!(outcome.finish_reason, FinishReason::Refused);
    assert_eq!(
        (outcome.content.as_str(), outcome.status()),
        ("No.", RunStatus::Done)
    );
    assert_restores(&run);
}

#[test]
fn request_advice_is_refused_at_every_other_hook() {
    for (hook, mut run) in at_each_hook() {
        let refused = Advice::Refuse {
            reply: "No.".to_owned(),
            reason: "a rule".to_owned(),
        };
        for advice in [amend("Is it red?", "Be kind."), refused] {
            let input = run.advised(advice);
            let error = run.refused(input);
            assert!(matches!(error, InputError::WrongAdvice(_)), "{hook:?}");
        }
    }
}
