//! Writes the items of a response in sequence, each opened, filled and closed, and the corresponding events.

use std::mem;
use std::sync::Arc;

use neuraxis::Event;
use neuraxis::core::{EffectId, Record, ToolCall};
use neuraxis::engine::TextExtractor;
use serde::Serialize;
use serde_json::{Value, json};

use super::items::{Done, Kind, Text, TextSource, retracted_by};
use super::output::{Content, Item, ResponseOut, id_of};
use crate::events::write_event;
use crate::openai::error::ErrorBody;
use crate::openai::events_from_records;
use crate::openai::run::{
    ClientOutcome, StructuredReply, ends_with_a_question, ends_without_budget, is_structured,
    requires_call,
};
use crate::openai::stream::{Writer, Written};
use crate::openai::thoughts::{BREAK, Thoughts};

/// What happens to the events of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventSink {
    /// They are sent as they are produced.
    Client,
    /// They are dropped: the response is sent as a whole.
    Discard,
}

/// Produces the events of one response and, from them, its items, so a response sent as a whole has exactly the same
/// items.
#[derive(Debug)]
pub(super) struct ResponseEvents {
    response: ResponseOut,
    sink: EventSink,
    /// How many events were written.
    sequence: u64,
    /// The complete items.
    done: Vec<Done>,
    /// The item that is being filled.
    open: Option<Text>,
    /// Line breaks at the start of a model call's text, held back until more text follows: thoughts may follow, or
    /// nothing.
    held: String,
    /// How many items were completed, including discarded ones.
    next_index: usize,
    /// Whether the answer is sent only once it is complete.
    sends_whole: bool,
    /// Whether the request requires a call of one of the client's tools.
    requires_call: bool,
    words: TextExtractor,
    thoughts: Thoughts,
}

/// The fields of every event, followed by its own.
#[derive(Serialize)]
struct EventOut<'a, T> {
    #[serde(rename = "type")]
    kind: &'static str,
    sequence_number: u64,
    #[serde(flatten)]
    fields: &'a T,
}

/// More of the text of a message.
#[derive(Serialize)]
struct TextDelta<'a> {
    item_id: &'a str,
    output_index: usize,
    content_index: u32,
    delta: &'a str,
    logprobs: [(); 0],
}

/// More of a thought.
#[derive(Serialize)]
struct ThoughtDelta<'a> {
    item_id: &'a str,
    output_index: usize,
    summary_index: u32,
    delta: &'a str,
}

impl ResponseEvents {
    /// Creates a writer for the client of a run that has these records so far.
    pub(super) fn to_client(response: ResponseOut, records: &[Arc<Record>]) -> Self {
        Self::new(response, EventSink::Client, records)
    }

    /// Builds the response of a run that has ended or waits, from its records.
    pub(super) fn whole(
        response: ResponseOut,
        records: &[Arc<Record>],
        outcome: &ClientOutcome,
    ) -> Result<ResponseOut, serde_json::Error> {
        let mut events = Self::new(response, EventSink::Discard, records);
        let nothing = &mut Vec::new();
        for event in events_from_records::events(records) {
            events.process_event(&event, nothing)?;
        }
        events.finish(outcome, nothing)
    }

    fn new(response: ResponseOut, sink: EventSink, records: &[Arc<Record>]) -> Self {
        Self {
            response,
            sink,
            sequence: 0,
            done: Vec::new(),
            open: None,
            held: String::new(),
            next_index: 0,
            sends_whole: is_structured(records),
            requires_call: requires_call(records),
            words: TextExtractor::default(),
            thoughts: Thoughts::default(),
        }
    }

    /// Writes an event and counts it, unless events are dropped.
    fn event(
        &mut self,
        kind: &'static str,
        fields: &impl Serialize,
        piece: &mut Vec<u8>,
    ) -> Written {
        if self.sink == EventSink::Discard {
            return Ok(());
        }
        let event = EventOut {
            kind,
            sequence_number: self.sequence,
            fields,
        };
        self.sequence += 1;
        write_event(piece, Some(kind), &event)
    }

    fn process_event(&mut self, event: &Event, piece: &mut Vec<u8>) -> Written {
        if ends_without_budget(event) || (self.requires_call && ends_with_a_question(event)) {
            return Ok(());
        }
        let by = TextSource::of(event);
        if let Some(text) = self.words.extract(event) {
            if !self.sends_whole {
                return self.write_text(&text, by, piece);
            }
        } else if let Some(thought) = self.thoughts.extract(event) {
            if thought.follows_another && self.is_open(Kind::Reasoning) {
                self.close(piece)?;
            }
            return self.write_thought(thought.text, by, piece);
        } else if let Some(call) = retracted_by(event) {
            return self.retract_call(call, piece);
        }
        Ok(())
    }

    fn is_open(&self, kind: Kind) -> bool {
        self.open.as_ref().is_some_and(|open| open.kind == kind)
    }

    /// Starts an item.
    fn start(&self, kind: Kind, by: Option<TextSource>) -> Text {
        Text::start(kind, self.response.run(), self.done.len(), by)
    }

