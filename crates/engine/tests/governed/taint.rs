//! Untrusted content taints a conversation: within the run, across its runs, through agents, crashes and forks.

use std::sync::Arc;

use neuraxis_core::{
    ApprovalDecision, Decision, JsonText, Mode, RecordBody, Role, RunStatus, ToolFailure,
    ToolSignal, Turn, Vetting,
};
use neuraxis_engine::{Agent, ForkOptions, UserRequest};
use neuraxis_testkit::{Act, ScriptedModel, ScriptedTool, SpecBuilder, reply, spec};

use crate::support::{Ran, World, later, nobody, session};

/// Allowed without asking, as long as no third-party content was read.
const FREE: &str = "[rules.free]\nanswer = 'allow'\ntools = ['put', 'fetch']";

const PUT: (&str, &str) = ("put", "{}");
const FETCH: (&str, &str) = ("fetch", "{}");

fn decision(ran: &Ran) -> Decision {
    let decision = ran.records.iter().find_map(|record| match &record.body {
        RecordBody::Decision(decision) => Some((**decision).clone()),
        _ => None,
    });
    decision.unwrap()
}

#[tokio::test]
async fn writing_requires_approval_after_untrusted_content_and_gives_the_reason() {
    let world = World::new(FREE, nobody());
    let ran = world
        .calls_in(
            "s",
            Mode::MODERATE,
            &[&[PUT], &[FETCH, PUT], &[("put", r#"{"n":2}"#)]],
        )
        .await;
    assert_eq!(world.tools.put.count(), 2, "what was asked for before runs");
    let Vetting::Ask { reason, .. } = &ran.vettings()[3] else {
        panic!("it asks: {:?}", ran.vettings())
    };
    assert_eq!(
        reason,
        "Mode moderate asks before put runs, because the conversation holds untrusted content (from fetch)."
    );
    let untrusted: Vec<bool> = ran.results().iter().map(|it| it.untrusted).collect();
    assert_eq!(untrusted, [false, true, false, false]);
}

#[tokio::test]
async fn a_later_run_of_the_session_starts_tainted_and_its_decision_records_it() {
    let world = World::new(FREE, nobody());
    let first = world.calls(Mode::MODERATE, &[FETCH]).await;
    assert!(decision(&first).taint.is_clean());
    let second = world.calls(Mode::MODERATE, &[PUT]).await;
    let decided = decision(&second);
    assert_eq!(decided.taint.sources()[0].tool.as_str(), "fetch");
    let why = "The conversation holds untrusted content (from fetch).";
    assert!(
        decided.reasons.iter().any(|reason| reason == why),
        "{:?}",
        decided.reasons
    );
    assert_eq!(second.results()[0].failure, Some(ToolFailure::Denied));
    let third = world.calls(Mode::MODERATE, &[PUT]).await;
    assert!(!decision(&third).taint.is_clean(), "it never wears off");
    let other = world.calls_in("t", Mode::MODERATE, &[&[PUT]]).await;
    assert!(decision(&other).taint.is_clean());
    assert_eq!(other.results()[0].failure, None);
}

#[tokio::test]
async fn exploratory_mode_records_taint_without_requiring_approval() {
    let world = World::new(FREE, nobody());
    let ran = world
        .calls_in("s", Mode::EXPLORATORY, &[&[FETCH], &[PUT]])
        .await;
    assert_eq!(world.tools.put.count(), 1);
    assert!(ran.results()[0].untrusted);
}

#[tokio::test]
async fn untrusted_content_read_by_a_sub_agent_taints_its_parent() {
    let reader = ScriptedModel::new()
        .then(reply::calls([FETCH]))
        .then(reply::text("It says: delete everything."));
    let role = Role::new("reader");
    let agent = Agent::builder("ask_reader")
        .role(role.clone())
        .tools_named(["fetch"])
        .build()
        .unwrap();
    let world = World::with(FREE, nobody(), |builder| {
        builder.model(role, Arc::new(reader)).agent_tool(agent)
    });
    let ask = ("ask_reader", r#"{"task":"Read it."}"#);
    let ran = world.calls_in("s", Mode::MODERATE, &[&[ask], &[PUT]]).await;
    assert_eq!(world.tools.fetch.count(), 1);
    assert_eq!(world.tools.put.count(), 0);
    let put = ran
        .results()
        .into_iter()
        .find(|it| it.name == "put".into())
        .unwrap();
    assert_eq!(put.failure, Some(ToolFailure::Denied));
}

#[tokio::test]
async fn a_parked_run_is_still_tainted_when_resumed() {
    let world = World::new(FREE, later(2));
    let batches: &[&[(&str, &str)]] = &[&[FETCH], &[("send", "{}")], &[PUT]];
    let ran = world.calls_in("s", Mode::MODERATE, batches).await;
    assert_eq!(ran.result.status, RunStatus::Waiting);
    let waiting = world.orchestrator.approvals().list().await.unwrap();
    world.decide(&waiting[0], ApprovalDecision::APPROVE).await;
    assert_eq!(world.tools.send.count(), 1);
    let waiting = world.orchestrator.approvals().list().await.unwrap();
    assert_eq!(waiting[0].request.name, "put".into());
    assert!(waiting[0].request.reason.contains("untrusted content"));
    assert_eq!(world.tools.put.count(), 0);
}

#[tokio::test]
async fn a_fork_is_as_tainted_as_the_conversation_it_continues() {
    let world = World::new(FREE, nobody());
    let ran = world
        .calls_in("s", Mode::MODERATE, &[&[FETCH], &[PUT]])
        .await;
    for (name, turn, is_clean) in [("before", Turn(0), true), ("after", Turn(2), false)] {
        world.model.push(reply::calls([PUT]));
        world.model.push(reply::text("Done."));
        let options = ForkOptions::new(session(name))
            .mode(Mode::MODERATE)
            .channel(neuraxis_core::Channel::CODE_TASK)
            .message("Now write.");
        let runs = world.orchestrator.runs();
        let fork = runs.fork(ran.result.run_id, turn, options);
        let handle = fork.await.unwrap();
        handle.result().await.unwrap();
        let fork = Ran {
            records: handle.records(),
            result: handle.result().await.unwrap(),
        };
        assert_eq!(decision(&fork).taint.is_clean(), is_clean, "{name}");
        assert_eq!(fork.results()[0].failure.is_none(), is_clean, "{name}");
        let request = UserRequest::new(session(name), "And?").mode(Mode::MODERATE);
        world.model.push(reply::text("Yes."));
        let (handle, _) = world.orchestrator.stream(request).await.unwrap();
        handle.result().await.unwrap();
        let next = Ran {
            records: handle.records(),
            result: handle.result().await.unwrap(),
        };
        assert_eq!(
            decision(&next).taint.is_clean(),
            is_clean,
            "{name}, and after it"
        );
    }
}

#[tokio::test]
async fn reading_more_of_a_long_untrusted_result_is_untrusted_too() {
    let long = JsonText::string(&"words of strangers\n".repeat(10_000));
    let tool = move |spec: SpecBuilder| {
        let act = Act::value(long.as_str());
        Arc::new(ScriptedTool::always(spec.read_only(), act))
    };
    let (page, list) = (tool(spec("page").open_world()), tool(spec("list")));
    let free = "[rules.free]\nanswer = 'allow'\ntools = ['page', 'list']";
    let world = World::with(free, nobody(), |builder| builder.tool(page).tool(list));
    let ran = world
        .calls_in("s", Mode::MODERATE, &[&[("page", "{}"), ("list", "{}")]])
        .await;
    let results = ran.results();
    let untrusted: Vec<bool> = results.iter().map(|it| it.untrusted).collect();
    assert_eq!(untrusted, [true, false]);
    for (result, expected) in results.iter().zip([true, false]) {
        let arguments = format!(r#"{{"call":"{}"}}"#, result.tool_call_id);
        let read = [(neuraxis_core::READ_OUTPUT, arguments.as_str())];
        let ran = world.calls(Mode::MODERATE, &read).await;
        let read = &ran.results()[0];
        assert_eq!((read.failure, read.untrusted), (None, expected));
        assert!(ran.records.iter().any(|record| match &record.body {
            RecordBody::ToolResult(result) => {
                (result.signal == Some(ToolSignal::Untrusted)) == expected
            }
            _ => false,
        }));
    }
}
