//! The builders build what they describe, and the mocks implement their ports.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{ModelRef, Record, SessionId, ToolClass, ToolSpec};
use neuraxis_ports::{
    Clock, Ids, LlmClient, ModelInfo, Session, SessionIndex, StoreError, Tool, TraceSink,
};
use neuraxis_testkit::{
    CountingIds, RunLog, START, call_context, messages, mock, reply, request, spec,
};

#[test]
fn a_log_is_numbered_from_one_without_gaps_and_reads_back() {
    let mut log = RunLog::new(CountingIds::nth_run(1), "main".parse().unwrap());
    let records = [
        log.started("Hello?"),
        log.warned("slow"),
        log.replied(reply::text("Hi.")),
        log.finished("Hi."),
    ];
    assert_eq!(records.each_ref().map(|record| record.seq.0), [1, 2, 3, 4]);
    for record in &records {
        assert_eq!(Record::from_json(&record.to_json()).unwrap(), **record);
    }
}

#[test]
fn builders_set_what_they_are_given() {
    let spec: ToolSpec = spec("drop_table")
        .destructive()
        .open_world()
        .timeout(Duration::from_secs(1))
        .into();
    assert_eq!(
        (spec.class, spec.annotations.destructive),
        (ToolClass::Irreversible, true)
    );
    let message = messages::calls([("call_1", "look", "{}"), ("call_2", "go", "{}")]);
    assert_eq!(
        message
            .tool_calls()
            .map(|call| call.name.as_ref())
            .collect::<Vec<_>>(),
        ["look", "go"]
    );
    assert_eq!(messages::result("call_1", "look", "42").text(), "42");
}

#[tokio::test]
async fn every_mock_can_be_used_as_its_port() {
    let mut model = mock::MockLlmClient::new();
    model
        .expect_respond()
        .times(1)
        .returning(|_, _| Ok(reply::text("mocked")));
    model
        .expect_info()
        .returning(|| ModelInfo::new(ModelRef::new("mock", "m")));
    let model: Arc<dyn LlmClient> = Arc::new(model);
    assert_eq!(
        model
            .respond(&request("a"), &call_context())
            .await
            .unwrap()
            .text(),
        "mocked"
    );

    let mut tool = mock::MockTool::new();
    tool.expect_spec().return_const(spec("mocked").build());
    let tool: Arc<dyn Tool> = Arc::new(tool);
    assert_eq!(tool.spec().name.as_str(), "mocked");

    let mut sink = mock::MockTraceSink::new();
    sink.expect_record().times(1).return_const(());
    let mut log = RunLog::new(CountingIds::nth_run(1), "main".parse().unwrap());
    TraceSink::record(&sink, &log.warned("slow"));

    let mut clock = mock::MockClock::new();
    clock.expect_now().return_const(START);
    assert_eq!(Clock::now(&clock), START);
    let mut ids = mock::MockIds::new();
    ids.expect_new_id().returning(|| CountingIds::nth(7));
    assert_eq!(Ids::new_id(&ids), CountingIds::nth(7));
}

#[tokio::test]
async fn a_session_deleted_after_being_listed_is_not_idle_and_hides_no_other() {
    let ids = ["gone", "old"].map(|id| -> SessionId { id.parse().unwrap() });
    let mut store = mock::MockSessionStore::new();
    let listed = ids.clone().map(|id| Session::new(id, START)).to_vec();
    store.expect_sessions().return_once(|_| Ok(listed));
    store.expect_runs().returning(|id| match id.as_str() {
        "gone" => Err(StoreError::NoSuchSession(id.clone())),
        _ => Ok(Vec::new()),
    });
    let idle = store.idle(Timestamp::MAX, 10).await;
    assert_eq!(idle.unwrap(), ids[1..]);
}
