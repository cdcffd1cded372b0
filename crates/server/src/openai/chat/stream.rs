//! An answer of Chat Completions as it comes.
//!
//! Text is told when it comes, also what the model says before it calls the server's tools: an empty line stands between. What
//! a model says in a call that fails and is made again cannot be taken back here; its text begins anew after an empty line.
//! An answer of a form comes in one piece, since only the whole of it is checked. Calls that are handed over come at the end.

use std::convert::Infallible;

use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use neuraxis::engine::Words;
use neuraxis::{Event, Events};
use serde::Serialize;

use super::{CallOut, Ended, Held, Place, UsageOut, error_code, finish_reason, id_of};
use crate::events::DO_NOT_BUFFER;
use crate::openai::error::{self, ErrorBody, not_again};
use crate::openai::thoughts::{BREAK, Thoughts};

/// One piece of an answer.
#[derive(Debug, Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: i64,
    model: &'a str,
    choices: Vec<Choice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<UsageOut>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    neuraxis: Option<Place>,
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallOut>,
}

/// Makes the pieces of one answer.
#[derive(Debug)]
pub(super) struct Chunks {
    id: String,
    created: i64,
    model: String,
    /// Where the run is, which the first and the last piece tell.
    place: Place,
    tells_place: bool,
    /// Whether the client wants to know what was used.
    with_usage: bool,
    /// Whether only the whole answer is told.
    at_once: bool,
    /// Whether something of the answer was told.
    has_said: bool,
    words: Words,
    thoughts: Thoughts,
}

impl Chunks {
    pub(super) fn new(held: &Held, model: String, with_usage: bool, at_once: bool) -> Self {
        Self {
            id: id_of(held),
            created: held.created(),
            model,
            place: Place::of(held),
            tells_place: true,
            with_usage,
            at_once,
            has_said: false,
            words: Words::default(),
            thoughts: Thoughts::default(),
        }
    }

    fn delta(&mut self, delta: Delta, finish_reason: Option<&'static str>) -> sse::Event {
        let choice = Choice {
            index: 0,
            delta,
            finish_reason,
        };
        self.chunk(vec![choice], None)
    }

    fn chunk(&mut self, choices: Vec<Choice>, usage: Option<UsageOut>) -> sse::Event {
        let chunk = Chunk {
            id: &self.id,
            object: "chat.completion.chunk",
            created: self.created,
            model: &self.model,
            choices,
            usage: self.with_usage.then_some(usage),
            neuraxis: std::mem::take(&mut self.tells_place).then(|| self.place.clone()),
        };
        data(&chunk)
    }

    fn first(&mut self) -> sse::Event {
        let delta = Delta {
            role: Some("assistant"),
            content: Some(String::new()),
            ..Delta::default()
        };
        self.delta(delta, None)
    }

    /// Returns what a client is told of an event, if anything.
    fn hear(&mut self, event: &Event) -> Option<sse::Event> {
        let mut delta = Delta::default();
        if let Some(text) = self.words.hear(event) {
            if self.at_once {
                return None;
            }
            delta.content = Some(text);
            self.has_said = true;
        } else if let Some(thought) = self.thoughts.hear(event) {
            let text = thought.text;
            delta.reasoning_content = Some(match thought.follows_another {
                true => format!("{BREAK}{text}"),
                false => text.to_owned(),
            });
        } else {
            return None;
        }
        Some(self.delta(delta, None))
    }

    /// Returns what stands at the end of an answer.
    fn last(&mut self, ended: &Ended) -> Vec<sse::Event> {
        let Ended { result, calls } = ended;
        if !ended.is_answered() {
            let body = ErrorBody::of_run(result.reply.clone(), &error_code(result));
            return vec![data(&body)];
        }
        let mut last = Vec::new();
        let is_told = !self.at_once && result.finish_reason.is_some();
        if !is_told && !result.reply.is_empty() {
            let reply = &result.reply;
            let content = Some(match self.has_said {
                true => format!("{BREAK}{reply}"),
                false => reply.clone(),
            });
            let delta = Delta {
                content,
                ..Delta::default()
            };
            last.push(self.delta(delta, None));
        }
        for (index, call) in calls.iter().enumerate() {
            let delta = Delta {
                tool_calls: vec![CallOut::new(Some(index), call)],
                ..Delta::default()
            };
            last.push(self.delta(delta, None));
        }
        self.place = self.place.clone().ended(ended);
        self.tells_place = true;
        last.push(self.delta(Delta::default(), Some(finish_reason(result))));
        if self.with_usage {
            let usage = UsageOut::new(&result.usage.total);
            last.push(self.chunk(Vec::new(), Some(usage)));
        }
        last.push(sse::Event::default().data("[DONE]"));
        last
    }
}

/// Where a stream stands.
enum Stage {
    First,
    Events,
    Last(std::vec::IntoIter<sse::Event>),
}

/// Answers with the pieces as they come. The run ends with the answer: whoever stops reading ends it.
pub(super) fn answer(held: Held, events: Events, chunks: Chunks) -> Response {
    let state = (held, events, chunks, Stage::First);
    let frames = stream::unfold(
        state,
        |(held, mut events, mut chunks, mut stage)| async move {
            let frame = loop {
                match &mut stage {
                    Stage::First => {
                        stage = Stage::Events;
                        break chunks.first();
                    }
                    Stage::Events => match events.next().await {
                        Some(event) => {
                            if let Some(frame) = chunks.hear(&event) {
                                break frame;
                            }
                        }
                        None => {
                            let last = match held.ended().await {
                                Ok(ended) => chunks.last(&ended),
                                Err(problem) => vec![data(&error::in_stream(&problem))],
                            };
                            stage = Stage::Last(last.into_iter());
                        }
                    },
                    Stage::Last(frames) => break frames.next()?,
                }
            };
            Some((Ok::<_, Infallible>(frame), (held, events, chunks, stage)))
        },
    );
    let stream = Sse::new(frames).keep_alive(KeepAlive::default());
    not_again(([DO_NOT_BUFFER], stream).into_response())
}

fn data(body: &impl Serialize) -> sse::Event {
    // Texts and numbers can be written as JSON, which has no line ends.
    let json = serde_json::to_string(body).unwrap_or_default();
    sse::Event::default().data(json)
}
