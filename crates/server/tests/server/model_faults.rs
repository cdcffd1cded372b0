//! Failing model servers, tested through the program: what its clients receive, as JSON and as events, what is stored,
//! and that the same session continues as soon as the model works again.
#![expect(
    clippy::indexing_slicing,
    reason = "a test whose JSON is another has failed"
)]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use neuraxis::core::{Message, Record, Seq};
use neuraxis::ports::{RunLog as _, SessionIndex as _};
use neuraxis_sql::{SqlConfig, SqlStore};
use neuraxis_testkit::{Aftermath, FaultyModelServer, ModelFault};
use serde_json::{Value, json};

use crate::support::{Client, Program};

/// The session that requests JSON, and the one that listens to events.
const SESSIONS: [&str; 2] = ["json", "events"];

/// The expected effects of a fault.
struct Case {
    fault: ModelFault,
    /// The text that the user reads.
    received: &'static str,
    /// The class of the error on record.
    kind: &'static str,
    /// The additional text of the recorded reason.
    reason: &'static str,
}

impl Case {
    /// Takes turns in both sessions while the model server is broken, and again after it was repaired.
    async fn check(self) {
        let model = FaultyModelServer::start(self.fault);
        let folder = configured(&model);
        let program = Program::start_in(folder, |command| {
            command.env("NEURAXIS_MODELS__REASONING__PROVIDER", "llama");
        });
        let program = program.await;
        let client = program.client();
        tokio::join!(self.fails_as_json(&client), self.fails_as_events(&client));
        model.repair();
        let again = json!({"message": "And now?"});
        let (status, result) = client.ask("json", &again).await;
        assert_eq!(
            (status, &result["status"]),
            (200, &json!("done")),
            "{result}"
        );
        assert_eq!(result["reply"], FaultyModelServer::ANSWER);
        let frames = client.listen("events", &again).await.rest().await;
        let last = frames.last().unwrap();
        assert_eq!(last.event, "final", "{last:?}");
        assert_eq!(last.data["content"], FaultyModelServer::ANSWER);
        let log = program.log();
        assert!(!log.contains("panicked"), "{log}");
        let place = program.folder().to_owned();
        for session in SESSIONS {
            self.leaves_a_valid_history(&place, session).await;
        }
    }

    async fn fails_as_json(&self, client: &Client) {
        let (status, result) = client.ask("json", &json!({"message": "Hello?"})).await;
        assert_eq!(
            (status, &result["status"]),
            (200, &json!("failed")),
            "{result}"
        );
        self.is_the_reason(&result["finish_reason"]);
        let reply = result["reply"].as_str().unwrap();
        assert!(reply.contains(self.received), "{reply}");
        for theirs in [
            FaultyModelServer::WORDS,
            FaultyModelServer::ELSEWHERE,
            FaultyModelServer::HALF,
        ] {
            assert!(!reply.contains(theirs), "not in its own words: {reply}");
        }
    }

    async fn fails_as_events(&self, client: &Client) {
        let frames = client.listen("events", &json!({"message": "Hello?"})).await;
        let frames = frames.rest().await;
        let last = frames.last().unwrap();
        assert_eq!(last.event, "run_failed", "{last:?}");
        self.is_the_reason(&last.data["finish_reason"]);
        let ids: Vec<u64> = frames.iter().filter_map(|frame| frame.id).collect();
        assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
        let failed = frames.iter().find(|frame| frame.event == "llm_failed");
        let failed = &failed.unwrap().data;
        assert_eq!(failed["error"]["kind"], self.kind, "{failed}");
        // The text of a reply that broke off is retracted.
        let count = |name: &str| frames.iter().filter(|frame| frame.event == name).count();
        let begun = count("text_delta");
        assert_eq!(count("text_retracted"), begun, "{frames:?}");
        let breaks_off = matches!(self.fault, ModelFault::CutOff | ModelFault::Stalling);
        assert_eq!(begun > 0, breaks_off, "{frames:?}");
    }

    fn is_the_reason(&self, finish_reason: &Value) {
        let reason = finish_reason["failed"].as_str().unwrap();
        assert!(reason.contains(self.reason), "{reason}");
    }

