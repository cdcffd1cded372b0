//! Turns received chunks into the blocks of a reply, and rejects contradictions.

mod calls;

use std::borrow::Cow;
use std::collections::VecDeque;

use neuraxis_core::{
    BlockIndex, LlmError, LlmErrorKind, ModelRef, Reply, ReplyDelta, ReplyEnd, ReplyFinish, Usage,
};
use serde_json::Value;
use serde_json::value::RawValue;

use self::calls::Call;
use crate::chat::chunk::{Choice, Chunk, Content, ContentPart, Delta, Timings, UsageField};
use crate::chat::state::StateOrigin;
use crate::chat::usage::usage;
use crate::errors::ServerErrors;
use crate::reply::{
    EventOutcome, ReplyDecoder, ReplyFilter, Shares, Text, assemble, clean, invalid, parse,
    set_model_name,
};
use crate::sse::SseEvent;
use crate::surrogates::SurrogateJoiner;

/// The data of the event that ends a stream.
const DONE: &str = "[DONE]";

/// The finish reasons with which servers report that they gave up midway: `abort` is used by vLLM and SGLang, the long
/// one by DeepSeek.
const GAVE_UP_REASONS: [&str; 3] = ["error", "abort", "insufficient_system_resource"];

/// The blocks of a reply being received, numbered in the order in which they first appear.
#[derive(Debug)]
pub(super) struct Blocks {
    model: ModelRef,
    /// The server and model that were asked.
    origin: StateOrigin,
    model_is_named: bool,
    next: BlockIndex,
    reasoning: Option<BlockIndex>,
    text: Option<BlockIndex>,
    /// The model refused to answer; its text says so.
    refused: bool,
    calls: Vec<Call>,
    /// Something arrived as a `delta`, so a `message` would repeat it.
    has_pieces: bool,
    finish: Option<ReplyFinish>,
    /// The server reported that it gave up midway. It may still report usage, so the reply fails only at its end.
    was_given_up: bool,
    usage: Option<Box<UsageField>>,
    timings: Option<Box<Timings>>,
    shares: Shares,
}

impl Blocks {
    /// Starts a reply of `model`; the server may still name another one.
    pub(super) fn new(model: ModelRef, origin: StateOrigin) -> Self {
        Self {
            model,
            origin,
            model_is_named: false,
            next: BlockIndex(0),
            reasoning: None,
            text: None,
            refused: false,
            calls: Vec::new(),
            has_pieces: false,
            finish: None,
            was_given_up: false,
            usage: None,
            timings: None,
            shares: Shares::default(),
        }
    }

    /// Decodes a whole reply. It is processed like a stream of one chunk, so both give the same result.
    pub(super) fn decode_whole(
        mut self,
        body: &[u8],
        errors: &ServerErrors,
        mut filter: impl ReplyFilter,
    ) -> Result<Reply, LlmError> {
        let text = std::str::from_utf8(body).map_err(|_| invalid("the reply is not UTF-8"))?;
        let mut deltas = VecDeque::new();
        let text = SurrogateJoiner::default().join(text);
        self.process_chunk(&text, &mut deltas, errors)
            .and_then(|_| self.end(&mut deltas))
            .and_then(|()| filter_all(&mut filter, &mut deltas))
            .map_err(|error| self.with_usage(error))?;
        assemble(deltas)
    }

    /// Processes a chunk, or a whole reply.
    fn process_chunk(
        &mut self,
        json: &str,
        out: &mut VecDeque<ReplyDelta>,
        errors: &ServerErrors,
    ) -> Result<EventOutcome, LlmError> {
        let mut chunk: Chunk<'_> = parse(json)?;
        if let Some(error) = reported_error(chunk.error, errors) {
            return Err(error);
        }
        let has_counts = chunk.usage.is_some() || chunk.timings.is_some();
        let choice = chunk.choices.as_mut().and_then(|first| first.0.as_mut());
        let said = choice.and_then(|choice| choice.usage.take());
        self.usage = chunk.usage.or(said).or_else(|| self.usage.take());
        self.timings = chunk.timings.or_else(|| self.timings.take());
        self.name_model(chunk.model);
        match chunk.choices {
            Some(choices) => match choices.0 {
                Some(choice) => self.process_choice(choice, out, errors),
                None => Ok(EventOutcome::Nothing),
            },
            None if has_counts => Ok(EventOutcome::Nothing),
            None => Err(match serde_json::from_str::<Value>(json) {
                Ok(other) if other.get("message").is_some() => errors.of_json(&other),
                _ => invalid("the server sent something that has no choices"),
            }),
        }
    }

