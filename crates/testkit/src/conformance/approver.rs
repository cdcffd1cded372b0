//! The rules of the [`Approver`] port.

use futures_util::FutureExt;
use futures_util::future::join_all;
use neuraxis_core::{
    AgentId, AskApproval, CallIndex, ContentIndex, EffectId, JsonText, ToolCallId,
};
use neuraxis_ports::Approver;

use super::promptly;
use crate::call::turn_context;
use crate::clock::CountingIds;

/// Mounts the rules of the [`Approver`](neuraxis_ports::Approver) port as tests. The given approver must answer every
/// question automatically.
#[macro_export]
macro_rules! approver_suite {
    ($approver:expr) => {
        $crate::mount_rules! { approver, $approver, [
            several_questions_may_be_open_at_once
            the_next_question_is_answered_after_one_is_withdrawn
        ] }
    };
}

/// Several questions of one run are open at the same time, and each gets its answer.
pub async fn several_questions_may_be_open_at_once(approver: impl Approver) {
    let asks: Vec<_> = (0..8).map(ask).collect();
    let turn = turn_context();
    let replies = join_all(asks.iter().map(|ask| approver.decide(ask, &turn)));
    assert_eq!(promptly("a question stays open", replies).await.len(), 8);
}

/// A question whose future is dropped is withdrawn, and the next one is still answered.
pub async fn the_next_question_is_answered_after_one_is_withdrawn(approver: impl Approver) {
    let turn = turn_context();
    let withdrawn = approver.decide(&ask(0), &turn).now_or_never();
    drop(withdrawn);
    promptly(
        "the second question stays open",
        approver.decide(&ask(1), &turn),
    )
    .await;
}

fn ask(number: u32) -> AskApproval {
    let run = CountingIds::nth_run(1);
    let arguments = JsonText::from_text(format!(r#"{{"number":{number}}}"#));
    AskApproval {
        effect_id: EffectId { run, number },
        agent: AgentId::ROOT,
        tool_call_id: ToolCallId::new(run, AgentId::ROOT, ContentIndex(1), CallIndex(number)),
        name: "write".into(),
        arguments_hash: arguments.hash(),
        arguments,
        reason: "it writes".to_owned(),
        rule: None,
        choices: Vec::new(),
        expires_at: None,
    }
}
