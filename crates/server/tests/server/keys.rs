//! Keys of clients: created by the program, picked up by running servers, and never allowing more than they should.

use std::fs;
use std::path::Path;
use std::time::Duration;

use neuraxis::core::jiff::Timestamp;
use neuraxis::memory::MemoryStore;
use neuraxis::{Orchestrator, Role};
use neuraxis_app::{Scope, ServerKey, ServerKeyFile};
use neuraxis_server::Keys;
use neuraxis_testkit::{Script, ScriptedModel};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::client::answer;
use crate::support::in_process::InProcess;
use crate::support::program::{command, folder_with, id_of, make_key};
use crate::support::{Client, Program};

/// The path of the program's keys, beneath its folder.
const FILE: &str = ".local/share/neuraxis/server-keys.json";

async fn status(client: &Client, path: &str) -> u16 {
    client.get(path).send().await.unwrap().status().as_u16()
}

/// Repeats a request until its answer has a status: a server's view of its keys is at most a second old.
async fn until(client: &Client, expected: u16) {
    for _ in 0..100_000 {
        if status(client, "/api/v1/sessions").await == expected {
            return;
        }
    }
    panic!("there never was a {expected}");
}

async fn keys(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = command(folder);
    let output = command.arg("keys").args(arguments).output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    (code, text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn with_keys_every_route_except_probes_requires_a_valid_key() {
    let folder = tempfile::tempdir().unwrap();
    let key = make_key(folder.path(), &["--owner", "ada"]).await;
    let program = Program::start_in(folder, |_| {}).await;
    let (nobody, ada) = (program.client(), Client::with_key(program.url(), &key));
    for path in ["/healthz", "/readyz", "/openapi.json", "/errors/key-needed"] {
        assert_eq!(status(&nobody, path).await, 200, "{path}");
    }
    let (_, policy) = answer(ada.get("/api/v1/policy")).await;
    let shown = &policy["key"];
    assert_eq!((&shown["owner"], shown.get("name")), (&json!("ada"), None));
    assert!(key.starts_with(&format!("nxk_{}_", shown["id"].as_str().unwrap())));
    let routes = [
        "sessions",
        "sessions/s",
        "runs",
        "runs/x",
        "runs/x/events",
        "approvals",
        "tools",
        "models",
        "agents",
        "policy",
        "nothing-here",
    ];
    for route in routes {
        let path = format!("/api/v1/{route}");
        let request = nobody.get(&path).header("x-request-id", "r");
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 401, "{path}");
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        let missing = response.text().await.unwrap();
        assert!(missing.contains("/errors/key-needed"), "{missing}");
        let (before, last) = key.split_at(key.len() - 1);
        let other = if last == "0" { "1" } else { "0" };
        let wrong = Client::with_key(program.url(), &format!("{before}{other}"));
        let wrong = wrong.get(&path).header("x-request-id", "r");
        let wrong = wrong.send().await.unwrap();
        assert_eq!(
            (wrong.status().as_u16(), wrong.text().await.unwrap()),
            (401, missing)
        );
        assert_ne!(status(&ada, &path).await, 401, "{path}");
    }
    for path in [
        "/mcp",
        "/api/v1/sessions",
        "/api/v1/sessions/s/turns",
        "/api/v1/runs/x/cancel",
    ] {
        let (code, problem) = answer(nobody.post(path)).await;
        assert_eq!(
            (code, &problem["type"]),
            (401, &json!("/errors/key-needed")),
            "{path}"
        );
    }
    for value in [
        key.clone(),
        format!("Basic {key}"),
        format!("Bearer \"{key}\""),
        format!("Bearer {}", "k".repeat(32 * 1024)),
        "Bearer ' OR ''='".to_owned(),
    ] {
        let request = nobody
            .get("/api/v1/sessions")
            .header("authorization", &value);
        assert_eq!(request.send().await.unwrap().status(), 401, "{value:.40}");
    }
    let shown = format!("bearer {key}");
    let once = nobody
        .get("/api/v1/sessions")
        .header("authorization", &shown);
    let twice = once.try_clone().unwrap().header("authorization", &shown);
    assert_eq!(answer(once).await.0, 200);
    assert_eq!(
        answer(twice).await.0,
        401,
        "which one counts is not guessed"
    );
}

#[tokio::test]
async fn keys_are_added_and_revoked_while_servers_sharing_their_file_run() {
    let first = Program::start().await;
    let file = first.folder().join(FILE);
    assert_eq!(status(&first.client(), "/api/v1/sessions").await, 200);
    let key = make_key(first.folder(), &["--owner", "ada"]).await;
    let second = Program::start_in(tempfile::tempdir().unwrap(), |command| {
        command.env("NEURAXIS_SERVER__KEYS", &file);
    });
    let second = second.await;
    let next = make_key(first.folder(), &["--owner", "bob"]).await;
    for program in [&first, &second] {
        until(&program.client(), 401).await;
        for key in [&key, &next] {
            until(&Client::with_key(program.url(), key), 200).await;
        }
    }
    let (code, out, said) = keys(first.folder(), &["revoke", id_of(&key)]).await;
    assert_eq!((code, &*out), (0, ""), "{said}");
    for program in [&first, &second] {
        until(&Client::with_key(program.url(), &key), 401).await;
        assert_eq!(status(&program.client(), "/api/v1/sessions").await, 401);
    }
}

#[tokio::test]
async fn a_missing_named_key_file_prevents_the_start_and_an_empty_one_admits_no_one() {
    let config = "[server]\nkeys = 'keys.json'\n";
    let folder = folder_with(config);
    let mut refused = command(folder.path());
    let refused = refused.args(["--listen", "127.0.0.1:0"]).output();
    let refused = refused.await.unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    let file = folder.path().join("keys.json");
    for expected in [
        "cannot read the clients' keys",
        "keys.json, which [server] keys names",
        "`neuraxis-server keys create --owner NAME` creates it",
    ] {
        assert!(said.contains(expected), "{said}");
    }
    assert!(!file.exists());
    let (code, _, said) = keys(folder.path(), &["list"]).await;
    assert_eq!(code, 1, "{said}");
    let expected = "keys.json, which [server] keys names: if it existed before, restore it first";
    assert!(said.contains(expected), "{said}");
    let (code, _, said) = keys(folder.path(), &["create", "--owner", "ada"]).await;
    assert_eq!(code, 0, "{said}");
    let expected = "keys.json did not exist and now contains only this key";
    assert!(said.contains(expected), "{said}");

    fs::write(&file, "{\"version\": 1, \"keys\": []}").unwrap();
    let program = Program::start_in(folder, |_| {}).await;
    assert_eq!(status(&program.client(), "/api/v1/sessions").await, 401);
    let log = program.log();
    assert!(log.contains("so every request is refused"), "{log}");
    let key = make_key(program.folder(), &["--owner", "ada"]).await;
    until(&Client::with_key(program.url(), &key), 200).await;
    assert_eq!(status(&program.client(), "/api/v1/sessions").await, 401);
}

#[tokio::test]
async fn a_damaged_key_file_keeps_the_previous_keys_and_is_logged_once() {
    let folder = tempfile::tempdir().unwrap();
    let key = make_key(folder.path(), &["--owner", "ada"]).await;
    let program = Program::start_in(folder, |_| {}).await;
    let ada = Client::with_key(program.url(), &key);
    fs::write(program.folder().join(FILE), "{").unwrap();
    let complaint = "cannot read the keys; the previous ones remain in force";
    while !program.log().contains(complaint) {
        assert_eq!(status(&ada, "/api/v1/sessions").await, 200);
        assert_eq!(status(&program.client(), "/api/v1/sessions").await, 401);
    }
    assert_eq!(program.log().matches(complaint).count(), 1);
    // A server that starts with such a file admits no client.
    let mut next = command(program.folder());
    let output = next
        .args(["--listen", "127.0.0.1:0"])
        .output()
        .await
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("error: cannot read the clients' keys"),
        "{said}"
    );
    assert!(
        said.contains("server-keys.json is not a key file that this version can read (EOF"),
        "{said}"
    );
    assert!(
        said.contains(
            "restore it from a copy; or stop the server, delete the file and create new keys"
        ),
        "{said}"
    );
}

