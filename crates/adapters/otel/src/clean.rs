//! Prepares a span for export: first secrets are removed, then overlong text is cut, and JSON stays valid JSON. In the
//! other order, a key that is cut in half would no longer be recognized.

use std::borrow::Cow;

use opentelemetry::trace::Status;
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::SpanData;

use crate::config::Redact;
use crate::names;

/// The maximum number of characters of one text; of a longer one, the beginning is exported.
const MAX_CHARS: usize = 16_384;

/// The maximum size of an attribute, in bytes. Of a larger one that is not a single text, only the beginning is
/// exported, as text. The three attributes of a model call that can be this large fit into one request together.
const MAX_BYTES: usize = 1 << 20;

/// The end of a text that was cut.
const CUT: &str = "… [cut]";

/// Removes secrets from a span and cuts what is too long.
pub(crate) fn clean(redact: &Redact, span: &mut SpanData) {
    if let Cow::Owned(name) = redact.text(&span.name) {
        span.name = name.into();
    }
    clean_all(redact, &mut span.attributes);
    for event in &mut span.events.events {
        // The name of a `tracing` event is its message.
        if let Cow::Owned(name) = redact.text(&event.name) {
            event.name = name.into();
        }
        clean_all(redact, &mut event.attributes);
    }
    if let Status::Error { description } = &mut span.status
        && let Cow::Owned(clean) = redact.text(description)
    {
        *description = clean.into();
    }
}

/// Returns the total number of bytes of a span's texts.
pub(crate) fn size(span: &SpanData) -> u64 {
    let events = span.events.events.iter();
    let attributes = events.flat_map(|event| &event.attributes);
    let texts = span.attributes.iter().chain(attributes);
    let bytes = texts.map(|attribute| match &attribute.value {
        Value::String(text) => text.as_str().len(),
        _ => 0,
    });
    u64::try_from(bytes.sum::<usize>()).unwrap_or(u64::MAX)
}

fn clean_all(redact: &Redact, attributes: &mut [KeyValue]) {
    let clean = |text: &mut StringValue| {
        if let Cow::Owned(cleaned) = redact.text(text.as_str()) {
            *text = cleaned.into();
        }
    };
    for attribute in attributes {
        let is_content = names::CONTENT.contains(&attribute.key.as_str());
        match &mut attribute.value {
            Value::String(text) if is_content => {
                let cleaned = redact.json(text.as_str());
                if let Cow::Owned(shorter) = cut(&cleaned) {
                    *text = shorter.into();
                } else if let Cow::Owned(cleaned) = cleaned {
                    *text = cleaned.into();
                }
            }
            Value::String(text) => clean(text),
            Value::Array(Array::String(texts)) => texts.iter_mut().for_each(clean),
            _ => {}
        }
    }
}

/// Cuts overlong strings in a JSON text, which stays valid JSON.
fn cut(text: &str) -> Cow<'_, str> {
    // No string in it can be longer than the text itself.
    if text.len() <= MAX_CHARS {
        return Cow::Borrowed(text);
    }
    let shorter = match serde_json::from_str::<serde_json::Value>(text) {
        Ok(mut value) => {
            if !cut_texts(&mut value) && text.len() <= MAX_BYTES {
                return Cow::Borrowed(text);
            }
            value.to_string()
        }
        Err(_) => text.to_owned(),
    };
    match shorter.len() > MAX_BYTES || shorter == text {
        true => Cow::Owned(serde_json::Value::String(beginning(&shorter)).to_string()),
        false => Cow::Owned(shorter),
    }
}

/// Cuts each overlong string of a value, and returns whether there was one.
fn cut_texts(value: &mut serde_json::Value) -> bool {
    match value {
        serde_json::Value::String(text) if text.chars().nth(MAX_CHARS).is_some() => {
            *text = beginning(text);
            true
        }
        // Every item is visited, even after one was cut.
        serde_json::Value::Array(items) => {
            items
                .iter_mut()
                .filter_map(|item| cut_texts(item).then_some(()))
                .count()
                > 0
        }
        serde_json::Value::Object(fields) => {
            fields
                .values_mut()
                .filter_map(|field| cut_texts(field).then_some(()))
                .count()
                > 0
        }
        _ => false,
    }
}

