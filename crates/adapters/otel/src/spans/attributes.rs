//! Attributes that several kinds of spans have.

use neuraxis_core::{AgentId, LlmCall, RunId, TokenCount};
use opentelemetry::{Array, KeyValue, StringValue, Value};
use serde::Serialize;

use crate::content;
use crate::names;

/// Names the run, the agent and the session.
pub(super) fn identity(run: RunId, agent: AgentId, conversation: Option<&str>) -> Vec<KeyValue> {
    let mut attributes = Vec::with_capacity(20);
    attributes.push(KeyValue::new(names::RUN, run.to_string()));
    attributes.push(KeyValue::new(names::AGENT, agent.to_string()));
    if let Some(session) = conversation {
        attributes.push(KeyValue::new(names::CONVERSATION, session.to_owned()));
    }
    attributes
}

/// Says who answered, how and with how many tokens. Counts that nobody gave are left out.
pub(super) fn of_reply(call: &LlmCall, attributes: &mut Vec<KeyValue>) {
    let reply = &call.reply;
    let model = &reply.model;
    attributes.push(KeyValue::new(names::PROVIDER, provider(&model.provider)));
    attributes.push(KeyValue::new(names::REQUEST_MODEL, model.model.to_string()));
    attributes.push(KeyValue::new(
        names::RESPONSE_MODEL,
        model.model.to_string(),
    ));
    let finish = StringValue::from(content::finish(reply.finish));
    let finish = Value::Array(Array::String(vec![finish]));
    attributes.push(KeyValue::new(names::FINISH_REASONS, finish));
    let usage = &reply.usage;
    let counts = [
        (names::INPUT_TOKENS, Some(usage.prompt)),
        (names::OUTPUT_TOKENS, Some(usage.completion)),
        (names::CACHE_READ, Some(usage.cached)),
        (names::CACHE_CREATION, usage.cache_written),
        (names::REASONING_TOKENS, Some(usage.reasoning)),
    ];
    for (name, count) in counts {
        if let Some(count) = count.filter(|count| *count != TokenCount::UNKNOWN) {
            let tokens = i64::try_from(count.tokens).unwrap_or(i64::MAX);
            attributes.push(KeyValue::new(name, tokens));
        }
    }
    if let Some(first) = call.first_delta {
        attributes.push(KeyValue::new(names::STREAM, true));
        attributes.push(KeyValue::new(names::FIRST_CHUNK, first.as_secs_f64()));
    }
    if let Some(cost) = call.cost {
        let cost = i64::try_from(cost.0).unwrap_or(i64::MAX);
        attributes.push(KeyValue::new(names::COST, cost));
    }
}

/// Returns a provider's name as the conventions have it, where they have one.
pub(crate) fn provider(name: &str) -> String {
    match name {
        "llama" => "llama_cpp".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns the word by which a value is recorded: of one that holds more, the word for its kind.
pub(crate) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(serde_json::Value::Object(fields)) => {
            let kind = fields.get("kind").and_then(serde_json::Value::as_str);
            let first = || fields.keys().next().map(String::as_str);
            kind.or_else(first).unwrap_or("other").to_owned()
        }
        _ => "other".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::{FinishReason, LlmErrorKind, ToolFailure};

    use super::*;

    #[test]
    fn a_word_says_what_kind_of_thing_happened_and_nothing_of_what_was_said() {
        assert_eq!(word(&ToolFailure::Timeout), "timeout");
        assert_eq!(word(&LlmErrorKind::server(Some(503))), "server");
        assert_eq!(word(&FinishReason::MaxTurns), "max_turns");
        let failed = FinishReason::Interrupted("the canary sings".to_owned());
        assert_eq!(word(&failed), "interrupted");
    }
}
