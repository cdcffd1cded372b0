//! Attributes that several kinds of spans share.

use neuraxis_core::{AgentId, Cost, CountLabel, LlmCall, TokenCount, Usage};
use opentelemetry::{Array, KeyValue, StringValue, Value};
use serde::Serialize;

use crate::content;
use crate::names;

/// Returns the attributes that identify the run, the agent and the session.
pub(super) fn identity(
    run: &StringValue,
    agent: AgentId,
    conversation: Option<&StringValue>,
) -> Vec<KeyValue> {
    let mut attributes = Vec::with_capacity(20);
    attributes.push(KeyValue::new(names::RUN, run.clone()));
    attributes.push(KeyValue::new(names::AGENT, agent.to_string()));
    if let Some(session) = conversation {
        attributes.push(KeyValue::new(names::CONVERSATION, session.clone()));
    }
    attributes
}

/// Adds which model answered and how.
pub(super) fn of_reply(call: &LlmCall, attributes: &mut Vec<KeyValue>) {
    let reply = &call.reply;
    let model = &reply.model;
    attributes.push(KeyValue::new(
        names::RESPONSE_MODEL,
        model.model.to_string(),
    ));
    attributes.push(finish_reasons(content::finish(reply.finish)));
    if let Some(first) = call.first_delta {
        attributes.push(KeyValue::new(names::STREAM, true));
        attributes.push(KeyValue::new(names::FIRST_CHUNK, first.as_secs_f64()));
    }
}

/// Adds how many tokens were used and how the counts are known. Unknown counts are left out.
pub(super) fn of_usage(usage: &Usage, attributes: &mut Vec<KeyValue>) {
    let label = word(&usage.total.label);
    attributes.push(KeyValue::new(names::USAGE_LABEL, label));
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
}

/// Adds the cost of all attempts of a call, as far as it is known, and how it is known.
pub(super) fn of_cost(cost: Option<Cost>, attributes: &mut Vec<KeyValue>) {
    if let Some(cost) = cost {
        let amount = i64::try_from(cost.amount.0).unwrap_or(i64::MAX);
        attributes.push(KeyValue::new(names::COST, amount));
    }
    let label = cost.map_or(CountLabel::Unknown, |cost| cost.label);
    attributes.push(KeyValue::new(names::COST_LABEL, word(&label)));
}

/// Adds the costs of two attempts. A failed attempt of unknown cost adds nothing, as with most providers.
pub(super) fn sum(one: Option<Cost>, other: Option<Cost>) -> Option<Cost> {
    match (one, other) {
        (Some(mut sum), Some(other)) => {
            sum += other;
            Some(sum)
        }
        (one, other) => one.or(other),
    }
}

/// Returns the attribute for why a model or an agent stopped, in the conventions' terms.
pub(super) fn finish_reasons(reason: &'static str) -> KeyValue {
    let reasons = Value::Array(Array::String(vec![StringValue::from(reason)]));
    KeyValue::new(names::FINISH_REASONS, reasons)
}

/// Returns the conventions' name of a provider, if they define one, and otherwise its own.
pub(crate) fn provider(name: &str) -> String {
    match name {
        "llama" => "llama_cpp".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns the word under which a value is recorded; for a value with fields, the word for its kind.
#[must_use]
pub fn word(value: &impl Serialize) -> String {
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
    fn an_error_type_names_the_kind_and_contains_no_content() {
        assert_eq!(word(&ToolFailure::Timeout), "timeout");
        assert_eq!(word(&LlmErrorKind::server(Some(503))), "server");
        assert_eq!(word(&FinishReason::MaxTurns), "max_turns");
        let failed = FinishReason::Interrupted("the canary sings".to_owned());
        assert_eq!(word(&failed), "interrupted");
    }
}
