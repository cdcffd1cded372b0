//! A response as it comes: its items one after the other, each opened, filled and closed.

use std::convert::Infallible;
use std::mem;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use neuraxis::core::{AgentId, LiveBody};
use neuraxis::engine::Words;
use neuraxis::{Event, Events};
use serde_json::{Value, json};

use super::output::{Item, ResponseOut, id_of, items};
use crate::events::DO_NOT_BUFFER;
use crate::openai::chat::error_code;
use crate::openai::error::{in_stream, not_again};
use crate::openai::run::{Ended, Held};
use crate::problem::Problem;

/// Makes the events of one response.
#[derive(Debug)]
struct Writer {
    response: ResponseOut,
    /// How many events there were.
    sequence: u64,
    /// The items that are whole.
    done: Vec<Item>,
    open: Open,
    /// Whether only the whole answer is told.
    at_once: bool,
    words: Words,
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
    fn event(&mut self, kind: &'static str, mut fields: Value) {
        if let Value::Object(fields) = &mut fields {
            fields.insert("type".to_owned(), kind.into());
            fields.insert("sequence_number".to_owned(), self.sequence.into());
        }
        self.sequence += 1;
        let frame = sse::Event::default().event(kind).data(fields.to_string());
        self.frames.push(frame);
    }

    fn begin(&mut self) {
        self.event("response.created", json!({ "response": self.response }));
        self.event("response.in_progress", json!({ "response": self.response }));
    }

    fn item_id(&self, kind: &str) -> String {
        format!("{kind}_{}_{}", self.response.id(), self.done.len())
    }

    /// Takes in an event of the run.
    fn hear(&mut self, event: &Event) {
        if let Some(text) = self.words.hear(event) {
            if !self.at_once {
                self.say(&text);
            }
        } else if let Event::Live(live) = event
            && live.agent == AgentId::ROOT
            && let LiveBody::ReasoningDelta { text } = &live.body
            && !text.is_empty()
        {
            self.think(text);
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
    fn end(&mut self, ended: &Ended) {
        let is_told = !self.at_once && ended.result.finish_reason.is_some();
        if ended.is_answered() && !is_told && !ended.result.reply.is_empty() {
            self.say(&ended.result.reply);
        }
        self.close();
        for call in &ended.calls {
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
        self.event(kind, json!({ "response": response }));
    }

    fn fail(&mut self, problem: &Problem) {
        let error = serde_json::to_value(in_stream(problem)).unwrap_or_default();
        let error = error.get("error").cloned().unwrap_or_default();
        self.event("error", error);
    }
}

/// Answers with the events as they come. The run ends with the answer: whoever stops reading ends it.
pub(super) fn answer(held: Held, events: Events, response: ResponseOut, at_once: bool) -> Response {
    let mut writer = Writer {
        response,
        sequence: 0,
        done: Vec::new(),
        open: Open::Nothing,
        at_once,
        words: Words::default(),
        frames: Vec::new(),
    };
    writer.begin();
    let state = (held, Some(events), writer);
    let frames = stream::unfold(state, |(held, mut events, mut writer)| async move {
        while writer.frames.is_empty() {
            match events.as_mut()?.next().await {
                Some(event) => writer.hear(&event),
                None => {
                    match held.ended().await {
                        Ok(ended) => writer.end(&ended),
                        Err(problem) => writer.fail(&problem),
                    }
                    events = None;
                }
            }
        }
        let frames = mem::take(&mut writer.frames);
        Some((frames, (held, events, writer)))
    });
    let frames = futures_util::StreamExt::flat_map(frames, |frames| {
        stream::iter(frames.into_iter().map(Ok::<_, Infallible>))
    });
    let stream = Sse::new(frames).keep_alive(KeepAlive::default());
    not_again(([DO_NOT_BUFFER], stream).into_response())
}
