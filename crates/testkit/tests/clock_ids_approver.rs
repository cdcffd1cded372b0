//! The clock, the ids and the approver follow their scripts.

use std::time::Duration;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{AgentId, ApprovalDecision, AskApproval, JsonText, ToolCallId};
use neuraxis_ports::{Approver, ApproverReply, Clock, Ids};
use neuraxis_testkit::{
    CountingIds, START, ScriptedApprover, VirtualClock, call_context, turn_context,
};

#[test]
fn the_clock_does_not_advance_until_it_is_moved() {
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
async fn the_approver_answers_in_order_and_then_reports_that_nobody_answers() {
    let approver = ScriptedApprover::new()
        .deny("no")
        .then(ApproverReply::Later);
    let ask = AskApproval {
        effect_id: call_context().effect_id,
        agent: AgentId::ROOT,
        tool_call_id: ToolCallId::from_text("call_1"),
        name: "write".into(),
        arguments: JsonText::from_text("{}"),
        arguments_hash: JsonText::from_text("{}").hash(),
        reason: "it writes".to_owned(),
        rule: None,
        choices: Vec::new(),
        expires_at: None,
    };
    let ApproverReply::Decided {
        decision: ApprovalDecision::Deny { reason },
        ..
    } = approver.decide(&ask, &turn_context()).await
    else {
        panic!("the first answer is no")
    };
    assert_eq!(reason.as_deref(), Some("no"));
    assert_eq!(
        approver.decide(&ask, &turn_context()).await,
        ApproverReply::Later
    );
    assert_eq!(
        approver.decide(&ask, &turn_context()).await,
        ApproverReply::Nobody
    );
    assert_eq!(approver.asks(), [ask.clone(), ask.clone(), ask]);
}
