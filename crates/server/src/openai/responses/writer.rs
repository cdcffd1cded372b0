//! The items of a response, one after the other, each opened, filled and closed, and the events that tell so.

use std::mem;
use std::sync::Arc;

use axum::response::sse;
use neuraxis::Event;
use neuraxis::core::{Record, ToolCall};
use neuraxis::engine::Words;
use serde_json::{Value, json};

use super::output::{Item, ResponseOut, id_of};
use crate::openai::error::in_stream;
use crate::openai::run::Ended;
use crate::openai::thoughts::{Thoughts, retold};
use crate::problem::Problem;

/// What becomes of the events of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listener {
    /// They are sent as they come.
    Client,
    /// Nobody hears them: the response is told whole.
    Nobody,
}

/// Makes the events of one response, and with them its items: a response that is told whole has the very same ones.
#[derive(Debug)]
pub(super) struct Writer {
    response: ResponseOut,
    listener: Listener,
    /// How many events there were.
    sequence: u64,
    /// The items that are whole.
    done: Vec<Item>,
    open: Open,
    /// Whether only the whole answer is told.
    at_once: bool,
    words: Words,
    thoughts: Thoughts,
    frames: Vec<sse::Event>,
}

/// The item that is being filled.
#[derive(Debug, Default)]
enum Open {
    #[default]
    Nothing,
    Message(String),
    Reasoning(String),
}

impl Writer {
    /// Begins to tell a client of a response.
    pub(super) fn to_client(response: ResponseOut, at_once: bool) -> Self {
        let mut writer = Self::new(response, Listener::Client, at_once);
        writer.event("response.created", json!({ "response": writer.response }));
        writer.event(
            "response.in_progress",
            json!({ "response": writer.response }),
        );
        writer
    }

    /// Returns a response of a run that has ended or waits, from its records.
    pub(super) fn whole(
        response: ResponseOut,
        records: &[Arc<Record>],
        ended: &Ended,
        at_once: bool,
    ) -> ResponseOut {
        let mut writer = Self::new(response, Listener::Nobody, at_once);
        for event in retold(records) {
            writer.hear(&event);
        }
        writer.finish(ended)
    }

    fn new(response: ResponseOut, listener: Listener, at_once: bool) -> Self {
        Self {
            response,
            listener,
            sequence: 0,
            done: Vec::new(),
            open: Open::Nothing,
            at_once,
            words: Words::default(),
            thoughts: Thoughts::default(),
            frames: Vec::new(),
        }
    }

    /// Takes the events that were made since.
    pub(super) fn take(&mut self) -> Vec<sse::Event> {
        mem::take(&mut self.frames)
    }

    /// Tells whether there is no event that was not taken.
    pub(super) const fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    fn event(&mut self, kind: &'static str, mut fields: Value) {
        if self.listener == Listener::Nobody {
            return;
        }
        if let Value::Object(fields) = &mut fields {
            fields.insert("type".to_owned(), kind.into());
            fields.insert("sequence_number".to_owned(), self.sequence.into());
        }
        self.sequence += 1;
        let frame = sse::Event::default().event(kind).data(fields.to_string());
        self.frames.push(frame);
    }

    fn item_id(&self, kind: &str) -> String {
        format!("{kind}_{}_{}", self.response.run(), self.done.len())
    }

    /// Takes in an event of the run.
    pub(super) fn hear(&mut self, event: &Event) {
        if let Some(text) = self.words.hear(event) {
            if !self.at_once {
                self.say(&text);
            }
        } else if let Some(thought) = self.thoughts.hear(event) {
            if thought.follows_another && matches!(self.open, Open::Reasoning(_)) {
                self.close();
            }
            self.think(thought.text);
        }
    }

    fn say(&mut self, text: &str) {
        let mut text = text;
        if !matches!(self.open, Open::Message(_)) {
            self.close();
            // What stands between two texts has nothing to stand between here.
            text = text.trim_start_matches('\n');
            let (id, output_index) = (self.item_id("msg"), self.done.len());
            let item = Item::message(id.clone(), None);
            self.event(
                "response.output_item.added",
                json!({ "output_index": output_index, "item": item }),
            );
            let part =
                json!({ "type": "output_text", "text": "", "annotations": [], "logprobs": [] });
            self.event(
                "response.content_part.added",
                json!({ "item_id": id, "output_index": output_index, "content_index": 0, "part": part }),
            );
            self.open = Open::Message(String::new());
        }
        if let Open::Message(said) = &mut self.open {
            said.push_str(text);
        }
        let (id, output_index) = (self.item_id("msg"), self.done.len());
        self.event(
            "response.output_text.delta",
            json!({ "item_id": id, "output_index": output_index, "content_index": 0, "delta": text, "logprobs": [] }),
        );
    }

