//! A session with its runs and messages, which come in pages if there are many.

use serde_json::{Value, json};

use crate::support::client::answer;
use crate::support::{Client, Program};

async fn show(client: &Client, query: &str) -> Value {
    let (status, session) = answer(client.get(&format!("/api/v1/sessions/s{query}"))).await;
    assert_eq!(status, 200, "{session}");
    session
}

fn list<'a>(session: &'a Value, name: &str) -> &'a [Value] {
    session[name].as_array().unwrap()
}

/// Starts a server with a session of three turns.
async fn talked() -> Program {
    let program = Program::start().await;
    for message in ["hello", "What time is it?", "hello again"] {
        let client = program.client();
        let (status, _) = client.ask("s", &json!({"message": message})).await;
        assert_eq!(status, 200);
    }
    program
}

#[tokio::test]
async fn the_pages_of_a_session_have_each_run_and_message_once_and_in_order() {
    let program = talked().await;
    let client = program.client();
    let whole = show(&client, "").await;
    assert!(whole.get("next").is_none(), "{whole}");
    assert_eq!(list(&whole, "runs").len(), 3);
    let count = list(&whole, "history").len();
    assert!(count > 6, "a call and its result are among them: {whole}");
    for limit in [1, 2, 3, count, 999] {
        let (mut runs, mut history) = (Vec::new(), Vec::new());
        let mut query = format!("?limit={limit}");
        loop {
            let page = show(&client, &query).await;
            for name in ["session", "metrics", "plan"] {
                assert_eq!(page[name], whole[name], "{name}");
            }
            for (all, name) in [(&mut runs, "runs"), (&mut history, "history")] {
                assert!(list(&page, name).len() <= limit, "{page}");
                all.extend_from_slice(list(&page, name));
            }
            let Some(next) = page["next"].as_str() else {
                break;
            };
            query = format!("?limit={limit}&after={next}");
        }
        assert_eq!(runs, list(&whole, "runs"), "{limit}");
        assert_eq!(history, list(&whole, "history"), "{limit}");
    }
}

#[tokio::test]
async fn a_position_behind_the_end_has_an_empty_page_and_any_other_text_is_none() {
    let program = talked().await;
    let client = program.client();
    let beyond = show(&client, "?after=99~99").await;
    assert_eq!(list(&beyond, "runs"), list(&beyond, "history"));
    assert!(beyond.get("next").is_none(), "{beyond}");
    for query in [
        "limit=0",
        "limit=1000",
        "limit=x",
        "after=",
        "after=1",
        "after=1~",
        "after=-1~1",
        "after=1~1~1",
        "after=9999999999~1",
        "owner=me",
    ] {
        let refused = client.get(&format!("/api/v1/sessions/s?{query}"));
        let (status, problem) = answer(refused).await;
        assert_eq!(
            (status, &problem["type"]),
            (400, &json!("/errors/invalid-query")),
            "{query}: {problem}"
        );
    }
}
