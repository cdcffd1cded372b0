//! An advisor that gives scripted advice.

use std::sync::Mutex;

use neuraxis_core::{Advice, Consult};
use neuraxis_ports::{Advisor, TurnContext, async_trait};

use crate::scripted::{Answers, lock};

/// Gives advice in order and records the questions. When no advice is left, it advises to continue.
///
/// ```
/// use neuraxis_core::Advice;
/// use neuraxis_testkit::ScriptedAdvisor;
///
/// let stop = Advice::Stop { reason: "enough".into() };
/// let advisor = ScriptedAdvisor::new().then(Advice::Continue).then(stop).panic().stay_silent();
/// assert!(advisor.questions().is_empty());
/// ```
#[derive(Debug, Default)]
pub struct ScriptedAdvisor {
    answers: Answers<Advice>,
    questions: Mutex<Vec<Consult>>,
    turns: Mutex<Vec<TurnContext>>,
}

impl ScriptedAdvisor {
    /// Creates an advisor without advice.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers the next question.
    #[must_use]
    pub fn then(self, advice: Advice) -> Self {
        self.answers.says(advice);
        self
    }

    /// Panics at the next question.
    #[must_use]
    pub fn panic(self) -> Self {
        self.answers.panic();
        self
    }

    /// Never answers the next question.
    #[must_use]
    pub fn stay_silent(self) -> Self {
        self.answers.silence();
        self
    }

    /// Returns the questions so far.
    #[must_use]
    pub fn questions(&self) -> Vec<Consult> {
        lock(&self.questions).clone()
    }

    /// Returns the turns that the questions were about.
    #[must_use]
    pub fn turns(&self) -> Vec<TurnContext> {
        lock(&self.turns).clone()
    }
}

#[async_trait]
impl Advisor for ScriptedAdvisor {
    async fn advise(&self, question: &Consult, turn: &TurnContext) -> Advice {
        lock(&self.turns).push(turn.clone());
        lock(&self.questions).push(question.clone());
        self.answers.next(Advice::Continue).await
    }
}
