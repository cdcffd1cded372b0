//! The text of a run and nothing else, for callers that show an answer as it arrives and do not handle events.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::StreamExt as _;
use neuraxis_core::{AgentId, EffectId, FinishReason, LiveBody, LiveEvent, RecordBody, RunOutcome};
use neuraxis_ports::Stream;

use crate::agent::AgentRun;
use crate::event::{Event, Events};

/// The separator between the texts of two model calls.
const BREAK: &str = "\n\n";

impl Events {
    /// Returns only the text for the user, piece by piece as it arrives.
    ///
    /// This is the text of the agent that answers the user; text of its sub-agents is left out. An empty line separates
    /// the texts of two model calls. If a model call fails in the middle of its text, it is retried, and its text
    /// starts over after an empty line. To be able to remove such text, use [`Event`]s, which report it as retracted.
    /// If nothing was streamed, the answer arrives in one piece with the run's last record. If the run fails, nothing
    /// arrives then, and its [result](crate::RunHandle::result) says why. If the run ends with tool calls, a question
    /// that the agent asks the user beside those calls comes last.
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
            extractor: TextExtractor::default(),
            _run: None,
        }
    }
}

/// The text of one run, to its end. If it was created by [`Events::text_stream`], dropping it does not affect the run.
/// If it was created by [`AgentRun::into_text_stream`], dropping it cancels the run.
#[derive(Debug)]
pub struct TextStream {
    events: Events,
    extractor: TextExtractor,
    /// The run that is cancelled when this is dropped.
    _run: Option<AgentRun>,
}

impl TextStream {
    /// Keeps a run going until this is dropped.
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
    /// Dropping the future loses no text.
    pub async fn next(&mut self) -> Option<String> {
        poll_fn(|context| self.poll_piece(context)).await
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<String>> {
        loop {
            let Some(event) = ready!(self.events.poll_next_unpin(context)) else {
                return Poll::Ready(None);
            };
            let piece = self.extractor.extract(&event);
            if piece.is_some() {
                return Poll::Ready(piece);
            }
        }
    }
}

/// Extracts the text for the user from the events of one run, for callers that also handle other events.
/// [`Events::text_stream`] describes which text that is.
#[derive(Debug, Clone, Default)]
pub struct TextExtractor {
    /// The call whose text came last.
    call: Option<EffectId>,
    /// Its text so far, without retracted text.
    text: String,
    /// The text of earlier calls, without retracted text, separated by empty lines.
    earlier: String,
    /// The questions for the user asked by the tools of the last call.
    questions: Vec<String>,
}

impl TextExtractor {
    /// Returns the next text for the user, if the run's next event contains any.
    pub fn extract(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::Live(live) if live.agent == AgentId::ROOT => self.extract_live(live),
            Event::Record(record) if record.agent == AgentId::ROOT => match &record.body {
                RecordBody::LlmCall(_) => {
                    self.questions.clear();
                    None
                }
                RecordBody::ToolResult(result) => {
                    self.questions.extend(result.question().map(str::to_owned));
                    None
                }
                RecordBody::Final(end) => self.end(end),
                _ => None,
            },
            _ => None,
        }
    }

    fn extract_live(&mut self, live: &LiveEvent) -> Option<String> {
        match &live.body {
            LiveBody::TextDelta { text } if text.is_empty() => None,
            LiveBody::TextDelta { text } => {
                let continues = self.call == Some(live.call) && !self.text.is_empty();
                let piece = match self.call {
                    Some(_) if !continues => format!("{BREAK}{text}"),
                    _ => text.clone(),
                };
                if !continues {
                    let before = std::mem::take(&mut self.text);
                    add(&mut self.earlier, &before);
                }
                self.text.push_str(text);
                self.call = Some(live.call);
                Some(piece)
            }
            LiveBody::TextRetracted if self.call == Some(live.call) => {
                self.text.clear();
                None
            }
            _ => None,
        }
    }

    /// Returns the rest of the answer, followed by questions that were asked beside calls that are handed over: in that
    /// case the calls end the run, not the question.
    fn end(&mut self, end: &RunOutcome) -> Option<String> {
        let rest = self.conclude(&end.content);
        let mut questions = std::mem::take(&mut self.questions);
        questions.retain(|question| {
            end.finish_reason == FinishReason::ClientTools
                && !end.content.contains(question.as_str())
        });
        let questions = (!questions.is_empty()).then(|| questions.join(BREAK));
        match (rest, questions) {
            (Some(rest), Some(questions)) => Some(format!("{rest}{BREAK}{questions}")),
            (None, Some(questions)) if self.call.is_some() => Some(format!("{BREAK}{questions}")),
            (rest, questions) => rest.or(questions),
        }
    }

    /// Returns the answer, unless it was the last text, or is the same as all of the text, as in a run that ends with
    /// the calls of a client's tools.
    fn conclude(&mut self, answer: &str) -> Option<String> {
        let mut all = self.earlier.clone();
        add(&mut all, &self.text);
        if ["", self.text.trim(), &all].contains(&answer.trim()) {
            return None;
        }
        Some(match self.call {
            Some(_) => format!("{BREAK}{answer}"),
            None => answer.to_owned(),
        })
    }
}

/// Adds the text of a call.
fn add(all: &mut String, text: &str) {
    let text = text.trim();
    if !all.is_empty() && !text.is_empty() {
        all.push_str(BREAK);
    }
    all.push_str(text);
}

impl Stream for TextStream {
    type Item = String;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<String>> {
        self.poll_piece(context)
    }
}
