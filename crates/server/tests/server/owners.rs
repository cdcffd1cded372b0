//! One owner's data is not accessible to others: on each route, foreign ids are treated as missing.

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::keyed_mcp;
use crate::support::client::answer;
use crate::support::program::{folder_with, make_key};
use crate::support::{Client, Program};

/// A policy in which each call of the clock tool needs approval.
const ASKS: &str =
    "[rules.clock]\nanswer = 'ask'\ntools = ['current_time']\nreason = 'The time is private.'\n";

/// An id that no run has.
const NOBODY: &str = "01955f00-7a00-7000-8000-000000000001";

/// Ada's data, and the clients that request it.
struct World {
    program: Program,
    ada: Client,
    bob: Client,
    admin: Client,
    /// A waiting run, and its call.
    run: String,
    call: String,
    question: Value,
}

async fn world() -> World {
    let folder = folder_with(ASKS);
    let all = ["--scope", "turns,read,approve"];
    let mut keys = Vec::new();
    for owner in ["ada", "bob"] {
        let arguments = [&["--owner", owner][..], &all].concat();
        keys.push(make_key(folder.path(), &arguments).await);
    }
    let admin = ["--owner", "root", "--scope", "admin"];
    keys.push(make_key(folder.path(), &admin).await);
    let program = Program::start_in(folder, |_| {}).await;
    let client = |at: usize| Client::with_key(program.url(), &keys[at]);
    let (ada, bob, admin) = (client(0), client(1), client(2));
    let (status, result) = ada
        .ask("s-ada", &json!({"message": "What time is it?"}))
        .await;
    assert_eq!((status, &result["status"]), (200, &json!("waiting")));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let run = text(&result["run_id"]);
    let call = text(&result["pending"][0]["tool_call_id"]);
    let question = result["pending"][0]["question"].clone();
    World {
        program,
        ada,
        bob,
        admin,
        run,
        call,
        question,
    }
}

impl World {
    /// A client that presents the machine's token.
    fn local(&self) -> Client {
        let folder = self.program.folder();
        let token = std::fs::read_to_string(folder.join(".local/share/neuraxis/server.token"));
        Client::with_key(self.program.url(), token.unwrap().trim())
    }
}

fn with(request: RequestBuilder, body: &Value) -> RequestBuilder {
    let request = request.header("content-type", "application/json");
    request.body(body.to_string())
}

/// Returns requests for every route that takes the id of a session or a run, with a valid body.
fn routes(client: &Client, session: &str, run: &str, call: &str) -> Vec<(String, RequestBuilder)> {
    let mut routes = Vec::new();
    let mut add = |method: &str, path: String, body: Option<Value>| {
        let request = match method {
            "GET" => client.get(&path),
            "PATCH" => client.patch(&path),
            "DELETE" => client.delete(&path),
            _ => client.post(&path),
        };
        let request = match &body {
            Some(body) => with(request, body),
            None => request,
        };
        routes.push((format!("{method} {path}"), request));
    };
    let of_session = format!("/api/v1/sessions/{session}");
    let of_run = format!("/api/v1/runs/{run}");
    add("GET", of_session.clone(), None);
    let title = json!({"title": "Mine"});
    add("PATCH", of_session.clone(), Some(title));
    add("DELETE", of_session, None);
    add("GET", format!("/api/v1/sessions?after={session}"), None);
    add("GET", of_run.clone(), None);
    add("GET", format!("{of_run}/events"), None);
    add("POST", format!("{of_run}/cancel"), None);
    let message = json!({"message": "x"});
    add("POST", format!("{of_run}/fork"), Some(message.clone()));
    add("POST", format!("{of_run}/steer"), Some(message));
    let result = json!({"result": 1});
    add("POST", format!("{of_run}/tools/{call}"), Some(result));
    let decision = json!({"decision": "approve", "question": "0123456789abcdef"});
    add("POST", format!("{of_run}/approvals/{call}"), Some(decision));
    let answer = json!({"action": "decline"});
    add("POST", format!("{of_run}/questions/{call}"), Some(answer));
    add("GET", format!("/v1/responses/resp_{run}"), None);
    routes
}

