//! Encodes requests. No message is encoded twice: the part that a request shares with an earlier one is copied as
//! bytes. This also keeps the beginning of a prompt the same, byte for byte.

mod media;
mod message;
mod object;

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use neuraxis_core::{
    LlmError, LlmErrorKind, MediaTypes, Message, ModelRequest, ToolChoice, ToolSpec,
};

pub(crate) use self::message::Rules;
use self::message::is_out_of_turn;
use crate::chat::dialect::{
    Dialect, LateSystem, ReplyForm, StreamUsage, ToolChoices, ToolsAndReasoning, TrailingAssistant,
};
use crate::chat::state::StateOrigin;
use crate::request::{
    Delivery, JsonWriter, PrefixCache, ToolDefinition, ToolsCache, check_media, check_named_tool,
    push_schema_message, schema_of, write_schema,
};
use crate::settings::{ParallelCalls, PropertyNames, ReasoningEffort, Temperature};

/// The user message for a server that would otherwise continue a trailing assistant message.
const CONTINUE: &str = "Please continue.";

/// Encodes the requests to one model.
#[derive(Debug)]
pub(super) struct Encoder {
    dialect: Dialect,
    origin: StateOrigin,
    /// The body up to the first message.
    head: Vec<u8>,
    prefixes: PrefixCache<Rules>,
    tools: ToolsCache,
    refused: Mutex<Refused>,
    /// The media that its server reports as accepted.
    media: Mutex<Option<MediaTypes>>,
}

/// What a server has refused, each permanently; media until the server reports that it accepts some. Requests may run
/// concurrently: whether one is worth a second try depends on the refusals known when it was sent, not on whether it is
/// the first.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Refused {
    /// A system message that is not the first.
    late_system: bool,
    /// Roles that do not alternate.
    repeated_roles: bool,
    /// An id of a call that does not have nine letters and digits.
    free_ids: bool,
    /// Calls that it did not sign.
    unsigned_calls: bool,
    /// The option for a stream's usage.
    stream_usage: bool,
    /// Images, sounds and files.
    media: bool,
    /// Tools.
    tools: bool,
}

/// The tools that are sent, and the tool choice.
enum SentTools<'a> {
    Nothing,
    All(&'a Arc<[ToolSpec]>, Choice<'a>),
    Only(&'a ToolSpec),
}

enum Choice<'a> {
    Auto,
    None,
    Required,
    Named(&'a str),
}