    async fn leaves_a_valid_history(&self, folder: &Path, session: &str) {
        let url = format!("sqlite://{}", folder.join("sessions.db").display());
        let store = SqlStore::open(&SqlConfig::new(url)).await.unwrap();
        let session = session.parse().unwrap();
        store.verify(&session, None).await.unwrap();
        let mut calls = Vec::new();
        for run in store.runs(&session).await.unwrap() {
            let records = store.records(run.run_id, Seq(0)).await.unwrap();
            Aftermath::of(&records).assert_ended();
            calls.push(count_of(&records, "tool_call"));
        }
        // The call in the reply that broke off was never run; the call that the model made afterward was.
        assert_eq!(calls, [0, 1]);
        let history = store.history(&session).await.unwrap();
        let (mut open, mut results) = (Vec::new(), 0);
        for message in history.messages() {
            if let Message::Tool(tool) = message.as_ref() {
                assert_eq!(open.pop().as_ref(), Some(&tool.tool_call_id));
                results += 1;
            } else {
                assert_eq!(open, [], "a call without its result");
                open = message.tool_calls().map(|call| call.id.clone()).collect();
            }
        }
        assert_eq!((open.len(), results), (0, 1));
        let received = serde_json::to_string(&history).unwrap();
        assert!(!received.contains(FaultyModelServer::HALF), "{received}");
        assert!(
            received.contains("Hello?") && received.contains("And now?"),
            "{received}"
        );
        assert!(received.contains(FaultyModelServer::ANSWER), "{received}");
    }
}

/// A folder with a configuration that has a model and keeps sessions in a file there.
fn configured(model: &FaultyModelServer) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (place, url) = (folder.path().display(), model.base_url());
    let text = format!(
        "[store]\nurl = 'sqlite://{place}/sessions.db'\n[models.reasoning]\nbase_url = '{url}'\n\
         timeouts = {{ idle = '300ms', whole_reply = '300ms', loading = '1s' }}\n"
    );
    fs::write(folder.path().join("neuraxis.toml"), text).unwrap();
    folder
}

fn count_of(records: &[Arc<Record>], kind: &str) -> usize {
    let kinds = records.iter().map(|record| record.body.kind());
    kinds.filter(|it| *it == kind).count()
}

#[tokio::test]
async fn an_unreachable_model_server_fails_the_run_and_the_session_continues() {
    let case = Case {
        fault: ModelFault::Unreachable,
        received: "no connection to the model server",
        kind: "connection",
        reason: "127.0.0.1",
    };
    case.check().await;
}

#[tokio::test]
async fn a_model_server_that_is_still_loading_fails_the_run_and_the_session_continues() {
    let case = Case {
        fault: ModelFault::Loading,
        received: "the model is still loading",
        kind: "loading",
        reason: "still loading",
    };
    case.check().await;
}

#[tokio::test]
async fn a_failing_model_server_fails_the_run_and_the_session_continues() {
    let case = Case {
        fault: ModelFault::Failing,
        received: "the model server failed with status 500",
        kind: "server",
        reason: FaultyModelServer::WORDS,
    };
    case.check().await;
}

#[tokio::test]
async fn a_plain_text_error_of_the_model_server_fails_the_run_and_the_session_continues() {
    let case = Case {
        fault: ModelFault::FailingInPlainText,
        received: "the model server failed with status 500",
        kind: "server",
        reason: FaultyModelServer::WORDS,
    };
    case.check().await;
}

#[tokio::test]
async fn a_web_page_in_place_of_a_reply_fails_the_run_and_the_session_continues() {
    let case = Case {
        fault: ModelFault::WebPage,
        received: "the model server gave an invalid response",
        kind: "invalid_response",
        reason: "text/html",
    };
    case.check().await;
}

#[tokio::test]
async fn a_redirect_fails_the_run_and_the_session_continues() {
    let case = Case {
        fault: ModelFault::Redirect,
        received: "the provider refuses the request",
        kind: "bad_request",
        reason: FaultyModelServer::ELSEWHERE,
    };
    case.check().await;
}

#[tokio::test]
async fn a_truncated_reply_fails_the_run_and_the_session_continues() {
    let case = Case {
        fault: ModelFault::CutOff,
        received: "the reply was cut off",
        kind: "incomplete",
        reason: "cut off",
    };
    case.check().await;
}

#[tokio::test]
async fn a_stalled_reply_fails_the_run_and_the_session_continues() {
    let case = Case {
        fault: ModelFault::Stalling,
        received: "the model did not answer in time",
        kind: "timeout",
        reason: "in time",
    };
    case.check().await;
}

#[tokio::test]
async fn a_connection_reset_fails_the_run_and_the_session_continues() {
    let case = Case {
        fault: ModelFault::Reset,
        received: "no connection to the model server",
        kind: "connection",
        reason: "127.0.0.1",
    };
    case.check().await;
}