/// A server with a hanging model, its file of keys, and the ids and texts of two keys of one owner.
async fn hanging(folder: &Path) -> (InProcess, ServerKeyFile, [(String, String); 2]) {
    let file = ServerKeyFile::new(folder.join("keys.json"));
    let keys = [(); 2].map(|()| {
        let scopes = [Scope::Turns, Scope::Read];
        let (key, text) = ServerKey::make("ada", scopes, Timestamp::UNIX_EPOCH).unwrap();
        file.add(key.clone()).unwrap();
        (key.id, text)
    });
    let orchestrator = Orchestrator::builder()
        .model(
            Role::REASONING,
            std::sync::Arc::new(ScriptedModel::always(Script::hanging())),
        )
        .store(std::sync::Arc::new(MemoryStore::new()))
        .build()
        .unwrap();
    let known = Keys::open(file.clone()).unwrap();
    (InProcess::serve_to(orchestrator, known).await, file, keys)
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_within_seconds_of_its_key_being_revoked_and_the_run_continues() {
    let folder = tempfile::tempdir().unwrap();
    let (server, file, [(id, first), (_, second)]) = hanging(folder.path()).await;
    let revoked = Client::with_key(&server.url, &first);
    let mut frames = revoked.listen("s", &json!({"message": "hello"})).await;
    let run = frames.next().await.unwrap().data["run_id"].clone();
    file.revoke(&id, Timestamp::UNIX_EPOCH).unwrap();
    let began = Instant::now();
    let rest = frames.rest().await;
    assert!(
        began.elapsed() <= Duration::from_secs(7),
        "{:?}",
        began.elapsed()
    );
    assert!(rest.iter().all(|frame| frame.event != "final"));
    let path = format!("/api/v1/runs/{}", run.as_str().unwrap());
    let other = Client::with_key(&server.url, &second);
    let (_, shown) = answer(other.get(&path)).await;
    assert_eq!(shown["status"], "running");
    let again = revoked.get(&format!("{path}/events"));
    assert_eq!(again.send().await.unwrap().status(), 401);
    server.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_its_run_depends_on_ends_with_an_error_when_its_key_is_revoked() {
    let message = json!([{"id": "m1", "role": "user", "content": "Hello?"}]);
    for (path, body, said) in [
        (
            "/agui",
            json!({"threadId": "s", "runId": "r1", "messages": message}),
            [
                r#""type":"RUN_ERROR""#,
                r#""code":"key-needed""#,
                "; the run ends unless another connection follows it",
            ],
        ),
        (
            "/v1/chat/completions",
            json!({"messages": message, "stream": true}),
            [
                r#""error":"#,
                r#""code":"key_needed""#,
                "; the run was cancelled",
            ],
        ),
        (
            "/v1/responses",
            json!({"input": "Hello?", "stream": true}),
            [
                "event: error",
                r#""code":"key_needed""#,
                "; the run was cancelled",
            ],
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (server, file, [(id, first), (_, second)]) = hanging(folder.path()).await;
        let revoked = Client::with_key(&server.url, &first);
        let request = revoked
            .post(path)
            .header("content-type", "application/json");
        let response = request.body(body.to_string()).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        file.revoke(&id, Timestamp::UNIX_EPOCH).unwrap();
        let received = response.text().await.unwrap();
        for said in said {
            assert!(received.contains(said), "{path}: {received}");
        }
        let other = Client::with_key(&server.url, &second);
        loop {
            let (_, runs) = answer(other.get("/api/v1/runs")).await;
            if runs["runs"][0]["status"] == "interrupted" {
                break;
            }
        }
        server.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_key_secret_is_in_no_log_list_or_file() {
    let folder = tempfile::tempdir().unwrap();
    let key = make_key(folder.path(), &["--owner", "ada", "--name", "laptop"]).await;
    let gone = make_key(folder.path(), &["--owner", "ada"]).await;
    let program = Program::start_in(folder, |command| {
        command.env("NEURAXIS_LOG", "trace");
    });
    let program = program.await;
    keys(program.folder(), &["revoke", id_of(&gone)]).await;
    until(&Client::with_key(program.url(), &gone), 401).await;
    let ada = Client::with_key(program.url(), &key);
    ada.ask("s", &json!({"message": "hello"})).await;
    let (_, shown) = answer(ada.get("/api/v1/sessions/s")).await;
    let (code, text, _) = keys(program.folder(), &["list"]).await;
    assert_eq!(code, 0);
    assert!(
        text.contains(id_of(&key)) && text.contains("laptop"),
        "{text}"
    );
    assert!(text.contains("valid") && text.contains("revoked"), "{text}");
    let (_, as_json, _) = keys(program.folder(), &["list", "--json"]).await;
    let listed: Value = serde_json::from_str(&as_json).unwrap();
    assert_eq!(listed[0]["owner"], "ada");
    let file = fs::read_to_string(program.folder().join(FILE)).unwrap();
    let log = program.log();
    assert!(
        log.contains("revoked") && log.contains(id_of(&gone)),
        "the log names the key"
    );
    for secret in [&key, &gone].map(|key| key.rsplit('_').next().unwrap()) {
        for place in [&log, &text, &as_json, &file, &shown.to_string()] {
            assert!(!place.contains(secret));
        }
    }
    assert!(!as_json.contains("hash"));
}

#[tokio::test]
async fn invalid_key_commands_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, expected) in [
        (&["create"][..], "--owner <OWNER>"),
        (
            &["create", "--owner", " "],
            "--owner: expected a single line of 1 to",
        ),
        (
            &["create", "--owner", "a\nb"],
            "--owner: expected a single line",
        ),
        (
            &["create", "--owner", "a", "--scope", "write"],
            "the scopes are turns, read, approve, metrics and admin",
        ),
        (
            &["create", "--owner", "a", "--expires", "soon"],
            "--expires: expected a duration such as 30d",
        ),
        (
            &["create", "--owner", "a", "--expires", "2020-01-01"],
            "--expires: this time has passed",
        ),
        (
            &["create", "--owner", "a", "--max-mode", "wild"],
            "--max-mode: unknown name \"wild\"; known: ",
        ),
        (
            &["create", "--owner", "a", "--channels", "chat,fax"],
            "--channels: unknown name \"fax\"",
        ),
        (
            &["create", "--owner", "a", "--plan", "gold"],
            "--plan: unknown name \"gold\"",
        ),
        (
            &["create", "--owner", "a", "--requests-per-minute", "0"],
            "--requests-per-minute",
        ),
        (&["revoke"], "<ID>"),
    ] {
        let (code, out, said) = keys(folder.path(), arguments).await;
        assert_eq!((code, &*out), (2, ""), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    let (code, _, said) = keys(folder.path(), &["revoke", "0123"]).await;
    assert_eq!(code, 1);
    assert!(
        said.contains("error: no keys have been created yet"),
        "{said}"
    );
    assert!(!folder.path().join(FILE).exists());
    make_key(folder.path(), &["--owner", "ada"]).await;
    let (file, away) = (folder.path().join(FILE), folder.path().join("away"));
    fs::rename(&file, &away).unwrap();
    let (code, _, said) = keys(folder.path(), &["revoke", "0123"]).await;
    assert_eq!(code, 1);
    assert!(
        said.contains("server-keys.json, so no key in it can be revoked"),
        "{said}"
    );
    fs::rename(away, file).unwrap();
    let (code, _, said) = keys(folder.path(), &["revoke", "0123"]).await;
    assert_eq!(code, 1);
    assert!(
        said.contains("error: no key has this id; `neuraxis-server keys list`"),
        "{said}"
    );
}

#[tokio::test]
async fn a_non_loopback_address_needs_encryption_even_with_keys() {
    let folder = tempfile::tempdir().unwrap();
    make_key(folder.path(), &["--owner", "ada"]).await;
    let output = command(folder.path())
        .args(["--listen", "0.0.0.0:0"])
        .output();
    let output = output.await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("0.0.0.0:0 is not a loopback address: without encryption"),
        "{said}"
    );
    assert!(said.contains("[server] behind_proxy = true"), "{said}");
    assert!(said.contains("`[server.tls]`"), "{said}");
    assert_eq!(
        said.matches("is not a loopback address").count(),
        1,
        "{said}"
    );
}

#[tokio::test]
async fn behind_a_proxy_any_host_is_accepted_with_a_key_and_only_own_or_configured_origins() {
    let folder = tempfile::tempdir().unwrap();
    let key = make_key(folder.path(), &["--owner", "ada"]).await;
    let proxied = |command: &mut tokio::process::Command| {
        command
            .env("NEURAXIS_SERVER__BEHIND_PROXY", "true")
            .env("NEURAXIS_SERVER__ORIGINS", "[\"https://app.example\"]");
    };
    let program = Program::start_in(folder, proxied).await;
    let (ada, nobody) = (Client::with_key(program.url(), &key), program.client());
    let asked = async |client: &Client, host: &str, origin: Option<&str>| {
        let mut request = client.get("/api/v1/sessions").header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        request.send().await.unwrap().status().as_u16()
    };
    let host = "chat.example";
    for (origin, expected) in [
        (None, 200),
        (Some("https://chat.example"), 200),
        (Some("https://app.example"), 200),
        (Some("https://evil.example"), 403),
        (Some("null"), 403),
    ] {
        assert_eq!(asked(&ada, host, origin).await, expected, "{origin:?}");
    }
    assert_eq!(asked(&nobody, host, None).await, 401);
    // Without keys, only host names of this machine are accepted, with or without a proxy.
    let open = Program::start_in(tempfile::tempdir().unwrap(), proxied).await;
    let anyone = open.client();
    assert_eq!(asked(&anyone, host, None).await, 403);
    let page = Some("https://app.example");
    assert_eq!(asked(&anyone, open.address(), page).await, 403);
}
