//! A tool that asks the user a question during its call.

use std::sync::Mutex;

use neuraxis_core::{JsonText, ToolOutput, ToolSpec};
use neuraxis_ports::{Question, QuestionReply, Tool, ToolContext, ToolError, async_trait};

use crate::scripted::lock;

/// Asks one question per call, and returns the answer; fails if there is none. Records the replies.
#[derive(Debug)]
pub struct AskingTool {
    spec: ToolSpec,
    question: Question,
    replies: Mutex<Vec<QuestionReply>>,
}

impl AskingTool {
    /// Creates a tool that asks this question.
    pub fn new(spec: impl Into<ToolSpec>, question: Question) -> Self {
        Self {
            spec: spec.into(),
            question,
            replies: Mutex::default(),
        }
    }

    /// Returns the replies so far.
    #[must_use]
    pub fn replies(&self) -> Vec<QuestionReply> {
        lock(&self.replies).clone()
    }
}

#[async_trait]
impl Tool for AskingTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _: JsonText, ctx: ToolContext) -> Result<ToolOutput, ToolError> {
        let reply = ctx.questions.ask(&self.question).await;
        lock(&self.replies).push(reply.clone());
        match reply {
            QuestionReply::Answered(answer) => Ok(ToolOutput::new(answer)),
            QuestionReply::Cancelled => Err(ToolError::permanent("nobody answered")),
            _ => Err(ToolError::permanent("they do not want to say")),
        }
    }
}
