//! Runs recorded with a real llama-server, written as JSON Lines, read back and replayed record by record.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;
use std::sync::Arc;

use neuraxis_core::{Mode, Record, RecordBody, Role, RunStatus, Transcript};
use neuraxis_engine::{Orchestrator, UserRequest, read_log, replay, write_log};
use neuraxis_llama::{LlamaClient, LlamaConfig};
use neuraxis_memory::MemoryStore;
use neuraxis_testkit::{LlamaServer, ScriptedTool, spec};

const GOLDEN: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/golden/llama_server_two_calls.jsonl"
);

fn assert_replays(records: &[Arc<Record>], text: &str) {
    let read = read_log(text).unwrap();
    for (read, record) in read.iter().zip(records) {
        assert_eq!(read.to_json(), record.to_json());
    }
    let report = replay(&Transcript::default(), &read).unwrap();
    assert_eq!((report.status, report.open_effects), (RunStatus::Done, 0));
    assert_eq!(report.records, text.lines().count());
    assert_eq!(write_log(&read), text, "reading and writing changed a byte");
    let calls = read
        .iter()
        .filter(|record| matches!(record.body, RecordBody::ToolCall(_)));
    assert_eq!(calls.count(), 2);
}

#[test]
fn a_run_recorded_with_a_real_llama_server_replays_without_it() {
    let text = std::fs::read_to_string(GOLDEN).unwrap();
    let records = read_log(&text).unwrap();
    assert_replays(&records, &text);
    let models: Vec<_> = records
        .iter()
        .filter_map(|record| match &record.body {
            RecordBody::LlmCall(call) => Some(call.reply.model.provider.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(models, ["llama", "llama"]);
}

/// Set `NEURAXIS_GOLDEN_WRITE` to record a new golden log.
#[tokio::test]
#[ignore = "needs llama-server: cargo xtask test provides it"]
async fn a_run_with_the_real_llama_server_replays_record_by_record() {
    let server = LlamaServer::start();
    let model = LlamaClient::new(LlamaConfig::new(server.base_url())).unwrap();
    let tool = |name: &str| Arc::new(ScriptedTool::echoing(spec(name).read_only())) as Arc<_>;
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tools([tool("current_time"), tool("calculate")])
        .store(Arc::new(MemoryStore::new()))
        .build()
        .unwrap();
    let request = UserRequest::new("golden".parse().unwrap(), "Please make two calls.");
    let (handle, _) = orchestrator
        .stream(request.mode(Mode::EXPLORATORY))
        .await
        .unwrap();
    let result = handle.result().await.unwrap();
    assert_eq!(result.status, RunStatus::Done, "{result:?}");
    let records = handle.records();
    let text = write_log(&records);
    if std::env::var_os("NEURAXIS_GOLDEN_WRITE").is_some() {
        std::fs::write(Path::new(GOLDEN), &text).unwrap();
    }
    assert_replays(&records, &text);
}
