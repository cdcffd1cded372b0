//! Runs without an answer: what a client hears of them, and what becomes of the request that it sends again.

use std::sync::Arc;

use neuraxis::memory::MemoryStore;
use neuraxis::ports::SessionIndex as _;
use neuraxis_server::Stop;
use neuraxis_testkit::{Script, ScriptedModel};
use serde_json::{Value, json};

use super::{request, user};
use crate::support::in_process::InProcess;

/// On a clock that jumps: the runs have five seconds and do not end.
#[tokio::test]
async fn a_run_that_a_server_that_stops_leaves_is_not_begun_again_by_clients() {
    let store = Arc::new(MemoryStore::new());
    let server = InProcess::start(ScriptedModel::always(Script::hanging()), store.clone()).await;
    let asking = ["/v1/chat/completions", "/v1/responses"].map(|path| {
        let session = path.rsplit('/').next().unwrap();
        let own = json!({"session": session});
        let body = json!({"messages": [user("hi")], "input": "hi", "neuraxis": own});
        let asking = request(&server.client(), path, &body).send();
        (session, tokio::spawn(asking))
    });
    for (session, _) in &asking {
        let at_work = async || {
            let run = store.runs(&session.parse().unwrap()).await.ok()?.pop()?;
            (run.records > 0).then_some(())
        };
        while at_work().await.is_none() {
            tokio::task::yield_now().await;
        }
    }
    tokio::time::pause();
    server.stop_by(Stop::Drain).await.unwrap();
    for (session, asking) in asking {
        let response = asking.await.unwrap().unwrap();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["x-should-retry"], "false");
        assert!(!response.headers().contains_key("retry-after"));
        let told: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        assert_eq!(told["error"]["code"], "shutting_down", "{session}: {told}");
        let message = told["error"]["message"].as_str().unwrap();
        assert!(message.contains("in its session"), "{message}");
        assert!(!message.contains("Idempotency-Key"), "{message}");
    }
}