    /// Adds to the open item, and returns its id.
    fn add(&mut self, text: &str, by: Option<TextSource>) -> String {
        match &mut self.open {
            Some(open) => {
                open.add(text, by);
                open.id.clone()
            }
            None => String::new(),
        }
    }

    /// Removes the text of a discarded model call. What was already sent cannot be retracted. An item without any other
    /// text ends empty and is not part of the response.
    fn retract_call(&mut self, call: EffectId, piece: &mut Vec<u8>) -> Written {
        self.done.retain_mut(|done| done.retract_call(call));
        self.held.clear();
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        if open.retract_call(call) {
            self.open = Some(open);
            return Ok(());
        }
        self.finish_text(&open, piece)
    }

    fn write_text(&mut self, text: &str, by: Option<TextSource>, piece: &mut Vec<u8>) -> Written {
        self.held.push_str(text);
        let open = self.open.as_ref();
        let continues = open.is_some_and(|open| open.is_from(Kind::Message, by));
        if !continues && self.held.trim_start_matches('\n').is_empty() {
            return Ok(());
        }
        let mut text = mem::take(&mut self.held);
        if !self.is_open(Kind::Message) {
            let bare = text.trim_start_matches('\n');
            text = match self.done.iter().any(Done::is_answer) {
                // Clients join all messages to one text.
                true => format!("{BREAK}{bare}"),
                false => bare.to_owned(),
            };
            self.open_message(Kind::Message, by, piece)?;
        }
        let delta = TextDelta {
            item_id: &self.add(&text, by),
            output_index: self.next_index,
            content_index: 0,
            delta: &text,
            logprobs: [],
        };
        self.event("response.output_text.delta", &delta, piece)
    }

    /// Sends why there is no answer of the requested form.
    fn write_refusal(&mut self, why: &str, piece: &mut Vec<u8>) -> Written {
        self.open_message(Kind::Refusal, None, piece)?;
        let delta = json!({
            "item_id": self.add(why, None),
            "output_index": self.next_index,
            "content_index": 0,
            "delta": why,
        });
        self.event("response.refusal.delta", &delta, piece)
    }

    fn open_message(&mut self, kind: Kind, by: Option<TextSource>, piece: &mut Vec<u8>) -> Written {
        self.close(piece)?;
        let open = self.start(kind, by);
        let (id, output_index) = (&open.id, self.next_index);
        let item = Item::message(id.clone(), None);
        self.event(
            "response.output_item.added",
            &json!({ "output_index": output_index, "item": item }),
            piece,
        )?;
        let part = match kind {
            Kind::Refusal => Content::refusal(String::new()),
            Kind::Message | Kind::Reasoning => Content::text(String::new()),
        };
        self.event(
            "response.content_part.added",
            &json!({ "item_id": id, "output_index": output_index, "content_index": 0, "part": part }),
            piece,
        )?;
        self.open = Some(open);
        Ok(())
    }

    fn write_thought(
        &mut self,
        text: &str,
        by: Option<TextSource>,
        piece: &mut Vec<u8>,
    ) -> Written {
        if !self.is_open(Kind::Reasoning) {
            self.close(piece)?;
            let open = self.start(Kind::Reasoning, by);
            let (id, output_index) = (&open.id, self.next_index);
            let item = Item::reasoning(id.clone(), None);
            self.event(
                "response.output_item.added",
                &json!({ "output_index": output_index, "item": item }),
                piece,
            )?;
            let part = json!({ "type": "summary_text", "text": "" });
            self.event(
                "response.reasoning_summary_part.added",
                &json!({ "item_id": id, "output_index": output_index, "summary_index": 0, "part": part }),
                piece,
            )?;
            self.open = Some(open);
        }
        let delta = ThoughtDelta {
            item_id: &self.add(text, by),
            output_index: self.next_index,
            summary_index: 0,
            delta: text,
        };
        self.event("response.reasoning_summary_text.delta", &delta, piece)
    }

    /// Closes the open item, if there is one.
    fn close(&mut self, piece: &mut Vec<u8>) -> Written {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        self.finish_text(&open, piece)?;
        self.done.push(Done::Text(open));
        Ok(())
    }

    /// Sends that a text is complete.
    fn finish_text(&mut self, open: &Text, piece: &mut Vec<u8>) -> Written {
        let (id, text, output_index) = (&open.id, &open.text, self.next_index);
        match open.kind {
            Kind::Message => {
                self.event(
                    "response.output_text.done",
                    &json!({ "item_id": id, "output_index": output_index, "content_index": 0, "text": text, "logprobs": [] }),
                    piece,
                )?;
                let part = Content::text(text.clone());
                self.event(
                    "response.content_part.done",
                    &json!({ "item_id": id, "output_index": output_index, "content_index": 0, "part": part }),
                    piece,
                )?;
            }
            Kind::Refusal => {
                self.event(
                    "response.refusal.done",
                    &json!({ "item_id": id, "output_index": output_index, "content_index": 0, "refusal": text }),
                    piece,
                )?;
                let part = Content::refusal(text.clone());
                self.event(
                    "response.content_part.done",
                    &json!({ "item_id": id, "output_index": output_index, "content_index": 0, "part": part }),
                    piece,
                )?;
            }
            Kind::Reasoning => {
                self.event(
                    "response.reasoning_summary_text.done",
                    &json!({ "item_id": id, "output_index": output_index, "summary_index": 0, "text": text }),
                    piece,
                )?;
                let part = json!({ "type": "summary_text", "text": text });
                self.event(
                    "response.reasoning_summary_part.done",
                    &json!({ "item_id": id, "output_index": output_index, "summary_index": 0, "part": part }),
                    piece,
                )?;
            }
        }
        self.finish_item(&open.item(), piece)
    }

