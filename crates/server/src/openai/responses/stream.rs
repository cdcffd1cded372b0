//! A response as it comes: its items one after the other, each opened, filled and closed.

use std::mem;

use neuraxis::Event;
use neuraxis::core::{AgentId, LiveBody, ToolCall};
use neuraxis::engine::Words;
use serde::Serialize;
use serde_json::{Value, json};

use super::output::{Item, ResponseOut, id_of, items};
use crate::events::write_event;
use crate::openai::chat::error_code;
use crate::openai::error::ErrorBody;
use crate::openai::run::Ended;
use crate::openai::stream::{Writer, Written};

/// Makes the events of one response.
#[derive(Debug)]
pub(super) struct ResponseEvents {
    response: ResponseOut,
    /// How many events there were.
    sequence: u64,
    /// The items that are whole.
    done: Vec<Item>,
    open: Open,
    /// Whether only the whole answer is told.
    at_once: bool,
    words: Words,
}

/// The item that is being filled.
#[derive(Debug, Default)]
enum Open {
    #[default]
    Nothing,
    Message {
        id: String,
        text: String,
    },
    Reasoning {
        id: String,
        text: String,
    },
}

/// What each event has, with what it has beyond that.
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

/// Writes an event and counts it.
fn write(
    sequence: &mut u64,
    kind: &'static str,
    fields: &impl Serialize,
    piece: &mut Vec<u8>,
) -> Written {
    let event = EventOut {
        kind,
        sequence_number: *sequence,
        fields,
    };
    *sequence += 1;
    write_event(piece, Some(kind), &event)
}

impl ResponseEvents {
    /// Tells a response that begins; `at_once` leaves out what comes before the whole answer.
    pub(super) fn new(response: ResponseOut, at_once: bool) -> Self {
        Self {
            response,
            sequence: 0,
            done: Vec::new(),
            open: Open::Nothing,
            at_once,
            words: Words::default(),
        }
    }

    fn event(&mut self, kind: &'static str, fields: &Value, piece: &mut Vec<u8>) -> Written {
        write(&mut self.sequence, kind, fields, piece)
    }

    fn item_id(&self, kind: &str) -> String {
        format!("{kind}_{}_{}", self.response.id(), self.done.len())
    }

    fn say(&mut self, text: &str, piece: &mut Vec<u8>) -> Written {
        let mut text = text;
        if !matches!(self.open, Open::Message { .. }) {
            self.close(piece)?;
            // What stands between two texts has nothing to stand between here.
            text = text.trim_start_matches('\n');
            let (id, output_index) = (self.item_id("msg"), self.done.len());
            let item = Item::message(id.clone(), None);
            self.event(
                "response.output_item.added",
                &json!({ "output_index": output_index, "item": item }),
                piece,
            )?;
            let part =
                json!({ "type": "output_text", "text": "", "annotations": [], "logprobs": [] });
            self.event(
                "response.content_part.added",
                &json!({ "item_id": id, "output_index": output_index, "content_index": 0, "part": part }),
                piece,
            )?;
            self.open = Open::Message {
                id,
                text: String::new(),
            };
        }
        let Open::Message { id, text: said } = &mut self.open else {
            return Ok(());
        };
        said.push_str(text);
        let delta = TextDelta {
            item_id: id,
            output_index: self.done.len(),
            content_index: 0,
            delta: text,
            logprobs: [],
        };
        let kind = "response.output_text.delta";
        write(&mut self.sequence, kind, &delta, piece)
    }

    fn think(&mut self, text: &str, piece: &mut Vec<u8>) -> Written {
        if !matches!(self.open, Open::Reasoning { .. }) {
            self.close(piece)?;
            let (id, output_index) = (self.item_id("rs"), self.done.len());
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
            self.open = Open::Reasoning {
                id,
                text: String::new(),
            };
        }
        let Open::Reasoning { id, text: thought } = &mut self.open else {
            return Ok(());
        };
        thought.push_str(text);
        let delta = ThoughtDelta {
            item_id: id,
            output_index: self.done.len(),
            summary_index: 0,
            delta: text,
        };
        let kind = "response.reasoning_summary_text.delta";
        write(&mut self.sequence, kind, &delta, piece)
    }

    /// Closes the item that is being filled, if there is one.
    fn close(&mut self, piece: &mut Vec<u8>) -> Written {
        let output_index = self.done.len();
        let item = match mem::take(&mut self.open) {
            Open::Nothing => return Ok(()),
            Open::Message { id, text } => {
                self.event(
                    "response.output_text.done",
                    &json!({ "item_id": id, "output_index": output_index, "content_index": 0, "text": text, "logprobs": [] }),
                    piece,
                )?;
                let part = json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] });
                self.event(
                    "response.content_part.done",
                    &json!({ "item_id": id, "output_index": output_index, "content_index": 0, "part": part }),
                    piece,
                )?;
                Item::message(id, Some(text))
            }
            Open::Reasoning { id, text } => {
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
                Item::reasoning(id, Some(text))
            }
        };
        self.item_done(item, piece)
    }

    fn item_done(&mut self, item: Item, piece: &mut Vec<u8>) -> Written {
        let output_index = self.done.len();
        self.event(
            "response.output_item.done",
            &json!({ "output_index": output_index, "item": item }),
            piece,
        )?;
        self.done.push(item);
        Ok(())
    }

    /// Tells the calls that are the client's to run, each in one piece.
    fn hand_over(&mut self, calls: &[ToolCall], piece: &mut Vec<u8>) -> Written {
        for call in calls {
            let output_index = self.done.len();
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
            self.item_done(Item::call(call, true), piece)?;
        }
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
        if let Some(text) = self.words.hear(event) {
            if !self.at_once {
                return self.say(&text, piece);
            }
        } else if let Event::Live(live) = event
            && live.agent == AgentId::ROOT
            && let LiveBody::ReasoningDelta { text } = &live.body
            && !text.is_empty()
        {
            return self.think(text, piece);
        }
        Ok(())
    }

    fn end(&mut self, ended: &Ended, piece: &mut Vec<u8>) -> Written {
        let is_told = !self.at_once && ended.result.finish_reason.is_some();
        if ended.is_answered() && !is_told && !ended.result.reply.is_empty() {
            self.say(&ended.result.reply, piece)?;
        }
        self.close(piece)?;
        self.hand_over(&ended.calls, piece)?;
        let done = mem::take(&mut self.done);
        let items = if done.is_empty() && ended.is_answered() {
            items(ended)
        } else {
            done
        };
        let response = self.response.clone().ended(ended, items);
        let mut response = serde_json::to_value(response).unwrap_or_default();
        if !ended.is_answered() {
            let error = json!({ "code": error_code(&ended.result), "message": ended.result.reply });
            if let Value::Object(fields) = &mut response {
                fields.insert("error".to_owned(), error);
            }
        }
        let kind = match response.get("status").and_then(Value::as_str) {
            Some("completed") => "response.completed",
            Some("incomplete") => "response.incomplete",
            _ => "response.failed",
        };
        self.event(kind, &json!({ "response": response }), piece)
    }

    fn fail(&mut self, error: &ErrorBody, piece: &mut Vec<u8>) -> Written {
        let error = serde_json::to_value(error)?;
        let mut error = error.get("error").cloned().unwrap_or_default();
        if let Value::Object(fields) = &mut error {
            // Here it is the event's own.
            fields.remove("type");
        }
        self.event("error", &error, piece)
    }
}
