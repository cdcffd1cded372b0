//! The server's own API apart from turns: sessions, runs and their events, open decisions, and introspection.

use std::sync::Arc;
use std::time::Duration;

use neuraxis::memory::MemoryStore;
use neuraxis::{DecideLater, Orchestrator, Role};
use neuraxis_testkit::{ScriptedModel, ScriptedTool, VirtualClock, reply, spec};
use serde_json::{Value, json};

use crate::support::client::answer;
use crate::support::in_process::{InProcess, TOKEN};
use crate::support::program::folder_with;
use crate::support::{Client, Program};

/// A configuration in which the clock tool needs approval.
const ASKS: &str =
    "[rules.clock]\nanswer = 'ask'\ntools = ['current_time']\nreason = 'The time is private.'\n";

async fn get(client: &Client, path: &str) -> (u16, Value) {
    answer(client.get(path)).await
}

async fn post(client: &Client, path: &str, body: Value) -> (u16, Value) {
    let request = client.post(path).header("content-type", "application/json");
    answer(request.body(body.to_string())).await
}

/// Decides as a user who can read the server user's own files.
async fn decide(program: &Program, path: &str, body: Value) -> (u16, Value) {
    let file = program.folder().join(".local/share/neuraxis/server.token");
    let token = std::fs::read_to_string(file).unwrap();
    let request = program
        .client()
        .post(path)
        .header("content-type", "application/json");
    let request = request.header("authorization", format!("Bearer {}", token.trim()));
    answer(request.body(body.to_string())).await
}

/// The call that a decision is about.
struct Asked {
    run: String,
    /// The address for the decision.
    path: String,
    question: Value,
}

/// Takes a turn that then waits for a user.
async fn waiting(client: &Client, session: &str) -> Asked {
    let (status, result) = client
        .ask(session, &json!({"message": "What time is it?"}))
        .await;
    assert_eq!(
        (status, &result["status"]),
        (200, &json!("waiting")),
        "{result}"
    );
    let pending = &result["pending"][0];
    assert_eq!(pending["kind"], "approval");
    let run = result["run_id"].as_str().unwrap().to_owned();
    let call = pending["tool_call_id"].as_str().unwrap();
    Asked {
        path: format!("/api/v1/runs/{run}/approvals/{call}"),
        question: pending["question"].clone(),
        run,
    }
}

#[tokio::test]
async fn sessions_are_created_listed_in_pages_shown_and_deleted() {
    let program = Program::start().await;
    let client = program.client();
    let (status, made) = answer(client.post("/api/v1/sessions")).await;
    assert_eq!(status, 201);
    let id = made["id"].as_str().unwrap().to_owned();
    for name in ["a", "b"] {
        let (status, made) = post(&client, "/api/v1/sessions", json!({"id": name})).await;
        assert_eq!((status, &made["id"]), (201, &json!(name)));
    }
    let (status, problem) = post(&client, "/api/v1/sessions", json!({"id": "a"})).await;
    assert_eq!(
        (status, &problem["type"]),
        (409, &json!("/errors/session-exists"))
    );

    let mut seen = Vec::new();
    let mut path = "/api/v1/sessions?limit=2".to_owned();
    loop {
        let (status, page) = get(&client, &path).await;
        assert_eq!(status, 200);
        seen.extend(
            page["sessions"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| it["id"].clone()),
        );
        let Some(next) = page["next"].as_str() else {
            break;
        };
        path = format!("/api/v1/sessions?limit=2&after={next}");
    }
    assert_eq!(seen, [json!("b"), json!("a"), json!(id)]);

    client
        .ask("a", &json!({"message": "What time is it?"}))
        .await;
    let (status, shown) = get(&client, "/api/v1/sessions/a").await;
    assert_eq!(status, 200);
    assert_eq!(shown["runs"].as_array().unwrap().len(), 1);
    assert_eq!(shown["history"][0]["role"], "user");
    let deleted = client.delete("/api/v1/sessions/a").send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    let (status, problem) = get(&client, "/api/v1/sessions/a").await;
    assert_eq!(
        (status, &problem["type"]),
        (404, &json!("/errors/no-such-session"))
    );
}