fn beginning(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}{CUT}", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use opentelemetry::InstrumentationScope;
    use opentelemetry::trace::{Event, SpanContext, SpanId, SpanKind};
    use opentelemetry_sdk::trace::{SpanEvents, SpanLinks};
    use serde_json::{Value, json};

    use super::*;

    fn without_canaries() -> Redact {
        Redact::new(|text| {
            let has_one = text.contains("canary-");
            let clean = text.split("canary-0123456789").collect::<Vec<_>>();
            has_one.then(|| clean.join("[redacted]"))
        })
    }

    fn cleaned(redact: &Redact, text: &str) -> String {
        let mut attributes = [KeyValue::new(names::ARGUMENTS, text.to_owned())];
        clean_all(redact, &mut attributes);
        attributes[0].value.as_str().into_owned()
    }

    #[test]
    fn a_secret_in_an_event_message_is_redacted() {
        let mut events = SpanEvents::default();
        let said = "sent canary-0123456789 along";
        events
            .events
            .push(Event::new(said, UNIX_EPOCH, Vec::new(), 0));
        let mut span = SpanData {
            span_context: SpanContext::empty_context(),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: "job".into(),
            start_time: UNIX_EPOCH,
            end_time: UNIX_EPOCH,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events,
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::builder("test").build(),
        };
        clean(&without_canaries(), &mut span);
        assert_eq!(span.events.events[0].name, "sent [redacted] along");
    }

    #[test]
    fn a_secret_across_the_cut_of_a_long_text_is_redacted_whole() {
        // If the text were cut first, the beginning of the secret would remain.
        for before in MAX_CHARS - 20..MAX_CHARS + 2 {
            let said = json!({"text": format!("{}canary-0123456789 and more {}", "x".repeat(before), "y".repeat(99))});
            let clean = cleaned(&without_canaries(), &said.to_string());
            assert!(!clean.contains("canary"), "{before}");
            let clean: Value = serde_json::from_str(&clean).unwrap();
            let text = clean["text"].as_str().unwrap();
            assert!(text.ends_with(CUT), "{before}");
        }
    }

    #[test]
    fn a_long_text_is_cut_and_the_json_stays_valid() {
        let long = "\"é".repeat(MAX_CHARS);
        let said = json!([{"role": "user", "parts": [{"type": "text", "content": long}], "n": 1}]);
        let clean = cleaned(&Redact::default(), &said.to_string());
        let clean: Value = serde_json::from_str(&clean).unwrap();
        let content = clean[0]["parts"][0]["content"].as_str().unwrap();
        assert_eq!(content.chars().count(), MAX_CHARS + CUT.chars().count());
        assert_eq!(clean[0]["n"], 1);
        let short = r#"{"a":  1.50}"#;
        assert_eq!(cleaned(&Redact::default(), short), short);
    }

    #[test]
    fn json_without_long_texts_is_kept_whole_up_to_a_size_limit() {
        let list = |count: usize| json!(vec![12_345; count]).to_string();
        let (some, many) = (list(10_000), list(1_000_000));
        assert_eq!(cleaned(&Redact::default(), &some), some);
        let clean = cleaned(&Redact::default(), &many);
        let clean: Value = serde_json::from_str(&clean).unwrap();
        assert!(clean.as_str().unwrap().starts_with("[12345,"), "{clean}");
    }

    #[test]
    fn a_greedy_redaction_is_applied_to_each_string_separately() {
        // Like a pattern without an end.
        let redact = Redact::new(|text| {
            let start = text.find("CUST-")?;
            Some(format!("{}[redacted]", text.get(..start)?))
        });
        let said = json!([{"a": "of CUST-1 and", "b": "c"}, 2]);
        let clean = cleaned(&redact, &said.to_string());
        assert_eq!(clean, r#"[{"a":"of [redacted]","b":"c"},2]"#);
    }
}