    fn think(&mut self, text: &str) {
        if !matches!(self.open, Open::Reasoning(_)) {
            self.close();
            let (id, output_index) = (self.item_id("rs"), self.done.len());
            let item = Item::reasoning(id.clone(), None);
            self.event(
                "response.output_item.added",
                json!({ "output_index": output_index, "item": item }),
            );
            let part = json!({ "type": "summary_text", "text": "" });
            self.event(
                "response.reasoning_summary_part.added",
                json!({ "item_id": id, "output_index": output_index, "summary_index": 0, "part": part }),
            );
            self.open = Open::Reasoning(String::new());
        }
        if let Open::Reasoning(thought) = &mut self.open {
            thought.push_str(text);
        }
        let (id, output_index) = (self.item_id("rs"), self.done.len());
        self.event(
            "response.reasoning_summary_text.delta",
            json!({ "item_id": id, "output_index": output_index, "summary_index": 0, "delta": text }),
        );
    }

    /// Closes the item that is being filled, if there is one.
    fn close(&mut self) {
        let output_index = self.done.len();
        let item = match mem::take(&mut self.open) {
            Open::Nothing => return,
            Open::Message(text) => {
                let id = self.item_id("msg");
                self.event(
                    "response.output_text.done",
                    json!({ "item_id": id, "output_index": output_index, "content_index": 0, "text": text, "logprobs": [] }),
                );
                let part = json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] });
                self.event(
                    "response.content_part.done",
                    json!({ "item_id": id, "output_index": output_index, "content_index": 0, "part": part }),
                );
                Item::message(id, Some(text))
            }
            Open::Reasoning(text) => {
                let id = self.item_id("rs");
                self.event(
                    "response.reasoning_summary_text.done",
                    json!({ "item_id": id, "output_index": output_index, "summary_index": 0, "text": text }),
                );
                let part = json!({ "type": "summary_text", "text": text });
                self.event(
                    "response.reasoning_summary_part.done",
                    json!({ "item_id": id, "output_index": output_index, "summary_index": 0, "part": part }),
                );
                Item::reasoning(id, Some(text))
            }
        };
        self.item_done(item);
    }

    fn item_done(&mut self, item: Item) {
        let output_index = self.done.len();
        self.event(
            "response.output_item.done",
            json!({ "output_index": output_index, "item": item }),
        );
        self.done.push(item);
    }

    /// Tells what the run came to.
    pub(super) fn end(&mut self, ended: &Ended) {
        let response = self.finish(ended);
        let kind = response.ending();
        self.event(kind, json!({ "response": response }));
    }

    /// Closes what is open, and adds what was not told yet.
    fn finish(&mut self, ended: &Ended) -> ResponseOut {
        let is_told = !self.at_once && ended.result.finish_reason.is_some();
        self.close();
        if ended.is_answered() && !is_told && !ended.result.reply.is_empty() {
            self.say(&ended.result.reply);
            self.close();
        }
        for call in &ended.calls {
            self.hand_over(call);
        }
        let mut items = mem::take(&mut self.done);
        if items.is_empty() && ended.is_answered() {
            // Clients look for a message, be it an empty one.
            let reply = ended.result.reply.clone();
            items.push(Item::message(self.item_id("msg"), Some(reply)));
        }
        self.response.clone().ended(ended, items)
    }

    /// Tells a call that the client is to run.
    fn hand_over(&mut self, call: &ToolCall) {
        let output_index = self.done.len();
        let id = id_of(call);
        let item = Item::call(call, false);
        self.event(
            "response.output_item.added",
            json!({ "output_index": output_index, "item": item }),
        );
        let arguments = call.arguments.as_str();
        self.event(
            "response.function_call_arguments.delta",
            json!({ "item_id": id, "output_index": output_index, "delta": arguments }),
        );
        self.event(
            "response.function_call_arguments.done",
            json!({ "item_id": id, "output_index": output_index, "name": call.name, "arguments": arguments }),
        );
        self.item_done(Item::call(call, true));
    }

    /// Tells that nobody knows what the run came to.
    pub(super) fn fail(&mut self, problem: &Problem) {
        let error = serde_json::to_value(in_stream(problem)).unwrap_or_default();
        let error = error.get("error").cloned().unwrap_or_default();
        self.event("error", error);
    }
}
