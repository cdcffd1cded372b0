//! A streamed answer of Chat Completions.
//!
//! Text is sent as it arrives, including what the model says before it calls the server's tools, with an empty line in
//! between. Text of a model call that fails and is retried cannot be retracted here; the new text follows after an
//! empty line. A structured answer comes in one chunk, because only the whole of it is checked. If there is none, the
//! reason is sent as a refusal, which clients do not parse as JSON. Calls for the client come at the end.

use neuraxis::Event;
use neuraxis::engine::TextExtractor;
use serde::Serialize;

use super::{
    CallOut, ClientOutcome, GuardedRun, RunRef, StructuredReply, UsageOut, finish_reason, id_of,
};
use crate::events::write_event;
use crate::openai::error::ErrorBody;
use crate::openai::run::{ends_with_a_question, ends_without_budget, is_structured, requires_call};
use crate::openai::stream::{Writer, Written};
use crate::openai::thoughts::{BREAK, Thoughts};

/// One chunk of an answer.
#[derive(Debug, Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    model: &'a str,
    choices: &'a [Choice],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<UsageOut>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    neuraxis: Option<RunRef>,
}

#[derive(Debug, Serialize)]
struct Choice {
    index: u32,
    delta: Delta,
    finish_reason: Option<&'static str>,
}

#[derive(Debug, Default, Serialize)]
struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallOut>,
}

/// Produces the chunks of one answer.
#[derive(Debug)]
pub(super) struct Chunks {
    id: String,
    created: i64,
    model: String,
    /// The location of the run, sent in the first and the last chunk.
    run: RunRef,
    includes_run: bool,
    /// Whether the client wants the usage.
    with_usage: bool,
    /// Whether the answer is sent only once it is complete.
    sends_whole: bool,
    /// Whether the request requires a call of one of the client's tools.
    requires_call: bool,
    /// Whether any part of the answer has been sent.
    has_sent_text: bool,
    words: TextExtractor,
    thoughts: Thoughts,
}

impl Chunks {
    pub(super) fn new(guarded: &GuardedRun, model: String, with_usage: bool) -> Self {
        let records = guarded.handle().records();
        Self {
            id: id_of(guarded),
            created: guarded.created(),
            model,
            run: RunRef::of(guarded),
            includes_run: true,
            with_usage,
            sends_whole: is_structured(&records),
            requires_call: requires_call(&records),
            has_sent_text: false,
            words: TextExtractor::default(),
            thoughts: Thoughts::default(),
        }
    }

    /// Returns what has not been streamed: a whole structured answer, what the run waits for, why there is no answer,
    /// or why it reached a limit.
    fn unsent_reply(&self, outcome: &ClientOutcome) -> StructuredReply {
        if self.sends_whole || outcome.lacks_call {
            return outcome.structured_reply();
        }
        let is_answer_sent = self.has_sent_text && outcome.result.finish_reason.is_some();
        let reply = match is_answer_sent {
            true => outcome.notice.clone(),
            false => Some(outcome.result.reply.clone()).filter(|reply| !reply.is_empty()),
        };
        let content = reply.map(|reply| match self.has_sent_text {
            true => format!("{BREAK}{reply}"),
            false => reply,
        });
        StructuredReply {
            content,
            refusal: None,
        }
    }

    fn delta(
        &mut self,
        delta: Delta,
        finish_reason: Option<&'static str>,
        piece: &mut Vec<u8>,
    ) -> Written {
        let choice = Choice {
            index: 0,
            delta,
            finish_reason,
        };
        self.chunk(&[choice], None, piece)
    }

    fn chunk(
        &mut self,
        choices: &[Choice],
        usage: Option<UsageOut>,
        piece: &mut Vec<u8>,
    ) -> Written {
        let chunk = Chunk {
            id: &self.id,
            object: "chat.completion.chunk",
            created: self.created,
            model: &self.model,
            choices,
            usage: self.with_usage.then_some(usage),
            neuraxis: std::mem::take(&mut self.includes_run).then(|| self.run.clone()),
        };
        write_event(piece, None, &chunk)
    }
}

impl Writer for Chunks {
    fn write_start(&mut self, piece: &mut Vec<u8>) -> Written {
        let delta = Delta {
            role: Some("assistant"),
            content: Some(String::new()),
            ..Delta::default()
        };
        self.delta(delta, None, piece)
    }

    fn write_event(&mut self, event: &Event, piece: &mut Vec<u8>) -> Written {
        if ends_without_budget(event) || (self.requires_call && ends_with_a_question(event)) {
            return Ok(());
        }
        let mut delta = Delta::default();
        if let Some(text) = self.words.extract(event) {
            if self.sends_whole {
                return Ok(());
            }
            delta.content = Some(text);
            self.has_sent_text = true;
        } else if let Some(thought) = self.thoughts.extract(event) {
            let text = thought.text;
            delta.reasoning_content = Some(match thought.follows_another {
                true => format!("{BREAK}{text}"),
                false => text.to_owned(),
            });
        } else {
            return Ok(());
        }
        self.delta(delta, None, piece)
    }

    fn write_outcome(&mut self, outcome: &ClientOutcome, piece: &mut Vec<u8>) -> Written {
        let ClientOutcome { result, calls, .. } = outcome;
        if !outcome.is_answered() {
            return self.write_error(&ErrorBody::of_outcome(outcome), piece);
        }
        let StructuredReply { content, refusal } = self.unsent_reply(outcome);
        if content.is_some() || refusal.is_some() {
            let delta = Delta {
                content,
                refusal,
                ..Delta::default()
            };
            self.delta(delta, None, piece)?;
        }
        for (index, call) in calls.iter().enumerate() {
            let delta = Delta {
                tool_calls: vec![CallOut::new(Some(index), call)],
                ..Delta::default()
            };
            self.delta(delta, None, piece)?;
        }
        self.run = self.run.clone().with_outcome(outcome);
        self.includes_run = true;
        self.delta(Delta::default(), Some(finish_reason(result)), piece)?;
        if self.with_usage {
            let usage = UsageOut::new(&result.usage.total);
            self.chunk(&[], Some(usage), piece)?;
        }
        piece.extend_from_slice(b"data: [DONE]\n\n");
        Ok(())
    }

    fn write_error(&mut self, error: &ErrorBody, piece: &mut Vec<u8>) -> Written {
        write_event(piece, None, error)
    }
}