impl Encoder {
    pub(super) fn new(model: &str, dialect: Dialect) -> Self {
        let mut head = Vec::new();
        let mut json = JsonWriter::new(&mut head);
        json.raw(r#"{"model":"#);
        json.string(model);
        json.raw(r#","messages":["#);
        Self {
            dialect,
            origin: StateOrigin::default(),
            head,
            prefixes: PrefixCache::default(),
            tools: ToolsCache::new(dialect.strict_tools, PropertyNames::Any, write_tool),
            refused: Mutex::default(),
            media: Mutex::default(),
        }
    }

    /// Sets the server and model that the requests go to: state from a server is sent to no other.
    pub(super) fn at(mut self, origin: StateOrigin) -> Self {
        self.origin = origin;
        self
    }

    /// Encodes a request.
    ///
    /// # Errors
    ///
    /// [`LlmErrorKind::BadRequest`] for content that this protocol cannot express.
    pub(super) fn body(
        &self,
        request: &ModelRequest,
        delivery: Delivery,
    ) -> Result<Bytes, LlmError> {
        let with_schema = self.with_schema_message(request);
        let request = with_schema.as_ref().unwrap_or(request);
        let offer = self.offer(request)?;
        let effort = self.effort(&offer)?;
        let tools = match &offer {
            SentTools::Nothing => Bytes::new(),
            SentTools::All(tools, _) => self.tools.encoded(tools)?,
            SentTools::Only(tool) => self.tools.encode(std::slice::from_ref(*tool))?,
        };
        let messages = request.messages.messages();
        let rules = self.rules(messages);
        let is_refused = self.refused().media;
        check_media(messages, |part| {
            !is_refused && (rules.dialect.media.refuses(&part.media_type) || rules.has_form(part))
        })?;
        let prefix = self.prefixes.encoded(messages, &rules)?;
        let encoded = prefix.bytes();
        let room = self.head.len() + encoded.len() + tools.len() + 128;
        let mut body = Vec::with_capacity(room);
        let mut json = JsonWriter::new(&mut body);
        json.bytes(&self.head);
        json.bytes(encoded);
        rules.write_shown(messages, &mut json);
        if self.dialect.trailing_assistant == TrailingAssistant::Prompted
            && matches!(
                messages.last().map(Arc::as_ref),
                Some(Message::Assistant(_))
            )
        {
            json.raw(",");
            json.role_and_text("user", CONTINUE);
            json.raw("}");
        }
        json.raw("]");
        self.prefixes.store(prefix);
        self.write_tools(&mut json, &offer, &tools);
        self.write_settings(&mut json, request, effort, delivery);
        self.write_reply_form(&mut json, request)?;
        json.raw("}");
        Ok(body.into())
    }

    /// Returns a request with a message that describes the form of the reply, if the server does not support schemas.
    pub(super) fn with_schema_message(&self, request: &ModelRequest) -> Option<ModelRequest> {
        if self.dialect.reply_form == ReplyForm::JsonSchema {
            return None;
        }
        let (name, schema) = schema_of(&request.reply_format)?;
        // Messages and tools are shared, not copied.
        let mut request = request.clone();
        push_schema_message(&mut request.messages, name, schema);
        Some(request)
    }

    /// Returns what the server has refused so far.
    pub(super) fn refused(&self) -> Refused {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a refusal if it changes anything for a request, and returns whether it does.
    fn note(&self, changes: bool, refusal: fn(&mut Refused) -> &mut bool) -> bool {
        if changes {
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            *refusal(&mut refused) = true;
        }
        changes
    }

    /// Sends late system messages as user messages from now on. Returns `false` if that changes nothing for this
    /// request as it was sent.
    pub(super) fn avoid_late_system(&self, request: &ModelRequest, sent: Refused) -> bool {
        let is_late = |message: &Arc<Message>| matches!(**message, Message::System { .. });
        let has_late = request.messages.messages().iter().skip(1).any(is_late);
        let changes = has_late && self.dialect.late_system == LateSystem::Auto && !sent.late_system;
        self.note(changes, |refused| &mut refused.late_system)
    }

    /// Makes user and assistant alternate from now on. Returns `false` if that changes nothing for this request as it
    /// was sent.
    pub(super) fn alternate_roles(&self, request: &ModelRequest, sent: Refused) -> bool {
        let messages = request.messages.messages();
        let is_late = self.avoid_late_system(request, sent);
        let speaks_twice = messages.iter().enumerate().any(|(index, message)| {
            let before = messages.get(..index).unwrap_or_default();
            // Media from tools are sent in a user message after their results.
            let shows = matches!(&**message, Message::Tool(result) if !result.media.is_empty());
            shows || is_out_of_turn(message, before)
        });
        let changes = speaks_twice && !sent.repeated_roles;
        self.note(changes, |refused| &mut refused.repeated_roles) || is_late
    }

    /// Gives calls ids of nine letters and digits from now on. Returns `false` if that changes nothing for this request
    /// as it was sent.
    pub(super) fn use_strict_ids(&self, request: &ModelRequest, sent: Refused) -> bool {
        let names_call = |message: &Arc<Message>| matches!(**message, Message::Tool(_));
        let changes = request.messages.messages().iter().any(names_call) && !sent.free_ids;
        self.note(changes, |refused| &mut refused.free_ids)
    }

    /// Signs calls that the server did not sign, from now on. Returns `false` if that changes nothing for this request
    /// as it was sent.
    pub(super) fn sign_calls(&self, request: &ModelRequest, sent: Refused) -> bool {
        let messages = request.messages.messages();
        let rules = self.rules(messages);
        let is_unsigned = |message: &Arc<Message>| rules.is_unsigned(message);
        let changes = messages.iter().any(is_unsigned) && !sent.unsigned_calls;
        self.note(changes, |refused| &mut refused.unsigned_calls)
    }

    /// Stops requesting the usage of streams. Returns `false` if this request, as it was sent, did not ask for it.
    pub(super) fn stop_requesting_usage(&self, delivery: Delivery, sent: Refused) -> bool {
        let changes = delivery == Delivery::Streamed
            && self.dialect.stream_usage == StreamUsage::Requested
            && !sent.stream_usage;
        self.note(changes, |refused| &mut refused.stream_usage)
    }

    /// Omits images, sounds and files from now on. Returns `false` if that changes nothing for this request as it was
    /// sent. Media that the model has not answered yet are not omitted: [`body`](Self::body) fails with them.
    pub(super) fn omit_media(&self, request: &ModelRequest, sent: Refused) -> bool {
        let mut messages = request.messages.messages().iter();
        let changes = messages.any(|message| message.media().next().is_some()) && !sent.media;
        self.note(changes, |refused| &mut refused.media)
    }

    /// Stops offering tools, unless a call is required. Returns `false` if that changes nothing for this request as it
    /// was sent.
    pub(super) fn stop_offering_tools(&self, request: &ModelRequest, sent: Refused) -> bool {
        let changes = !request.tools.is_empty() && may_answer_without_tools(request) && !sent.tools;
        self.note(changes, |refused| &mut refused.tools)
    }

    /// Records which media the server reports as accepted.
    pub(super) fn learn_media(&self, media: MediaTypes) {
        // A restarted server may accept what it refused before.
        if media != MediaTypes::NONE {
            let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
            refused.media = false;
        }
        *self.media.lock().unwrap_or_else(PoisonError::into_inner) = Some(media);
    }

    pub(super) fn media(&self) -> MediaTypes {
        let reported = *self.media.lock().unwrap_or_else(PoisonError::into_inner);
        match self.refused().media {
            true => MediaTypes::NONE,
            false => reported.unwrap_or(self.dialect.media),
        }
    }

    fn rules(&self, messages: &[Arc<Message>]) -> Rules {
        let refused = self.refused();
        let late_as_user = match self.dialect.late_system {
            LateSystem::System => false,
            LateSystem::User => true,
            LateSystem::Auto => refused.late_system,
        };
        let mut dialect = self.dialect;
        dialect.media = self.media();
        Rules::new(dialect, late_as_user, messages)
            .alternating(refused.repeated_roles)
            .with_strict_ids(refused.free_ids)
            .with_signed_calls(refused.unsigned_calls)
            .at(self.origin.clone())
    }

    fn offer<'a>(&self, request: &'a ModelRequest) -> Result<SentTools<'a>, LlmError> {
        let tools = &request.tools;
        check_named_tool(request)?;
        if tools.is_empty() || (self.refused().tools && may_answer_without_tools(request)) {
            return Ok(SentTools::Nothing);
        }
        Ok(match (&request.tool_choice, self.dialect.tool_choices) {
            (ToolChoice::Auto, _) => SentTools::All(tools, Choice::Auto),
            (ToolChoice::None, ToolChoices::Ignored) => SentTools::Nothing,
            (ToolChoice::None, _) => SentTools::All(tools, Choice::None),
            (ToolChoice::Required, _) => SentTools::All(tools, Choice::Required),
            (ToolChoice::Named(name), support) => {
                match tools.iter().find(|tool| tool.name == *name) {
                    Some(tool) if support != ToolChoices::All => SentTools::Only(tool),
                    _ => SentTools::All(tools, Choice::Named(name.as_str())),
                }
            }
        })
    }

    fn write_tools(&self, json: &mut JsonWriter<'_>, offer: &SentTools<'_>, tools: &Bytes) {
        let choice = match offer {
            SentTools::Nothing => return,
            SentTools::All(_, choice) => choice,
            SentTools::Only(_) => &Choice::Required,
        };
        json.raw(r#","tools":"#);
        json.bytes(tools);
        match choice {
            Choice::Auto => {}
            Choice::None => json.raw(r#","tool_choice":"none""#),
            Choice::Required => json.raw(r#","tool_choice":"required""#),
            Choice::Named(name) => {
                json.raw(r#","tool_choice":{"type":"function","function":{"name":"#);
                json.string(name);
                json.raw("}}");
            }
        }
        match self.dialect.parallel_calls {
            ParallelCalls::Allowed => json.raw(r#","parallel_tool_calls":true"#),
            ParallelCalls::Disallowed => json.raw(r#","parallel_tool_calls":false"#),
            ParallelCalls::Unspecified => {}
        }
    }

    /// Returns the reasoning effort to send.
    fn effort(&self, offer: &SentTools<'_>) -> Result<Option<ReasoningEffort>, LlmError> {
        let configured = self.dialect.reasoning_effort;
        let is_free = matches!(offer, SentTools::Nothing)
            || self.dialect.tools_and_reasoning == ToolsAndReasoning::Together;
        match configured {
            _ if is_free => Ok(configured),
            None | Some(ReasoningEffort::None) => Ok(Some(ReasoningEffort::None)),
            Some(effort) => {
                let message = format!(
                    "this model accepts no function tools on Chat Completions while it reasons (effort {}): use the \
                     Responses API, or set the effort to none",
                    effort.as_str()
                );
                Err(LlmError::new(LlmErrorKind::BadRequest, message))
            }
        }
    }

    fn write_settings(
        &self,
        json: &mut JsonWriter<'_>,
        request: &ModelRequest,
        effort: Option<ReasoningEffort>,
        delivery: Delivery,
    ) {
        if let Some(most) = request.max_output_tokens {
            json.raw(",");
            json.string(self.dialect.max_tokens_field);
            json.raw(":");
            json.raw(&most.to_string());
        }
        if let Some(temperature) = request.temperature.filter(|number| number.is_finite())
            && self.dialect.temperature == Temperature::Sent
        {
            json.raw(r#","temperature":"#);
            json.raw(&temperature.to_string());
        }
        if let Some(effort) = effort {
            json.raw(r#","reasoning_effort":"#);
            json.string(effort.as_str());
        }
        if let Some(tier) = self.dialect.service_tier {
            json.raw(r#","service_tier":"#);
            json.string(tier.as_str());
        }
        if delivery == Delivery::Streamed {
            json.raw(r#","stream":true"#);
            if self.dialect.stream_usage == StreamUsage::Requested && !self.refused().stream_usage {
                json.raw(r#","stream_options":{"include_usage":true}"#);
            }
        }
    }

    fn write_reply_form(
        &self,
        json: &mut JsonWriter<'_>,
        request: &ModelRequest,
    ) -> Result<(), LlmError> {
        let Some((name, schema)) = schema_of(&request.reply_format) else {
            return Ok(());
        };
        match self.dialect.reply_form {
            ReplyForm::Ignored => {}
            ReplyForm::JsonObject => json.raw(r#","response_format":{"type":"json_object"}"#),
            ReplyForm::JsonSchema => {
                json.raw(r#","response_format":{"type":"json_schema","json_schema":{"#);
                write_schema(json, name, schema)?;
                json.raw("}}");
            }
        }
        Ok(())
    }
}

/// Returns whether a request leaves it to the model whether to call a tool.
const fn may_answer_without_tools(request: &ModelRequest) -> bool {
    matches!(request.tool_choice, ToolChoice::Auto | ToolChoice::None)
}

/// Writes a tool, with its function as a nested object.
fn write_tool(tool: &ToolDefinition<'_>, json: &mut JsonWriter<'_>) {
    json.raw(r#"{"type":"function","function":{"#);
    tool.write_function(json);
    if let Some(is_strict) = tool.is_strict {
        json.raw(r#","strict":"#);
        json.raw(if is_strict { "true" } else { "false" });
    }
    json.raw("}}");
}

#[cfg(test)]
mod tests;
