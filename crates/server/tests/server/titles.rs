//! Sessions as a client's list shows them: by their titles, first messages and last runs, and found by what was said.

use neuraxis::core::jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::client::answer;
use crate::support::program::folder_with;
use crate::support::{Client, Program};

/// A configuration in which the clock tool needs approval.
const ASKS: &str =
    "[rules.clock]\nanswer = 'ask'\ntools = ['current_time']\nreason = 'The time is private.'\n";

async fn list(client: &Client, query: &str) -> Value {
    let (status, page) = answer(client.get(&format!("/api/v1/sessions{query}"))).await;
    assert_eq!(status, 200, "{page}");
    page
}

fn names(page: &Value) -> Vec<&str> {
    let sessions = page["sessions"].as_array().unwrap().iter();
    sessions.map(|it| it["id"].as_str().unwrap()).collect()
}

/// Sends a text as the body of a request to rename a session.
async fn patch(client: &Client, session: &str, body: &str) -> (u16, Value) {
    let request = client.patch(&format!("/api/v1/sessions/{session}"));
    let request = request.header("content-type", "application/json");
    answer(request.body(body.to_owned())).await
}

async fn rename(client: &Client, session: &str, title: Option<&str>) -> (u16, Value) {
    patch(client, session, &json!({"title": title}).to_string()).await
}

#[tokio::test]
async fn a_list_shows_titles_first_messages_and_last_runs() {
    let program = Program::start_in(folder_with(ASKS), |_| {}).await;
    let client = program.client();
    client.ask("s", &json!({"message": "hello"})).await;
    client
        .ask("s", &json!({"message": "What time is it?"}))
        .await;
    let new = client
        .post("/api/v1/sessions")
        .header("content-type", "application/json");
    let (status, new) = answer(new.body(json!({"id": "new"}).to_string())).await;
    assert_eq!(status, 201);
    assert_eq!(rename(&client, "s", Some("Greetings")).await.0, 200);
    let page = list(&client, "").await;
    assert_eq!(names(&page), ["new", "s"]);
    assert_eq!(page["sessions"][0], new, "nothing more is known of it");
    let shown = &page["sessions"][1];
    assert_eq!(shown["title"], "Greetings");
    assert_eq!(shown["first_message"], "hello");
    let (_, runs) = answer(client.get("/api/v1/runs?session=s&limit=1")).await;
    let run = &runs["runs"][0];
    let expected = json!({
        "run_id": run["run_id"],
        "status": "waiting",
        "started_at": run["started_at"],
    });
    assert_eq!(shown["last_run"], expected);
    client.ask("new", &json!({"message": "hello"})).await;
    let page = list(&client, "?prefix=new").await;
    let (_, runs) = answer(client.get("/api/v1/runs?session=new")).await;
    let run = &runs["runs"][0];
    let last = &page["sessions"][0]["last_run"];
    for name in ["run_id", "status", "started_at", "ended_at"] {
        assert!(last[name].is_string(), "{name}: {page}");
        assert_eq!(last[name], run[name], "{name}");
    }
}

#[tokio::test]
async fn the_session_that_was_used_last_is_listed_first() {
    let program = Program::start().await;
    let client = program.client();
    for name in ["a", "b", "c"] {
        client.ask(name, &json!({"message": "hello"})).await;
    }
    assert_eq!(names(&list(&client, "").await), ["c", "b", "a"]);
    let (_, result) = client.ask("a", &json!({"message": "hello again"})).await;
    assert_eq!(rename(&client, "b", Some("Greetings")).await.0, 200);
    let page = list(&client, "").await;
    assert_eq!(names(&page), ["a", "c", "b"]);
    let first = &page["sessions"][0];
    assert_eq!(first["last_run"]["run_id"], result["run_id"]);
    let time = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
    let ended = time(&first["last_run"]["ended_at"]).as_microsecond();
    assert_eq!(time(&first["last_active_at"]).as_microsecond(), ended);
    for (query, expected) in [
        ("q=hello", ["a", "c", "b"]),
        ("limit=1", ["a", "c", "b"]),
        ("limit=2", ["a", "c", "b"]),
    ] {
        assert_eq!(all_of(&client, query).await, expected, "{query}");
    }
    assert_eq!(names(&list(&client, "?after=a").await), ["c", "b"]);
    let begun = list(&client, "?limit=1").await;
    client.ask("b", &json!({"message": "hello"})).await;
    let next = begun["next"].as_str().unwrap();
    let rest = list(&client, &format!("?after={next}")).await;
    assert_eq!(names(&rest), ["c"], "b is on the first page by now");
    assert_eq!(names(&list(&client, "").await), ["b", "a", "c"]);
}

