//! Turns the events of a stream, or a whole message, into the blocks of a reply, and rejects contradictions.
//!
//! Blocks keep the order in which they begin. Unknown parts of a reply are skipped or sent back unchanged: the service
//! adds events and kinds of blocks within a version.

mod block;
mod event;

use std::borrow::Cow;
use std::collections::VecDeque;

use neuraxis_core::{
    BlockIndex, LlmError, LlmErrorKind, MAX_REPLY_BYTES, ModelRef, Reply, ReplyDelta, ReplyEnd,
    ReplyFinish, TokenCount, Usage,
};
use neuraxis_wire::reply::{
    EventOutcome, MAX_CALLS, ReplyDecoder, Shares, Text, assemble, invalid, parse, set_model_name,
};
use neuraxis_wire::{ServerErrors, SseEvent};
use serde_json::Value;
use serde_json::value::RawValue;

use self::block::{Block, Content};
use self::event::{Event, Message, Stop, UsageField};
use crate::thinking::NewThinking;

/// The maximum number of blocks in one reply: far more than any model intends.
const MAX_BLOCKS: usize = 1_000;

/// The maximum size of all blocks together in bytes of JSON, including signatures and sealed data.
const MAX_BYTES: usize = 4 * MAX_REPLY_BYTES;

/// A reply being received.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// The model that was asked, if the reply's thinking is sent back to it later.
    back_to: Option<ModelRef>,
    /// The model that answers.
    model: ModelRef,
    blocks: Vec<Block>,
    bytes: usize,
    usage: Option<UsageField>,
    /// The service reported the reply's own count: the count at the beginning of a stream covers only the prompt.
    is_counted: bool,
    shares: Shares,
    finish: Option<ReplyFinish>,
}

impl Decoder {
    /// Starts a reply of `requested`; the server may still name another model.
    pub(crate) fn new(requested: ModelRef, thinking: NewThinking) -> Self {
        Self {
            back_to: (thinking == NewThinking::GoesBack).then(|| requested.clone()),
            model: requested,
            blocks: Vec::new(),
            bytes: 0,
            usage: None,
            is_counted: false,
            shares: Shares::default(),
            finish: None,
        }
    }

    /// Decodes a whole message. It is processed like a stream, so both give the same result.
    pub(crate) fn decode_whole(
        mut self,
        body: &[u8],
        errors: &ServerErrors,
    ) -> Result<Reply, LlmError> {
        let mut out = VecDeque::new();
        self.process_message(body, &mut out, errors)
            .map_err(|error| self.with_usage(error))?;
        assemble(out)
    }

    fn process_message(
        &mut self,
        body: &[u8],
        out: &mut VecDeque<ReplyDelta>,
        errors: &ServerErrors,
    ) -> Result<(), LlmError> {
        let text = std::str::from_utf8(body).map_err(|_| invalid("the reply is not UTF-8"))?;
        let head: Event<'_> = parse(text)?;
        match Text::of(head.kind).as_deref() {
            Some("message") => {}
            _ if head.error.is_some() => {
                return Err(error_of(head.error, head.request_id, errors));
            }
            _ => return Err(invalid("the server sent something that is not a message")),
        }
        let message: Message<'_> = parse(text)?;
        let blocks = message.content.unwrap_or_default();
        self.count(message.usage);
        self.name_model(message.model);
        for (number, block) in (0..).zip(blocks) {
            self.begin(number, Some(block), out)?;
            self.end_block(number, out)?;
        }
        let stop = Stop {
            stop_reason: message.stop_reason,
            stop_details: message.stop_details,
        };
        self.stop(&stop, errors)?;
        self.end(out)
    }

