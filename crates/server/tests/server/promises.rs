//! What modes and the section `[store.log]` promise, checked against the program's behavior.

use std::fs;

use neuraxis_testkit::{FaultyModelServer, ModelFault};
use serde_json::{Value, json};

use crate::support::Program;

#[tokio::test]
async fn a_mode_whose_roles_have_no_model_is_refused_and_no_other_model_is_called() {
    // If it is called nevertheless, its failure shows that.
    let model = FaultyModelServer::start(ModelFault::Failing);
    let folder = tempfile::tempdir().unwrap();
    let program = Program::start_in(folder, |command| {
        command
            .env_remove("NEURAXIS_MODELS__REASONING__PROVIDER")
            .env("NEURAXIS_MODELS__CODING__PROVIDER", "llama")
            .env("NEURAXIS_MODELS__CODING__BASE_URL", model.base_url());
    })
    .await;
    let client = program.client();
    let body = json!({"message": "Hello?", "mode": "conservative"});
    let (status, received) = client.ask("s", &body).await;
    assert_eq!(status, 503, "{received}");
    assert_eq!(received["type"], "/errors/no-model", "{received}");
    model.repair();
    let body = json!({"message": "Hello?", "mode": "moderate"});
    let (status, received) = client.ask("s", &body).await;
    assert_eq!(status, 200, "{received}");
    assert_eq!(received["reply"], FaultyModelServer::ANSWER);
}

#[tokio::test]
async fn the_log_of_an_in_memory_store_is_copied_record_by_record() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    let program = Program::start_in(folder, |command| {
        command
            .env("NEURAXIS_STORE__URL", "memory:")
            .env("NEURAXIS_STORE__LOG__FOLDER", &copy);
    })
    .await;
    for session in ["one", "two"] {
        let body = json!({"message": "What time is it?"});
        let (status, received) = program.client().ask(session, &body).await;
        assert_eq!(status, 200, "{received}");
    }
    let text = fs::read_to_string(copy.join("records.jsonl")).unwrap();
    let records: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let runs = records.split_inclusive(|record| record["type"] == "final");
    let runs: Vec<_> = runs.collect();
    assert_eq!(runs.len(), 2, "{text}");
    for run in runs {
        let seqs = run.iter().map(|record| record["seq"].as_u64().unwrap());
        assert!(seqs.eq(1..=run.len() as u64), "{text}");
        assert_eq!(run[0]["type"], "run_started");
    }
}