    /// Ends a reply that the server reports as complete.
    fn end(&mut self, out: &mut VecDeque<ReplyDelta>) -> Result<(), LlmError> {
        if self.was_given_up {
            return Err(LlmError::new(
                LlmErrorKind::server(None),
                "the server failed in the middle of its reply",
            ));
        }
        let Some(said) = self.finish else {
            return Err(LlmError::new(
                LlmErrorKind::Incomplete,
                "the reply ended without a finish reason",
            ));
        };
        let finish = match said {
            // Some servers report `stop` for a reply with calls.
            ReplyFinish::Stop if !self.calls.is_empty() => ReplyFinish::ToolCalls,
            ReplyFinish::Stop if self.refused => ReplyFinish::Refused,
            ReplyFinish::ToolCalls if self.calls.is_empty() => {
                return Err(invalid("the reply finished for tool calls but has none"));
            }
            said => said,
        };
        for call in self.calls.iter().filter(|call| !call.has_arguments) {
            out.push_back(ReplyDelta::ToolCall {
                block: call.block,
                provider_id: None,
                name: None,
                arguments: "{}".to_owned(),
            });
        }
        out.push_back(ReplyDelta::End(Box::new(ReplyEnd {
            finish,
            usage: self.usage(),
            model: self.model.clone(),
        })));
        Ok(())
    }

    fn usage(&self) -> Usage {
        usage(self.usage.as_deref(), self.timings.as_deref(), self.shares)
    }

    fn name_model(&mut self, said: Option<Text<'_>>) {
        if self.model_is_named {
            return;
        }
        let Some(name) = Text::of(said) else { return };
        self.model_is_named = true;
        set_model_name(&mut self.model, &name);
    }

    fn process_choice(
        &mut self,
        choice: Choice<'_>,
        out: &mut VecDeque<ReplyDelta>,
        errors: &ServerErrors,
    ) -> Result<EventOutcome, LlmError> {
        let before = out.len();
        if let Some(delta) = choice.delta {
            self.process_delta(delta, out)?;
            self.has_pieces |= out.len() > before;
        }
        if let Some(message) = choice.message
            && !self.has_pieces
        {
            self.process_delta(*message, out)?;
        }
        // State for the server may follow the finish: it is not model output.
        let is_output = |delta: &ReplyDelta| !matches!(delta, ReplyDelta::State { .. });
        let outcome = if out.iter().skip(before).any(is_output) {
            if self.finish.is_some() {
                return Err(invalid("the reply continued after it had finished"));
            }
            EventOutcome::Output
        } else {
            EventOutcome::Nothing
        };
        if let Some(reason) = Text::of(choice.finish_reason) {
            if GAVE_UP_REASONS.contains(&&*reason) {
                if let Some(error) = reported_error(choice.error, errors) {
                    return Err(error);
                }
                self.was_given_up = true;
                return Ok(outcome);
            }
            let finish = finish(&reason)?;
            if self.finish.is_some_and(|before| before != finish) {
                return Err(invalid("the reply has two different finish reasons"));
            }
            self.finish = Some(finish);
        }
        Ok(outcome)
    }

    fn process_delta(
        &mut self,
        delta: Delta<'_>,
        out: &mut VecDeque<ReplyDelta>,
    ) -> Result<(), LlmError> {
        let reasoning = Text::of(delta.reasoning_content).or_else(|| Text::of(delta.reasoning));
        self.emit_reasoning(reasoning, out);
        match delta.content {
            Some(Content::Text(text)) => self.emit_text(Text::of(Some(text)), out),
            Some(Content::Parts(parts)) => {
                for part in parts {
                    self.process_part(part, out);
                }
            }
            None => {}
        }
        let refusal = Text::of(delta.refusal);
        self.refused |= refusal.is_some();
        self.emit_text(refusal, out);
        for call in delta.tool_calls.unwrap_or_default() {
            self.process_call(call, out)?;
        }
        Ok(())
    }

