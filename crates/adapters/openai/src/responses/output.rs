//! Turns the events of a stream, or a whole response, into the blocks of a reply, and refuses contradictory input.
//!
//! Each item of the response becomes one block with the item's own number. Pieces of text are shown as they arrive. The
//! completed item is authoritative, and a piece that it does not contain is an error.

mod end;
mod item;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use neuraxis_core::{
    LlmError, MAX_REPLY_BYTES, ModelRef, Reply, ReplyDelta, ReplyEnd, ReplyFinish, Usage,
};
use neuraxis_wire::reply::{
    EventOutcome, MAX_CALLS, ReplyDecoder, Shares, Text, assemble, clean, invalid, parse,
    set_model_name,
};
use neuraxis_wire::{ServerErrors, SseEvent};
use serde_json::value::RawValue;

use self::end::{error_in_stream, error_of, finish_by_status};
use self::item::{Kind, Progress, Section};
use super::event::{Event, Response, ResponseUsage, non_empty, text_of};
use super::state::StateOrigin;
use crate::client::without_reply;

/// The maximum number of items in one reply: far more than any model intends.
const MAX_ITEMS: usize = 1_000;

/// The maximum number of bytes of all pieces and all items together: everything that streams in is repeated as JSON
/// when its item completes.
const MAX_BYTES: usize = 4 * MAX_REPLY_BYTES;

/// The marker that ends a stream of Chat Completions; some servers end all their streams with it.
const DONE: &str = "[DONE]";

/// The items of a reply that is arriving.
#[derive(Debug)]
pub(super) struct Output {
    server: Arc<str>,
    /// The model that was requested.
    requested: Arc<str>,
    /// The model that answers.
    model: ModelRef,
    /// The maximum number of tokens of the reply, if the request sets one.
    most: Option<u32>,
    items: Vec<Progress>,
    bytes: usize,
    usage: Option<ResponseUsage>,
    shares: Shares,
}

impl Output {
    pub(super) fn new(server: Arc<str>, model: ModelRef, most: Option<u32>) -> Self {
        Self {
            server,
            requested: Arc::clone(&model.model),
            model,
            most,
            items: Vec::new(),
            bytes: 0,
            usage: None,
            shares: Shares::default(),
        }
    }

    /// Decodes a response that arrives whole. It is handled like the event that ends a stream, so both give the same
    /// result.
    pub(super) fn decode_whole(
        mut self,
        body: &[u8],
        errors: &ServerErrors,
    ) -> Result<Reply, LlmError> {
        let text = std::str::from_utf8(body).map_err(|_| invalid("the reply is not UTF-8"))?;
        let mut deltas = VecDeque::new();
        self.end(text, None, &mut deltas, errors)
            .map_err(|error| self.with_usage(error))?;
        assemble(deltas)
    }

    fn process_event(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut VecDeque<ReplyDelta>,
        errors: &ServerErrors,
    ) -> Result<EventOutcome, LlmError> {
        let json: Event<'_> = parse(event.data)?;
        let kind = Text::of(json.kind).unwrap_or(Cow::Borrowed(event.name));
        let at = json.output_index;
        let delta = json.delta;
        match &*kind {
            "response.output_item.added" => self.begin(at, json.item, out)?,
            "response.output_item.done" => self.finish(at, json.item, out)?,
            "response.output_text.delta" => self.continue_item(at, Section::Text, delta, out)?,
            "response.refusal.delta" => self.continue_item(at, Section::Refusal, delta, out)?,
            "response.reasoning_summary_text.delta" => {
                let section = Section::Summary(json.summary_index.unwrap_or(0));
                self.continue_item(at, section, delta, out)?;
            }
            "response.reasoning_text.delta" => {
                let section = Section::Thought(json.content_index.unwrap_or(0));
                self.continue_item(at, section, delta, out)?;
            }
            "response.function_call_arguments.delta" => {
                self.continue_item(at, Section::Arguments, delta, out)?;
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                let status = kind.strip_prefix("response.");
                let response = json
                    .response
                    .ok_or_else(|| invalid("an event that ends the reply has no response"))?;
                self.end(response.get(), status, out, errors)?;
                return Ok(EventOutcome::End);
            }
            "error" => return Err(error_in_stream(event.data, json.error, errors)),
            _ if non_empty(json.error).is_some() => {
                return Err(error_in_stream(event.data, json.error, errors));
            }
            "" => return Err(invalid("the server sent something that is not an event")),
            _ => return Ok(EventOutcome::Nothing),
        }
        Ok(EventOutcome::Output)
    }

    /// Records the start of an item.
    fn begin(
        &mut self,
        at: Option<usize>,
        item: Option<&RawValue>,
        out: &mut VecDeque<ReplyDelta>,
    ) -> Result<(), LlmError> {
        let item = item.ok_or_else(|| invalid("an item event has no item"))?;
        let after = self.last_reasoning();
        // Each item stores the id of the reasoning before it.
        self.count_bytes(item.get().len() + after.as_deref().map_or(0, str::len))?;
        let at = at.unwrap_or(self.items.len());
        if at < self.items.len() {
            return Err(invalid(format!("item {at} of the reply begins twice")));
        }
        if at > self.items.len() {
            return Err(invalid(format!(
                "item {at} of the reply begins when there are {}: there is a gap in the numbers",
                self.items.len()
            )));
        }
        if at >= MAX_ITEMS {
            return Err(invalid(format!("more than {MAX_ITEMS} items in one reply")));
        }
        let progress = Progress::begin(at, item, after, out)?;
        if let Some(id) = progress.call_id()
            && self.items.iter().any(|item| item.call_id() == Some(id))
        {
            return Err(invalid("two tool calls have the same id"));
        }
        self.items.push(progress);
        let is_call = |item: &&Progress| item.kind == Kind::Call;
        if self.items.iter().filter(is_call).count() > MAX_CALLS {
            return Err(invalid(format!(
                "more than {MAX_CALLS} tool calls in one reply"
            )));
        }
        Ok(())
    }

