//! Calls that need a user: a run ends with its questions, and resumes with the answers.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_testkit::{ScriptedModel, ScriptedTool, VirtualClock, reply, spec};
use serde_json::{Value, json};

use super::{
    asked_to_refund, input, kinds, named, refunds, run_agui, run_agui_with, serve, serve_by, text,
    user,
};
use crate::support::Client;
use crate::support::in_process::TOKEN;

pub(super) fn resume(run: &str, interrupt: &Value, payload: Value) -> Value {
    let mut answer = json!({"interruptId": interrupt["id"], "status": "resolved"});
    answer["payload"] = payload;
    let messages = json!([user("Refund order 17.")]);
    input(run, messages, json!({"resume": [answer]}))
}

pub(super) fn give_up(run: &str, interrupt: &Value, messages: Value) -> Value {
    let answer = json!({"interruptId": interrupt["id"], "status": "cancelled"});
    input(run, messages, json!({"resume": [answer]}))
}

/// Decides about a call without the front end.
pub(super) async fn decide_elsewhere(client: &Client, first: &[Value], decision: &str) {
    let run = first[0]["metadata"]["neuraxisRunId"].as_str().unwrap();
    let interrupt = &first.last().unwrap()["outcome"]["interrupts"][0];
    let call = interrupt["toolCallId"].as_str().unwrap();
    let elsewhere = client
        .post(&format!("/api/v1/runs/{run}/approvals/{call}"))
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {TOKEN}"))
        .body(json!({"decision": decision, "question": interrupt["id"]}).to_string());
    assert_eq!(elsewhere.send().await.unwrap().status(), 202);
}

