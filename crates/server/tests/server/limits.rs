//! What clients may use as long as there are no keys: modes, and permits for runs.

use std::num::NonZeroU32;
use std::sync::Arc;

use neuraxis::memory::MemoryStore;
use neuraxis::{DecideLater, Orchestrator, Role};
use neuraxis_server::ClientLimits;
use neuraxis_testkit::{Script, ScriptedModel, ScriptedTool, reply, spec};
use serde_json::{Value, json};

use crate::support::client::answer;
use crate::support::in_process::{InProcess, TOKEN};
use crate::support::{Client, Program};

#[tokio::test]
async fn clients_may_not_choose_a_mode_freer_than_moderate() {
    let program = Program::start().await;
    let client = program.client();
    for channel in ["chat", "code_task"] {
        let body = json!({"message": "hello", "mode": "exploratory", "channel": channel});
        let (status, problem) = client.ask("s", &body).await;
        assert_eq!(status, 403, "{problem}");
        assert_eq!(problem["type"], "/errors/mode-not-allowed");
        assert_eq!(problem["allowed"], json!(["conservative", "moderate"]));
    }
    for mode in ["conservative", "moderate"] {
        let body = json!({"message": "hello", "mode": mode});
        assert_eq!(client.ask("s", &body).await.0, 200, "{mode}");
    }
}