    fn process_event(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut VecDeque<ReplyDelta>,
        errors: &ServerErrors,
    ) -> Result<EventOutcome, LlmError> {
        let json: Event<'_> = parse(event.data)?;
        let kind = Text::of(json.kind).unwrap_or(Cow::Borrowed(event.name));
        let number = json.index.unwrap_or_default();
        match &*kind {
            "message_start" => {
                if let Some(message) = json.message {
                    let message: Message<'_> = parse(message.get())?;
                    self.update_usage(message.usage);
                    self.name_model(message.model);
                }
                return Ok(EventOutcome::Nothing);
            }
            "content_block_start" => self.begin(number, json.content_block, out)?,
            "content_block_delta" => self.continue_block(number, json.delta, out)?,
            "content_block_stop" => self.end_block(number, out)?,
            "message_delta" => {
                self.count(json.usage);
                let delta = json.delta.map(|delta| parse(delta.get())).transpose()?;
                if let Some(stop) = delta {
                    self.stop(&stop, errors)?;
                }
                return Ok(EventOutcome::Nothing);
            }
            "message_stop" => {
                self.count(json.usage);
                self.end(out)?;
                return Ok(EventOutcome::End);
            }
            "error" => return Err(error_of(json.error, json.request_id, errors)),
            _ if json.error.is_some() => {
                return Err(error_of(json.error, json.request_id, errors));
            }
            "" => return Err(invalid("the server sent something that is not an event")),
            // A ping, or an event newer than this adapter.
            _ => return Ok(EventOutcome::Nothing),
        }
        Ok(EventOutcome::Output)
    }

    fn begin(
        &mut self,
        number: u64,
        raw: Option<&RawValue>,
        out: &mut VecDeque<ReplyDelta>,
    ) -> Result<(), LlmError> {
        let raw = raw.ok_or_else(|| invalid("a block of the reply begins without content"))?;
        self.count_bytes(raw.get().len())?;
        if self.blocks.iter().any(|block| block.number == number) {
            return Err(invalid(format!("block {number} of the reply begins twice")));
        }
        if self.blocks.len() >= MAX_BLOCKS {
            let said = format!("more than {MAX_BLOCKS} blocks in one reply");
            return Err(invalid(said));
        }
        let place = self
            .blocks
            .last()
            .map_or(BlockIndex(0), |block| block.place.next());
        let block = Block::begin(number, place, raw, &mut self.shares, out)?;
        if let Content::Call { id, .. } = &block.content {
            let same_id = |call: &Content| matches!(call, Content::Call { id: other, .. } if id.is_some() && other == id);
            if self.blocks.iter().any(|block| same_id(&block.content)) {
                return Err(invalid("two tool calls have the same id"));
            }
            if self.calls().count() >= MAX_CALLS {
                let said = format!("more than {MAX_CALLS} tool calls in one reply");
                return Err(invalid(said));
            }
        }
        self.blocks.push(block);
        Ok(())
    }

    fn continue_block(
        &mut self,
        number: u64,
        raw: Option<&RawValue>,
        out: &mut VecDeque<ReplyDelta>,
    ) -> Result<(), LlmError> {
        let raw = raw.ok_or_else(|| invalid("a delta event has no delta"))?;
        self.count_bytes(raw.get().len())?;
        let (block, shares) = self.block(number)?;
        block.append(raw, shares, out)
    }

    fn end_block(&mut self, number: u64, out: &mut VecDeque<ReplyDelta>) -> Result<(), LlmError> {
        let back_to = self.back_to.clone();
        let (block, shares) = self.block(number)?;
        block.end(back_to.as_ref(), shares, out);
        Ok(())
    }

    /// Returns a block that has begun and not ended.
    fn block(&mut self, number: u64) -> Result<(&mut Block, &mut Shares), LlmError> {
        let mut blocks = self.blocks.iter_mut().rev();
        match blocks.find(|block| block.number == number) {
            Some(block) if !block.is_done => Ok((block, &mut self.shares)),
            Some(_) => Err(invalid(format!(
                "block {number} of the reply continues after its end"
            ))),
            None => Err(invalid(format!(
                "an event refers to block {number} of the reply, which has not begun"
            ))),
        }
    }

    fn calls(&self) -> impl Iterator<Item = &Block> {
        let blocks = self.blocks.iter();
        blocks.filter(|block| matches!(block.content, Content::Call { .. }))
    }

    /// Records why the model stopped, if that is reported.
    fn stop(&mut self, stop: &Stop<'_>, errors: &ServerErrors) -> Result<(), LlmError> {
        self.finish = stop.finish(errors)?.or(self.finish);
        Ok(())
    }

