//! The course of one call of a scripted tool.

use std::future;
use std::time::Duration;

use neuraxis_core::{JsonText, ProgressSteps, ToolOutput};
use neuraxis_ports::{ToolContext, ToolError};

/// The course of one call: what it does, in the order of the builder's calls, and how it ends.
#[derive(Debug, Clone)]
#[must_use]
pub struct Act {
    before: Vec<ActStep>,
    end: End,
}

#[derive(Debug, Clone)]
enum ActStep {
    Wait(Duration),
    Progress {
        name: String,
        steps: Option<ProgressSteps>,
    },
    Output(String),
}

#[derive(Debug, Clone)]
enum End {
    Return(Result<ToolOutput, ToolError>),
    Panic(String),
    Hang,
    Stall,
}

impl Act {
    /// Returns a value, given as JSON.
    pub fn value(json: &str) -> Self {
        Self::output(ToolOutput::new(JsonText::from_text(json)))
    }

    /// Returns an output.
    pub fn output(output: ToolOutput) -> Self {
        Self::ending(End::Return(Ok(output)))
    }

    /// Fails with a permanent error: repeating the call would fail again.
    pub fn error(message: &str) -> Self {
        Self::failing(ToolError::permanent(message))
    }

    /// Fails with an error that does not say whether repeating the call would fail again.
    pub fn failure(message: &str) -> Self {
        Self::failing(ToolError::new(message))
    }

    /// Fails with the given error.
    pub fn failing(error: ToolError) -> Self {
        Self::ending(End::Return(Err(error)))
    }

    /// Panics.
    pub fn panicking(message: &str) -> Self {
        Self::ending(End::Panic(message.to_owned()))
    }

    /// Does nothing until the call is cancelled, then fails.
    pub fn hanging() -> Self {
        Self::ending(End::Hang)
    }

    /// Does nothing forever, even when the call is cancelled.
    pub fn stalling() -> Self {
        Self::ending(End::Stall)
    }

    /// Waits before it continues. Cancelling does not interrupt the wait.
    pub fn after(self, wait: Duration) -> Self {
        self.with(ActStep::Wait(wait))
    }

    /// Reports what it is doing and how far it has come.
    pub fn reporting(self, name: &str, steps: Option<ProgressSteps>) -> Self {
        self.with(ActStep::Progress {
            name: name.to_owned(),
            steps,
        })
    }

    /// Prints output while it runs.
    pub fn printing(self, text: &str) -> Self {
        self.with(ActStep::Output(text.to_owned()))
    }

    fn ending(end: End) -> Self {
        Self {
            before: Vec::new(),
            end,
        }
    }

    fn with(mut self, step: ActStep) -> Self {
        self.before.push(step);
        self
    }

    #[expect(clippy::panic, reason = "the test asks for a tool that panics")]
    pub(super) async fn play(self, ctx: &ToolContext) -> Result<ToolOutput, ToolError> {
        for step in self.before {
            match step {
                ActStep::Wait(wait) => tokio::time::sleep(wait).await,
                ActStep::Progress { name, steps } => ctx.progress.report(&name, None, steps),
                ActStep::Output(text) => ctx.progress.output(&text),
            }
        }
        match self.end {
            End::Return(result) => result,
            End::Panic(message) => panic!("{message}"),
            End::Hang => {
                ctx.cancellation.cancelled().await;
                Err(ToolError::permanent("cancelled"))
            }
            End::Stall => future::pending().await,
        }
    }
}