/// A server with one permit, whose first run asks about a refund and then hangs.
async fn refund_in_one_place() -> InProcess {
    let model = ScriptedModel::new()
        .then(reply::calls([("refund", r#"{"order":17}"#)]))
        .then(Script::hanging());
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tool(Arc::new(ScriptedTool::echoing(spec("refund"))))
        .store(Arc::new(MemoryStore::new()))
        .approver(Arc::new(DecideLater))
        .build()
        .unwrap();
    let mut limits = ClientLimits::default();
    limits.max_runs = NonZeroU32::MIN;
    InProcess::serve_within(orchestrator, limits).await
}

#[tokio::test]
async fn a_run_resumed_by_a_decision_takes_a_permit_again() {
    let server = refund_in_one_place().await;
    let client = Client::with_key(&server.url, TOKEN);
    let (status, waiting) = client.ask("s1", &json!({"message": "Refund."})).await;
    assert_eq!((status, &waiting["status"]), (200, &json!("waiting")));
    let (run, asked) = (waiting["run_id"].as_str().unwrap(), &waiting["pending"][0]);
    let call = asked["tool_call_id"].as_str().unwrap();
    let decide = client
        .post(&format!("/api/v1/runs/{run}/approvals/{call}"))
        .header("content-type", "application/json")
        .body(json!({"decision": "approve", "question": asked["question"]}).to_string());
    assert_eq!(answer(decide).await.0, 202);
    let (status, problem) = client.ask("s2", &json!({"message": "hello"})).await;
    assert_eq!(
        (status, &problem["type"]),
        (503, &json!("/errors/too-many-runs"))
    );
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_run_resumed_through_ag_ui_takes_a_permit_again() {
    let server = refund_in_one_place().await;
    let client = Client::with_key(&server.url, TOKEN);
    let post = |resume: Value| {
        let mut body = json!({"threadId": "t1", "runId": "r1", "state": {}, "tools": [], "context": [], "forwardedProps": {}});
        body["messages"] = json!([{"id": "u", "role": "user", "content": "Refund."}]);
        body["resume"] = resume;
        let request = client.post("/agui");
        let request = request.header("content-type", "application/json");
        request.body(body.to_string()).send()
    };
    let received = post(json!([])).await.unwrap().text().await.unwrap();
    let last = received.trim_end().rsplit("data: ").next().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    let interrupt = &last["outcome"]["interrupts"][0]["id"];
    let payload = json!({"approved": true});
    let approve = json!({"interruptId": interrupt, "status": "resolved", "payload": payload});
    let stream = post(json!([approve])).await.unwrap();
    let (status, problem) = client.ask("s2", &json!({"message": "hello"})).await;
    assert_eq!(
        (status, &problem["type"]),
        (503, &json!("/errors/too-many-runs"))
    );
    drop(stream);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_refused_mode_names_only_modes_allowed_for_both_clients_and_channel() {
    let program = Program::start().await;
    let closed = "channel deep_research works only in modes that clients of this server may not use; \
                  [server] modes sets them";
    for mode in ["conservative", "moderate", "exploratory"] {
        let body = json!({"message": "hello", "mode": mode, "channel": "deep_research"});
        let (status, problem) = program.client().ask("s", &body).await;
        assert_eq!(status, 403, "{problem}");
        assert_eq!(problem["type"], "/errors/mode-not-allowed");
        assert_eq!(problem["detail"], closed);
        assert_eq!(problem["allowed"], json!([]));
    }
    let (_, choices) = answer(program.client().get("/api/v1/policy")).await;
    let offered = json!(["chat", "code_task", "system_health"]);
    assert_eq!(choices["channels"], offered, "what cannot be used is not");

    let program = Program::start_in(tempfile::tempdir().unwrap(), |command| {
        command.env("NEURAXIS_SERVER__MODES", r#"["moderate", "exploratory"]"#);
    });
    let program = program.await;
    for (channel, mode, detail) in [
        (
            "deep_research",
            "moderate",
            "channel deep_research cannot be used in mode moderate; allowed: exploratory",
        ),
        (
            "deep_research",
            "conservative",
            "channel deep_research cannot be used in mode conservative; allowed: exploratory",
        ),
        (
            "chat",
            "conservative",
            "clients of this server cannot use mode conservative; allowed: moderate, exploratory",
        ),
    ] {
        let body = json!({"message": "hello", "mode": mode, "channel": channel});
        let (status, problem) = program.client().ask("s", &body).await;
        assert_eq!(status, 403, "{problem}");
        assert_eq!(problem["detail"], detail);
        let allowed = problem["allowed"].as_array().unwrap();
        assert!(allowed.contains(&json!("exploratory")), "{problem}");
    }
}

#[tokio::test]
async fn the_configuration_sets_which_modes_clients_may_choose() {
    let program = Program::start_in(tempfile::tempdir().unwrap(), |command| {
        command.env("NEURAXIS_SERVER__MODES", r#"["conservative"]"#);
    });
    let program = program.await;
    let client = program.client();
    let asked = |mode: &str| json!({"message": "hello", "mode": mode});
    assert_eq!(client.ask("s", &asked("conservative")).await.0, 200);
    let (status, problem) = client.ask("s", &asked("moderate")).await;
    assert_eq!(status, 403, "{problem}");
    assert_eq!(problem["allowed"], json!(["conservative"]));
    // The default mode is one that clients may choose.
    let (status, answered) = client.ask("s", &json!({"message": "hello"})).await;
    assert_eq!(status, 200, "{answered}");
    let explain = client.post("/api/v1/policy/explain");
    let explain = explain.header("content-type", "application/json");
    let (_, decided) = answer(explain.body(r#"{"message": "hello"}"#)).await;
    assert_eq!(decided["mode"], "conservative", "{decided}");
    let (status, _) = client.ask("s", &asked("modest")).await;
    assert_eq!(status, 400, "there is no such mode");
}

#[tokio::test]
async fn a_configured_mode_freer_than_moderate_is_not_available_to_clients() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[modes.strict]\nroles = ['*']\ntools.read_only = 'allow'\n\
        [modes.loose]\nroles = ['*']\ntools.read_only = 'allow'\ntools.idempotent = 'allow'\n\
        [modes.gullible]\nroles = ['*']\ntools.read_only = 'allow'\nafter_untrusted = 'allow'\n";
    std::fs::write(folder.path().join("my.toml"), text).unwrap();
    let program = Program::start_in(folder, |command| {
        command.args(["--config", "my.toml"]);
    });
    let program = program.await;
    for (mode, expected) in [("strict", 200), ("loose", 403), ("gullible", 403)] {
        let body = json!({"message": "hello", "mode": mode});
        let (status, said) = program.client().ask("s", &body).await;
        assert_eq!(status, expected, "{mode}: {said}");
    }
}

/// Takes a turn as soon as a permit is free.
#[cfg(target_os = "linux")]
async fn taken_in_the_end(client: &crate::support::client::Client, session: &str) {
    let mut tries = 0;
    loop {
        let (status, said) = client.ask(session, &json!({"message": "hello"})).await;
        match status {
            200 => break,
            429 | 503 if tries < 10_000 => tries += 1,
            _ => panic!("{status} {said}"),
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_turn_beyond_the_run_limit_is_refused_until_a_run_ends() {
    use crate::support::gate::{gated_program_with, waiting_turn};

    let variables = [("NEURAXIS_SERVER__MAX_RUNS", "1")];
    let (program, mut gate) = gated_program_with(&variables).await;
    let client = program.client();
    let frames = client.listen("s", &waiting_turn()).await;
    gate.reached().await;
    // It does not matter which client started it, nor whether one still listens.
    drop(frames);

    let next = json!({"message": "hello"});
    let response = client.turn("another", &next).send().await.unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "1");
    let text = response.text().await.unwrap();
    assert!(text.contains("/errors/too-many-runs"), "{text}");

    gate.open().await;
    for _ in 0..3 {
        taken_in_the_end(&client, "another").await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_turn_beyond_the_run_limit_of_its_owner_is_refused_until_a_run_ends() {
    use crate::support::Client;
    use crate::support::gate::{gated_program_with, waiting_turn};
    use crate::support::program::make_key;

    let variables = [("NEURAXIS_SERVER__MAX_RUNS_PER_OWNER", "1")];
    let (program, mut gate) = gated_program_with(&variables).await;
    let mut keys = Vec::new();
    for more in [
        &["--owner", "ada"][..],
        &["--owner", "ada", "--max-runs", "2"],
        &["--owner", "bob"],
    ] {
        keys.push(make_key(program.folder(), more).await);
    }
    let anyone = program.client();
    while anyone
        .get("/api/v1/sessions")
        .send()
        .await
        .unwrap()
        .status()
        != 401
    {}
    let client = |at: usize| Client::with_key(program.url(), &keys[at]);
    let (ada, ada_with_more, bob) = (client(0), client(1), client(2));
    drop(ada.listen("s", &waiting_turn()).await);
    gate.reached().await;

    let hello = json!({"message": "hello"});
    let response = ada.turn("s2", &hello).send().await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "1");
    let text = response.text().await.unwrap();
    assert!(text.contains("/errors/too-many-own-runs"), "{text}");
    let chat = ada.post("/v1/chat/completions");
    let chat = chat.header("content-type", "application/json");
    let chat = chat.body(json!({"messages": [{"role": "user", "content": "hello"}]}).to_string());
    let (status, received) = answer(chat).await;
    assert_eq!(
        (
            status,
            &received["error"]["code"],
            &received["error"]["type"]
        ),
        (429, &json!("too_many_own_runs"), &json!("rate_limit_error"))
    );
    assert_eq!(bob.ask("s3", &hello).await.0, 200, "another owner");
    assert_eq!(
        ada_with_more.ask("s4", &hello).await.0,
        200,
        "its own limit"
    );

    gate.open().await;
    for _ in 0..3 {
        taken_in_the_end(&ada, "s5").await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn returning_to_a_run_needs_no_permit() {
    use crate::support::client::answer;
    use crate::support::gate::{gated_program_with, waiting_turn};

    let variables = [("NEURAXIS_SERVER__MAX_RUNS", "1")];
    let (program, mut gate) = gated_program_with(&variables).await;
    let client = program.client();
    let keyed = |key: &str| {
        let turn = client.turn("s", &waiting_turn());
        turn.header("idempotency-key", key)
    };
    drop(client.events(keyed("k1")).await);
    gate.reached().await;

    let mut again = client.events(keyed("k1")).await;
    assert_eq!(again.next().await.unwrap().event, "run_started");
    let (status, problem) = answer(keyed("k2")).await;
    assert_eq!(
        (status, &problem["type"]),
        (503, &json!("/errors/too-many-runs"))
    );
    gate.open().await;
    assert_eq!(again.rest().await.last().unwrap().event, "final");

    // The same holds for a request for the answer of a run that has ended, while another is in progress.
    let begun = || {
        let turn = client.turn("other", &waiting_turn());
        turn.header("accept", "text/event-stream").send()
    };
    // The permit of the ended run is released a moment later.
    while begun().await.unwrap().status() == 503 {}
    gate.reached().await;
    let (status, said) = answer(keyed("k1")).await;
    assert_eq!((status, &said["status"]), (200, &json!("done")));
    gate.open().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_that_ran_out_of_file_descriptors_answers_again_once_some_are_free() {
    use std::collections::BTreeSet;
    use std::process::Command;
    use std::time::Duration;
    use tokio::net::TcpStream;
    use tokio::time::{sleep, timeout};

    let program = Program::start().await;
    let client = program.client();
    assert_eq!(client.get("/healthz").send().await.unwrap().status(), 200);
    let open = || -> BTreeSet<u64> {
        let open = std::fs::read_dir(format!("/proc/{}/fd", program.id())).unwrap();
        let numbers = open.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        numbers.map(|number| number.parse().unwrap()).collect()
    };
    // The limit applies to descriptor numbers: those closed in between are free below it.
    let most = open().last().unwrap() + 5;
    let limited = Command::new("prlimit")
        .arg(format!("--pid={}", program.id()))
        .arg(format!("--nofile={most}:{most}"))
        .status();
    if !limited.is_ok_and(|status| status.success()) {
        println!("skipped: prlimit is not there");
        return;
    }
    let mut idle = Vec::new();
    for _ in 0..most + 20 {
        idle.push(TcpStream::connect(program.address()).await.unwrap());
    }
    // Connections that it cannot accept wait.
    let exhausted = timeout(Duration::from_secs(60), async {
        while !(0..most).all(|number| open().contains(&number)) {
            sleep(Duration::from_millis(10)).await;
        }
        while !program.log().contains("accept error: ") {
            sleep(Duration::from_millis(10)).await;
        }
    });
    let is_exhausted = exhausted.await.is_ok();
    assert!(is_exhausted, "{:?} of {most}: {}", open(), program.log());
    drop(idle);
    let again = crate::support::Client::new(program.url());
    assert_eq!(again.get("/healthz").send().await.unwrap().status(), 200);
    // Connections whose clients have left may hold the last descriptors a moment longer.
    let answered = timeout(Duration::from_secs(60), async {
        loop {
            let (status, said) = again.ask("s", &json!({"message": "hello"})).await;
            match (status, said["type"].as_str()) {
                (200, _) => break,
                (503, Some("/errors/store-unavailable" | "/errors/run-unrecorded")) => {}
                _ => panic!("{status} {said}"),
            }
            sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(answered.await.is_ok(), "no turn was answered again");
}