#[tokio::test]
async fn ids_of_another_owner_are_answered_like_unknown_ones_on_every_route() {
    let world = world().await;
    let foreign = routes(&world.bob, "s-ada", &world.run, &world.call);
    let nothing = routes(&world.bob, "s-nix", NOBODY, &world.call);
    for ((route, foreign), (_, nothing)) in foreign.into_iter().zip(nothing) {
        let mut bodies = Vec::new();
        for request in [foreign, nothing] {
            let request = request.header("x-request-id", "r");
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 404, "{route}");
            let mut headers = response.headers().clone();
            headers.remove("date");
            let text = response.text().await.unwrap();
            let text = text.replace("s-nix", "s-ada").replace(NOBODY, &world.run);
            bodies.push((headers, text));
        }
        assert_eq!(bodies[0], bodies[1], "{route}");
    }
    // None of these requests had an effect.
    let (_, shown) = answer(world.ada.get(&format!("/api/v1/runs/{}", world.run))).await;
    assert_eq!(shown["status"], "waiting");
    let (_, shown) = answer(world.ada.get("/api/v1/sessions/s-ada")).await;
    assert!(shown["session"]["title"].is_null(), "{shown}");
}

#[tokio::test]
async fn a_turn_in_a_session_of_another_owner_is_refused_like_an_unknown_one() {
    let world = world().await;
    for (key, body) in [
        (None, json!({"message": "hello"})),
        (Some("k"), json!({"message": "hello"})),
    ] {
        let mut turn = world.bob.turn("s-ada", &body);
        if let Some(key) = key {
            turn = turn.header("idempotency-key", key);
        }
        let (status, problem) = answer(turn.header("x-request-id", "r")).await;
        let nothing = world.bob.get("/api/v1/sessions/s-ada");
        let (_, nothing) = answer(nothing.header("x-request-id", "r")).await;
        assert_eq!((status, &problem), (404, &nothing));
    }
}

