//! Writes the items of a response in sequence, each opened, filled and closed, and the corresponding events.

use std::mem;
use std::sync::Arc;

use neuraxis::Event;
use neuraxis::core::{EffectId, Record, ToolCall};
use neuraxis::engine::TextExtractor;
use serde::Serialize;
use serde_json::{Value, json};

use super::items::{Done, Kind, Speaker, Text, voided};
use super::output::{Content, Item, ResponseOut, id_of};
use crate::events::write_event;
use crate::openai::error::ErrorBody;
use crate::openai::retold;
use crate::openai::run::{
    Ended, Formed, ends_with_a_question, ends_without_budget, has_form, has_to_call,
};
use crate::openai::stream::{Writer, Written};
use crate::openai::thoughts::{BREAK, Thoughts};

/// What happens to the events of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listener {
    /// They are sent as they are produced.
    Client,
    /// They are dropped: the response is sent as a whole.
    Nobody,
}

/// Produces the events of one response and, from them, its items, so a response sent as a whole has exactly the same
/// items.
#[derive(Debug)]
pub(super) struct ResponseEvents {
    response: ResponseOut,
    listener: Listener,
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
    told: usize,
    /// Whether the answer is sent only once it is complete.
    at_once: bool,
    /// Whether the request requires a call of one of the client's tools.
    has_to_call: bool,
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
        Self::new(response, Listener::Client, records)
    }

    /// Builds the response of a run that has ended or waits, from its records.
    pub(super) fn whole(
        response: ResponseOut,
        records: &[Arc<Record>],
        ended: &Ended,
    ) -> Result<ResponseOut, serde_json::Error> {
        let mut events = Self::new(response, Listener::Nobody, records);
        let nothing = &mut Vec::new();
        for event in retold::events(records) {
            events.take_in(&event, nothing)?;
        }
        events.finish(ended, nothing)
    }

    fn new(response: ResponseOut, listener: Listener, records: &[Arc<Record>]) -> Self {
        Self {
            response,
            listener,
            sequence: 0,
            done: Vec::new(),
            open: None,
            held: String::new(),
            told: 0,
            at_once: has_form(records),
            has_to_call: has_to_call(records),
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
        if self.listener == Listener::Nobody {
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

    fn take_in(&mut self, event: &Event, piece: &mut Vec<u8>) -> Written {
        if ends_without_budget(event) || (self.has_to_call && ends_with_a_question(event)) {
            return Ok(());
        }
        let by = Speaker::of(event);
        if let Some(text) = self.words.extract(event) {
            if !self.at_once {
                return self.say(&text, by, piece);
            }
        } else if let Some(thought) = self.thoughts.hear(event) {
            if thought.follows_another && self.fills(Kind::Reasoning) {
                self.close(piece)?;
            }
            return self.think(thought.text, by, piece);
        } else if let Some(call) = voided(event) {
            return self.take_back(call, piece);
        }
        Ok(())
    }

    fn fills(&self, kind: Kind) -> bool {
        self.open.as_ref().is_some_and(|open| open.kind == kind)
    }

    /// Starts an item.
    fn begun(&self, kind: Kind, by: Option<Speaker>) -> Text {
        Text::begun(kind, self.response.run(), self.done.len(), by)
    }

    /// Adds to the open item, and returns its id.
    fn add(&mut self, text: &str, by: Option<Speaker>) -> String {
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
    fn take_back(&mut self, call: EffectId, piece: &mut Vec<u8>) -> Written {
        self.done.retain_mut(|done| done.stands_without(call));
        self.held.clear();
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        if open.stands_without(call) {
            self.open = Some(open);
            return Ok(());
        }
        self.text_done(&open, piece)
    }

    fn say(&mut self, text: &str, by: Option<Speaker>, piece: &mut Vec<u8>) -> Written {
        self.held.push_str(text);
        let open = self.open.as_ref();
        let goes_on = open.is_some_and(|open| open.is_said_by(Kind::Message, by));
        if !goes_on && self.held.trim_start_matches('\n').is_empty() {
            return Ok(());
        }
        let mut text = mem::take(&mut self.held);
        if !self.fills(Kind::Message) {
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
            output_index: self.told,
            content_index: 0,
            delta: &text,
            logprobs: [],
        };
        self.event("response.output_text.delta", &delta, piece)
    }

    /// Sends why there is no answer of the requested form.
    fn refuse(&mut self, why: &str, piece: &mut Vec<u8>) -> Written {
        self.open_message(Kind::Refusal, None, piece)?;
        let delta = json!({
            "item_id": self.add(why, None),
            "output_index": self.told,
            "content_index": 0,
            "delta": why,
        });
        self.event("response.refusal.delta", &delta, piece)
    }

    fn open_message(&mut self, kind: Kind, by: Option<Speaker>, piece: &mut Vec<u8>) -> Written {
        self.close(piece)?;
        let open = self.begun(kind, by);
        let (id, output_index) = (&open.id, self.told);
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

    fn think(&mut self, text: &str, by: Option<Speaker>, piece: &mut Vec<u8>) -> Written {
        if !self.fills(Kind::Reasoning) {
            self.close(piece)?;
            let open = self.begun(Kind::Reasoning, by);
            let (id, output_index) = (&open.id, self.told);
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
            output_index: self.told,
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
        self.text_done(&open, piece)?;
        self.done.push(Done::Text(open));
        Ok(())
    }

    /// Sends that a text is complete.
    fn text_done(&mut self, open: &Text, piece: &mut Vec<u8>) -> Written {
        let (id, text, output_index) = (&open.id, &open.text, self.told);
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
        self.item_done(&open.item(), piece)
    }

    fn item_done(&mut self, item: &Item, piece: &mut Vec<u8>) -> Written {
        let output_index = self.told;
        self.event(
            "response.output_item.done",
            &json!({ "output_index": output_index, "item": item }),
            piece,
        )?;
        self.told += 1;
        Ok(())
    }

    /// Returns what has not been streamed: a whole structured answer, what the run waits for, why there is no answer,
    /// or why it reached a limit.
    fn untold(&self, ended: &Ended) -> Formed {
        if self.at_once || ended.lacks_call {
            return ended.formed();
        }
        let has_said = self.done.iter().any(Done::is_answer);
        let is_told = has_said && ended.result.finish_reason.is_some();
        Formed {
            content: match is_told {
                true => ended.notice.clone(),
                false => Some(ended.result.reply.clone()).filter(|reply| !reply.is_empty()),
            },
            refusal: None,
        }
    }

    /// Closes the open item, and adds what has not been sent yet.
    fn finish(
        &mut self,
        ended: &Ended,
        piece: &mut Vec<u8>,
    ) -> Result<ResponseOut, serde_json::Error> {
        self.close(piece)?;
        if ended.is_answered() {
            let Formed { content, refusal } = self.untold(ended);
            if let Some(text) = content {
                self.say(&text, None, piece)?;
            }
            if let Some(why) = refusal {
                self.refuse(&why, piece)?;
            }
            self.close(piece)?;
        }
        for call in &ended.calls {
            self.hand_over(call, piece)?;
        }
        if ended.is_answered() && !self.done.iter().any(Done::is_answer) {
            // Clients expect a message, even an empty one.
            self.open_message(Kind::Message, None, piece)?;
            self.close(piece)?;
        }
        let done = mem::take(&mut self.done).into_iter();
        let items = done.map(Done::into_item).collect();
        Ok(self.response.clone().ended(ended, items))
    }

    /// Sends a call that the client must run.
    fn hand_over(&mut self, call: &ToolCall, piece: &mut Vec<u8>) -> Written {
        let output_index = self.told;
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
        self.item_done(&item, piece)?;
        self.done.push(Done::Call(item));
        Ok(())
    }
}

impl Writer for ResponseEvents {
    fn begin(&mut self, piece: &mut Vec<u8>) -> Written {
        let begun = json!({ "response": self.response });
        self.event("response.created", &begun, piece)?;
        self.event("response.in_progress", &begun, piece)
    }

    fn hear(&mut self, event: &Event, piece: &mut Vec<u8>) -> Written {
        self.take_in(event, piece)
    }

    fn end(&mut self, ended: &Ended, piece: &mut Vec<u8>) -> Written {
        let response = self.finish(ended, piece)?;
        if !ended.is_answered() {
            self.fail(&ErrorBody::of_ended(ended), piece)?;
        }
        let kind = response.ending();
        self.event(kind, &json!({ "response": response }), piece)
    }

    fn fail(&mut self, error: &ErrorBody, piece: &mut Vec<u8>) -> Written {
        // In OpenAI's reference, the event has the fields of the error; OpenAI's service sends an object within the
        // event, and its clients raise only what is in that object.
        let mut told = serde_json::to_value(error)?;
        let fields = told.get("error").cloned().unwrap_or_default();
        if let (Value::Object(told), Value::Object(mut fields)) = (&mut told, fields) {
            // The event has its own `type`.
            fields.remove("type");
            told.extend(fields);
        }
        self.event("error", &told, piece)
    }
}
