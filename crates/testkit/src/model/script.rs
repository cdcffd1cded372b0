//! The course of one call of a scripted model.

use std::collections::VecDeque;
use std::time::Duration;

use neuraxis_core::{LlmError, Reply, ReplyDelta};

/// The course of one call: deltas, waits, and the end. Created from a [`Reply`], an [`LlmError`] or deltas.
///
/// A script gives the same reply whole and streamed. The parts of a reply become blocks in order.
#[derive(Debug, Clone)]
#[must_use]
pub struct Script {
    pub(super) steps: VecDeque<ScriptStep>,
}

/// A step of a script.
#[derive(Debug, Clone)]
pub(super) enum ScriptStep {
    Delta(ReplyDelta),
    Fail(LlmError),
    Wait(Duration),
    Hang,
}

impl Script {
    /// Plays exactly these deltas. Without an [`ReplyDelta::End`], the reply is cut off.
    pub fn deltas(deltas: impl IntoIterator<Item = ReplyDelta>) -> Self {
        Self {
            steps: deltas.into_iter().map(ScriptStep::Delta).collect(),
        }
    }

    /// Sends nothing until the call is cancelled.
    pub fn hanging() -> Self {
        Self {
            steps: VecDeque::from([ScriptStep::Hang]),
        }
    }

    /// Splits texts and arguments into pieces of `chars` characters.
    pub fn split(self, chars: usize) -> Self {
        let split = |step| match step {
            ScriptStep::Delta(delta) => split_delta(delta, chars.max(1))
                .into_iter()
                .map(ScriptStep::Delta)
                .collect(),
            other => vec![other],
        };
        Self {
            steps: self.steps.into_iter().flat_map(split).collect(),
        }
    }

    /// Waits before the first delta.
    pub fn after(mut self, wait: Duration) -> Self {
        self.steps.push_front(ScriptStep::Wait(wait));
        self
    }

    /// Waits before each delta.
    pub fn paced(self, wait: Duration) -> Self {
        Self {
            steps: self
                .steps
                .into_iter()
                .flat_map(|step| [ScriptStep::Wait(wait), step])
                .collect(),
        }
    }

    /// Fails after `deltas` deltas.
    pub fn fail_at(self, deltas: usize, error: LlmError) -> Self {
        self.end_at(deltas, Some(ScriptStep::Fail(error)))
    }

    /// Sends nothing more after `deltas` deltas, until the call is cancelled.
    pub fn hang_at(self, deltas: usize) -> Self {
        self.end_at(deltas, Some(ScriptStep::Hang))
    }

    /// Ends after `deltas` deltas, as if the connection had been closed.
    pub fn cut_at(self, deltas: usize) -> Self {
        self.end_at(deltas, None)
    }

    fn end_at(self, deltas: usize, end: Option<ScriptStep>) -> Self {
        let mut kept = 0;
        let within = |step: &ScriptStep| {
            kept += usize::from(matches!(step, ScriptStep::Delta(_)));
            kept <= deltas
        };
        Self {
            steps: self
                .steps
                .into_iter()
                .take_while(within)
                .chain(end)
                .collect(),
        }
    }
}

impl From<Reply> for Script {
    fn from(reply: Reply) -> Self {
        Self::deltas(reply.into_deltas())
    }
}

impl From<LlmError> for Script {
    fn from(error: LlmError) -> Self {
        Self {
            steps: VecDeque::from([ScriptStep::Fail(error)]),
        }
    }
}

fn split_delta(delta: ReplyDelta, chars: usize) -> Vec<ReplyDelta> {
    match delta {
        ReplyDelta::Text { block, text } => pieces(&text, chars)
            .map(|text| ReplyDelta::Text { block, text })
            .collect(),
        ReplyDelta::Reasoning { block, text } => pieces(&text, chars)
            .map(|text| ReplyDelta::Reasoning { block, text })
            .collect(),
        ReplyDelta::ToolCall {
            block,
            provider_id,
            name,
            arguments,
        } => {
            let head = ReplyDelta::ToolCall {
                block,
                provider_id,
                name,
                arguments: String::new(),
            };
            let more = |arguments| ReplyDelta::ToolCall {
                block,
                provider_id: None,
                name: None,
                arguments,
            };
            std::iter::once(head)
                .chain(pieces(&arguments, chars).map(more))
                .collect()
        }
        whole @ (ReplyDelta::State { .. } | ReplyDelta::End(_)) => vec![whole],
    }
}

fn pieces(text: &str, chars: usize) -> impl Iterator<Item = String> {
    let all: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = all
        .chunks(chars)
        .map(|piece| piece.iter().collect())
        .collect();
    pieces.into_iter()
}
