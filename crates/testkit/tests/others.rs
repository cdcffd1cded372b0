//! The clock, the ids, the approver, the builders and the mocks.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{ApprovalDecision, JsonText, Record, ToolClass, ToolSpec};
use neuraxis_ports::{Approver, ApproverReply, Clock, Ids, LlmClient, ModelInfo, Tool, TraceSink};
use neuraxis_testkit::{
    CountingIds, RunLog, START, ScriptedApprover, VirtualClock, call_context, messages, mock,
    reply, request, spec,
};

#[test]
fn the_clock_stands_still_until_it_is_moved() {
    let clock = VirtualClock::new();
    assert_eq!((clock.now(), clock.now()), (START, START));
    clock.advance(Duration::from_secs(60));
    assert_eq!(clock.now().to_string(), "2026-01-01T00:01:00Z");
    clock.set(Timestamp::UNIX_EPOCH);
    assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
}

#[test]
fn the_ids_are_the_same_in_every_test() {
    let ids = CountingIds::new();
    assert_eq!(
        ids.new_id().to_string(),
        "019b76da-a800-7000-8000-000000000001"
    );
    assert_eq!(ids.new_id(), CountingIds::nth(2));
}

#[tokio::test]
async fn the_approver_answers_in_order_and_then_nobody_does() {
    let mut log = RunLog::new(CountingIds::nth_run(1), "main".parse().unwrap());
    let _ = log.started("Hello?");
    let approver = ScriptedApprover::new()
        .deny("no")
        .then(ApproverReply::Later);
    let ask = neuraxis_core::AskApproval {
        effect_id: call_context().effect_id,
        agent: neuraxis_core::AgentId::ROOT,
        tool_call_id: neuraxis_core::ToolCallId::from_text("call_1"),
        name: "write".to_owned(),
        arguments: JsonText::from_text("{}"),
        arguments_hash: JsonText::from_text("{}").hash(),
        reason: "it writes".to_owned(),
    };
    let ApproverReply::Decided {
        decision: ApprovalDecision::Deny { reason },
        ..
    } = approver.decide(&ask).await
    else {
        panic!("the first answer is no")
    };
    assert_eq!(reason.as_deref(), Some("no"));
    assert_eq!(approver.decide(&ask).await, ApproverReply::Later);
    assert_eq!(approver.decide(&ask).await, ApproverReply::Nobody);
    assert_eq!(approver.asks(), [ask.clone(), ask.clone(), ask]);
}

#[test]
fn a_log_counts_from_one_without_gaps_and_reads_back() {
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
fn builders_say_what_they_were_told() {
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
            .map(|call| call.name.as_str())
            .collect::<Vec<_>>(),
        ["look", "go"]
    );
    assert_eq!(messages::result("call_1", "look", "42").text(), "42");
}

#[tokio::test]
async fn every_mock_stands_for_its_port() {
    let mut model = mock::MockLlmClient::new();
    model
        .expect_respond()
        .times(1)
        .returning(|_, _| Ok(reply::text("mocked")));
    model
        .expect_info()
        .returning(|| ModelInfo::new(neuraxis_core::ModelRef::new("mock", "m")));
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
