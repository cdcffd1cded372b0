//! What can happen in a run, in any order, most of which no engine would produce.

use std::sync::Arc;

use neuraxis::Event;
use neuraxis::core::{
    AgentId, ApprovalDecided, ApprovalDecision, ApprovalRequested, Attempt, BlockIndex, CallIndex,
    ContentIndex, EffectId, FinishReason, InputId, JsonText, LiveBody, LiveEvent, Origin, Pending,
    PendingKind, PlanChanged, Purpose, Record, RecordBody, ReplyAdvice, RunOutcome, RunUsage, Seq,
    ToolCallId, ToolCallStarted, ToolClass, ToolKind, ToolOutcome, ToolOutput, ToolResult, Waiting,
};
use neuraxis_testkit::{RunLog, reply};
use proptest::prelude::*;

/// Something that happens in a run.
#[derive(Debug, Clone)]
pub(super) enum Happening {
    Says(u8, u8, u8, bool),
    TakesBack(u8, u8),
    Replies {
        agent: u8,
        call: u8,
        text: bool,
        calls: u8,
        turned_down: bool,
        last: bool,
    },
    Calls {
        agent: u8,
        call: u8,
        starts: Option<u8>,
    },
    Answers(u8, u8),
    Asks(u8, u8),
    Decides(u8, u8),
    Plans,
    Warns(u8),
    Ends(u8, bool),
    Waits,
}

pub(super) fn happening() -> impl Strategy<Value = Happening> {
    let agent = 0..4_u8;
    let call = 0..4_u8;
    prop_oneof![
        6 => (agent.clone(), call.clone(), 0..3_u8, any::<bool>())
            .prop_map(|(agent, call, block, thought)| Happening::Says(agent, call, block, thought)),
        1 => (agent.clone(), call.clone()).prop_map(|(agent, call)| Happening::TakesBack(agent, call)),
        3 => (agent.clone(), call.clone(), any::<bool>(), 0..3_u8, any::<bool>(), any::<bool>()).prop_map(
            |(agent, call, text, calls, turned_down, last)| Happening::Replies {
                agent, call, text, calls, turned_down, last,
            }
        ),
        3 => (agent.clone(), call.clone(), proptest::option::of(0..4_u8))
            .prop_map(|(agent, call, starts)| Happening::Calls { agent, call, starts }),
        2 => (agent.clone(), call.clone()).prop_map(|(agent, call)| Happening::Answers(agent, call)),
        1 => (agent.clone(), call.clone()).prop_map(|(agent, call)| Happening::Asks(agent, call)),
        1 => (agent.clone(), call).prop_map(|(agent, call)| Happening::Decides(agent, call)),
        1 => Just(Happening::Plans),
        1 => agent.clone().prop_map(Happening::Warns),
        1 => (agent, any::<bool>()).prop_map(|(agent, failed)| Happening::Ends(agent, failed)),
        1 => Just(Happening::Waits),
    ]
}

fn id(log: &RunLog, agent: u8, call: u8) -> ToolCallId {
    let content = ContentIndex(call.into());
    ToolCallId::new(log.run(), AgentId(agent.into()), content, CallIndex(0))
}

fn effect(log: &RunLog, agent: u8, call: u8) -> EffectId {
    let number = u32::from(agent) * 100 + u32::from(call);
    let run = log.run();
    EffectId { run, number }
}

pub(super) fn live(log: &RunLog, agent: u8, call: u8, block: u8, body: LiveBody) -> Event {
    Event::Live(LiveEvent {
        after: Seq(0),
        content_index: ContentIndex(call.into()),
        run_id: log.run(),
        agent: AgentId(agent.into()),
        call: effect(log, agent, call),
        attempt: Attempt(1),
        block: BlockIndex(block.into()),
        offset: 0,
        body,
    })
}

pub(super) fn replied(
    log: &mut RunLog,
    agent: u8,
    call: u8,
    reply: neuraxis::core::Reply,
    last: bool,
) -> Record {
    let mut record = Arc::unwrap_or_clone(log.replied(reply));
    record.agent = AgentId(agent.into());
    record.content_index = Some(ContentIndex(call.into()));
    if let RecordBody::LlmCall(made) = &mut record.body {
        made.effect_id = effect(log, agent, call);
        if last {
            made.purpose = Purpose::LastAnswer;
        }
    }
    record
}

