//! Users: they interrupt, add to their request, decide about calls, and run tools of their own.

use std::time::Duration;

use neuraxis_core::{
    ApprovalDecided, ApprovalDecision, AskApproval, GrantScope, InputId, JsonText, PendingKind,
    RecordBody, RunId, RunTree, Seq, ToolFailure, ToolOutcome, ToolOutput,
};
use neuraxis_engine::{Answer, RunHandle};
use neuraxis_ports::{
    Approver, ApproverReply, RunLog as _, SessionIndex as _, TurnContext, async_trait,
};

use crate::dice::Dice;
use crate::moment;
use crate::world::World;

/// A message that a run accepted.
pub(crate) struct Steered {
    pub(crate) text: String,
    pub(crate) records_before: usize,
}

/// Sends another message to a run in progress, or cancels it.
pub(crate) async fn disturb(world: &World, handle: &RunHandle) -> Vec<Steered> {
    let mut taken = Vec::new();
    while world.dice.percent(30) {
        let over = tokio::time::timeout(moment(world), handle.result()).await;
        if over.is_ok() {
            break;
        }
        if world.dice.percent(20) {
            let _ = handle.cancel("never mind");
        } else {
            let text = format!("by the way {}", world.dice.below(u32::MAX));
            let records_before = handle.records().len();
            if handle.steer(text.as_str()).is_ok() {
                taken.push(Steered {
                    text,
                    records_before,
                });
            }
        }
    }
    taken
}

/// Answers what a run waits for: one item or all.
pub(crate) fn answers(world: &World, run: RunId) -> Vec<Answer> {
    let (records, before) = crate::process().block_on(async {
        let records = world.store.records(run, Seq(0)).await.unwrap();
        (records, world.store.history_before(run).await.unwrap())
    });
    let (tree, _) = RunTree::restore(before, &records).unwrap();
    let mut answers = Vec::new();
    for pending in tree.pending() {
        if !answers.is_empty() && world.dice.percent(50) {
            break;
        }
        if pending.kind == PendingKind::ClientTool {
            answers.push(Answer::ToolResult {
                call: pending.tool_call_id.clone(),
                outcome: picked(&world.dice),
                duration: Duration::from_secs(1),
            });
            continue;
        }
        let asked = records.iter().rev().find_map(|record| match &record.body {
            RecordBody::ApprovalRequested(asked) if asked.tool_call_id == pending.tool_call_id => {
                Some(asked)
            }
            _ => None,
        });
        let asked = asked.unwrap();
        answers.push(Answer::Approval(ApprovalDecided {
            id: InputId::new(format!(
                "{}-{}",
                asked.effect_id,
                world.dice.below(u32::MAX)
            )),
            tool_call_id: asked.tool_call_id.clone(),
            arguments_hash: asked.arguments_hash,
            decision: decision(&world.dice),
            by: None,
            code: None,
            given_before: None,
        }));
    }
    answers
}

fn picked(dice: &Dice) -> ToolOutcome {
    if dice.percent(20) {
        ToolOutcome::failed(ToolFailure::Error, "nothing was picked")
    } else {
        ToolOutcome::done(ToolOutput::new(JsonText::from_text("\"red\"")))
    }
}

fn decision(dice: &Dice) -> ApprovalDecision {
    match dice.below(10) {
        0..5 => ApprovalDecision::APPROVE,
        5 => ApprovalDecision::approve_for_session(GrantScope::Tool),
        6 => ApprovalDecision::approve_with(JsonText::from_text(format!(
            "{{\"edited\":{}}}",
            dice.below(1_000)
        ))),
        7 => ApprovalDecision::approve_with(JsonText::from_text("[not JSON")),
        8 => ApprovalDecision::Deny { reason: None },
        _ => ApprovalDecision::Expired,
    }
}

/// A user who decides immediately, later, or not at all.
#[derive(Debug)]
pub(crate) struct Somebody(pub(crate) Dice);

#[async_trait]
impl Approver for Somebody {
    async fn decide(&self, _: &AskApproval, _: &TurnContext) -> ApproverReply {
        let wait = Duration::from_millis(u64::from(self.0.below(20_000)));
        tokio::time::sleep(wait).await;
        match self.0.below(10) {
            0..5 => ApproverReply::Decided {
                decision: decision(&self.0),
                by: Some("somebody".to_owned()),
            },
            5..9 => ApproverReply::Later,
            _ => ApproverReply::Nobody,
        }
    }
}
