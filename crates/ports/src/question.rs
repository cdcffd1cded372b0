//! Whom a tool asks in the middle of a call, and what becomes of it. What a question is stands in `neuraxis-core`.

use std::fmt;
use std::sync::Arc;

use neuraxis_core::{JsonText, Question};

use crate::approver::Approver;

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuestionReply {
    /// The person answered: an object with the fields that are filled in.
    Answered(JsonText),
    /// The person does not want to answer, or there is nobody.
    Declined,
    /// The person went away without a word.
    Cancelled,
}

/// Whom a tool can ask in the middle of a call; nobody, by default, who declines everything.
#[derive(Clone, Default)]
pub struct Person(Option<Arc<dyn Approver>>);

impl Person {
    /// Puts questions to whoever approves calls.
    #[must_use]
    pub fn behind(approver: Arc<dyn Approver>) -> Self {
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

impl fmt::Debug for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.0.is_some() {
            "somebody"
        } else {
            "nobody"
        };
        f.debug_tuple("Person").field(&what).finish()
    }
}