fn approval_requested(log: &RunLog, agent: u8, call: u8) -> ApprovalRequested {
    let arguments = JsonText::from_text(r#"{"order":17}"#);
    ApprovalRequested {
        effect_id: effect(log, agent, call),
        tool_call_id: id(log, agent, call),
        name: "refund".into(),
        arguments_hash: arguments.hash(),
        arguments,
        reason: "It costs money.".to_owned(),
        causes: Vec::new(),
        rule: None,
        choices: Vec::new(),
        expires_at: None,
    }
}

fn outcome(failed: bool) -> Box<RunOutcome> {
    let finish_reason = match failed {
        true => FinishReason::Failed("no connection".to_owned()),
        false => FinishReason::Stop,
    };
    Box::new(RunOutcome {
        content: String::new(),
        finish_reason,
        turns: 1,
        usage: RunUsage::default(),
        sources: Vec::new(),
        unheard: 0,
        failed_call: None,
        interruption: None,
    })
}

fn called(log: &RunLog, agent: u8, call: u8, starts: Option<u8>) -> RecordBody {
    let arguments = JsonText::from_text("{}");
    RecordBody::ToolCall(Box::new(ToolCallStarted {
        tool_call_id: id(log, agent, call),
        name: "look".into(),
        index: CallIndex(0),
        effect_id: effect(log, agent, call),
        attempt: Attempt(1),
        arguments_hash: arguments.hash(),
        arguments,
        class: ToolClass::default(),
        kind: ToolKind::Server,
        origin: Origin::Model,
        agents: starts
            .map(|agent| AgentId(agent.into()))
            .into_iter()
            .collect(),
    }))
}

fn answered(log: &RunLog, agent: u8, call: u8) -> RecordBody {
    let seen = ToolOutcome::done(ToolOutput::new(JsonText::string("seen")));
    let result = ToolResult::of(id(log, agent, call), "look", CallIndex(0), seen);
    RecordBody::ToolResult(Box::new(result))
}

fn decided(log: &RunLog, agent: u8, call: u8) -> ApprovalDecided {
    ApprovalDecided {
        id: InputId::new("d"),
        tool_call_id: id(log, agent, call),
        arguments_hash: approval_requested(log, agent, call).arguments_hash,
        decision: ApprovalDecision::APPROVE,
        by: None,
        code: None,
        given_before: None,
    }
}

fn waiting(log: &RunLog) -> Waiting {
    let pending = Pending {
        effect_id: effect(log, 0, 0),
        tool_call_id: id(log, 0, 0),
        kind: PendingKind::Approval,
        expires_at: None,
    };
    Waiting {
        pending: vec![pending],
    }
}

pub(super) fn event(log: &mut RunLog, happening: &Happening) -> Event {
    let of = |agent: u8| AgentId(agent.into());
    let (agent, body) = match *happening {
        Happening::Says(agent, call, block, thought) => {
            let text = "Hm. ".to_owned();
            let body = match thought {
                true => LiveBody::ReasoningDelta { text },
                false => LiveBody::TextDelta { text },
            };
            return live(log, agent, call, block, body);
        }
        Happening::TakesBack(agent, call) => {
            return live(log, agent, call, 0, LiveBody::TextRetracted);
        }
        Happening::Replies {
            agent,
            call,
            text,
            calls,
            turned_down,
            last,
        } => {
            let calls = (0..calls).map(|_| ("look", "{}"));
            let mut reply = match text {
                true => reply::text_and_calls("Hm. Hm. ", calls),
                false => reply::calls(calls),
            };
            if turned_down {
                let reason = "No.".to_owned();
                reply.advice = Some(Box::new(ReplyAdvice::AskAgain { reason }));
            }
            let record = replied(log, agent, call, reply, last);
            return Event::Record(Arc::new(record));
        }
        Happening::Calls {
            agent,
            call,
            starts,
        } => (of(agent), called(log, agent, call, starts)),
        Happening::Answers(agent, call) => (of(agent), answered(log, agent, call)),
        Happening::Asks(agent, call) => {
            let request = approval_requested(log, agent, call);
            (of(agent), RecordBody::ApprovalRequested(Box::new(request)))
        }
        Happening::Decides(agent, call) => {
            let decided = decided(log, agent, call);
            (of(agent), RecordBody::ApprovalDecided(Box::new(decided)))
        }
        Happening::Plans => {
            let plan = JsonText::from_text(r#"{"steps":["look"]}"#);
            let tool_call_id = id(log, 0, 0);
            let plan = PlanChanged { tool_call_id, plan };
            (AgentId::ROOT, RecordBody::Plan(Box::new(plan)))
        }
        Happening::Warns(agent) => {
            let mut record = Arc::unwrap_or_clone(log.warned("Careful."));
            record.agent = of(agent);
            return Event::Record(Arc::new(record));
        }
        Happening::Ends(agent, failed) => {
            // The root agent's end is the run's end, which comes last.
            let agent = of(agent.max(1));
            let body = match failed {
                true => RecordBody::RunFailed(outcome(true)),
                false => RecordBody::Final(outcome(false)),
            };
            (agent, body)
        }
        Happening::Waits => (AgentId::ROOT, RecordBody::Waiting(Box::new(waiting(log)))),
    };
    Event::Record(log.record_of(agent, body))
}
