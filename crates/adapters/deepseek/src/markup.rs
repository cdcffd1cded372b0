//! Extracts tool calls that a model wrote into its text.
//!
//! DeepSeek's models write a call in a markup of their own, which the service parses. Occasionally it fails to, and
//! what should have been a call arrives as text:
//!
//! ```text
//! <｜DSML｜tool_calls><｜DSML｜invoke name="look"><｜DSML｜parameter name="at" string="true">sky</｜DSML｜parameter>…
//! ```
//!
//! [`MarkupFilter`] sits between the stream and its consumers. It passes text through immediately, except for a
//! trailing part that may be the start of a tag: it holds back at most 18 bytes until the next text decides. From the
//! first tag on, it keeps the text back, and at the end of the reply turns it into the intended calls or into an error
//! that may be retried. The filter is pure: the way the stream was split makes no difference.

mod parse;
mod scan;

use std::collections::VecDeque;

use neuraxis_core::{
    BlockIndex, LlmError, LlmErrorKind, ReplyDelta, ReplyEnd, ReplyFinish, TokenCount, Usage,
};
use neuraxis_wire::reply::ReplyFilter;

use self::parse::WrittenCalls;
use self::scan::TagMatch;

/// The maximum number of bytes that are kept back: far more than any calls need.
const MAX_WRITTEN: usize = 1024 * 1024;

/// Extracts tool calls from the text of one reply as it streams in.
#[derive(Debug, Default)]
pub(crate) struct MarkupFilter {
    /// The trailing part of the text, which may be the start of a tag.
    held: Option<Piece>,
    /// The text from its first tag onward.
    written: Option<Piece>,
    /// The lowest block number that is not in use.
    free: BlockIndex,
    has_text: bool,
    has_calls: bool,
    shown_bytes: usize,
}

#[derive(Debug)]
struct Piece {
    block: BlockIndex,
    text: String,
}

impl ReplyFilter for MarkupFilter {
    fn push(&mut self, delta: ReplyDelta, out: &mut VecDeque<ReplyDelta>) -> Result<(), LlmError> {
        match delta {
            ReplyDelta::Text { block, text } => {
                self.note_block(block);
                return self.process_text(Piece { block, text }, out);
            }
            ReplyDelta::End(end) => {
                let usage = end.usage;
                return self
                    .end(*end, out)
                    .map_err(|said| invalid(said).with_usage(usage));
            }
            ReplyDelta::ToolCall { block, .. } => {
                self.has_calls = true;
                self.note_block(block);
            }
            ReplyDelta::Reasoning { block, .. } | ReplyDelta::State { block, .. } => {
                self.note_block(block);
            }
        }
        out.push_back(delta);
        Ok(())
    }
}

impl MarkupFilter {
    fn note_block(&mut self, block: BlockIndex) {
        self.free = self.free.max(block.next());
    }

    fn process_text(
        &mut self,
        mut piece: Piece,
        out: &mut VecDeque<ReplyDelta>,
    ) -> Result<(), LlmError> {
        if let Some(written) = &mut self.written {
            if written.text.len() + piece.text.len() > MAX_WRITTEN {
                return Err(invalid(
                    "the model wrote a tool call as text that does not end",
                ));
            }
            written.text.push_str(&piece.text);
            return Ok(());
        }
        match self.held.take() {
            Some(mut held) if held.block == piece.block => {
                held.text.push_str(&piece.text);
                piece = held;
            }
            Some(held) => self.emit(held, out),
            None => {}
        }
        let block = piece.block;
        match scan::find(&piece.text) {
            TagMatch::Nothing => self.emit(piece, out),
            TagMatch::Perhaps(at) => {
                let text = piece.text.split_off(at);
                self.emit(piece, out);
                self.held = Some(Piece { block, text });
            }
            TagMatch::Tag(at) => {
                let text = piece.text.split_off(at);
                self.emit(piece, out);
                self.written = Some(Piece { block, text });
            }
        }
        Ok(())
    }

    fn emit(&mut self, piece: Piece, out: &mut VecDeque<ReplyDelta>) {
        let Piece { block, text } = piece;
        if text.is_empty() {
            return;
        }
        self.has_text |= !text.trim().is_empty();
        self.shown_bytes += text.len();
        out.push_back(ReplyDelta::Text { block, text });
    }

    fn end(
        &mut self,
        mut end: ReplyEnd,
        out: &mut VecDeque<ReplyDelta>,
    ) -> Result<(), &'static str> {
        if let Some(held) = self.held.take() {
            self.emit(held, out);
        }
        if let Some(written) = self.written.take() {
            self.make_calls(&written, &mut end, out)?;
        }
        if !self.has_text && !self.has_calls {
            match end.finish {
                ReplyFinish::Stop => return Err("the model's answer is empty"),
                ReplyFinish::Length => tracing::warn!(
                    "the model reached the limit on output tokens before it answered: raise the limit or lower \
                     reasoning_effort"
                ),
                ReplyFinish::ToolCalls | ReplyFinish::ContentFilter | ReplyFinish::Refused => {}
            }
        }
        out.push_back(ReplyDelta::End(Box::new(end)));
        Ok(())
    }

    /// Emits the calls that the model wrote into its text.
    fn make_calls(
        &mut self,
        written: &Piece,
        end: &mut ReplyEnd,
        out: &mut VecDeque<ReplyDelta>,
    ) -> Result<(), &'static str> {
        if self.has_calls {
            // They may be the same calls repeated, and an effect must not happen twice.
            return Err("the model wrote a tool call as text and also made tool calls");
        }
        let bytes = written.text.len();
        let WrittenCalls { calls, rest } = parse::calls(&written.text)?;
        end.usage.action = action(
            &end.usage,
            bytes - rest.len(),
            self.shown_bytes + rest.len(),
        );
        if !rest.trim().is_empty() {
            let block = written.block;
            self.emit(Piece { block, text: rest }, out);
        }
        tracing::info!(
            calls = calls.len(),
            "extracted tool calls that the model wrote as text"
        );
        for call in calls {
            let block = self.free;
            self.free = block.next();
            self.has_calls = true;
            out.push_back(ReplyDelta::ToolCall {
                block,
                provider_id: None,
                name: Some(call.name.into()),
                arguments: call.arguments,
            });
        }
        if end.finish == ReplyFinish::Stop {
            end.finish = ReplyFinish::ToolCalls;
        }
        Ok(())
    }
}

/// Returns how many of a completion's tokens its written calls account for, estimated by their share of the bytes that
/// are not reasoning.
fn action(usage: &Usage, written: usize, shown: usize) -> TokenCount {
    let said = usage.completion;
    if said.label == TokenCount::UNKNOWN.label {
        return TokenCount::UNKNOWN;
    }
    let answer = said.tokens.saturating_sub(usage.reasoning.tokens);
    let all = (written + shown).max(1) as u128;
    let part = u128::from(answer) * (written as u128) / all;
    TokenCount::estimated(u64::try_from(part).unwrap_or(answer))
}

fn invalid(said: &str) -> LlmError {
    LlmError::new(LlmErrorKind::InvalidResponse, said)
}

#[cfg(test)]
mod tests;