#[tokio::test]
async fn the_next_page_of_sessions_works_after_the_last_session_of_the_page_was_deleted() {
    let program = Program::start().await;
    let client = program.client();
    for id in ["a", "b", "c"] {
        let (status, made) = post(&client, "/api/v1/sessions", json!({"id": id})).await;
        assert_eq!(status, 201);
        let (_, kept) = get(&client, &format!("/api/v1/sessions/{id}")).await;
        assert_eq!(made["created_at"], kept["session"]["created_at"]);
    }
    let (_, page) = get(&client, "/api/v1/sessions?limit=1").await;
    assert_eq!(page["sessions"][0]["id"], "c");
    let next = page["next"].as_str().unwrap();
    client.delete("/api/v1/sessions/c").send().await.unwrap();
    let shown = async |after: &str| {
        let path = format!("/api/v1/sessions?limit=1&after={after}");
        let (status, page) = get(&client, &path).await;
        let first = page["sessions"][0]["id"].as_str().map(str::to_owned);
        (status, first)
    };
    assert_eq!(shown(next).await, (200, Some("b".to_owned())));
    assert_eq!(shown("b").await, (200, Some("a".to_owned())));
    assert_eq!(shown("c").await, (404, None));
    for nowhere in [
        "2026-11-28~a",
        "x~a",
        "1~b~c",
        "1~",
        "99999999999999999999~a",
        "a%20b",
        "",
    ] {
        assert_eq!(shown(nowhere).await, (400, None), "{nowhere}");
    }
}

#[tokio::test]
async fn a_run_is_shown_with_its_result_and_its_events_can_start_after_any_record() {
    let program = Program::start().await;
    let client = program.client();
    let (_, result) = client
        .ask("s", &json!({"message": "What time is it?"}))
        .await;
    let run = result["run_id"].as_str().unwrap();
    let (status, shown) = get(&client, &format!("/api/v1/runs/{run}")).await;
    assert_eq!((status, &shown["status"]), (200, &json!("done")));
    assert_eq!(shown["result"]["reply"], result["reply"]);
    let (_, page) = get(&client, "/api/v1/runs?session=s").await;
    assert_eq!(page["runs"][0]["run_id"], run);

    let path = format!("/api/v1/runs/{run}/events");
    let all = client.events(client.get(&path)).await.rest().await;
    let last = all.last().unwrap().id.unwrap();
    assert_eq!(last as usize, all.len(), "records alone, from the first");
    for after in 0..last {
        let request = client.get(&path).header("last-event-id", after.to_string());
        let rest = client.events(request).await.rest().await;
        let ids: Vec<u64> = rest.iter().filter_map(|frame| frame.id).collect();
        assert_eq!(ids, (after + 1..=last).collect::<Vec<_>>());
    }
    let over = client.get(&path).header("last-event-id", last.to_string());
    assert_eq!(over.send().await.unwrap().status(), 204);
}

#[tokio::test]
async fn events_after_a_record_that_does_not_exist_are_refused_with_the_last_one() {
    let program = Program::start_in(folder_with(ASKS), |_| {}).await;
    let client = program.client();
    let asked = waiting(&client, "s").await;
    let events = format!("/api/v1/runs/{}/events", asked.run);
    let from = |last: u64| {
        client
            .get(&events)
            .header("last-event-id", last.to_string())
    };
    let (_, shown) = get(&client, &format!("/api/v1/runs/{}", asked.run)).await;
    let last = shown["records"].as_u64().unwrap();
    for ahead in [last + 1, u64::MAX] {
        let (status, problem) = answer(from(ahead)).await;
        assert_eq!(
            (status, &problem["type"], &problem["last_event_id"]),
            (410, &json!("/errors/no-such-event"), &json!(last)),
            "{problem}"
        );
    }
    let frames = client.events(from(last)).await;
    let approve = json!({"decision": "approve", "question": asked.question});
    assert_eq!(decide(&program, &asked.path, approve).await.0, 202);
    assert_eq!(frames.rest().await.last().unwrap().event, "final");
}