    /// Adds a piece to an item.
    fn continue_item(
        &mut self,
        at: Option<usize>,
        section: Section,
        delta: Option<&RawValue>,
        out: &mut VecDeque<ReplyDelta>,
    ) -> Result<(), LlmError> {
        let delta = delta.ok_or_else(|| invalid("a delta event has no delta"))?;
        let Text(piece) = parse(delta.get())?;
        self.count_bytes(piece.len())?;
        let at = at.unwrap_or(self.items.len().saturating_sub(1));
        let item = self.items.get_mut(at).ok_or_else(|| {
            invalid(format!(
                "a delta refers to item {at} of the reply, which has not begun"
            ))
        })?;
        item.append(section, &piece, &mut self.shares, out)
    }

    /// Processes a completed item.
    fn finish(
        &mut self,
        at: Option<usize>,
        item: Option<&RawValue>,
        out: &mut VecDeque<ReplyDelta>,
    ) -> Result<(), LlmError> {
        let at = at.unwrap_or(match self.items.last() {
            Some(last) if !last.is_done => self.items.len() - 1,
            _ => self.items.len(),
        });
        if at >= self.items.len() {
            self.begin(Some(at), item, out)?;
        }
        let raw = item.ok_or_else(|| invalid("an item event has no item"))?;
        self.count_bytes(raw.get().len())?;
        let origin = StateOrigin {
            server: &self.server,
            model: &self.requested,
        };
        match self.items.get_mut(at) {
            Some(item) if !item.is_done => item.finish(raw, origin, &mut self.shares, out),
            _ => Err(invalid(format!("item {at} of the reply ends twice"))),
        }
    }

    /// Ends the reply with its final response.
    fn end(
        &mut self,
        response: &str,
        status: Option<&str>,
        out: &mut VecDeque<ReplyDelta>,
        errors: &ServerErrors,
    ) -> Result<(), LlmError> {
        let response: Response<'_> = parse(response)?;
        self.usage = response.usage.or(self.usage);
        if let Some(error) = non_empty(response.error) {
            return Err(error_of(error, errors));
        }
        if let Some(name) = Text::of(response.model) {
            set_model_name(&mut self.model, &name);
        }
        let said = Text::of(response.status);
        if let (Some(said), Some(status)) = (said.as_deref(), status)
            && said != status
        {
            return Err(invalid(format!(
                "the reply ends as {status} but has status {:?}",
                clean(said, 60)
            )));
        }
        let Some(status) = said.as_deref().or(status) else {
            return Err(invalid("the server sent something that is not a response"));
        };
        let why = response.incomplete_details.map(|why| text_of(why.reason));
        let finish = finish_by_status(status, &why.unwrap_or_default())?;
        for (at, item) in response.output.unwrap_or_default().into_iter().enumerate() {
            if self.items.get(at).is_none_or(|item| !item.is_done) {
                self.finish(Some(at), Some(item), out)?;
            }
        }
        let finish = self.finish_by_content(finish)?;
        out.push_back(ReplyDelta::End(Box::new(ReplyEnd {
            finish,
            usage: self.usage(),
            model: self.model.clone(),
        })));
        Ok(())
    }

    /// Returns why the model stopped. A response's status does not say whether the model stopped for its calls or
    /// refused, so the content decides.
    fn finish_by_content(&self, finish: ReplyFinish) -> Result<ReplyFinish, LlmError> {
        if finish != ReplyFinish::Stop {
            return Ok(finish);
        }
        let mut calls = self.items.iter().filter(|item| item.kind == Kind::Call);
        if calls.clone().any(|call| !call.is_done) {
            return Err(invalid(
                "the reply is complete but a tool call in it never ended",
            ));
        }
        if calls.next().is_some() {
            return Ok(ReplyFinish::ToolCalls);
        }
        if self.items.iter().any(Progress::has_refusal) {
            return Ok(ReplyFinish::Refused);
        }
        Ok(finish)
    }

    fn last_reasoning(&self) -> Option<Arc<str>> {
        self.items.iter().rev().find_map(Progress::reasoning_id)
    }

    fn usage(&self) -> Usage {
        let counts = self.usage.as_ref().map(ResponseUsage::counts);
        counts.unwrap_or_default().usage(self.shares)
    }

    fn count_bytes(&mut self, bytes: usize) -> Result<(), LlmError> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > MAX_BYTES {
            return Err(invalid(format!(
                "the reply is larger than {MAX_BYTES} bytes"
            )));
        }
        Ok(())
    }
}

impl ReplyDecoder for Output {
    fn event(
        &mut self,
        event: SseEvent<'_>,
        out: &mut VecDeque<ReplyDelta>,
        errors: &ServerErrors,
    ) -> Result<EventOutcome, LlmError> {
        match event.data {
            "" | DONE => Ok(EventOutcome::Nothing),
            _ => self.process_event(&event, out, errors),
        }
    }

    fn with_usage(&self, error: LlmError) -> LlmError {
        let error = without_reply(error, self.most);
        if error.usage.is_none() && self.usage.is_some() {
            return error.with_usage(self.usage());
        }
        error
    }
}

#[cfg(test)]
mod tests;
