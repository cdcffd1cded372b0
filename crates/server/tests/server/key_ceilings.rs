//! A key allows exactly its scopes, modes, channels, agents, plan and number of requests.

use serde_json::{Value, json};

use crate::support::client::answer;
use crate::support::program::{folder_with, make_key, make_keys_of_ada};
use crate::support::{Client, Program};

async fn status(client: &Client, path: &str) -> u16 {
    client.get(path).send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_missing_scope_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let turns = make_key(folder.path(), &["--owner", "ada", "--scope", "turns"]).await;
    let read = make_key(folder.path(), &["--owner", "ada", "--scope", "read"]).await;
    let figures = ["--owner", "prometheus", "--scope", "metrics"];
    let metrics = make_key(folder.path(), &figures).await;
    let program = Program::start_in(folder, |_| {}).await;
    let client = |key: &str| Client::with_key(program.url(), key);
    let (turns, read, metrics) = (client(&turns), client(&read), client(&metrics));
    let refused = async |request, scope: &str| {
        let (code, problem) = answer(request).await;
        assert_eq!(
            (code, &problem["type"]),
            (403, &json!("/errors/scope-needed"))
        );
        assert_eq!(problem["scope"], scope, "{problem}");
    };
    refused(turns.get("/api/v1/sessions"), "read").await;
    refused(read.post("/api/v1/sessions"), "turns").await;
    refused(read.turn("s", &json!({"message": "hello"})), "turns").await;
    refused(read.delete("/api/v1/sessions/s"), "turns").await;
    for client in [&turns, &read] {
        refused(client.get("/metrics"), "metrics").await;
    }
    assert_eq!(metrics.get("/metrics").send().await.unwrap().status(), 200);
    refused(metrics.get("/api/v1/sessions"), "read").await;
    let decide = |client: &Client| client.post("/api/v1/runs/x/approvals/y");
    refused(decide(&turns), "approve").await;
    refused(decide(&read), "approve").await;
    assert_eq!(turns.ask("s", &json!({"message": "hello"})).await.0, 200);
    let (code, shown) = answer(read.get("/api/v1/sessions/s")).await;
    assert_eq!((code, &shown["session"]["owner"]), (200, &json!("ada")));
}

#[tokio::test]
async fn a_request_without_a_mode_uses_the_freest_mode_of_its_key_up_to_moderate() {
    let text = "[server]\nmodes = ['conservative', 'moderate', 'exploratory']\n";
    let folder = folder_with(text);
    let narrower: [&[&str]; 4] = [
        &[],
        &["--max-mode", "conservative"],
        &["--modes", "exploratory,conservative"],
        &["--modes", "exploratory"],
    ];
    let keys = make_keys_of_ada(folder.path(), &narrower).await;
    let program = Program::start_in(folder, |_| {}).await;
    for (at, mode) in [
        Some("moderate"),
        Some("conservative"),
        Some("conservative"),
        None,
    ]
    .into_iter()
    .enumerate()
    {
        let client = Client::with_key(program.url(), &keys[at]);
        let json = |request: reqwest::RequestBuilder, body: Value| {
            let request = request.header("content-type", "application/json");
            answer(request.body(body.to_string()))
        };
        let explain = client.post("/api/v1/policy/explain");
        let (_, decided) = json(explain, json!({"message": "hello"})).await;
        assert_eq!(decided["mode"].as_str(), mode, "{decided}");
        let status = if mode.is_some() { 200 } else { 403 };
        let (code, said) = client.ask("s", &json!({"message": "hello"})).await;
        assert_eq!(code, status, "{said}");
        let messages = json!([{"role": "user", "content": "hello"}]);
        let chat = client.post("/v1/chat/completions");
        let (code, said) = json(chat, json!({"messages": messages})).await;
        assert_eq!(code, status, "{said}");
        let input = json!({"threadId": format!("t{at}"), "runId": "r", "messages": [
            {"id": "1", "role": "user", "content": "hello"}
        ]});
        let request = client
            .post("/agui")
            .header("content-type", "application/json");
        let answered = request.body(input.to_string()).send().await.unwrap();
        assert_eq!(answered.status(), status);
    }
}

