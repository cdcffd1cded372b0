//! What a tool asks the person, in the middle of a call.

use std::fmt;
use std::sync::Arc;

use neuraxis_core::JsonText;

use crate::approver::Approver;

/// A question with the fields of its answer, like a small form.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Question {
    /// Who asks, such as the name of an MCP server. To be shown with the question: whoever answers tells it something.
    pub from: Arc<str>,
    /// What is asked. Text of a stranger.
    pub message: String,
    /// What the answer consists of, in the order in which it is asked for. Without any, the answer is yes or no.
    pub fields: Vec<Field>,
}

impl Question {
    /// A question to which the answer is yes or no.
    pub fn new(from: impl Into<Arc<str>>, message: impl Into<String>) -> Self {
        Self {
            from: from.into(),
            message: message.into(),
            fields: Vec::new(),
        }
    }

    /// Adds a field.
    #[must_use]
    pub fn field(mut self, field: Field) -> Self {
        self.fields.push(field);
        self
    }
}

/// One field of a form.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Field {
    /// Its name in the answer.
    pub name: String,
    /// What people call it; the name if there is nothing else.
    pub title: Option<String>,
    /// What is to be filled in.
    pub description: Option<String>,
    /// What it takes: a text, a number, a choice.
    pub kind: FieldKind,
    /// Whether it has to be filled in.
    pub required: Required,
    /// What it is if nothing is filled in.
    pub default: Option<JsonText>,
}

impl Field {
    /// A field that may be left out.
    pub fn new(name: impl Into<String>, kind: FieldKind) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            kind,
            required: Required::No,
            default: None,
        }
    }
}

/// Whether a field has to be filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Required {
    /// An answer without it is none.
    Yes,
    /// It may be left out.
    No,
}

/// What a field takes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FieldKind {
    /// A text.
    Text {
        /// The fewest characters.
        min: Option<u64>,
        /// The most characters.
        max: Option<u64>,
        /// What form it has to have, in a word, such as `email` or `date`.
        format: Option<String>,
    },
    /// A whole number.
    Integer {
        /// The least.
        min: Option<i64>,
        /// The greatest.
        max: Option<i64>,
    },
    /// A number.
    Number {
        /// The least.
        min: Option<f64>,
        /// The greatest.
        max: Option<f64>,
    },
    /// Yes or no.
    Boolean,
    /// One of several values.
    OneOf(Vec<FieldChoice>),
    /// Any of several values.
    AnyOf(Vec<FieldChoice>),
}

/// One value of a field that has only so many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldChoice {
    /// The value in the answer.
    pub value: String,
    /// What people call it.
    pub title: String,
}

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