#[tokio::test]
async fn a_call_that_needs_approval_interrupts_the_run_and_runs_once_when_answered() {
    let (model, tool) = refunds();
    let (server, _) = serve(model, &tool).await;
    let client = server.client();
    let first = asked_to_refund(&client).await;
    let last = first.last().unwrap();
    assert_eq!(last["outcome"]["type"], "interrupt", "{first:?}");
    let interrupt = &last["outcome"]["interrupts"][0];
    let call = named(&first, "TOOL_CALL_START")[0];
    assert_eq!(
        (&interrupt["reason"], &interrupt["toolCallId"]),
        (&json!("tool_call"), &call["toolCallId"])
    );
    assert_eq!(interrupt["metadata"]["arguments"], json!({"order": 17}));
    assert_eq!(interrupt["responseSchema"]["required"], json!(["approved"]));

    // No other run starts meanwhile.
    let other = run_agui(&client, &input("r2", json!([user("Hello?")]), json!({}))).await;
    assert_eq!(
        (kinds(&other), &other[1]["code"]),
        (vec!["RUN_STARTED", "RUN_ERROR"], &json!("session-busy"))
    );

    let approve = resume("r3", interrupt, json!({"approved": true}));
    let refused = run_agui(&client, &approve).await;
    assert_eq!(refused.last().unwrap()["code"], "token-needed");
    assert_eq!(tool.count(), 0);
    for _ in 0..2 {
        let second = run_agui_with(&client, &approve, Some(TOKEN)).await;
        assert!(
            named(&second, "TOOL_CALL_START").is_empty(),
            "it was told: {second:?}"
        );
        assert_eq!(
            named(&second, "TOOL_CALL_RESULT")[0]["toolCallId"],
            call["toolCallId"]
        );
        assert_eq!(text(&second), "Refunded.");
        assert_eq!(second.last().unwrap()["outcome"]["type"], "success");
        assert_eq!(tool.count(), 1, "the same answer again runs nothing");
    }
    let denied = resume("r4", interrupt, json!({"approved": false}));
    let denied = run_agui_with(&client, &denied, Some(TOKEN)).await;
    assert_eq!(denied.last().unwrap()["code"], "not-asked", "{denied:?}");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn arguments_are_edited_and_calls_denied_as_the_person_decides() {
    for (payload, ran, result) in [
        (
            json!({"approved": true, "editedArgs": {"order": 18}}),
            1,
            "18",
        ),
        (
            json!({"approved": false, "reason": "not today"}),
            0,
            "not today",
        ),
    ] {
        let (model, tool) = refunds();
        let (server, _) = serve(model, &tool).await;
        let client = server.client();
        let first = asked_to_refund(&client).await;
        let interrupt = &first.last().unwrap()["outcome"]["interrupts"][0];
        let second = run_agui_with(&client, &resume("r2", interrupt, payload), Some(TOKEN)).await;
        let content = named(&second, "TOOL_CALL_RESULT")[0]["content"]
            .as_str()
            .unwrap();
        assert!(content.contains(result), "{content}");
        assert_eq!(tool.count(), ran);
        server.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_losers_of_contradicting_simultaneous_answers_are_refused() {
    for round in 0..10 {
        let (order, other) = (r#"{"order":17}"#, r#"{"order":18}"#);
        let calls = [("refund", order), ("refund", other)];
        let model = ScriptedModel::new()
            .then(reply::text_and_calls("I refund both.", calls))
            .then(reply::text("Refunded."));
        let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
        let (server, _) = serve(model, &tool).await;
        let client = server.client();
        let asked = input("r1", json!([user("Refund order 17.")]), json!({}));
        let first = run_agui(&client, &asked).await;
        let interrupts = first.last().unwrap()["outcome"]["interrupts"].clone();
        let answers = (0..6).map(|at| {
            let approved = (at + round) % 2 == 0;
            let answers = interrupts.as_array().unwrap().iter();
            let answers: Vec<Value> = answers
                .map(|it| json!({"interruptId": it["id"], "status": "resolved", "payload": {"approved": approved}}))
                .collect();
            let body = input("r2", json!([]), json!({"resume": answers}));
            let client = client.clone();
            tokio::spawn(async move { (approved, run_agui_with(&client, &body, Some(TOKEN)).await) })
        });
        let answers: Vec<_> = answers.collect();
        let mut all_events = Vec::new();
        for answer in answers {
            all_events.push(answer.await.unwrap());
        }
        // The two questions may have been answered by different clients: then none of them had its way.
        let counts = match tool.count() {
            0 => Some(false),
            2 => Some(true),
            _ => None,
        };
        for (approved, events) in all_events {
            let last = events.last().unwrap();
            if counts == Some(approved) {
                assert_eq!(last["outcome"]["type"], "success", "{events:?}");
            } else {
                assert_eq!(last["code"], "not-asked", "{events:?}");
            }
        }
        server.stop().await.unwrap();
    }
}

#[tokio::test]
async fn an_answer_that_does_not_fit_the_open_interrupt_changes_nothing() {
    let (model, tool) = refunds();
    let (server, _) = serve(model, &tool).await;
    let client = server.client();
    let first = asked_to_refund(&client).await;
    let interrupt = &first.last().unwrap()["outcome"]["interrupts"][0];
    let unknown = json!({"id": "0123456789abcdef"});
    let late = json!([user("Refund order 17."), {"id": "a", "role": "assistant"}, user("And?")]);
    let mut with_message = resume("r2", interrupt, json!({"approved": true}));
    with_message["messages"] = late;
    let mut twice = resume("r2", interrupt, json!({"approved": true}));
    let mut other = twice["resume"][0].clone();
    other["payload"] = json!({"approved": false});
    twice["resume"].as_array_mut().unwrap().push(other);
    for (body, code) in [
        (twice, "invalid-field"),
        (
            resume("r2", &unknown, json!({"approved": true})),
            "not-asked",
        ),
        (resume("r2", interrupt, json!({})), "invalid-field"),
        (resume("r2", interrupt, json!("yes")), "invalid-field"),
        (resume("r2", interrupt, Value::Null), "invalid-field"),
        (with_message, "invalid-field"),
    ] {
        let events = run_agui_with(&client, &body, Some(TOKEN)).await;
        assert_eq!(
            (kinds(&events), &events[1]["code"]),
            (vec!["RUN_STARTED", "RUN_ERROR"], &json!(code)),
            "{body}"
        );
    }
    assert_eq!(tool.count(), 0);
    let left = json!([{"interruptId": interrupt["id"], "status": "cancelled"}]);
    let left = input("r3", json!([]), json!({"resume": left}));
    let events = run_agui_with(&client, &left, Some(TOKEN)).await;
    let result = named(&events, "TOOL_CALL_RESULT")[0]["content"]
        .as_str()
        .unwrap();
    assert!(result.contains("left the question unanswered"), "{result}");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn an_answer_after_the_interrupt_expired_is_refused() {
    let (model, tool) = refunds();
    let clock = Arc::new(VirtualClock::new());
    let (server, _) = serve_by(model, &tool, clock.clone()).await;
    let client = server.client();
    let first = asked_to_refund(&client).await;
    let interrupt = &first.last().unwrap()["outcome"]["interrupts"][0];
    clock.advance(Duration::from_secs(72 * 60 * 60));
    let approve = resume("r2", interrupt, json!({"approved": true}));
    let late = run_agui_with(&client, &approve, Some(TOKEN)).await;
    assert_eq!(
        (kinds(&late), &late[1]["code"]),
        (vec!["RUN_STARTED", "RUN_ERROR"], &json!("question-expired")),
        "{late:?}"
    );
    assert_eq!(tool.count(), 0);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn all_open_interrupts_must_be_answered_together_and_each_call_gets_its_own_answer() {
    let calls = [("refund", r#"{"order":17}"#), ("refund", r#"{"order":18}"#)];
    let model = ScriptedModel::new()
        .then(reply::text_and_calls("Both.", calls))
        .then(reply::text("One of them."));
    let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
    let (server, _) = serve(model, &tool).await;
    let client = server.client();
    let said = json!([user("Refund orders 17 and 18.")]);
    let first = run_agui(&client, &input("r1", said.clone(), json!({}))).await;
    let interrupts = first.last().unwrap()["outcome"]["interrupts"].as_array();
    let interrupts = interrupts.unwrap();
    assert_eq!(interrupts.len(), 2, "{first:?}");
    let answer = |at: usize, approved: bool| {
        let id = &interrupts[at]["id"];
        json!({"interruptId": id, "status": "resolved", "payload": {"approved": approved}})
    };
    let one = input("r2", said.clone(), json!({"resume": [answer(0, true)]}));
    let events = run_agui_with(&client, &one, Some(TOKEN)).await;
    let message = events[1]["message"].as_str().unwrap();
    assert_eq!(events[1]["code"], "invalid-field");
    assert!(
        message.contains(interrupts[1]["id"].as_str().unwrap()),
        "{message}"
    );
    assert_eq!(tool.count(), 0, "nothing runs before all is answered");

    // In a different order from that of the questions.
    let both = json!({"resume": [answer(1, false), answer(0, true)]});
    let events = run_agui_with(&client, &input("r3", said, both), Some(TOKEN)).await;
    assert_eq!(text(&events), "One of them.");
    assert_eq!(tool.count(), 1);
    let result_of = |at: usize| {
        let results = named(&events, "TOOL_CALL_RESULT");
        let call = &interrupts[at]["toolCallId"];
        let result = results.iter().find(|it| it["toolCallId"] == *call);
        result.unwrap()["content"].as_str().unwrap().to_owned()
    };
    assert!(result_of(0).contains("17"), "{}", result_of(0));
    assert!(result_of(1).contains("denied"), "{}", result_of(1));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_repeated_answer_follows_a_run_that_waited_in_between_to_its_end() {
    let calls = [("refund", r#"{"order":17}"#), ("refund", r#"{"order":18}"#)];
    let model = ScriptedModel::new()
        .then(reply::text_and_calls("Both.", calls))
        .then(reply::text("Refunded."));
    let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
    let (server, _) = serve(model, &tool).await;
    let client = server.client();
    let said = json!([user("Refund both.")]);
    let first = run_agui(&client, &input("r1", said.clone(), json!({}))).await;
    let interrupts = first.last().unwrap()["outcome"]["interrupts"].clone();
    let interrupts = interrupts.as_array().unwrap();
    decide_elsewhere(&client, &first, "approve").await;
    let answers = interrupts.iter().map(
        |it| json!({"interruptId": it["id"], "status": "resolved", "payload": {"approved": true}}),
    );
    let both = json!({"resume": answers.collect::<Vec<_>>()});
    for _ in 0..3 {
        let body = input("r2", said.clone(), both.clone());
        let events = run_agui_with(&client, &body, Some(TOKEN)).await;
        assert_eq!(
            events.last().unwrap()["outcome"]["type"],
            "success",
            "{events:?}"
        );
        assert_eq!(named(&events, "TOOL_CALL_RESULT").len(), 2, "{events:?}");
        assert_eq!(text(&events), "Refunded.");
    }
    assert_eq!(tool.count(), 2);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_repeated_answer_receives_the_next_interrupt_of_its_run() {
    let model = ScriptedModel::new()
        .then(reply::calls([("refund", r#"{"order":17}"#)]))
        .then(reply::calls([("refund", r#"{"order":18}"#)]))
        .then(reply::text("Refunded."));
    let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
    let (server, _) = serve(model, &tool).await;
    let client = server.client();
    let first = asked_to_refund(&client).await;
    let interrupt = &first.last().unwrap()["outcome"]["interrupts"][0];
    let approve = resume("r2", interrupt, json!({"approved": true}));
    let second = run_agui_with(&client, &approve, Some(TOKEN)).await;
    let next = &second.last().unwrap()["outcome"];
    assert_eq!(next["type"], "interrupt", "{second:?}");
    let next = &next["interrupts"];
    for again in [approve, give_up("r3", interrupt, json!([]))] {
        let again = run_agui_with(&client, &again, Some(TOKEN)).await;
        let interrupts = &again.last().unwrap()["outcome"]["interrupts"];
        assert_eq!(interrupts, next, "{again:?}");
    }
    assert_eq!(tool.count(), 1);
    let approve = resume("r4", &next[0], json!({"approved": true}));
    let last = run_agui_with(&client, &approve, Some(TOKEN)).await;
    assert_eq!(text(&last), "Refunded.");
    assert_eq!(tool.count(), 2);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn front_end_results_next_to_an_interrupt_are_accepted_after_its_answer() {
    let calls = [("pick", "{}"), ("refund", r#"{"order":17}"#)];
    let model = ScriptedModel::new()
        .then(reply::text("Hello."))
        .then(reply::calls(calls))
        .then(reply::text("Done."));
    let tool = Arc::new(ScriptedTool::echoing(spec("refund")));
    let (server, _) = serve(model, &tool).await;
    let client = server.client();
    let tools =
        json!([{"name": "pick", "description": "Picks.", "parameters": {"type": "object"}}]);
    let body = |run: &str, messages: &Value, resume: Value| {
        let more = json!({"tools": tools, "resume": resume});
        input(run, messages.clone(), more)
    };
    let mut thread = json!([user("Hi.")]);
    run_agui(&client, &body("r1", &thread, json!([]))).await;
    let add = |thread: &mut Value, more: Value| thread.as_array_mut().unwrap().push(more);
    add(
        &mut thread,
        json!({"id": "a", "role": "assistant", "content": "Hello."}),
    );
    add(&mut thread, user("Refund order 17."));
    let first = run_agui(&client, &body("r2", &thread, json!([]))).await;
    let starts = named(&first, "TOOL_CALL_START");
    let ids: Vec<&Value> = starts.iter().map(|it| &it["toolCallId"]).collect();
    let called = ids.iter().zip(calls).map(|(id, (name, arguments))| {
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    });
    let called: Vec<Value> = called.collect();
    add(
        &mut thread,
        json!({"id": "b", "role": "assistant", "toolCalls": called}),
    );
    add(
        &mut thread,
        json!({"id": "c", "role": "tool", "toolCallId": ids[0], "content": "red"}),
    );
    let early = run_agui(&client, &body("r3", &thread, json!([]))).await;
    assert_eq!(early.last().unwrap()["code"], "session-busy", "{early:?}");

    let interrupt = &first.last().unwrap()["outcome"]["interrupts"][0]["id"];
    let approved = json!({"approved": true});
    let answers = json!([{"interruptId": interrupt, "status": "resolved", "payload": approved}]);
    let approve = body("r4", &thread, answers);
    let second = run_agui_with(&client, &approve, Some(TOKEN)).await;
    let outcome = json!({"type": "success", "pendingToolCallIds": [ids[0]]});
    assert_eq!(second.last().unwrap()["outcome"], outcome, "{second:?}");
    let third = run_agui_with(&client, &approve, Some(TOKEN)).await;
    assert_eq!(text(&third), "Done.", "{third:?}");
    assert_eq!(tool.count(), 1);
    server.stop().await.unwrap();
}
