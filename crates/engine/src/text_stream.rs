//! The words of a run and nothing else, for whoever wants to show an answer as it comes and know no events.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::StreamExt as _;
use neuraxis_core::{AgentId, EffectId, FinishReason, LiveBody, LiveEvent, RecordBody, RunOutcome};
use neuraxis_ports::Stream;

use crate::agent::AgentRun;
use crate::event::{Event, Events};

/// What stands between the texts of two model calls.
const BREAK: &str = "\n\n";

impl Events {
    /// Leaves nothing but the words that the user is told, piece by piece as they come.
    ///
    /// They are those of the agent that answers the user; those of its sub-agents are left out. Between the texts of two
    /// model calls stands an empty line. A model call that fails in the middle of its text is made again, and its text begins
    /// anew after an empty line: what may be taken back needs [`Event`]s, which say so. Where nothing was streamed, the answer
    /// comes in one piece with the run's last record; of a run that fails nothing comes then, and its
    /// [result](crate::RunHandle::result) says why. What the agent asks the user beside calls with which its run ends comes last.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use neuraxis_core::Role;
    /// use neuraxis_engine::{Orchestrator, UserRequest};
    /// use neuraxis_memory::MemoryStore;
    /// use neuraxis_testkit::{ScriptedModel, reply};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let orchestrator = Orchestrator::builder()
    ///     .model(Role::REASONING, Arc::new(ScriptedModel::always(reply::text("Forty-two."))))
    ///     .store(Arc::new(MemoryStore::default()))
    ///     .build()?;
    /// let (_run, events) = orchestrator.stream(UserRequest::new("s".parse()?, "What is 6 × 7?")).await?;
    /// let mut words = events.text_stream();
    /// let mut shown = String::new();
    /// while let Some(piece) = words.next().await {
    ///     shown.push_str(&piece);
    /// }
    /// assert_eq!(shown, "Forty-two.");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn text_stream(self) -> TextStream {
        TextStream {
            events: self,
            words: Words::default(),
            _run: None,
        }
    }
}

/// The words of one run, to its end. Made by [`Events::text_stream`]: then dropping it disturbs nobody; or by
/// [`AgentRun::into_text_stream`]: then it cancels the run.
#[derive(Debug)]
pub struct TextStream {
    events: Events,
    words: Words,
    /// The run that ends with it.
    _run: Option<AgentRun>,
}

impl TextStream {
    /// Keeps a run at work until this is dropped.
    pub(crate) fn keeping(self, run: AgentRun) -> Self {
        Self {
            _run: Some(run),
            ..self
        }
    }

    /// Returns the next piece, or `None` once the run has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no word.
    pub async fn next(&mut self) -> Option<String> {
        poll_fn(|context| self.poll_piece(context)).await
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<String>> {
        loop {
            let Some(event) = ready!(self.events.poll_next_unpin(context)) else {
                return Poll::Ready(None);
            };
            let piece = self.words.hear(&event);
            if piece.is_some() {
                return Poll::Ready(piece);
            }
        }
    }
}

/// Finds the words that the user is told among the events of one run, for whoever listens for more than those:
/// [`Events::text_stream`] says which they are.
#[derive(Debug, Clone, Default)]
pub struct Words {
    /// The call whose text came last.
    call: Option<EffectId>,
    /// What it said that stands.
    said: String,
    /// What the calls before it said that stands, with an empty line between two.
    earlier: String,
    /// What the tools that the last call called ask the user.
    asked: Vec<String>,
}

impl Words {
    /// Returns what the user is told next, if the run's next event holds anything of it.
    pub fn hear(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::Live(live) if live.agent == AgentId::ROOT => self.hear_live(live),
            Event::Record(record) if record.agent == AgentId::ROOT => match &record.body {
                RecordBody::LlmCall(_) => {
                    self.asked.clear();
                    None
                }
                RecordBody::ToolResult(result) => {
                    self.asked.extend(result.question().map(str::to_owned));
                    None
                }
                RecordBody::Final(end) => self.end(end),
                _ => None,
            },
            _ => None,
        }
    }

    fn hear_live(&mut self, live: &LiveEvent) -> Option<String> {
        match &live.body {
            LiveBody::TextDelta { text } if text.is_empty() => None,
            LiveBody::TextDelta { text } => {
                let goes_on = self.call == Some(live.call) && !self.said.is_empty();
                let piece = match self.call {
                    Some(_) if !goes_on => format!("{BREAK}{text}"),
                    _ => text.clone(),
                };
                if !goes_on {
                    let said = std::mem::take(&mut self.said);
                    add(&mut self.earlier, &said);
                }
                self.said.push_str(text);
                self.call = Some(live.call);
                Some(piece)
            }
            LiveBody::TextRetracted if self.call == Some(live.call) => {
                self.said.clear();
                None
            }
            _ => None,
        }
    }

    /// Says what is left of the answer, and behind it what was asked beside calls that are handed over: they end the run in
    /// place of the question.
    fn end(&mut self, end: &RunOutcome) -> Option<String> {
        let rest = self.conclude(&end.content);
        let mut asked = std::mem::take(&mut self.asked);
        asked.retain(|asked| {
            end.finish_reason == FinishReason::ClientTools && !end.content.contains(asked.as_str())
        });
        let asked = (!asked.is_empty()).then(|| asked.join(BREAK));
        match (rest, asked) {
            (Some(rest), Some(asked)) => Some(format!("{rest}{BREAK}{asked}")),
            (None, Some(asked)) if self.call.is_some() => Some(format!("{BREAK}{asked}")),
            (rest, asked) => rest.or(asked),
        }
    }

    /// Says the answer, unless it was said last, or is all that was said, as where a run ends with the calls of a client's tools.
    fn conclude(&mut self, answer: &str) -> Option<String> {
        let mut all = self.earlier.clone();
        add(&mut all, &self.said);
        if ["", self.said.trim(), &all].contains(&answer.trim()) {
            return None;
        }
        Some(match self.call {
            Some(_) => format!("{BREAK}{answer}"),
            None => answer.to_owned(),
        })
    }
}

/// Adds what a call said.
fn add(all: &mut String, said: &str) {
    let said = said.trim();
    if !all.is_empty() && !said.is_empty() {
        all.push_str(BREAK);
    }
    all.push_str(said);
}

impl Stream for TextStream {
    type Item = String;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<String>> {
        self.poll_piece(context)
    }
}
