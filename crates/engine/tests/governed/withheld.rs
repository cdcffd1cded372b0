//! Runs whose data policy keeps something out of their logs: nobody could read them back, so that they wait in their process,
//! which takes the answer.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{ApprovalDecision, AskApproval, Mode, RunStatus, Seq, ToolOutcome, ToolOutput};
use neuraxis_engine::{Decided, Event, WaitingApproval};
use neuraxis_ports::{
    Approver, ApproverReply, RunSummary, SessionIndex as _, TurnContext, async_trait,
};
use neuraxis_testkit::spec;

use crate::support::{Ran, World, json, later, nobody};

const NOTHING_KEPT: &str = "[channels.code_task]\n\
    data = { text = false, tool_calls = false, tool_results = false, reasoning = false }\n\
    [modes.moderate]\napproval_expires = '1h'\n";

/// A run that waits for a person, who may let it run `put`.
async fn waits() -> (World, Ran, WaitingApproval) {
    let world = World::new(NOTHING_KEPT, later(1));
    let ran = world.calls(Mode::MODERATE, &[("put", r#"{"n":7}"#)]).await;
    assert_eq!(ran.result.status, RunStatus::Waiting);
    let mut waiting = world.orchestrator.approvals().list().await.unwrap();
    (world, ran, waiting.remove(0))
}

async fn summary(world: &World, ran: &Ran) -> RunSummary {
    world.store.run(ran.result.run_id).await.unwrap()
}

#[tokio::test]
async fn a_run_whose_log_is_not_whole_waits_in_its_process_and_goes_on_with_the_decision() {
    for data in [
        "{ reasoning = false }",
        "{ text = false, tool_calls = false }",
    ] {
        let policy = format!("[channels.code_task]\ndata = {data}\n");
        let world = World::new(&policy, later(1));
        let ran = world.calls(Mode::MODERATE, &[("put", r#"{"n":7}"#)]).await;
        assert_eq!(ran.result.status, RunStatus::Waiting, "{data}");
        let waits = summary(&world, &ran).await;
        assert_eq!(waits.status, RunStatus::Waiting);
        assert!(waits.leased_until.is_some(), "its process has it");
        let runs = world.orchestrator.runs();
        let asked = runs.result(ran.result.run_id).await.unwrap();
        assert_eq!(
            asked.pending, ran.result.pending,
            "who comes later hears so"
        );

        let waiting = world.orchestrator.approvals().list().await.unwrap();
        let [waiting] = waiting.as_slice() else {
            panic!("{waiting:?}")
        };
        assert_eq!(waiting.request.arguments.as_str(), r#"{"n":7}"#);
        assert_eq!(waiting.altered, None, "it is seen as it was asked");
        world.decide(waiting, ApprovalDecision::APPROVE).await;
        let result = runs.result(ran.result.run_id).await.unwrap();
        assert_eq!(result.status, RunStatus::Done, "{result:?}");
        assert_eq!(world.tools.put.count(), 1);
    }
}

#[tokio::test]
async fn a_denial_whose_reason_is_not_kept_counts_as_what_it_is() {
    let (world, ran, waiting) = waits().await;
    let deny = ApprovalDecision::Deny {
        reason: Some("not today".to_owned()),
    };
    let approvals = world.orchestrator.approvals();
    let decided = approvals.decide_and_resume(&waiting, deny, None).await;
    assert!(matches!(decided, Ok(Decided::LeftToHolder)), "{decided:?}");
    let result = world.orchestrator.runs().result(ran.result.run_id).await;
    assert_eq!(result.unwrap().status, RunStatus::Done);
    let requests = world.model.requests();
    let told = requests[1].messages.messages().last().unwrap().text();
    assert!(told.contains("not today"), "{told}");
    assert_eq!(world.tools.put.count(), 0);
}

#[tokio::test]
async fn of_two_questions_each_is_answered_by_itself_and_the_run_waits_in_between() {
    let world = World::new(NOTHING_KEPT, later(2));
    let puts = [("put", r#"{"n":1}"#), ("put", r#"{"n":2}"#)];
    let ran = world.calls(Mode::MODERATE, &puts).await;
    let run = ran.result.run_id;
    for left in [1, 0] {
        let waiting = world.orchestrator.approvals().list().await.unwrap();
        world.decide(&waiting[0], ApprovalDecision::APPROVE).await;
        let result = world.orchestrator.runs().result(run).await.unwrap();
        assert_eq!(result.pending.len(), left, "{result:?}");
    }
    assert_eq!(summary(&world, &ran).await.status, RunStatus::Done);
    assert_eq!(world.tools.put.count(), 2);
}

#[tokio::test]
async fn whoever_follows_the_run_hears_it_to_its_end() {
    let (world, ran, waiting) = waits().await;
    let run = ran.result.run_id;
    let last = ran.records.last().unwrap().seq;
    let follow = |after| {
        let runs = world.orchestrator.runs();
        tokio::spawn(async move {
            let mut events = runs.attach(run, after).await.unwrap();
            let mut heard = Vec::new();
            while let Some(event) = events.next().await {
                if let Event::Record(record) = event {
                    heard.push(record);
                }
            }
            heard
        })
    };
    let following = [follow(Seq(0)), follow(last)];
    world.settled().await;
    world.decide(&waiting, ApprovalDecision::APPROVE).await;
    for (heard, first) in following.into_iter().zip([1, last.0 + 1]) {
        let heard = heard.await.unwrap();
        assert_eq!(heard[0].seq, Seq(first));
        assert!(heard.last().unwrap().ends_the_run());
    }
}

#[tokio::test]
async fn it_waits_for_its_client_as_well() {
    let world = World::with(NOTHING_KEPT, nobody(), |builder| {
        builder.client_tool(spec("pick").read_only().build())
    });
    let ran = world.calls(Mode::MODERATE, &[("pick", "{}")]).await;
    assert_eq!(ran.result.status, RunStatus::Waiting);
    let (run, call) = (ran.result.run_id, &ran.result.pending[0].tool_call_id);
    let picked = ToolOutcome::done(ToolOutput::new(json("\"red\"")));
    let runs = world.orchestrator.runs();
    runs.bring(run, call, picked, Duration::ZERO).await.unwrap();
    assert_eq!(runs.result(run).await.unwrap().status, RunStatus::Done);
}

#[tokio::test]
async fn its_question_expires_as_any_other() {
    let (world, ran, _) = waits().await;
    world.clock.advance(Duration::from_secs(3_600));
    let swept = world.orchestrator.approvals().sweep().await.unwrap();
    assert_eq!((swept.expired.len(), swept.left.len()), (1, 0));
    let result = world.orchestrator.runs().result(ran.result.run_id).await;
    assert_eq!(result.unwrap().status, RunStatus::Done);
    assert_eq!(world.tools.put.count(), 0);
}

#[tokio::test]
async fn it_is_cancelled_as_any_other() {
    let (world, ran, _) = waits().await;
    let runs = world.orchestrator.runs();
    runs.cancel(ran.result.run_id, "enough").await.unwrap();
    let result = runs.result(ran.result.run_id).await.unwrap();
    assert_eq!(result.status, RunStatus::Interrupted);
}

#[tokio::test]
async fn an_engine_that_stops_ends_it_since_no_other_could_go_on_with_the_answer() {
    let (world, ran, _) = waits().await;
    assert!(world.orchestrator.suspend(Duration::ZERO).await.is_empty());
    assert_eq!(summary(&world, &ran).await.status, RunStatus::Interrupted);
    let last = world.records_of(&ran).await.pop().unwrap();
    let told = last.to_json();
    assert!(told.contains("data policy keeps"), "{told}");
}

/// Leaves each question for later, and does not wait for the answer.
#[derive(Debug)]
struct Leaving;

#[async_trait]
impl Approver for Leaving {
    async fn decide(&self, _: &AskApproval, _: &TurnContext) -> ApproverReply {
        ApproverReply::Later
    }

    fn stays_for_answer(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn where_the_program_does_not_stay_the_call_is_denied_at_once() {
    let world = World::with(NOTHING_KEPT, nobody(), |builder| {
        builder.approver(Arc::new(Leaving))
    });
    let ran = world.calls(Mode::MODERATE, &[("put", "{}")]).await;
    let results = ran.is_done().results();
    let why = results[0].value.as_str();
    assert!(why.contains("cannot wait for it: the data policy"), "{why}");
    assert_eq!(world.tools.put.count(), 0);
}
