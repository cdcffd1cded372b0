//! Sub-agents from outside: approvals, clients, steering, cancelling, crashes and time reach every depth.

use std::time::Duration;

use neuraxis_core::{
    AgentId, ClientTools, ContentHash, Effect, FinishReason, Input, InputError, InputId, LimitKind,
    Message, PendingKind, Purpose, RecordBody, RunStatus, Steered, ToolFailure, Transcript,
};

use crate::support::*;

const SHOWN: &str = r#"{"to":"all"}"#;
const EDITED: &str = r#"{"to":"bob"}"#;

/// A run in which agent 2, started by agent 1, has just called its model.
fn two_deep() -> Script {
    let mut run = Script::start(researching());
    run.reply(research(&["a"])).allow();
    run.reply_as(1, research(&["b"])).allow_as(1);
    run
}

/// Checks that the log so far reproduces the run, and returns what it says is unanswered.
fn restored(run: &Script) -> Vec<Effect> {
    assert_gives_back(&Transcript::default(), &run.records, &run.tree)
}

#[test]
fn an_approval_is_requested_edited_and_run_at_any_depth() {
    let mut run = two_deep();
    run.reply_as(2, calls("", &[(SEND, SHOWN)]));
    run.vet_as(2, [asks()]);
    assert_eq!(run.step.status, RunStatus::Waiting);
    assert_eq!(run.asked().agent, AgentId(2));
    restored(&run);
    run.decide(approve_with(EDITED));
    assert_eq!(run.step.status, RunStatus::Running);
    assert_eq!(run.vet_of(2).calls[0].arguments.as_str(), EDITED);
    run.vet_as(2, [asks()]);
    let started = run.started_by(2, 0);
    assert_eq!(started.arguments.as_str(), EDITED);
    assert_eq!(started.arguments_hash, ContentHash::of(EDITED.as_bytes()));
    run.finish_as(2, 0, done("1")).reply_as(2, says("Sent."));
    run.reply_as(1, says("It is sent."));
    assert_eq!(run.tool_messages(), [r#"["It is sent."]"#]);
    restored(&run);
}

#[test]
fn a_client_call_of_a_sub_agent_makes_the_run_wait_and_returns_to_the_agent() {
    let mut run = two_deep();
    run.reply_as(2, calls_to(&[PICK])).allow_as(2);
    assert_eq!(run.step.status, RunStatus::Waiting);
    let RecordBody::Waiting(waiting) = &run.step.records.last().unwrap().body else {
        panic!("the run waits")
    };
    assert_eq!(waiting.pending[0].kind, PendingKind::ClientTool);
    run.finish_as(2, 0, done("\"blue\""));
    assert_eq!(run.just_asking(), [2]);
    let sent = run.call_of(2).request.messages.messages();
    assert_eq!(sent.last().unwrap().text(), "\"blue\"");
}

#[test]
fn a_client_call_of_a_sub_agent_cannot_be_handed_over() {
    let mut spec = researching();
    spec.client_tools = ClientTools::HandOver;
    let mut run = Script::start(spec);
    run.reply(research(&["a"])).allow();
    run.reply_as(1, calls_to(&[PICK])).allow_as(1);
    assert_eq!(run.result(0).failure, Some(ToolFailure::NotEnabled));
    assert_eq!(run.just_asking(), [1]);
}

#[test]
fn a_run_waits_only_once_no_agent_can_continue() {
    let mut run = Script::start(researching());
    run.reply(research(&["a", "b"])).allow();
    run.reply_as(1, calls_to(&[SEND])).vet_as(1, [asks()]);
    assert_eq!(run.step.status, RunStatus::Running);
    run.reply_as(2, says("B."));
    assert_eq!(run.step.status, RunStatus::Waiting);
    assert_eq!(run.just_recorded(), ["llm_call", "final", "waiting"]);
}

#[test]
fn one_agent_can_be_steered_without_the_others_receiving_the_message() {
    let mut run = Script::start(researching());
    run.reply(research(&["a", "b"])).allow();
    run.steer_agent(1, "Only prices.");
    run.reply_as(1, says("A.")).reply_as(2, says("B."));
    let sent = run.call_of(1).request.messages.messages();
    assert_eq!(*sent[3], Message::user("Only prices."));
    run.reply_as(1, says("A: 78 $."));
    assert_eq!(run.tool_messages(), [r#"["A: 78 $.","B."]"#]);
    assert!(!run.conversation().contains("Only prices."));
}

#[test]
fn an_ended_or_unknown_agent_accepts_no_message_and_cannot_be_cancelled() {
    let mut run = Script::start(researching());
    run.reply(research(&["a", "b"]))
        .allow()
        .reply_as(1, says("A."));
    for agent in [AgentId(1), AgentId(9)] {
        let mut late = Steered::new(InputId::new("late"), Message::user("Quick.").into());
        late.agent = agent;
        assert_eq!(
            run.refused(Input::Steered(late)),
            InputError::NoSuchAgent(agent)
        );
        let mut cancel = neuraxis_core::Cancelled::new(InputId::new("late"), "no");
        cancel.agent = agent;
        assert_eq!(
            run.refused(Input::Cancelled(cancel)),
            InputError::NoSuchAgent(agent)
        );
    }
}

#[test]
fn cancelling_an_agent_ends_it_and_all_below_it_while_others_continue() {
    let mut run = Script::start(researching());
    run.reply(research(&["a", "b"])).allow();
    run.reply_as(1, research(&["deeper"])).allow_as(1);
    run.reply_as(3, calls("So far.", &[(SEND, "{}")]))
        .allow_as(3);
    run.cancel_agent(1);
    assert_eq!(
        run.just_recorded(),
        ["cancelled", "tool_result", "final", "tool_result", "final"]
    );
    assert!(
        run.step
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::CancelTool(_)))
    );
    assert_eq!(run.answer_of(3).finish_reason, FinishReason::Cancelled);
    assert_eq!(run.answer_of(1).finish_reason, FinishReason::Cancelled);
    assert_eq!(run.step.status, RunStatus::Running);
    run.reply_as(2, says("B."));
    let why = r#"[{"error":"the agent gave no answer: it was cancelled"},"B."]"#;
    assert_eq!(run.tool_messages(), [why]);
    restored(&run);
}

#[test]
fn cancelling_a_queued_agent_lets_the_next_one_start() {
    let mut spec = researching();
    spec.root.profile.parallel_agents = 1;
    let mut run = Script::start(spec);
    run.reply(research(&["a", "b", "c"])).allow();
    run.cancel_agent(2);
    assert_eq!(run.just_asking(), [] as [u32; 0]);
    run.reply_as(1, says("A."));
    assert_eq!(run.just_asking(), [3]);
    run.cancel_agent(3);
    assert!(run.tool_messages()[0].starts_with(r#"["A.",{"error":"#));
    assert_eq!(run.just_asking(), [0]);
}

#[test]
fn cancelling_the_run_ends_every_agent_and_cancels_its_effects() {
    let mut run = two_deep();
    let call = run.call_of(2).effect_id;
    run.cancel();
    assert_eq!(run.step.status, RunStatus::Interrupted);
    assert!(
        run.step.effects.iter().any(
            |effect| matches!(effect, Effect::CancelModel(cancel) if cancel.effect_id == call)
        )
    );
    let ended: Vec<_> = run
        .recorded("final")
        .iter()
        .map(|record| record.agent.0)
        .collect();
    assert_eq!(ended, [2, 1, 0], "from the deepest up");
    assert_valid(run.tree.messages());
    let late = run.replied_to(run.call_of(2), says("Too late."));
    run.send_in_vain(late);
    restored(&run);
}

#[test]
fn after_a_crash_every_agent_continues_where_it_was() {
    let mut spec = researching();
    spec.root.profile.parallel_agents = 5;
    let mut run = Script::start(spec);
    let topics = ["model", "vetting", "reading", "sending", "asking", "queued"];
    run.reply(research(&topics)).allow();
    run.reply_as(2, calls_to(&[READ]));
    run.reply_as(3, calls_to(&[READ])).allow_as(3);
    run.reply_as(4, calls_to(&[SEND])).allow_as(4);
    run.reply_as(5, calls_to(&[SEND])).vet_as(5, [asks()]);
    let mut lost = restored(&run);
    lost.sort_by_key(Effect::id);
    assert_eq!(lost.len(), 5);
    run.resume();
    let mut again: Vec<_> = run.step.effects.clone();
    again.sort_by_key(Effect::id);
    assert_eq!(run.call_of(1).attempt.0, 2);
    assert_eq!(run.started_by(3, 0).attempt.0, 2, "reading is done again");
    let sent = run.call_of(4).request.messages.messages();
    assert!(
        sent.last().unwrap().text().contains("outcome is unknown"),
        "sending is not"
    );
    assert_eq!(run.asked().agent, AgentId(5));
    let kinds: Vec<_> = again
        .iter()
        .map(|effect| match effect {
            Effect::CallModel(call) => ("model", call.agent.0),
            Effect::Vet(vet) => ("vet", vet.agent.0),
            Effect::RunTool(tool) => ("tool", tool.agent.0),
            Effect::AskApproval(ask) => ("ask", ask.agent.0),
            other => panic!("{other:?}"),
        })
        .collect();
    let mut sorted = kinds.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        [
            ("ask", 5),
            ("model", 1),
            ("model", 4),
            ("tool", 3),
            ("vet", 2)
        ]
    );
    restored(&run);
    run.reply_as(1, says("1."));
    assert_eq!(
        run.just_asking(),
        [6],
        "who waited still waits for its turn"
    );
}

#[test]
fn an_agent_ends_at_the_soft_end_of_its_parent_and_its_text_counts() {
    let mut spec = researching();
    spec.root.limits.deadline = Some(Duration::from_secs(100));
    let mut run = Script::start(spec);
    run.reply(research(&["a"])).allow();
    // The parent reserves 20 s of 100, the agent a fifth of the 80 that are left: 16 s.
    assert_eq!(run.step.wake_at, Some(Duration::from_secs(64)));
    run.reply_as(1, calls("Half of it.", &[(SEND, "{}")]))
        .allow_as(1);
    run.at(64_000).send(Input::TimePassed);
    assert_eq!(run.call_of(1).purpose, Purpose::LastAnswer);
    assert_eq!(
        run.just_asking(),
        [1],
        "only the agent is asked for its last answer"
    );
    assert_eq!(run.step.wake_at, Some(Duration::from_secs(80)));
    run.at(80_000).send(Input::TimePassed);
    assert_eq!(run.answer_of(1).finish_reason, FinishReason::Deadline);
    assert_eq!(run.tool_messages(), [r#"["Half of it."]"#]);
    assert_eq!(run.call_of(0).purpose, Purpose::LastAnswer);
    run.reply(says("Half of it is this."));
    assert_eq!(run.outcome().finish_reason, FinishReason::Deadline);
    restored(&run);
}

#[test]
fn the_deadline_of_an_agent_starts_with_the_agent() {
    let mut spec = researching();
    spec.root.profile.parallel_agents = 1;
    researcher(&mut spec).limits.deadline = Some(Duration::from_secs(10));
    let mut run = Script::start(spec);
    run.reply(research(&["a", "b"])).allow();
    assert_eq!(run.step.wake_at, Some(Duration::from_secs(8)));
    run.at(7_000).reply_as(1, says("A."));
    assert_eq!(run.step.wake_at, Some(Duration::from_secs(15)));
    run.at(15_000).send(Input::TimePassed);
    let RecordBody::LimitReached(reached) = &run.step.records[0].body else {
        panic!("time is nearly up")
    };
    assert_eq!(reached.limit, LimitKind::DeadlineReserve);
    assert_eq!(run.step.records[0].agent, AgentId(2));
    run.at(17_000).send(Input::TimePassed);
    assert!(run.tool_messages()[0].starts_with(r#"["A.","I reached the time limit"#));
    assert_eq!(run.just_asking(), [0], "the parent has time left");
}

#[test]
fn the_deadline_of_an_agent_never_exceeds_that_of_its_parent() {
    let mut spec = researching();
    spec.root.limits.deadline = Some(Duration::from_secs(10));
    researcher(&mut spec).limits.deadline = Some(Duration::from_secs(600));
    let mut run = Script::start(spec);
    run.reply(research(&["a"])).allow();
    assert_eq!(run.step.wake_at, Some(Duration::from_millis(6_400)));
}
