//! Calls that need approval: put only to the user at the client that made the request.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuraxis_core::{ApprovalDecision, RunStatus};
use neuraxis_engine::DecideLater;
use neuraxis_mcp_server::{McpServer, RequestStates, RunPermit};
use neuraxis_ports::{CancellationToken, RequestContext};
use neuraxis_testkit::{Act, Script, ScriptedModel, ScriptedTool, reply, spec};
use rmcp::model::{CallToolResponse, ErrorData};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::support::{
    ERAS, INITIALIZE, Person, builder, connect, request, server, status, text, until,
};

const REFUND: &str = r#"{"order":17,"note":"a\u202eb"}"#;

fn approval() -> Value {
    json!({"action": "accept", "content": {"decision": "approve"}})
}

fn model() -> Arc<ScriptedModel> {
    let model = ScriptedModel::new()
        .then(reply::calls([("refund", REFUND)]))
        .then(reply::text("That is all."));
    Arc::new(model)
}

fn refund() -> Arc<ScriptedTool> {
    Arc::new(ScriptedTool::echoing(spec("refund")))
}

#[tokio::test(start_paused = true)]
async fn a_call_that_needs_approval_is_shown_to_the_person_with_its_exact_arguments() {
    for era in &ERAS {
        let (model, tool, person) = (model(), refund(), Person::saying(approval()));
        let (server, orchestrator) = server(&model, &[Arc::clone(&tool)]);
        let served = connect(&server, era, &person).await;
        let arguments = json!({"message": "Refund order 17.", "session": "s1"});
        let done = served.call("ask", arguments).await;
        assert_eq!((done.is_error, text(&done)), (Some(false), "That is all."));

        let asked = person.questions();
        assert_eq!(asked.len(), 1, "{era:?}");
        assert!(
            asked[0].contains("The tool:\n\n    refund\n"),
            "{}",
            asked[0]
        );
        let shown = "    {\n      \"order\": 17,\n      \"note\": \"a\\u202eb\"\n    }\n";
        assert!(asked[0].contains(shown), "{}", asked[0]);
        assert_eq!(tool.count(), 1);
        assert_eq!(tool.calls()[0].arguments.as_str(), REFUND);
        assert_eq!(status(&orchestrator, "s1").await, Some(RunStatus::Done));
        served.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn any_answer_other_than_an_approval_runs_no_tool() {
    for era in &ERAS {
        for answer in [
            json!({"action": "accept", "content": {"decision": "deny", "reason": "too much"}}),
            json!({"action": "accept", "content": {"decision": "maybe"}}),
            json!({"action": "accept", "content": {"approve": true}}),
            json!({"action": "accept", "content": 7}),
            json!({"action": "accept"}),
            json!({"action": "decline"}),
            json!({"action": "cancel"}),
        ] {
            let (model, tool, person) = (model(), refund(), Person::saying(answer.clone()));
            let (server, _) = server(&model, &[Arc::clone(&tool)]);
            let served = connect(&server, era, &person).await;
            let done = served
                .call("ask", json!({"message": "Refund order 17."}))
                .await;
            assert_eq!(text(&done), "That is all.", "{answer}");
            assert_eq!(tool.count(), 0, "{answer}");
            let sent = format!("{:?}", model.requests()[1].messages);
            if answer["content"]["reason"].is_string() {
                assert!(sent.contains("too much"), "{sent}");
            }
            served.leave().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_call_runs_when_the_client_fails_to_ask() {
    let (model, tool) = (model(), refund());
    let person = Person::answering(|_| Err(ErrorData::internal_error("no window", None)));
    let (server, _) = server(&model, &[Arc::clone(&tool)]);
    let served = connect(&server, &INITIALIZE, &person).await;
    let done = served
        .call("ask", json!({"message": "Refund order 17."}))
        .await;
    assert_eq!((text(&done), tool.count()), ("That is all.", 0));
    let sent = format!("{:?}", model.requests()[1].messages);
    assert!(sent.contains("no window"), "{sent}");
    served.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_is_denied_when_the_client_cannot_ask() {
    for era in &ERAS {
        let (model, tool, person) = (model(), refund(), Person::absent());
        let (server, _) = server(&model, &[Arc::clone(&tool)]);
        let served = connect(&server, era, &person).await;
        let done = served
            .call("ask", json!({"message": "Refund order 17."}))
            .await;
        assert_eq!((text(&done), tool.count()), ("That is all.", 0));
        assert!(person.questions().is_empty());
        served.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_left_for_a_later_decision_is_waiting_and_names_its_question() {
    let (model, tool) = (model(), refund());
    let orchestrator = builder(&model, &[Arc::clone(&tool)])
        .approver(Arc::new(DecideLater))
        .build()
        .unwrap();
    let server = McpServer::new(orchestrator.clone());
    let served = connect(&server, &INITIALIZE, &Person::absent()).await;
    let left = served
        .call(
            "ask",
            json!({"message": "Refund order 17.", "session": "s1"}),
        )
        .await;
    assert_eq!(left.is_error, Some(true));
    let waiting = orchestrator.approvals().list().await.unwrap().remove(0);
    let question = format!("refund (question {})", waiting.question());
    assert!(text(&left).contains(&question), "{}", text(&left));
    assert_eq!(left.structured_content.unwrap()["status"], "waiting");
    served.leave().await;
    assert_eq!(status(&orchestrator, "s1").await, Some(RunStatus::Waiting));
}

#[tokio::test(start_paused = true)]
async fn several_calls_are_asked_about_and_decided_one_by_one() {
    for era in &ERAS {
        let model = ScriptedModel::new()
            .then(reply::calls([
                ("refund", r#"{"order":1}"#),
                ("refund", r#"{"order":2}"#),
            ]))
            .then(reply::text("That is all."));
        let (model, tool) = (Arc::new(model), refund());
        let person = Person::answering(|question| {
            let decision = match question.contains("\"order\": 2") {
                true => "approve",
                false => "deny",
            };
            let answer = json!({"action": "accept", "content": {"decision": decision}});
            Ok(serde_json::from_value(answer).unwrap())
        });
        let (server, _) = server(&model, &[Arc::clone(&tool)]);
        let served = connect(&server, era, &person).await;
        let done = served.call("ask", json!({"message": "Refund."})).await;
        assert_eq!(text(&done), "That is all.");
        assert_eq!(person.questions().len(), 2, "{era:?}");
        let ran: Vec<String> = tool
            .calls()
            .iter()
            .map(|it| it.arguments.to_string())
            .collect();
        assert_eq!(ran, [r#"{"order":2}"#]);
        served.leave().await;
    }
}

/// A model that makes two calls at the same time, and the tool, which is slow.
fn two_slow_refunds() -> (Arc<ScriptedModel>, Arc<ScriptedTool>) {
    let model = ScriptedModel::new()
        .then(reply::calls([
            ("refund", r#"{"order":1}"#),
            ("refund", r#"{"order":2}"#),
        ]))
        .then(reply::text("That is all."));
    let tool = ScriptedTool::answering(spec("refund"), |arguments| {
        Act::value(arguments.as_str()).after(Duration::from_secs(5))
    });
    (Arc::new(model), Arc::new(tool))
}

#[tokio::test(start_paused = true)]
async fn a_question_stays_open_while_an_already_approved_call_runs() {
    let (model, tool) = two_slow_refunds();
    let person = Person::saying(approval()).thinking_for(Duration::from_secs(3));
    let (server, _) = server(&model, &[Arc::clone(&tool)]);
    let served = connect(&server, &INITIALIZE, &person).await;
    let done = served.call("ask", json!({"message": "Refund."})).await;
    assert_eq!((text(&done), tool.count()), ("That is all.", 2));
    assert_eq!(person.questions().len(), 2);
    served.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_in_a_later_turn_asks_again() {
    for era in &ERAS {
        let model = ScriptedModel::new()
            .then(reply::calls([("refund", r#"{"order":1}"#)]))
            .then(reply::calls([("refund", r#"{"order":2}"#)]))
            .then(reply::text("That is all."));
        let (model, tool, person) = (Arc::new(model), refund(), Person::saying(approval()));
        let (server, _) = server(&model, &[Arc::clone(&tool)]);
        let served = connect(&server, era, &person).await;
        let done = served.call("ask", json!({"message": "Refund."})).await;
        assert_eq!((text(&done), tool.count()), ("That is all.", 2));
        assert_eq!(person.questions().len(), 2, "{era:?}");
        let last = "turn 3: the model answers";
        until(last, async || {
            person.progress_messages().iter().any(|it| it == last)
        })
        .await;
        served.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn each_client_is_asked_only_about_its_own_requests() {
    for era in &ERAS {
        let model = ScriptedModel::answering(|request| {
            let sent = format!("{:?}", request.messages);
            let is_ada = sent.contains("I am Ada");
            match (sent.contains("Tool(") || request.messages.len() > 3, is_ada) {
                (true, _) => reply::text("That is all."),
                (false, true) => reply::calls([("refund", r#"{"of":"ada"}"#)]),
                (false, false) => reply::calls([("refund", r#"{"of":"bob"}"#)]),
            }
        });
        let (model, tool) = (Arc::new(model), refund());
        let (server, _) = server(&model, &[tool]);
        let (ada, bob) = (Person::saying(approval()), Person::saying(approval()));
        let of_ada = connect(&server, era, &ada).await;
        let of_bob = connect(&server, era, &bob).await;
        let (one, other) = tokio::join!(
            of_ada.call("ask", json!({"message": "I am Ada."})),
            of_bob.call("ask", json!({"message": "I am Bob."})),
        );
        assert_eq!((text(&one), text(&other)), ("That is all.", "That is all."));
        for (person, own) in [(&ada, "ada"), (&bob, "bob")] {
            let asked = person.questions();
            assert_eq!(asked.len(), 1, "{own}");
            assert!(
                asked[0].contains(&format!("\"of\": \"{own}\"")),
                "{}",
                asked[0]
            );
        }
        of_ada.leave().await;
        of_bob.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn arguments_too_long_to_show_are_denied_without_asking() {
    let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(70 * 1024));
    for era in &ERAS {
        let model = ScriptedModel::new()
            .then(reply::calls([("refund", long.as_str())]))
            .then(reply::text("That is all."));
        let (model, tool, person) = (Arc::new(model), refund(), Person::saying(approval()));
        let (server, _) = server(&model, &[Arc::clone(&tool)]);
        let served = connect(&server, era, &person).await;
        let done = served.call("ask", json!({"message": "Refund."})).await;
        assert_eq!((text(&done), tool.count()), ("That is all.", 0));
        assert!(person.questions().is_empty());
        let sent = format!("{:?}", model.requests()[1].messages);
        assert!(sent.contains("too long to be shown"), "{sent}");
        served.leave().await;
    }
}

/// Asserts that an answer was rejected with an explanation of where to decide.
fn assert_says_what_to_do(answer: &CallToolResponse) {
    let CallToolResponse::Complete(result) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(result.is_error, Some(true));
    assert!(text(result).contains("`neuraxis approvals`"), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn without_mcp_sessions_a_question_is_a_result_and_only_its_own_state_is_accepted() {
    let (model, tool, person) = (model(), refund(), Person::saying(approval()));
    let (server, orchestrator) = server(&model, &[Arc::clone(&tool)]);
    let served = connect(&server, &ERAS[1], &person).await;
    let call = request(
        "ask",
        json!({"message": "Refund order 17.", "session": "s1"}),
    );
    let asked = served.client.call_tool_once(call.clone()).await.unwrap();
    let CallToolResponse::InputRequired(asked) = asked else {
        panic!("{asked:?}");
    };
    let question = asked.input_requests.unwrap().into_keys().next().unwrap();
    let state = asked.request_state.unwrap();
    assert_eq!(status(&orchestrator, "s1").await, Some(RunStatus::Waiting));
    let answers = [(question, approval())];

    // A state that was made up, truncated, or issued for another tool is refused.
    let run = orchestrator.approvals().list().await.unwrap()[0]
        .run_id
        .to_string();
    for (tool, state) in [
        ("ask", run.as_str()),
        ("ask", &state[1..]),
        ("researcher", &state),
    ] {
        let mut forged = request(tool, json!({"message": "x"}));
        forged.input_responses = Some(answers.clone().into());
        forged.request_state = Some(state.to_owned());
        let refused = served.client.call_tool_once(forged).await.unwrap();
        assert_says_what_to_do(&refused);
    }
    assert_eq!(tool.count(), 0);

    // An answer to another question does not count; the question is asked again.
    let mut other = call.clone();
    other.input_responses = Some([("0123456789abcdef".to_owned(), approval())].into());
    other.request_state = Some(state.clone());
    let again = served.client.call_tool_once(other).await.unwrap();
    assert!(
        matches!(again, CallToolResponse::InputRequired(_)),
        "{again:?}"
    );
    assert_eq!(tool.count(), 0);

    let mut answered = call.clone();
    answered.input_responses = Some(answers.clone().into());
    answered.request_state = Some(state.clone());
    let done = served
        .client
        .call_tool_once(answered.clone())
        .await
        .unwrap();
    assert!(matches!(&done, CallToolResponse::Complete(done) if text(done) == "That is all."));
    assert_eq!(tool.count(), 1);

    // Repeating the request returns the outcome of the run again, and nothing runs again.
    let done = served.client.call_tool_once(answered).await.unwrap();
    assert!(matches!(&done, CallToolResponse::Complete(done) if text(done) == "That is all."));
    assert_eq!(tool.count(), 1);
    served.leave().await;
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_question_runs_no_tool_and_the_run_continues() {
    let (model, tool, person) = (model(), refund(), Person::saying(approval()));
    let (server, _) = server(&model, &[Arc::clone(&tool)]);
    let silent = crate::endings::Silent(person.clone());
    let client = crate::endings::connect_silent(&server, silent).await;
    // The virtual clock skips the days for which the question stays open.
    let call = request("ask", json!({"message": "Refund order 17."}));
    let done = client.call_tool(call).await.unwrap();
    assert_eq!((text(&done), tool.count()), ("That is all.", 0));
    assert_eq!(person.questions().len(), 1);
    client.cancel().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_returns_promptly_when_its_question_is_decided_elsewhere() {
    let (model, tool, person) = (model(), refund(), Person::saying(approval()));
    let (server, orchestrator) = server(&model, &[Arc::clone(&tool)]);
    let silent = crate::endings::Silent(person.clone());
    let client = crate::endings::connect_silent(&server, silent).await;
    let call = request("ask", json!({"message": "Refund order 17."}));
    let peer = client.peer().clone();
    let began = Instant::now();
    let calling = tokio::spawn(async move { peer.call_tool(call).await });
    until("it is asked", async || !person.questions().is_empty()).await;
    let approvals = orchestrator.approvals();
    let waiting = approvals.list().await.unwrap().remove(0);
    let (run, asked) = (waiting.run_id, &waiting.request);
    let (call, hash) = (&asked.tool_call_id, asked.arguments_hash);
    let decided = approvals.decide(run, call, hash, ApprovalDecision::APPROVE, None);
    decided.await.unwrap();
    let done = calling.await.unwrap().unwrap();
    assert_eq!((text(&done), tool.count()), ("That is all.", 1));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
    client.cancel().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_holds_no_permit_while_a_person_decides_and_takes_one_to_continue() {
    for era in &ERAS {
        let model = ScriptedModel::new()
            .then(reply::calls([("refund", REFUND)]))
            .then(Script::hanging());
        let model = Arc::new(model);
        let permits = Arc::new(Semaphore::new(1));
        let other = Arc::new(Mutex::new(None));
        let person = Person::answering({
            let (permits, other) = (Arc::clone(&permits), Arc::clone(&other));
            move |_| {
                *other.lock().unwrap() = RunPermit::take(&permits);
                Ok(serde_json::from_value(approval()).unwrap())
            }
        });
        let (server, _) = server(&model, &[refund()]);
        let served = connect(&server.run_permits(Arc::clone(&permits)), era, &person).await;
        let goes_on = async {
            // A call with a decision is not refused, and gets the next permit.
            until("the run is at work", async || model.open_calls() == 1).await;
            let other = other.lock().unwrap().take();
            assert!(other.is_some(), "{era:?}");
            drop(other);
            until("it has its permit", async || {
                permits.available_permits() == 0
            })
            .await;
        };
        tokio::select! {
            _ = served.call("ask", json!({"message": "Refund."})) => panic!("it has no end"),
            () = goes_on => {}
        }
        served.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_continuing_run_holds_its_permit_while_the_next_question_is_asked() {
    let (model, tool) = two_slow_refunds();
    let permits = Arc::new(Semaphore::new(1));
    let free = Arc::new(Mutex::new(Vec::new()));
    let person = Person::answering({
        let (permits, free) = (Arc::clone(&permits), Arc::clone(&free));
        move |_| {
            free.lock().unwrap().push(permits.available_permits());
            Ok(serde_json::from_value(approval()).unwrap())
        }
    });
    let (server, _) = server(&model, &[tool]);
    let served = connect(&server.run_permits(permits), &INITIALIZE, &person).await;
    let done = served.call("ask", json!({"message": "Refund."})).await;
    assert_eq!(text(&done), "That is all.");
    assert_eq!(*free.lock().unwrap(), [1, 0]);
    served.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_resumed_elsewhere_holds_only_the_permit_it_was_given() {
    let model = ScriptedModel::new()
        .then(reply::calls([("refund", REFUND)]))
        .then(Script::hanging());
    let (model, tool, person) = (Arc::new(model), refund(), Person::saying(approval()));
    let (server, orchestrator) = server(&model, &[tool]);
    let permits = Arc::new(Semaphore::new(2));
    let server = server.run_permits(Arc::clone(&permits));
    let silent = crate::endings::Silent(person.clone());
    let client = crate::endings::connect_silent(&server, silent).await;
    let call = request("ask", json!({"message": "Refund order 17."}));
    let peer = client.peer().clone();
    let calling = tokio::spawn(async move { peer.call_tool(call).await });
    until("it is asked", async || !person.questions().is_empty()).await;

    let given = RequestContext::default().with(RunPermit::take_regardless(&permits));
    let approvals = orchestrator.approvals().with_context(given);
    let waiting = approvals.list().await.unwrap().remove(0);
    let (run, asked) = (waiting.run_id, &waiting.request);
    let (call, hash) = (&asked.tool_call_id, asked.arguments_hash);
    let decided = approvals.decide(run, call, hash, ApprovalDecision::APPROVE, None);
    decided.await.unwrap();
    until("the run is at work", async || model.open_calls() == 1).await;
    // By then the call has noticed.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(permits.available_permits(), 1);
    calling.abort();
    client.cancel().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stopping_server_leaves_the_question_open_and_names_it() {
    let (model, tool, person) = (model(), refund(), Person::saying(approval()));
    let (server, orchestrator) = server(&model, &[Arc::clone(&tool)]);
    let stopping = CancellationToken::new();
    let server = server.stopping(stopping.clone());
    let silent = crate::endings::Silent(person.clone());
    let client = crate::endings::connect_silent(&server, silent).await;
    let call = request(
        "ask",
        json!({"message": "Refund order 17.", "session": "s1"}),
    );
    let peer = client.peer().clone();
    let calling = tokio::spawn(async move { peer.call_tool(call).await });
    until("it is asked", async || !person.questions().is_empty()).await;
    stopping.cancel();
    let left = calling.await.unwrap().unwrap();
    let waiting = orchestrator.approvals().list().await.unwrap().remove(0);
    assert!(text(&left).contains(&waiting.question()), "{}", text(&left));
    assert_eq!(left.structured_content.unwrap()["status"], "waiting");
    client.cancel().await.unwrap();
    assert_eq!(status(&orchestrator, "s1").await, Some(RunStatus::Waiting));
    assert_eq!(tool.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_suspended_after_its_approval_is_reported_as_not_ended() {
    let model = ScriptedModel::new()
        .then(reply::calls([("refund", REFUND)]))
        .then(Script::hanging());
    let (model, person) = (Arc::new(model), Person::saying(approval()));
    let (server, orchestrator) = server(&model, &[refund()]);
    let served = connect(&server, &INITIALIZE, &person).await;
    let call = request("ask", json!({"message": "Refund.", "session": "s1"}));
    let peer = served.client.peer().clone();
    let calling = tokio::spawn(async move { peer.call_tool(call).await });
    until("it is asked", async || !person.questions().is_empty()).await;
    until("the run is at work", async || model.open_calls() == 1).await;
    let left = orchestrator.suspend(Duration::ZERO).await;
    let result = calling.await.unwrap().unwrap();
    let begins = format!("run {} of session s1 has not ended: ", left[0]);
    assert!(text(&result).starts_with(&begins), "{}", text(&result));
    served.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_accepts_the_answer_to_a_question_of_the_server_it_replaces() {
    let (model, tool, person) = (model(), refund(), Person::saying(approval()));
    let orchestrator = builder(&model, &[Arc::clone(&tool)]).build().unwrap();
    let states = RequestStates::default();
    let server = || McpServer::new(orchestrator.clone()).request_states(states.clone());
    let former = connect(&server(), &ERAS[1], &person).await;
    let call = request("ask", json!({"message": "Refund order 17."}));
    let asked = former.client.call_tool_once(call.clone()).await.unwrap();
    let CallToolResponse::InputRequired(asked) = asked else {
        panic!("{asked:?}");
    };
    former.leave().await;
    let question = asked.input_requests.unwrap().into_keys().next().unwrap();
    let mut answered = call;
    answered.input_responses = Some([(question, approval())].into());
    answered.request_state = asked.request_state;

    // A client that has lost the right to approve meanwhile cannot decide.
    let unasked = connect(&server().without_questions(), &ERAS[1], &person).await;
    let refused = unasked.client.call_tool_once(answered.clone()).await;
    assert_says_what_to_do(&refused.unwrap());
    assert_eq!(tool.count(), 0);
    unasked.leave().await;

    let new = connect(&server(), &ERAS[1], &person).await;
    let done = new.client.call_tool_once(answered).await.unwrap();
    assert!(matches!(&done, CallToolResponse::Complete(done) if text(done) == "That is all."));
    assert_eq!(tool.count(), 1);
    new.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_disconnects_while_asked_ends_the_run() {
    let (model, tool) = (model(), refund());
    let (server, orchestrator) = server(&model, &[Arc::clone(&tool)]);
    let person = Person::saying(json!({"action": "accept"}));
    let hanging = crate::endings::Silent(person.clone());
    let client = crate::endings::connect_silent(&server, hanging).await;
    let call = request(
        "ask",
        json!({"message": "Refund order 17.", "session": "s1"}),
    );
    let peer = client.peer().clone();
    let calling = tokio::spawn(async move { peer.call_tool(call).await });
    until("it is asked", async || !person.questions().is_empty()).await;
    drop(client);
    calling.abort();
    until("the run has ended", async || {
        status(&orchestrator, "s1").await == Some(RunStatus::Interrupted)
    })
    .await;
    assert_eq!(tool.count(), 0);
}