    /// Ends a reply that the server reports as complete.
    fn end(&mut self, out: &mut VecDeque<ReplyDelta>) -> Result<(), LlmError> {
        let Some(reported) = self.finish else {
            let error = "the reply ended without a reason to stop";
            return Err(LlmError::new(LlmErrorKind::Incomplete, error));
        };
        let has_calls = self.calls().next().is_some();
        let finish = match reported {
            ReplyFinish::Stop if has_calls => ReplyFinish::ToolCalls,
            ReplyFinish::ToolCalls if !has_calls => {
                return Err(invalid("the reply stopped for tool calls but has none"));
            }
            reported => reported,
        };
        if finish == ReplyFinish::ToolCalls && self.calls().any(|call| !call.is_done) {
            return Err(invalid(
                "the reply is complete but a tool call in it never ended",
            ));
        }
        out.push_back(ReplyDelta::End(Box::new(ReplyEnd {
            finish,
            usage: self.usage(),
            model: self.model.clone(),
        })));
        Ok(())
    }

    fn name_model(&mut self, name: Option<Text<'_>>) {
        if let Some(name) = Text::of(name) {
            set_model_name(&mut self.model, &name);
        }
    }

    /// Adds usage that includes the reply.
    fn count(&mut self, reported: Option<UsageField>) {
        self.is_counted |= reported.is_some_and(|usage| usage.has_completion());
        self.update_usage(reported);
    }

    fn update_usage(&mut self, reported: Option<UsageField>) {
        if let Some(reported) = reported {
            self.usage.get_or_insert_default().update(reported);
        }
    }

    fn usage(&self) -> Usage {
        let Some(field) = self.usage else {
            return Usage::UNKNOWN;
        };
        let mut counts = field.counts();
        if !self.is_counted {
            let received = self.shares.tokens();
            counts.completion = counts.completion.map(|least| least.max(received));
        }
        let mut usage = counts.usage(self.shares);
        let is_hidden = |block: &Block| {
            matches!(
                block.content,
                Content::Thinking {
                    is_hidden: true,
                    ..
                } | Content::Sealed(_)
            )
        };
        let has_hidden = self.blocks.iter().any(is_hidden);
        if counts.reasoning.is_none() && has_hidden {
            usage.reasoning = TokenCount::UNKNOWN;
        }
        if !self.is_counted {
            // Hidden content may be any number of additional tokens.
            let more = match has_hidden {
                true => TokenCount::UNKNOWN,
                false => TokenCount::estimated(0),
            };
            usage.completion += more;
            usage.total += more;
            usage.reasoning += more;
            usage.action += more;
        }
        usage
    }

    fn count_bytes(&mut self, bytes: usize) -> Result<(), LlmError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_BYTES {
            let said = format!("the reply is larger than {MAX_BYTES} bytes");
            return Err(invalid(said));
        }
        Ok(())
    }
}

impl ReplyDecoder for Decoder {
    fn event(
        &mut self,
        event: SseEvent<'_>,
        out: &mut VecDeque<ReplyDelta>,
        errors: &ServerErrors,
    ) -> Result<EventOutcome, LlmError> {
        match event.data {
            "" => Ok(EventOutcome::Nothing),
            _ => self.process_event(&event, out, errors),
        }
    }

    fn with_usage(&self, error: LlmError) -> LlmError {
        if error.usage.is_none() && self.usage.is_some() {
            return error.with_usage(self.usage());
        }
        error
    }
}

/// Reads the error that was sent instead of a reply, or inside one.
fn error_of(
    error: Option<&RawValue>,
    request: Option<Text<'_>>,
    errors: &ServerErrors,
) -> LlmError {
    let error = error.and_then(|error| serde_json::from_str::<Value>(error.get()).ok());
    let mut error = errors.of_json(&error.unwrap_or_default());
    if let Some(request) = Text::of(request) {
        let request = errors.tidy(&request);
        error.message = format!("{} (request {request})", error.message);
    }
    error
}