#[tokio::test]
async fn the_token_of_the_machine_takes_turns_only_in_sessions_without_an_owner() {
    let world = world().await;
    let local = world.local();
    let hello = json!({"message": "hello"});
    for _ in 0..2 {
        assert_eq!(local.ask("s-local", &hello).await.0, 200);
    }
    let (status, problem) = local.ask("s-ada", &hello).await;
    assert_eq!(
        (status, &problem["type"]),
        (404, &json!("/errors/no-such-session"))
    );
    let said = keyed_mcp::ask(&local, json!({"message": "hello", "session": "s-ada"})).await;
    assert!(said.contains("does not belong to this owner"), "{said}");
    let (_, shown) = answer(world.ada.get("/api/v1/sessions/s-ada")).await;
    assert_eq!(shown["runs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn lists_show_owners_their_own_and_admins_everything() {
    let world = world().await;
    world.bob.ask("s-bob", &json!({"message": "hello"})).await;
    let count = async |client: &Client, path: &str| {
        let (status, page) = answer(client.get(&format!("/api/v1/{path}"))).await;
        assert_eq!(status, 200, "{page}");
        let name = path.split('?').next().unwrap();
        page[name].as_array().unwrap().len()
    };
    for (path, ada, bob, admin) in [
        ("sessions", 1, 1, 2),
        ("sessions?prefix=s-", 1, 1, 2),
        ("sessions?q=what%20time", 1, 0, 1),
        ("sessions?q=hello", 0, 1, 1),
        ("runs", 1, 1, 2),
        ("runs?session=s-ada", 1, 0, 1),
        ("approvals", 1, 0, 1),
        ("approvals?session=s-ada", 1, 0, 1),
    ] {
        assert_eq!(count(&world.ada, path).await, ada, "{path}");
        assert_eq!(count(&world.bob, path).await, bob, "{path}");
        assert_eq!(count(&world.admin, path).await, admin, "{path}");
    }
    for (client, runs) in [(&world.ada, 1), (&world.bob, 1), (&world.admin, 2)] {
        let (status, stats) = answer(client.get("/api/v1/stats?since=2026-01-01T00:00:00Z")).await;
        assert_eq!(
            (status, &stats["total"]["runs"]),
            (200, &json!(runs)),
            "{stats}"
        );
        let models = stats["models"].as_array().unwrap().iter();
        let of_models: u64 = models.map(|row| row["runs"].as_u64().unwrap()).sum();
        assert_eq!(of_models, runs, "{stats}");
        let (_, later) = answer(client.get("/api/v1/stats?since=2999-01-01T00:00:00Z")).await;
        assert_eq!(later["total"]["runs"], 0);
        let owners = stats["owners"].as_array().unwrap().iter();
        let of_owners: u64 = owners.map(|row| row["runs"].as_u64().unwrap()).sum();
        assert_eq!(of_owners, runs, "no more owners than may be seen: {stats}");
        let (_, earlier) = answer(client.get("/api/v1/stats?before=2026-01-01T00:00:00Z")).await;
        assert_eq!(earlier["total"]["runs"], 0);
    }
    for client in [&world.ada, &world.admin] {
        let (_, stats) = answer(client.get("/api/v1/stats?owner=ada")).await;
        assert_eq!(stats["total"]["runs"], 1, "{stats}");
    }
    let (status, _) = answer(world.bob.get("/api/v1/stats?owner=ada")).await;
    assert_eq!(status, 400, "another owner's are not told");
    let (status, problem) = answer(world.ada.get("/api/v1/stats?since=yesterday")).await;
    assert_eq!(
        (status, &problem["type"]),
        (400, &json!("/errors/invalid-query"))
    );
    // The machine's token belongs to its user, who also sees everything.
    assert_eq!(count(&world.local(), "sessions").await, 2);
}

#[tokio::test]
async fn an_admin_sees_the_owner_of_runs_and_calls_and_can_filter_by_owner() {
    let world = world().await;
    let hello = json!({"message": "hello"});
    assert_eq!(world.bob.ask("s-bob", &hello).await.0, 200);
    for (list, of_ada, of_bob) in [("runs", 1, 1), ("approvals", 1, 0), ("sessions", 1, 1)] {
        for (owner, expected) in [("ada", of_ada), ("bob", of_bob), ("nobody", 0)] {
            let path = format!("/api/v1/{list}?owner={owner}");
            let (_, shown) = answer(world.admin.get(&path)).await;
            let shown = shown[list].as_array().unwrap();
            assert_eq!(shown.len(), expected, "{path}: {shown:?}");
            assert!(shown.iter().all(|it| it["owner"] == owner), "{shown:?}");
        }
        // One's own data may be requested by owner too, but nothing else.
        let (status, own) = answer(world.ada.get(&format!("/api/v1/{list}?owner=ada"))).await;
        assert_eq!((status, own[list].as_array().unwrap().len()), (200, 1));
        let (status, problem) = answer(world.ada.get(&format!("/api/v1/{list}?owner=bob"))).await;
        assert_eq!(
            (status, &problem["type"]),
            (400, &json!("/errors/invalid-query"))
        );
    }
}

#[tokio::test]
async fn an_owner_and_an_admin_can_act_on_what_they_see() {
    let world = world().await;
    let path = format!("/api/v1/runs/{}", world.run);
    let steer = json!({"message": "thank you"});
    let (status, _) = answer(with(world.ada.post(&format!("{path}/steer")), &steer)).await;
    assert_eq!(status, 202);
    let decide = world
        .admin
        .post(&format!("{path}/approvals/{}", world.call));
    let frames = world
        .ada
        .events(world.ada.get(&format!("{path}/events")))
        .await;
    let approve = json!({"decision": "approve", "question": world.question});
    let (status, _) = answer(with(decide, &approve)).await;
    assert_eq!(status, 202);
    let frames = frames.rest().await;
    assert_eq!(frames.last().unwrap().event, "final");
    let steered = frames.iter().find(|frame| frame.event == "steered");
    let by = steered.unwrap().data["by"].as_str().unwrap();
    assert!(by.starts_with("ada, over HTTP with key "), "{by}");
    let (status, made) = answer(world.ada.post("/api/v1/sessions")).await;
    assert_eq!((status, &made["owner"]), (201, &json!("ada")));
    let (_, shown) = answer(world.admin.get("/api/v1/sessions/s-ada")).await;
    assert_eq!(shown["session"]["owner"], "ada");
    let gone = world.ada.delete("/api/v1/sessions/s-ada").send().await;
    assert_eq!(gone.unwrap().status(), 204);
}

#[tokio::test]
async fn an_admin_cannot_steer_or_fork_a_run_of_an_owner_and_cancels_it_under_its_own_name() {
    let world = world().await;
    let path = format!("/api/v1/runs/{}", world.run);
    let said = json!({"message": "I resign."});
    for client in [&world.admin, &world.local()] {
        for what in ["steer", "fork"] {
            let (status, problem) =
                answer(with(client.post(&format!("{path}/{what}")), &said)).await;
            let expected = json!("/errors/no-such-session");
            assert_eq!((status, &problem["type"]), (404, &expected), "{what}");
        }
    }
    let cancel = world.admin.post(&format!("{path}/cancel"));
    let (status, _) = answer(with(cancel, &json!({"reason": "it is late"}))).await;
    assert_eq!(status, 202);
    let events = world.ada.get(&format!("{path}/events"));
    let frames = world.ada.events(events).await.rest().await;
    let cancelled = frames.iter().find(|frame| frame.event == "cancelled");
    let cancelled = &cancelled.unwrap().data;
    let by = cancelled["by"].as_str().unwrap();
    assert!(by.starts_with("root, over HTTP with key "), "{by}");
    assert_eq!(cancelled["reason"], "it is late");
}

#[tokio::test]
async fn ids_of_another_owner_lead_nowhere_in_the_other_protocols_either() {
    let world = world().await;
    let post = async |path: &str, body: Value| {
        let request = with(world.bob.post(path), &body);
        answer(request.header("x-request-id", "r")).await
    };
    // OpenAI's API: another owner's response is treated as missing, and so is a session to continue.
    let going_on = async |run: &str| {
        let previous = format!("resp_{run}");
        post(
            "/v1/responses",
            json!({"input": "And?", "previous_response_id": previous}),
        )
        .await
    };
    let (status, foreign) = going_on(&world.run).await;
    assert_eq!(
        (status, &foreign["error"]["param"]),
        (400, &json!("previous_response_id"))
    );
    assert_eq!((status, foreign), going_on(NOBODY).await);
    let own = json!({"session": "s-ada"});
    let said = json!([{"role": "user", "content": "Hello."}]);
    let chat = json!({"messages": said, "neuraxis": own});
    let (status, refused) = post("/v1/chat/completions", chat).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (404, &json!("no_such_session"))
    );
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("s-ada is taken"), "{message}");
    let response = json!({"input": "Hello.", "neuraxis": own});
    assert_eq!(post("/v1/responses", response).await, (404, refused));

    // AG-UI: another owner's thread is treated as missing.
    let message = json!([{"id": "m1", "role": "user", "content": "Hello."}]);
    let input = json!({"threadId": "s-ada", "runId": "r1", "messages": message});
    let (status, problem) = post("/agui", input.clone()).await;
    assert_eq!(
        (status, &problem["type"]),
        (404, &json!("/errors/no-such-session"))
    );
    let resume = async |thread: &str| {
        let mut input = input.clone();
        input["threadId"] = json!(thread);
        input["resume"] = json!([{
            "interruptId": world.question,
            "status": "resolved",
            "payload": {"approved": true},
        }]);
        let response = with(world.bob.post("/agui"), &input).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let events = response.text().await.unwrap();
        assert!(events.contains("no-such-session"), "{events}");
        events.replace(thread, "s")
    };
    assert_eq!(resume("s-ada").await, resume("s-nix").await);

    // None of these requests had an effect, and Ada cannot see them.
    let (_, shown) = answer(world.ada.get("/api/v1/sessions/s-ada")).await;
    assert_eq!(shown["runs"].as_array().unwrap().len(), 1);
    assert_eq!(shown["runs"][0]["status"], "waiting");
}
