//! What messages and replies of models contain.

use std::sync::Arc;

use super::{MARKER, MEDIA, hide, hide_json, hide_state, sent_to, summed_up};
use crate::effect::Purpose;
use crate::ids::AgentId;
use crate::message::{
    AssistantMessage, Message, Part, ReasoningPart, TextPart, ToolCall, ToolMessage,
};
use crate::profile::DataPolicy;
use crate::record::LlmCall;
use crate::reply::{Reply, ReplyAdvice, ReplyPart, RequestedCall};

pub(super) fn model_call(call: &mut LlmCall, agent: AgentId, policy: DataPolicy) {
    let LlmCall {
        effect_id: _,
        attempt: _,
        purpose,
        role: _,
        served_by: _,
        downgraded: _,
        prefix: _,
        results: _,
        messages,
        reply,
        cost: _,
        cost_label: _,
        duration: _,
        first_delta: _,
    } = call;
    let (sent, said) = match purpose {
        Purpose::Compaction => (summed_up(policy), summed_up(policy)),
        _ => (sent_to(agent, policy), policy),
    };
    let is_of_conversation = matches!(
        purpose,
        Purpose::Turn | Purpose::LastAnswer | Purpose::Gather
    );
    let stored = messages.iter().map(|it| match it.as_ref() {
        // It may come from the program's code, or say why an answer was rejected: both may quote content. The system
        // prompt is never among the new messages.
        Message::System { text } if is_of_conversation => {
            let mut text = text.clone();
            hide(&mut text, sent.text);
            Arc::new(Message::System { text })
        }
        _ => message(it, sent),
    });
    *messages = stored.collect();
    answer(Arc::make_mut(reply), said, policy);
}

/// Hides parts of a reply; `said` is what may be stored of its text.
fn answer(reply: &mut Reply, said: DataPolicy, policy: DataPolicy) {
    let Reply {
        parts,
        finish: _,
        usage: _,
        model: _,
        advice,
    } = reply;
    for part in parts {
        match part {
            ReplyPart::Text(it) => text(it, said),
            ReplyPart::Reasoning(it) => reasoning(it, policy),
            ReplyPart::ToolCall(call) => {
                let RequestedCall {
                    provider_id: _,
                    name: _,
                    arguments,
                    state,
                } = call;
                hide_json(arguments, policy.tool_calls);
                hide_state(state, policy.tool_calls && policy.reasoning);
            }
        }
    }
    match advice.as_deref_mut() {
        Some(ReplyAdvice::AskAgain { reason } | ReplyAdvice::Refused { reason }) => {
            hide(reason, said.text);
        }
        Some(ReplyAdvice::Rewritten) | None => {}
    }
}

pub(super) fn message(message: &Arc<Message>, policy: DataPolicy) -> Arc<Message> {
    Arc::new(match message.as_ref() {
        // What the deployment and the loop tell the model is not user content.
        Message::System { text: _ } => return Arc::clone(message),
        Message::User { parts } => Message::User {
            parts: parts.iter().map(|it| part(it, policy)).collect(),
        },
        Message::Assistant(AssistantMessage { parts, model }) => {
            Message::Assistant(AssistantMessage {
                parts: parts.iter().map(|it| part(it, policy)).collect(),
                model: model.clone(),
            })
        }
        Message::Tool(ToolMessage {
            tool_call_id,
            name,
            content,
            media,
        }) => {
            let mut content = content.clone();
            hide_json(&mut content, policy.tool_results);
            let mut media = media.clone();
            media.retain(|_| policy.tool_results);
            Message::Tool(ToolMessage {
                tool_call_id: tool_call_id.clone(),
                name: Arc::clone(name),
                content,
                media,
            })
        }
    })
}

fn part(part: &Part, policy: DataPolicy) -> Part {
    let mut part = part.clone();
    match &mut part {
        Part::Text(it) => text(it, policy),
        Part::Reasoning(it) => reasoning(it, policy),
        Part::ToolCall(call) => {
            let ToolCall {
                id: _,
                name: _,
                arguments,
                provider_id: _,
                state,
            } = call;
            hide_json(arguments, policy.tool_calls);
            // Gemini puts its encrypted reasoning into its calls.
            hide_state(state, policy.tool_calls && policy.reasoning);
        }
        Part::Media(_) if !policy.text => return Part::text(format!("{MARKER}{MEDIA}")),
        Part::Media(_) => {}
    }
    part
}

fn text(part: &mut TextPart, policy: DataPolicy) {
    let TextPart { text, state } = part;
    hide(text, policy.text);
    hide_state(state, policy.text);
}

fn reasoning(thought: &mut ReasoningPart, policy: DataPolicy) {
    let ReasoningPart {
        index: _,
        text,
        id: _,
        signature,
        state,
    } = thought;
    hide(text, policy.reasoning);
    // Signatures and encrypted items are the reasoning in another form.
    hide_state(state, policy.reasoning);
    if !policy.reasoning {
        *signature = None;
    }
}
