//! Asking the user during a tool call, and the outcome. The question itself is defined in `neuraxis-core`.

use std::fmt;
use std::sync::Arc;

use neuraxis_core::{JsonText, Question};

use crate::approver::Approver;

/// The outcome of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuestionReply {
    /// The user answered: an object with the fields that were filled in.
    Answered(JsonText),
    /// The user does not want to answer, or there is no user to ask.
    Declined,
    /// The user left without answering.
    Cancelled,
}

/// Sends a tool's questions to the user during a call. By default there is no user to ask, and every question is
/// declined.
#[derive(Clone, Default)]
pub struct QuestionSender(Option<Arc<dyn Approver>>);

impl QuestionSender {
    /// Sends questions to the approver of calls.
    #[must_use]
    pub fn to(approver: Arc<dyn Approver>) -> Self {
        Self(Some(approver))
    }

    /// Asks, and waits for the answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future withdraws the question.
    pub async fn ask(&self, question: &Question) -> QuestionReply {
        match &self.0 {
            Some(approver) => approver.answer(question).await,
            None => QuestionReply::Declined,
        }
    }
}

impl fmt::Debug for QuestionSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.0.is_some() {
            "somebody"
        } else {
            "nobody"
        };
        f.debug_tuple("QuestionSender").field(&what).finish()
    }
}