#[tokio::test]
async fn a_request_without_a_channel_uses_chat_or_the_only_channel_its_key_allows() {
    let text =
        "[channels.support]\nrole = 'reasoning'\nallowed_modes = ['conservative', 'moderate']\n";
    let folder = folder_with(text);
    let narrower: [&[&str]; 3] = [
        &["--channels", "support"],
        &["--channels", "support,deep_research"],
        &["--channels", "support,chat"],
    ];
    let keys = make_keys_of_ada(folder.path(), &narrower).await;
    let program = Program::start_in(folder, |_| {}).await;
    let channels = [Some("support"), None, Some("chat")];
    for (key, channel) in keys.iter().zip(channels) {
        let client = Client::with_key(program.url(), key);
        let json = |path: &str, body: Value| {
            let request = client.post(path).header("content-type", "application/json");
            answer(request.body(body.to_string()))
        };
        let (_, decided) = json("/api/v1/policy/explain", json!({"message": "hello"})).await;
        assert_eq!(decided["channel"].as_str(), channel, "{decided}");
        let messages = json!([{"role": "user", "content": "hello"}]);
        let (code, said) = json("/v1/chat/completions", json!({"messages": messages})).await;
        assert_eq!(code, if channel.is_some() { 200 } else { 403 }, "{said}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_key_cannot_steer_or_bring_results_to_a_run_it_could_not_have_started() {
    use crate::support::gate::{gated_program_with, waiting_turn};

    let (program, mut gate) = gated_program_with(&[]).await;
    let narrower: [&[&str]; 4] = [
        &[],
        &["--max-mode", "conservative"],
        &["--channels", "chat"],
        &["--agents", "researcher"],
    ];
    let keys = make_keys_of_ada(program.folder(), &narrower).await;
    let clients: Vec<Client> = keys
        .iter()
        .map(|key| Client::with_key(program.url(), key))
        .collect();
    while status(&program.client(), "/api/v1/sessions").await != 401 {}
    drop(clients[0].listen("s", &waiting_turn()).await);
    gate.reached().await;
    let (_, shown) = answer(clients[0].get("/api/v1/sessions/s")).await;
    let run = shown["runs"][0]["run_id"].as_str().unwrap();
    let bring = async |client: &Client, what: &str, body: Value| {
        let post = client.post(&format!("/api/v1/runs/{run}/{what}"));
        let post = post.header("content-type", "application/json");
        answer(post.body(body.to_string())).await
    };
    for (client, kind) in clients.iter().skip(1).zip(["mode", "channel", "agent"]) {
        let steered = bring(client, "steer", json!({"message": "x"})).await;
        let brought = bring(client, "tools/call_1", json!({"result": 1})).await;
        for (code, problem) in [steered, brought] {
            let expected = json!(format!("/errors/{kind}-not-allowed"));
            assert_eq!((code, &problem["type"]), (403, &expected), "{problem}");
        }
    }
    let (code, taken) = bring(&clients[0], "steer", json!({"message": "x"})).await;
    assert_eq!(code, 202, "{taken}");
    gate.open().await;
}

#[tokio::test]
async fn a_key_allows_no_more_than_its_modes_channels_agents_and_plan() {
    let text = "[server]\nmodes = ['conservative', 'moderate', 'exploratory']\n[agents.clerk]\ninstructions = 'You answer.'\n";
    let folder = folder_with(text);
    let make = async |more: &[&str]| {
        let arguments = [&["--owner", "ada"], more].concat();
        make_key(folder.path(), &arguments).await
    };
    let moderate = make(&["--max-mode", "moderate"]).await;
    let narrow = [
        "--modes",
        "conservative",
        "--channels",
        "chat,system_health",
        "--agents",
        "clerk",
    ];
    let narrow = make(&narrow).await;
    let program = Program::start_in(folder, |_| {}).await;
    let client = |key: &str| Client::with_key(program.url(), key);
    let asked = async |client: &Client, more: Value| {
        let mut body = json!({"message": "hello", "mode": "conservative", "agent": "clerk"});
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        let (code, said) = client.ask("s", &body).await;
        let post = client.post("/api/v1/policy/explain");
        let post = post.header("content-type", "application/json");
        let (explained, _) = answer(post.body(body.to_string())).await;
        assert_eq!(code, explained, "what is explained is what happens");
        (code, said)
    };
    let (code, said) = asked(&client(&moderate), json!({"mode": "exploratory"})).await;
    assert_eq!(
        (code, &said["type"]),
        (403, &json!("/errors/mode-not-allowed"))
    );
    assert_eq!(
        said["allowed"],
        json!(["conservative", "moderate"]),
        "{said}"
    );
    let narrow = client(&narrow);
    for (more, kind, allowed) in [
        (json!({"mode": "moderate"}), "mode", json!(["conservative"])),
        (
            json!({"channel": "code_task"}),
            "channel",
            json!(["chat", "system_health"]),
        ),
        (
            json!({"channel": "nope", "agent": null}),
            "channel",
            json!(["chat", "system_health"]),
        ),
        (json!({"agent": "main_thread"}), "agent", json!(["clerk"])),
        (json!({"agent": null}), "agent", json!(["clerk"])),
    ] {
        let (code, said) = asked(&narrow, more).await;
        assert_eq!((code, &said["field"]), (403, &json!(kind)), "{said}");
        assert_eq!(said["type"], format!("/errors/{kind}-not-allowed"));
        assert_eq!(said["allowed"], allowed, "{said}");
    }
    assert_eq!(asked(&narrow, json!({})).await.0, 200);
    let (code, _) = asked(&narrow, json!({"mode": "modest"})).await;
    assert_eq!(code, 400, "there is no such mode");
    let (_, choices) = answer(narrow.get("/api/v1/policy")).await;
    assert_eq!(choices["scopes"], json!(["turns", "read"]));
    assert_eq!(choices["modes"], json!(["conservative"]));
    assert_eq!(choices["channels"], json!(["chat", "system_health"]));
    assert_eq!(choices["agents"], json!(["clerk"]));
    let (_, agents) = answer(narrow.get("/api/v1/agents")).await;
    assert_eq!(agents["agents"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_daily_budget_of_a_plan_is_shared_by_all_keys_of_an_owner() {
    let text = "[plans.small.day]\nmax_tool_calls = 2\n";
    let folder = folder_with(text);
    let mut keys = Vec::new();
    for owner in ["ada", "ada", "bob"] {
        let arguments = [
            "--owner",
            owner,
            "--plan",
            "small",
            "--name",
            "\u{e9}t\u{e9}",
        ];
        keys.push(make_key(folder.path(), &arguments).await);
    }
    let program = Program::start_in(folder, |_| {}).await;
    let question = json!({"message": "What time is it?"});
    let asked = async |at: usize, session: &str| {
        let client = Client::with_key(program.url(), &keys[at]);
        client.ask(session, &question).await.1["finish_reason"].clone()
    };
    assert_eq!(asked(0, "s1").await, "stop");
    assert_eq!(asked(0, "s2").await["budget"], "tool_calls");
    assert_eq!(asked(1, "s3").await["budget"], "tool_calls");
    assert_eq!(
        asked(2, "s4").await,
        "stop",
        "another owner has another day"
    );
    for (at, expected) in [
        (0, "No model is called: "),
        (
            2,
            "At most 1 tool calls, set by what is left of today's budget of plan small.",
        ),
    ] {
        let client = Client::with_key(program.url(), &keys[at]);
        let explain = client.post("/api/v1/policy/explain");
        let explain = explain.header("content-type", "application/json");
        let (_, decided) = answer(explain.body(question.to_string())).await;
        let reasons = decided["reasons"].to_string();
        assert!(reasons.contains(expected), "{reasons}");
    }
}

#[tokio::test]
async fn a_key_used_too_often_is_refused_with_a_retry_time() {
    let folder = tempfile::tempdir().unwrap();
    let often = ["--owner", "ada", "--requests-per-minute", "2"];
    let key = make_key(folder.path(), &often).await;
    let other = make_key(folder.path(), &["--owner", "ada"]).await;
    let program = Program::start_in(folder, |_| {}).await;
    let ada = Client::with_key(program.url(), &key);
    for _ in 0..2 {
        assert_eq!(status(&ada, "/api/v1/tools").await, 200);
    }
    let response = ada.get("/api/v1/tools").send().await.unwrap();
    assert_eq!(response.status(), 429);
    let after: u64 = response.headers()["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((1..=30).contains(&after), "{after}");
    let text = response.text().await.unwrap();
    assert!(text.contains("/errors/too-many-requests"), "{text}");
    let cancel = "/api/v1/runs/01955f00-7a00-7000-8000-000000000001/cancel";
    for expected in [404, 404, 429] {
        let cancelled = ada.post(cancel).send().await.unwrap();
        assert_eq!(cancelled.status(), expected, "a run could be stopped");
    }
    let other = Client::with_key(program.url(), &other);
    assert_eq!(status(&other, "/api/v1/tools").await, 200);
}
