//! Interrupts that a client cancels, which is all it can do with settled ones.

use std::sync::Arc;
use std::time::Duration;

use neuraxis::Orchestrator;
use neuraxis::core::RunId;
use neuraxis_testkit::{ScriptedModel, ScriptedTool, VirtualClock, reply, spec};
use serde_json::{Value, json};

use super::interrupts::{decide_elsewhere, give_up, resume};
use super::{
    asked_to_refund, input, named, refunds, run_agui, run_agui_with, serve, serve_by, text, user,
};
use crate::support::in_process::TOKEN;

/// Waits until the first run of the thread has ended.
async fn ended(orchestrator: &Orchestrator) -> RunId {
    let session = "t1".parse().unwrap();
    let sessions = orchestrator.sessions();
    loop {
        let runs = sessions.runs(&session).await.unwrap().unwrap();
        if runs[0].log.ended_at.is_some() {
            return runs[0].run_id;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_expired_interrupt_can_be_cancelled_repeatedly() {
    let (model, tool) = refunds();
    let clock = Arc::new(VirtualClock::new());
    let (server, _) = serve_by(model, &tool, clock.clone()).await;
    let client = server.client();
    let said = json!([user("Refund order 17.")]);
    let first = run_agui(&client, &input("r1", said.clone(), json!({}))).await;
    let interrupt = &first.last().unwrap()["outcome"]["interrupts"][0];
    clock.advance(Duration::from_secs(72 * 60 * 60));
    let given_up = give_up("r2", interrupt, said);
    for _ in 0..3 {
        let events = run_agui_with(&client, &given_up, Some(TOKEN)).await;
        let outcome = &events.last().unwrap()["outcome"]["type"];
        assert_eq!(outcome, "success", "{events:?}");
        assert_eq!(text(&events), "Refunded.");
    }
    assert_eq!(tool.count(), 0);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn an_interrupt_decided_elsewhere_can_be_cancelled_by_any_follower_of_the_run() {
    let (model, tool) = refunds();
    let (server, orchestrator) = serve(model, &tool).await;
    let client = server.client();
    let said = json!([user("Refund order 17.")]);
    let first = run_agui(&client, &input("r1", said.clone(), json!({}))).await;
    let interrupt = &first.last().unwrap()["outcome"]["interrupts"][0];
    let given_up = give_up("r2", interrupt, said);
    let refused = run_agui(&client, &given_up).await;
    assert_eq!(
        refused.last().unwrap()["code"],
        "token-needed",
        "while it is open, to give it up decides: {refused:?}"
    );
    decide_elsewhere(&client, &first, "approve").await;
    ended(&orchestrator).await;
    let denied = resume("r3", interrupt, json!({"approved": false}));
    let denied = run_agui_with(&client, &denied, Some(TOKEN)).await;
    let why = denied.last().unwrap()["message"].as_str().unwrap();
    assert!(why.contains("status cancelled"), "{why}");
    for token in [None, Some(TOKEN)] {
        let events = run_agui_with(&client, &given_up, token).await;
        assert_eq!(text(&events), "Refunded.", "{events:?}");
        assert_eq!(events.last().unwrap()["outcome"]["type"], "success");
    }
    assert_eq!(tool.count(), 1);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_message_sent_with_a_cancelled_interrupt_starts_a_run_once_that_is_settled() {
    let (model, tool) = refunds();
    let (server, orchestrator) = serve(model.then(reply::text("It is late.")), &tool).await;
    let client = server.client();
    let first = asked_to_refund(&client).await;
    let interrupt = &first.last().unwrap()["outcome"]["interrupts"][0];
    decide_elsewhere(&client, &first, "deny").await;
    let first_run = ended(&orchestrator).await.to_string();
    let more =
        json!([user("Refund order 17."), {"id": "a", "role": "assistant"}, user("And now?")]);
    let events = run_agui(&client, &give_up("r2", interrupt, more)).await;
    assert_eq!(text(&events), "It is late.");
    let last = events.last().unwrap();
    assert_eq!(last["outcome"]["type"], "success", "{events:?}");
    assert_ne!(last["result"]["neuraxisRunId"], json!(first_run));

    // The run before the last one is reported too.
    let said = json!([user("Refund order 17.")]);
    let again = self::run_agui(&client, &give_up("r3", interrupt, said)).await;
    let last = again.last().unwrap();
    assert_eq!(last["result"]["neuraxisRunId"], json!(first_run));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn an_interrupt_of_a_run_too_long_ago_is_not_found() {
    let (model, tool) = refunds();
    let model = (0..16).fold(model, |model, _| model.then(reply::text("Hello.")));
    let (server, orchestrator) = serve(model, &tool).await;
    let client = server.client();
    let said = json!([user("Refund order 17.")]);
    let first = run_agui(&client, &input("r1", said.clone(), json!({}))).await;
    let interrupt = &first.last().unwrap()["outcome"]["interrupts"][0];
    decide_elsewhere(&client, &first, "deny").await;
    ended(&orchestrator).await;
    let given_up = give_up("r2", interrupt, said);
    for (more, kind) in [(15, "RUN_FINISHED"), (1, "RUN_ERROR")] {
        for _ in 0..more {
            let (status, answer) = client.ask("t1", &json!({"message": "Hello?"})).await;
            assert_eq!(status, 200, "{answer}");
        }
        let events = run_agui(&client, &given_up).await;
        let last = events.last().unwrap();
        assert_eq!(last["type"], kind, "{last}");
        if kind == "RUN_ERROR" {
            assert_eq!(last["code"], "not-asked");
        }
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_message_sent_with_a_cancelled_interrupt_is_not_taken_by_the_continuing_run() {
    let (model, tool) = refunds();
    let (server, _) = serve(model, &tool).await;
    let client = server.client();
    let first = asked_to_refund(&client).await;
    let interrupt = &first.last().unwrap()["outcome"]["interrupts"][0];
    let more =
        json!([user("Refund order 17."), {"id": "a", "role": "assistant"}, user("And now?")]);
    let events = run_agui_with(&client, &give_up("r2", interrupt, more), Some(TOKEN)).await;
    let warned = named(&events, "CUSTOM");
    let codes: Vec<&Value> = warned.iter().map(|it| &it["value"]["code"]).collect();
    assert_eq!(codes, ["message_not_taken"], "{events:?}");
    assert_eq!(events.last().unwrap()["outcome"]["type"], "success");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn cancelling_an_interrupt_of_a_failed_or_cancelled_run_ends_with_run_finished() {
    for (fails, code) in [(true, "run-failed"), (false, "")] {
        let calls = [("refund", r#"{"order":17}"#)];
        let model = ScriptedModel::new().then(reply::calls(calls));
        let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
        let (server, orchestrator) = serve(model, &tool).await;
        let client = server.client();
        let said = json!([user("Refund order 17.")]);
        let first = run_agui(&client, &input("r1", said.clone(), json!({}))).await;
        let interrupt = &first.last().unwrap()["outcome"]["interrupts"][0];
        if fails {
            let approve = resume("r2", interrupt, json!({"approved": true}));
            let failed = run_agui_with(&client, &approve, Some(TOKEN)).await;
            assert_eq!(failed.last().unwrap()["code"], code, "{failed:?}");
        } else {
            let session = "t1".parse().unwrap();
            let runs = orchestrator.sessions().runs(&session).await;
            let run = runs.unwrap().unwrap()[0].run_id;
            orchestrator.runs().cancel(run, "enough").await.unwrap();
            ended(&orchestrator).await;
        }
        let events = run_agui(&client, &give_up("r3", interrupt, said)).await;
        let last = events.last().unwrap();
        assert_eq!(last["type"], "RUN_FINISHED", "{events:?}");
        assert_eq!(last["outcome"]["type"], "cancelled", "{events:?}");
        let warned = named(&events, "CUSTOM").into_iter();
        let warned = warned.filter(|it| it["value"]["code"] == "run-failed");
        assert_eq!(warned.count(), usize::from(fails), "{events:?}");
        server.stop().await.unwrap();
    }
}