/// Returns the names of the sessions on all pages.
async fn all_of(client: &Client, query: &str) -> Vec<String> {
    let mut seen = Vec::new();
    let mut path = format!("?{query}");
    loop {
        let page = list(client, &path).await;
        seen.extend(names(&page).into_iter().map(str::to_owned));
        let Some(next) = page["next"].as_str() else {
            return seen;
        };
        path = format!("?{query}&after={next}");
    }
}

#[tokio::test]
async fn a_session_is_renamed_also_while_a_run_waits_and_loses_its_title_again() {
    let program = Program::start_in(folder_with(ASKS), |_| {}).await;
    let client = program.client();
    let (_, result) = client
        .ask("s", &json!({"message": "What time is it?"}))
        .await;
    assert_eq!(result["status"], "waiting");
    for (given, kept) in [
        (Some(" Zeit & Ort 🕰\t"), Some("Zeit & Ort 🕰")),
        (Some("Second"), Some("Second")),
        (None, None),
    ] {
        let (status, renamed) = rename(&client, "s", given).await;
        assert_eq!((status, renamed["title"].as_str()), (200, kept));
        let (_, shown) = answer(client.get("/api/v1/sessions/s")).await;
        assert_eq!(shown["session"], renamed);
        assert!(
            renamed.get("title").is_none_or(Value::is_string),
            "{renamed}"
        );
    }
    let (status, problem) = rename(&client, "nobody", Some("x")).await;
    assert_eq!(
        (status, &problem["type"]),
        (404, &json!("/errors/no-such-session"))
    );
}

#[tokio::test]
async fn a_title_that_no_session_can_have_is_refused_by_name() {
    let program = Program::start().await;
    let client = program.client();
    client.ask("s", &json!({"message": "hello"})).await;
    rename(&client, "s", Some("Kept")).await;
    let too_long = "x".repeat(201);
    for title in [
        "",
        "  ",
        "a\nb",
        "a\u{2028}b",
        "a\0b",
        "a\u{7f}b",
        &too_long,
    ] {
        let (status, problem) = rename(&client, "s", Some(title)).await;
        assert_eq!(
            (status, &problem["type"], &problem["field"]),
            (400, &json!("/errors/invalid-field"), &json!("title")),
            "{title:?}: {problem}"
        );
    }
    for (body, kind) in [
        ("", "invalid-json"),
        ("{", "invalid-json"),
        ("{}", "invalid-field"),
        ("[\"x\"]", "invalid-field"),
        (r#"{"title": 7}"#, "invalid-field"),
        (r#"{"title": "x", "owner": "me"}"#, "unknown-field"),
    ] {
        let (status, problem) = patch(&client, "s", body).await;
        assert_eq!(
            (status, &problem["type"]),
            (400, &json!(format!("/errors/{kind}"))),
            "{body}: {problem}"
        );
    }
    assert_eq!(list(&client, "").await["sessions"][0]["title"], "Kept");
}

#[tokio::test]
async fn sessions_are_searched_page_by_page() {
    let program = Program::start().await;
    let client = program.client();
    for (name, message) in [
        ("a", "Guten Tag, Köln!"),
        ("b", "hello"),
        ("c", "hello köln"),
    ] {
        client.ask(name, &json!({"message": message})).await;
    }
    rename(&client, "b", Some("100% KÖLN_1")).await;
    for (query, expected) in [
        ("q=k%C3%B6ln", vec!["c", "b", "a"]),
        ("q=HELLO", vec!["c", "b"]),
        ("q=%25", vec!["b"]),
        ("q=n_1&prefix=b", vec!["b"]),
        ("q=n_1&prefix=a", vec![]),
        ("q=nothing", vec![]),
    ] {
        let page = list(&client, &format!("?{query}")).await;
        assert_eq!(names(&page), expected, "{query}");
        assert!(page.get("next").is_none(), "{page}");
    }
    let mut seen = Vec::new();
    let mut query = "?q=k%C3%B6ln&limit=1".to_owned();
    loop {
        let page = list(&client, &query).await;
        seen.extend(names(&page).iter().map(|name| (*name).to_owned()));
        let Some(next) = page["next"].as_str() else {
            break;
        };
        query = format!("?q=k%C3%B6ln&limit=1&after={next}");
    }
    assert_eq!(seen, ["c", "b", "a"]);
    for text in ["", "a%00b", &"x".repeat(201)] {
        let (status, problem) = answer(client.get(&format!("/api/v1/sessions?q={text}"))).await;
        assert_eq!(
            (status, &problem["type"]),
            (400, &json!("/errors/invalid-query")),
            "{text}: {problem}"
        );
        assert!(problem["detail"].as_str().unwrap().starts_with("q must"));
    }
    let longest = "ü".repeat(200);
    let page = list(&client, &format!("?q={longest}")).await;
    assert_eq!(names(&page), [""; 0]);
}
