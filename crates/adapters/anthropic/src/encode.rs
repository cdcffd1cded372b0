//! Encodes requests. No message is encoded twice: the part that a request shares with an earlier one is copied as
//! bytes. This also keeps the beginning of a prompt the same, byte for byte, as the service's cache and signatures
//! require.

mod content;
mod message;
mod schema;
mod settings;

use std::sync::Arc;

use bytes::Bytes;
use neuraxis_core::{LlmError, Message, ModelRef, ModelRequest};
use neuraxis_wire::request::{
    Delivery, JsonWriter, Prefix, PrefixCache, ToolDefinition, ToolsCache, check_media,
    check_named_tool,
};
use neuraxis_wire::{PropertyNames, StrictTools};

pub(crate) use self::content::MEDIA;
use self::content::{has_form, write_text};
use self::message::{Position, Rules};
use self::settings::{RequestSettings, Settings};
use crate::config::AnthropicConfig;
use crate::thinking::NewThinking;

/// The message for a model that would otherwise continue its own: the service refuses such a conversation.
const CONTINUE: &str = "Please continue.";

/// How many blocks of the conversation are marked for the cache: with those for the tools and the instructions, as many
/// marks as are allowed. This request's last mark is the next request's second to last.
const MARKS: usize = 2;

/// Encodes the requests to one model.
#[derive(Debug)]
pub(crate) struct Encoder {
    /// The body up to the conversation.
    head: Vec<u8>,
    rules: Rules,
    prefixes: PrefixCache<Rules>,
    tools: ToolsCache,
    settings: Settings,
}

impl Encoder {
    pub(crate) fn new(model: ModelRef, config: &AnthropicConfig) -> Self {
        let mut head = Vec::new();
        let mut json = JsonWriter::new(&mut head);
        json.raw(r#"{"model":"#);
        json.string(&model.model);
        json.raw(",");
        let rules = Rules {
            model,
            cache: config.cache,
            no_thinking_until: 0,
            takes_unsigned: config.takes_unsigned_thinking(),
        };
        Self {
            head,
            tools: ToolsCache::new(StrictTools::Unspecified, PropertyNames::Plain, write_tool),
            rules,
            prefixes: PrefixCache::default(),
            settings: Settings::new(config),
        }
    }

    /// Encodes a request, without the thinking of its first `no_thinking_until` messages. Also returns whether the
    /// reply's thinking is sent back later.
    ///
    /// # Errors
    ///
    /// [`BadRequest`](neuraxis_core::LlmErrorKind::BadRequest) for content that this protocol cannot express.
    pub(crate) fn body(
        &self,
        request: &ModelRequest,
        delivery: Delivery,
        no_thinking_until: usize,
    ) -> Result<(Bytes, NewThinking), LlmError> {
        check_named_tool(request)?;
        let tools = match request.tools.is_empty() {
            true => Bytes::new(),
            false => self.tools.encoded(&request.tools)?,
        };
        let messages = request.messages.messages();
        check_media(messages, has_form)?;
        let rules = Rules {
            no_thinking_until,
            ..self.rules.clone()
        };
        let settings = self.settings.for_request(request, &rules)?;
        let prefix = self.prefixes.encoded(messages, &rules)?;
        let room = self.head.len() + prefix.bytes().len() + tools.len() + 128;
        let mut body = Vec::with_capacity(room);
        let mut json = JsonWriter::new(&mut body);
        json.bytes(&self.head);
        write_marked(&prefix, messages, rules.mark(), &mut json);
        self.prefixes.store(prefix);
        write_end(messages, &rules, &settings, &mut json);
        if let Some(tools) = tools.strip_suffix(b"}]") {
            json.raw(r#","tools":"#);
            json.bytes(tools);
            json.raw(rules.mark());
            json.raw("}]");
        }
        self.settings.write(&settings, &mut json);
        if delivery == Delivery::Streamed {
            json.raw(r#","stream":true"#);
        }
        json.raw("}");
        let says_more = !settings.notes.is_empty() || Position::after(messages) != Position::User;
        let thinking = match says_more && self.settings.binds_thinking {
            true => NewThinking::StaysOut,
            false => NewThinking::GoesBack,
        };
        Ok((body.into(), thinking))
    }

    /// Returns whether the request describes the reply form in words because the service refused its schema.
    pub(crate) fn describes_refused_form(&self, request: &ModelRequest) -> bool {
        self.settings.refused_schemas.has(request)
    }

    /// Records that the service refuses the form of a reply as too complex. Returns `false` for any other error.
    pub(crate) fn record_refused_form(&self, error: &LlmError, request: &ModelRequest) -> bool {
        self.settings.refused_schemas.record(error, request)
    }
}

/// Writes an encoded conversation, and marks the ends of its last user messages for the cache.
fn write_marked(
    prefix: &Prefix<Rules>,
    messages: &[Arc<Message>],
    mark: &str,
    json: &mut JsonWriter<'_>,
) {
    let bytes = prefix.bytes();
    let mut written = 0;
    let mut places = [0; MARKS];
    if !mark.is_empty() {
        for (place, end) in places.iter_mut().rev().zip(ends_of_user(messages)) {
            // Before the brace that ends the block.
            *place = prefix.end_of(end).saturating_sub(1);
        }
    }
    for place in places.into_iter().filter(|place| *place > 0) {
        json.bytes(bytes.get(written..place).unwrap_or_default());
        json.raw(mark);
        written = place;
    }
    json.bytes(bytes.get(written..).unwrap_or_default());
}

/// Returns the message counts after which the user has spoken and it is the model's turn, the last one first.
fn ends_of_user(messages: &[Arc<Message>]) -> impl Iterator<Item = usize> {
    let mut answered = true;
    (1..=messages.len()).rev().filter(move |count| {
        let was_answered = answered;
        let before = messages.get(..*count).unwrap_or_default();
        answered = matches!(before.last().map(Arc::as_ref), Some(Message::Assistant(_)));
        was_answered && Position::after(before) == Position::User
    })
}

/// Ends the conversation with the additions of this request alone, and always with a user message.
fn write_end(
    messages: &[Arc<Message>],
    rules: &Rules,
    settings: &RequestSettings,
    json: &mut JsonWriter<'_>,
) {
    let position = Position::after(messages);
    if position != Position::User {
        rules.end(position, json);
        rules.begin(position, Position::User, json);
        if settings.notes.is_empty() {
            write_text([CONTINUE], json);
        }
    }
    for note in &settings.notes {
        write_text([note.as_str()], json);
    }
    json.raw("]}]");
}

/// Writes a tool in the protocol's form.
fn write_tool(tool: &ToolDefinition<'_>, json: &mut JsonWriter<'_>) {
    json.raw(r#"{"name":"#);
    json.string(tool.name);
    json.raw(r#","description":"#);
    json.string(tool.description);
    json.raw(r#","input_schema":"#);
    json.raw(tool.schema);
    json.raw("}");
}