    fn finish_item(&mut self, item: &Item, piece: &mut Vec<u8>) -> Written {
        let output_index = self.next_index;
        self.event(
            "response.output_item.done",
            &json!({ "output_index": output_index, "item": item }),
            piece,
        )?;
        self.next_index += 1;
        Ok(())
    }

    /// Returns what has not been streamed: a whole structured answer, what the run waits for, why there is no answer,
    /// or why it reached a limit.
    fn unsent_reply(&self, outcome: &ClientOutcome) -> StructuredReply {
        if self.sends_whole || outcome.lacks_call {
            return outcome.structured_reply();
        }
        let has_sent_text = self.done.iter().any(Done::is_answer);
        let is_answer_sent = has_sent_text && outcome.result.finish_reason.is_some();
        StructuredReply {
            content: match is_answer_sent {
                true => outcome.notice.clone(),
                false => Some(outcome.result.reply.clone()).filter(|reply| !reply.is_empty()),
            },
            refusal: None,
        }
    }

    /// Closes the open item, and adds what has not been sent yet.
    fn finish(
        &mut self,
        outcome: &ClientOutcome,
        piece: &mut Vec<u8>,
    ) -> Result<ResponseOut, serde_json::Error> {
        self.close(piece)?;
        if outcome.is_answered() {
            let StructuredReply { content, refusal } = self.unsent_reply(outcome);
            if let Some(text) = content {
                self.write_text(&text, None, piece)?;
            }
            if let Some(why) = refusal {
                self.write_refusal(&why, piece)?;
            }
            self.close(piece)?;
        }
        for call in &outcome.calls {
            self.write_call(call, piece)?;
        }
        if outcome.is_answered() && !self.done.iter().any(Done::is_answer) {
            // Clients expect a message, even an empty one.
            self.open_message(Kind::Message, None, piece)?;
            self.close(piece)?;
        }
        let done = mem::take(&mut self.done).into_iter();
        let items = done.map(Done::into_item).collect();
        Ok(self.response.clone().with_outcome(outcome, items))
    }

    /// Sends a call that the client must run.
    fn write_call(&mut self, call: &ToolCall, piece: &mut Vec<u8>) -> Written {
        let output_index = self.next_index;
        let id = id_of(call);
        let item = Item::call(call, false);
        self.event(
            "response.output_item.added",
            &json!({ "output_index": output_index, "item": item }),
            piece,
        )?;
        let arguments = call.arguments.as_str();
        self.event(
            "response.function_call_arguments.delta",
            &json!({ "item_id": id, "output_index": output_index, "delta": arguments }),
            piece,
        )?;
        self.event(
            "response.function_call_arguments.done",
            &json!({ "item_id": id, "output_index": output_index, "name": call.name, "arguments": arguments }),
            piece,
        )?;
        let item = Item::call(call, true);
        self.finish_item(&item, piece)?;
        self.done.push(Done::Call(item));
        Ok(())
    }
}

impl Writer for ResponseEvents {
    fn write_start(&mut self, piece: &mut Vec<u8>) -> Written {
        let begun = json!({ "response": self.response });
        self.event("response.created", &begun, piece)?;
        self.event("response.in_progress", &begun, piece)
    }

    fn write_event(&mut self, event: &Event, piece: &mut Vec<u8>) -> Written {
        self.process_event(event, piece)
    }

    fn write_outcome(&mut self, outcome: &ClientOutcome, piece: &mut Vec<u8>) -> Written {
        let response = self.finish(outcome, piece)?;
        if !outcome.is_answered() {
            self.write_error(&ErrorBody::of_outcome(outcome), piece)?;
        }
        let kind = response.ending();
        self.event(kind, &json!({ "response": response }), piece)
    }

    fn write_error(&mut self, error: &ErrorBody, piece: &mut Vec<u8>) -> Written {
        // In OpenAI's reference, the event has the fields of the error; OpenAI's service sends an object within the
        // event, and its clients raise only what is in that object.
        let mut data = serde_json::to_value(error)?;
        let fields = data.get("error").cloned().unwrap_or_default();
        if let (Value::Object(data), Value::Object(mut fields)) = (&mut data, fields) {
            // The event has its own `type`.
            fields.remove("type");
            data.extend(fields);
        }
        self.event("error", &data, piece)
    }
}