#[tokio::test]
async fn a_waiting_turn_names_each_pending_call_and_why_it_needs_approval() {
    let program = Program::start_in(folder_with(ASKS), |_| {}).await;
    let client = program.client();
    let body = json!({"message": r#"current_time {"time_zone": "Asia/Tokyo"}"#});
    let (_, result) = client.ask("s", &body).await;
    let pending = &result["pending"][0];
    assert_eq!(pending["name"], "current_time", "{result}");
    let arguments = pending["arguments"].as_str().unwrap();
    let arguments: Value = serde_json::from_str(arguments).unwrap();
    assert_eq!(arguments, json!({"time_zone": "Asia/Tokyo"}));
    let reason = pending["reason"].as_str().unwrap();
    assert!(reason.contains("The time is private."), "{reason}");
    let (_, open) = get(&client, "/api/v1/approvals?session=s").await;
    assert_eq!(open["approvals"][0]["question"], pending["question"]);
    assert_eq!(open["approvals"][0]["request"]["reason"], pending["reason"]);
    // A later request returns the same.
    let run = result["run_id"].as_str().unwrap();
    let (_, shown) = get(&client, &format!("/api/v1/runs/{run}")).await;
    assert_eq!(shown["result"]["pending"], result["pending"], "{shown}");
}

#[tokio::test]
async fn open_approvals_are_listed_in_pages() {
    let program = Program::start_in(folder_with(ASKS), |_| {}).await;
    let client = program.client();
    let mut asked = Vec::new();
    for session in ["a", "b", "c"] {
        asked.push(waiting(&client, session).await.run);
    }
    asked.sort();
    let runs = |page: &Value| -> Vec<String> {
        let open = page["approvals"].as_array().unwrap().iter();
        let runs = open.map(|it| it["run_id"].as_str().unwrap().to_owned());
        runs.collect()
    };
    let (_, first) = get(&client, "/api/v1/approvals?limit=2").await;
    assert_eq!(runs(&first), asked[..2]);
    assert_eq!(first["next"], asked[1].as_str());
    let after = format!("/api/v1/approvals?limit=2&after={}", asked[1]);
    let (_, second) = get(&client, &after).await;
    assert_eq!(runs(&second), asked[2..]);
    assert!(second.get("next").is_none(), "{second}");
    let (status, problem) = get(&client, "/api/v1/approvals?limit=0").await;
    assert_eq!(
        (status, &problem["type"]),
        (400, &json!("/errors/invalid-query"))
    );
}

#[tokio::test]
async fn a_waiting_turn_continues_only_with_a_decision_on_its_own_question() {
    let program = Program::start_in(folder_with(ASKS), |_| {}).await;
    let client = program.client();
    let Asked {
        run,
        path,
        question,
    } = waiting(&client, "s").await;
    let (_, open) = get(&client, "/api/v1/approvals").await;
    let open = &open["approvals"][0];
    assert_eq!(
        (&open["run_id"], &open["session_id"]),
        (&json!(run), &json!("s"))
    );
    assert_eq!(open["request"]["name"], "current_time");

    assert_eq!(open["question"], question);
    let unnamed = decide(&program, &path, json!({"decision": "approve"})).await;
    assert_eq!(
        (unnamed.0, &unnamed.1["type"]),
        (400, &json!("/errors/invalid-field")),
        "a decision names its question: {}",
        unnamed.1
    );
    let other = json!({"decision": "approve", "question": "0123456789abcdef"});
    let (status, problem) = decide(&program, &path, other).await;
    assert_eq!(
        (status, &problem["type"]),
        (409, &json!("/errors/other-question"))
    );
    let (status, problem) = decide(
        &program,
        &path,
        json!({"decision": "approve", "question": question, "arguments": {"x": 1}}),
    )
    .await;
    assert_eq!(
        (status, &problem["field"]),
        (400, &json!("arguments")),
        "{problem}"
    );

    let frames = client
        .events(client.get(&format!("/api/v1/runs/{run}/events")))
        .await;
    let decision = json!({"decision": "approve", "question": open["question"]});
    let (status, kept) = decide(&program, &path, decision.clone()).await;
    assert_eq!((status, &kept["run_id"]), (202, &json!(run)));
    let frames = frames.rest().await;
    let decided = frames
        .iter()
        .find(|frame| frame.event == "approval_decided");
    let by = &decided.unwrap().data["by"];
    assert_eq!(by, "the local user, over HTTP");
    assert_eq!(frames.last().unwrap().event, "final");
    let again = decide(&program, &path, decision).await;
    assert_eq!(again, (202, kept), "its answer may have been lost");
    let other = json!({"decision": "deny", "question": question});
    let (status, problem) = decide(&program, &path, other).await;
    assert_eq!(
        (status, &problem["type"], &problem["decided"]),
        (409, &json!("/errors/run-ended"), &json!("approve")),
        "nothing is decided twice"
    );
    let (_, run) = get(&client, &format!("/api/v1/runs/{run}")).await;
    assert_eq!(run["used"]["tool_calls"], 1, "{run}");
}

#[tokio::test]
async fn an_expired_question_is_no_longer_listed_and_its_decision_is_refused() {
    let model = ScriptedModel::new()
        .then(reply::calls([("refund", r#"{"order":17}"#)]))
        .then(reply::text("Not refunded."));
    let refund = Arc::new(ScriptedTool::echoing(spec("refund")));
    let clock = Arc::new(VirtualClock::new());
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tool(refund.clone())
        .approver(Arc::new(DecideLater))
        .clock(clock.clone())
        .store(Arc::new(MemoryStore::new()))
        .build()
        .unwrap();
    let server = InProcess::serve(orchestrator).await;
    let client = server.client();
    let asked = waiting(&client, "s").await;
    let open = async || get(&client, "/api/v1/approvals").await.1["approvals"].clone();
    assert_eq!(open().await[0]["question"], asked.question);
    clock.advance(Duration::from_secs(72 * 60 * 60));
    assert_eq!(open().await, json!([]));
    let decision = json!({"decision": "approve", "question": asked.question});
    let late = client
        .post(&asked.path)
        .header("authorization", format!("Bearer {TOKEN}"))
        .json(&decision);
    let (status, problem) = answer(late).await;
    assert_eq!(
        (status, &problem["type"]),
        (409, &json!("/errors/question-expired")),
        "{problem}"
    );
    // The run notices at once.
    let events = client.get(&format!("/api/v1/runs/{}/events", asked.run));
    let frames = client.events(events).await.rest().await;
    assert_eq!(frames.last().unwrap().event, "final", "{frames:?}");
    assert_eq!(refund.count(), 0);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_decision_needs_the_token_that_only_the_user_can_read() {
    let program = Program::start_in(folder_with(ASKS), |_| {}).await;
    let client = program.client();
    let Asked {
        run,
        path,
        question,
    } = waiting(&client, "s").await;
    let body = json!({"decision": "approve", "question": question});
    let (status, problem) = post(&client, &path, body.clone()).await;
    assert_eq!(
        (status, &problem["type"]),
        (401, &json!("/errors/token-needed"))
    );
    for value in ["Bearer ", "Bearer 0000", "Basic x", "bearer"] {
        let request = client
            .post(&path)
            .header("content-type", "application/json");
        let request = request
            .header("authorization", value)
            .body(body.to_string());
        assert_eq!(answer(request).await.0, 401, "{value}");
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let file = program.folder().join(".local/share/neuraxis/server.token");
        assert_eq!(
            std::fs::metadata(file).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
    let (_, shown) = get(&client, &format!("/api/v1/runs/{run}")).await;
    assert_eq!(shown["status"], "waiting");
}

#[tokio::test]
async fn the_result_of_a_denied_call_contains_the_reason() {
    let program = Program::start_in(folder_with(ASKS), |_| {}).await;
    let client = program.client();
    let Asked {
        run,
        path,
        question,
    } = waiting(&client, "s").await;
    let frames = client
        .events(client.get(&format!("/api/v1/runs/{run}/events")))
        .await;
    let because =
        |decision: &str| json!({"decision": decision, "question": question, "reason": "not today"});
    let (status, problem) = decide(&program, &path, because("approve")).await;
    assert_eq!((status, &problem["field"]), (400, &json!("reason")));
    let (status, _) = decide(&program, &path, because("deny")).await;
    assert_eq!(status, 202);
    let frames = frames.rest().await;
    let result = frames
        .iter()
        .find(|frame| frame.event == "tool_result")
        .unwrap();
    assert!(
        result.data["value"].to_string().contains("not today"),
        "{:?}",
        result.data
    );
}

#[tokio::test]
async fn a_waiting_run_can_be_cancelled_and_a_later_approval_is_refused() {
    let program = Program::start_in(folder_with(ASKS), |_| {}).await;
    let client = program.client();
    let Asked {
        run,
        path,
        question,
    } = waiting(&client, "s").await;
    let frames = client
        .events(client.get(&format!("/api/v1/runs/{run}/events")))
        .await;
    let (status, _) = answer(client.post(&format!("/api/v1/runs/{run}/cancel"))).await;
    assert_eq!(status, 202);
    let last = frames.rest().await.pop().unwrap();
    assert_eq!(last.data["finish_reason"], "cancelled");
    let approve = json!({"decision": "approve", "question": question});
    let (status, problem) = decide(&program, &path, approve).await;
    assert_eq!(
        (status, &problem["type"]),
        (409, &json!("/errors/run-ended"))
    );
    let (_, open) = get(&client, "/api/v1/approvals?session=s").await;
    assert_eq!(open["approvals"], json!([]));
}

#[tokio::test]
async fn a_steering_message_joins_a_waiting_run() {
    let program = Program::start_in(folder_with(ASKS), |_| {}).await;
    let client = program.client();
    let Asked {
        run,
        path,
        question,
    } = waiting(&client, "s").await;
    let steer = json!({"message": "thank you"});
    let (status, taken) = post(&client, &format!("/api/v1/runs/{run}/steer"), steer).await;
    assert_eq!(status, 202);
    let frames = client
        .events(client.get(&format!("/api/v1/runs/{run}/events")))
        .await;
    let approve = json!({"decision": "approve", "question": question});
    decide(&program, &path, approve).await;
    let frames = frames.rest().await;
    let steered = frames
        .iter()
        .find(|frame| frame.event == "steered")
        .unwrap();
    assert!(steered.data.to_string().contains("thank you"));
    assert_eq!(steered.data["id"], taken["input_id"]);
}

#[tokio::test]
async fn a_message_sent_again_with_its_key_joins_the_run_once() {
    let program = Program::start_in(folder_with(ASKS), |_| {}).await;
    let client = program.client();
    let Asked {
        run,
        path,
        question,
    } = waiting(&client, "s").await;
    let steer = async |key: &str, text: &str| {
        let request = client.post(&format!("/api/v1/runs/{run}/steer"));
        let request = request.header("content-type", "application/json");
        let request = request.header("idempotency-key", key);
        answer(request.body(json!({"message": text}).to_string())).await
    };
    let (status, first) = steer("k1", "thank you").await;
    assert_eq!(status, 202, "{first}");
    assert_eq!(steer("k1", "thank you").await, (202, first.clone()));
    let (status, reused) = steer("k1", "no, thank you").await;
    assert_eq!(
        (status, &reused["type"], &reused["differs"]),
        (
            422,
            &json!("/errors/idempotency-key-reused"),
            &json!(["message"])
        )
    );
    let (status, invalid) = steer("two words", "thank you").await;
    assert_eq!(
        (status, &invalid["type"]),
        (400, &json!("/errors/invalid-idempotency-key"))
    );
    let frames = client
        .events(client.get(&format!("/api/v1/runs/{run}/events")))
        .await;
    decide(
        &program,
        &path,
        json!({"decision": "approve", "question": question}),
    )
    .await;
    let frames = frames.rest().await;
    let steered: Vec<&Value> = frames
        .iter()
        .filter(|frame| frame.event == "steered")
        .map(|frame| &frame.data["id"])
        .collect();
    assert_eq!(steered, [&first["input_id"]]);
    // The run has ended, and its store still knows what joined it.
    assert_eq!(steer("k1", "thank you").await, (202, first));
    let (status, ended) = steer("k2", "thank you").await;
    assert_eq!(
        (status, &ended["type"], &ended["run_status"]),
        (409, &json!("/errors/run-ended"), &json!("done"))
    );
}

#[tokio::test]
async fn an_unknown_run_is_the_same_404_on_every_route() {
    let program = Program::start().await;
    let client = program.client();
    let nobody = "01955f00-7a00-7000-8000-000000000001";
    for run in [nobody, "not-a-run", "%00", "a%2Fb"] {
        for path in ["", "/events"] {
            let (status, problem) = get(&client, &format!("/api/v1/runs/{run}{path}")).await;
            assert_eq!(
                (status, &problem["type"]),
                (404, &json!("/errors/no-such-run")),
                "{run}{path}"
            );
        }
        for (path, body) in [
            ("cancel", json!({})),
            ("steer", json!({"message": "x"})),
            ("tools/call_1", json!({"result": 1})),
        ] {
            let (status, problem) =
                post(&client, &format!("/api/v1/runs/{run}/{path}"), body).await;
            assert_eq!(
                (status, &problem["type"]),
                (404, &json!("/errors/no-such-run")),
                "{path}"
            );
        }
    }
}

#[tokio::test]
async fn an_invalid_query_or_body_is_refused_with_its_problem_type() {
    let program = Program::start().await;
    let client = program.client();
    for path in [
        "sessions?limit=0",
        "sessions?prefix=%00",
        "sessions?limit=5000",
        "sessions?limt=5",
        "runs?after=x",
        "approvals?session=%00",
    ] {
        let (status, problem) = get(&client, &format!("/api/v1/{path}")).await;
        assert_eq!(
            (status, &problem["type"]),
            (400, &json!("/errors/invalid-query")),
            "{path}: {problem}"
        );
    }
    let (_, problem) = get(&client, "/api/v1/sessions?limt=5").await;
    assert_eq!(
        problem["detail"],
        "unknown parameter \"limt\"; known: limit, owner, prefix, q, after"
    );
    let nobody = "01955f00-7a00-7000-8000-000000000001";
    for (path, body) in [
        ("steer", json!({"message": " "})),
        ("steer", json!({"message": "a\u{0}b"})),
        ("tools/call_1", json!({})),
        ("tools/call_1", json!({"result": 1, "error": "both"})),
    ] {
        let (status, problem) = post(&client, &format!("/api/v1/runs/{nobody}/{path}"), body).await;
        assert_eq!(
            (status, &problem["type"]),
            (400, &json!("/errors/invalid-field")),
            "{path}: {problem}"
        );
    }
}

#[tokio::test]
async fn available_tools_models_agents_and_policy_are_listed() {
    let program = Program::start().await;
    let client = program.client();
    let (_, tools) = get(&client, "/api/v1/tools").await;
    let tools = tools["tools"].as_array().unwrap();
    let clock = tools
        .iter()
        .find(|tool| tool["name"] == "current_time")
        .unwrap();
    assert_eq!(
        (&clock["class"], &clock["parameters"]["type"]),
        (&json!("read_only"), &json!("object"))
    );
    let (_, models) = get(&client, "/api/v1/models").await;
    assert_eq!(models["models"][0]["provider"], "offline", "{models}");
    let (_, agents) = get(&client, "/api/v1/agents").await;
    let names: Vec<&Value> = agents["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert!(names.contains(&&json!("deep_research")), "{names:?}");
    let (_, policy) = get(&client, "/api/v1/policy").await;
    assert_eq!(
        policy["modes"],
        json!(["conservative", "moderate"]),
        "no mode above moderate"
    );
    assert_eq!(policy.get("key"), None, "nobody presented one");
    let (status, decision) = post(
        &client,
        "/api/v1/policy/explain",
        json!({"message": "What time is it?"}),
    )
    .await;
    assert_eq!(
        (status, &decision["mode"]),
        (200, &json!("moderate")),
        "{decision}"
    );
    let (status, problem) = post(
        &client,
        "/api/v1/policy/explain",
        json!({"message": "x", "mode": "exploratory"}),
    )
    .await;
    assert_eq!(
        (status, &problem["type"]),
        (403, &json!("/errors/mode-not-allowed"))
    );
}
