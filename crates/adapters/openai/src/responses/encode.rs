//! Encodes requests. No message is encoded twice: messages that a request shares with an earlier one are reused as
//! bytes, which also keeps the beginning of a prompt byte-for-byte identical.

mod item;

use std::sync::Arc;

use bytes::Bytes;
use neuraxis_core::{LlmError, ModelRequest, ToolChoice};
use neuraxis_wire::request::{
    Delivery, JsonWriter, PrefixCache, RefusedReasoning, ToolDefinition, ToolsCache, check_media,
    check_named_tool, schema_of, write_schema,
};
use neuraxis_wire::{ParallelCalls, PropertyNames, ReasoningEffort, Temperature};

use self::item::{Rules, has_form};
use super::dialect::{EncryptedReasoning, ReasoningSummary, ReplyStorage, ResponsesDialect};

/// The lowest limit on a reply's tokens that the service accepts.
const FEWEST_TOKENS: u32 = 16;

/// Words in the service's refusal of encrypted reasoning: it was encrypted for another organization, or by another
/// server behind the same address.
const REFUSALS: [&str; 2] = ["invalid_encrypted_content", "encrypted content"];

/// Encodes the requests to one model.
#[derive(Debug)]
pub(super) struct Encoder {
    dialect: ResponsesDialect,
    /// The body up to the conversation.
    head: Vec<u8>,
    rules: Rules,
    prefixes: PrefixCache<Rules>,
    tools: ToolsCache,
    refused: RefusedReasoning,
}

impl Encoder {
    pub(super) fn new(model: &Arc<str>, server: &Arc<str>, dialect: ResponsesDialect) -> Self {
        let mut head = Vec::new();
        let mut json = JsonWriter::new(&mut head);
        json.raw(r#"{"model":"#);
        json.string(model);
        json.raw(",");
        Self {
            dialect,
            head,
            rules: Rules::new(Arc::clone(model), Arc::clone(server), dialect),
            prefixes: PrefixCache::default(),
            tools: ToolsCache::new(dialect.strict_tools, PropertyNames::Any, write_tool),
            refused: RefusedReasoning::new(&REFUSALS),
        }
    }

    /// Encodes a request.
    ///
    /// # Errors
    ///
    /// [`BadRequest`](neuraxis_core::LlmErrorKind::BadRequest) if this protocol cannot express the request.
    pub(super) fn body(
        &self,
        request: &ModelRequest,
        delivery: Delivery,
    ) -> Result<Bytes, LlmError> {
        check_named_tool(request)?;
        let tools = if request.tools.is_empty() {
            Bytes::new()
        } else {
            self.tools.encoded(&request.tools)?
        };
        let messages = request.messages.messages();
        let accepted = self.dialect.media;
        check_media(messages, |part| {
            accepted.refuses(&part.media_type) || has_form(part)
        })?;
        let no_reasoning_until = self.refused.without_until(messages);
        let rules = self.rules.without_reasoning_until(no_reasoning_until);
        let prefix = self.prefixes.encoded(messages, &rules)?;
        let encoded = prefix.bytes();
        let room = self.head.len() + encoded.len() + tools.len() + 128;
        let mut body = Vec::with_capacity(room);
        let mut json = JsonWriter::new(&mut body);
        json.bytes(&self.head);
        if encoded.is_empty() {
            json.raw(r#""input":["#);
        }
        json.bytes(encoded);
        json.raw("]");
        self.prefixes.store(prefix);
        self.write_tools(&mut json, request, &tools);
        self.write_settings(&mut json, request);
        self.write_reasoning(&mut json);
        if let Some((name, schema)) = schema_of(&request.reply_format) {
            json.raw(r#","text":{"format":{"type":"json_schema","#);
            write_schema(&mut json, name, schema)?;
            json.raw("}}");
        }
        if delivery == Delivery::Streamed {
            json.raw(r#","stream":true"#);
        }
        json.raw("}");
        Ok(body.into())
    }

    /// Notes that the service refused the reasoning in a request; returns any other error.
    pub(super) fn record_refusal(
        &self,
        error: LlmError,
        request: &ModelRequest,
    ) -> Result<(), LlmError> {
        self.refused.record(error, request.messages.messages())
    }

    fn write_tools(&self, json: &mut JsonWriter<'_>, request: &ModelRequest, tools: &Bytes) {
        if tools.is_empty() {
            return;
        }
        json.raw(r#","tools":"#);
        json.bytes(tools);
        match &request.tool_choice {
            ToolChoice::Auto => {}
            ToolChoice::None => json.raw(r#","tool_choice":"none""#),
            ToolChoice::Required => json.raw(r#","tool_choice":"required""#),
            ToolChoice::Named(name) => {
                json.raw(r#","tool_choice":{"type":"function","name":"#);
                json.string(name.as_str());
                json.raw("}");
            }
        }
        match self.dialect.parallel_calls {
            ParallelCalls::Allowed => json.raw(r#","parallel_tool_calls":true"#),
            ParallelCalls::Disallowed => json.raw(r#","parallel_tool_calls":false"#),
            ParallelCalls::Unspecified => {}
        }
    }

    fn write_settings(&self, json: &mut JsonWriter<'_>, request: &ModelRequest) {
        json.raw(match self.dialect.store {
            ReplyStorage::Stored => r#","store":true"#,
            ReplyStorage::NotStored => r#","store":false"#,
        });
        if let Some(most) = request.max_output_tokens {
            json.raw(r#","max_output_tokens":"#);
            json.raw(&most.max(FEWEST_TOKENS).to_string());
        }
        if let Some(temperature) = request.temperature.filter(|number| number.is_finite())
            && self.dialect.temperature == Temperature::Sent
        {
            json.raw(r#","temperature":"#);
            json.raw(&temperature.to_string());
        }
        if let Some(tier) = self.dialect.service_tier {
            json.raw(r#","service_tier":"#);
            json.string(tier.as_str());
        }
    }

    fn write_reasoning(&self, json: &mut JsonWriter<'_>) {
        let settings = [
            (
                "effort",
                self.dialect.reasoning_effort.map(ReasoningEffort::as_str),
            ),
            (
                "summary",
                self.dialect.reasoning_summary.map(ReasoningSummary::as_str),
            ),
        ];
        let mut said = settings
            .into_iter()
            .filter_map(|(name, word)| Some((name, word?)))
            .peekable();
        if said.peek().is_some() {
            json.raw(r#","reasoning":"#);
            let mut before = "{";
            for (name, word) in said {
                json.raw(before);
                json.string(name);
                json.raw(":");
                json.string(word);
                before = ",";
            }
            json.raw("}");
        }
        if self.dialect.encrypted_reasoning == EncryptedReasoning::Requested {
            json.raw(r#","include":["reasoning.encrypted_content"]"#);
        }
    }
}

/// Writes a tool, with its function's fields at the same level as the type. The protocol requires the `strict` field.
fn write_tool(tool: &ToolDefinition<'_>, json: &mut JsonWriter<'_>) {
    json.raw(r#"{"type":"function","#);
    tool.write_function(json);
    json.raw(r#","strict":"#);
    json.raw(match tool.is_strict {
        Some(true) => "true",
        Some(false) | None => "false",
    });
    json.raw("}");
}

#[cfg(test)]
mod tests;