    fn process_part(&mut self, part: ContentPart<'_>, out: &mut VecDeque<ReplyDelta>) {
        match part.thinking {
            Some(Content::Text(thought)) => self.emit_reasoning(Text::of(Some(thought)), out),
            Some(Content::Parts(thoughts)) => {
                for thought in thoughts {
                    self.emit_reasoning(Text::of(thought.text), out);
                }
            }
            None => {}
        }
        self.emit_text(Text::of(part.text), out);
    }

    fn emit_reasoning(&mut self, text: Option<Cow<'_, str>>, out: &mut VecDeque<ReplyDelta>) {
        if let Some(text) = text {
            self.shares.reasoning += text.len();
            let block = block_number(&mut self.reasoning, &mut self.next);
            let text = text.into_owned();
            out.push_back(ReplyDelta::Reasoning { block, text });
        }
    }

    fn emit_text(&mut self, text: Option<Cow<'_, str>>, out: &mut VecDeque<ReplyDelta>) {
        if let Some(text) = text {
            self.shares.text += text.len();
            let block = block_number(&mut self.text, &mut self.next);
            let text = text.into_owned();
            out.push_back(ReplyDelta::Text { block, text });
        }
    }
}

impl ReplyDecoder for Blocks {
    fn event(
        &mut self,
        event: SseEvent<'_>,
        out: &mut VecDeque<ReplyDelta>,
        errors: &ServerErrors,
    ) -> Result<EventOutcome, LlmError> {
        match event.data {
            "" => Ok(EventOutcome::Nothing),
            DONE => self.end(out).map(|()| EventOutcome::End),
            json => self.process_chunk(json, out, errors),
        }
    }

    fn with_usage(&self, error: LlmError) -> LlmError {
        if error.usage.is_none() && (self.usage.is_some() || self.timings.is_some()) {
            return error.with_usage(self.usage());
        }
        error
    }
}

/// Passes the pieces of a whole reply through a filter. The filter's output is appended behind the pieces that it has
/// not processed yet.
fn filter_all(
    filter: &mut impl ReplyFilter,
    deltas: &mut VecDeque<ReplyDelta>,
) -> Result<(), LlmError> {
    for _ in 0..deltas.len() {
        if let Some(delta) = deltas.pop_front() {
            filter.push(delta, deltas)?;
        }
    }
    Ok(())
}

/// Returns a block's number; assigns the next one if it has none yet.
fn block_number(block: &mut Option<BlockIndex>, next: &mut BlockIndex) -> BlockIndex {
    *block.get_or_insert_with(|| {
        let number = *next;
        *next = next.next();
        number
    })
}

/// Returns the error reported in a field; some servers send a field that reports none.
fn reported_error(field: Option<&RawValue>, errors: &ServerErrors) -> Option<LlmError> {
    let error = field
        .map(RawValue::get)
        .filter(|error| !matches!(*error, "false" | "\"\"" | "{}"))?;
    let error = serde_json::from_str::<Value>(error).unwrap_or_default();
    Some(errors.of_json(&error))
}

fn finish(reason: &str) -> Result<ReplyFinish, LlmError> {
    // Gemini adds what its filter found after a colon.
    match reason.split(':').next().unwrap_or_default() {
        // The model's own end: this is how Together, TGI and watsonx report it.
        "stop" | "eos" | "eos_token" => Ok(ReplyFinish::Stop),
        "tool_calls" | "function_call" => Ok(ReplyFinish::ToolCalls),
        "length" | "model_length" => Ok(ReplyFinish::Length),
        "content_filter" => Ok(ReplyFinish::ContentFilter),
        "function_call_filter" => Err(invalid(format!(
            "the model wrote a call that its server cannot parse ({})",
            clean(reason, 60)
        ))),
        _ => Err(invalid(format!(
            "the reply has the unknown finish reason {:?}",
            clean(reason, 60)
        ))),
    }
}

#[cfg(test)]
mod tests;
