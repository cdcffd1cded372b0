//! An advisor that gives the advice it was told to give.

use std::collections::VecDeque;
use std::future;
use std::sync::{Mutex, PoisonError};

use neuraxis_core::{Advice, Consult};
use neuraxis_ports::{Advisor, TurnContext, async_trait};

/// Gives advice in order and remembers the questions. Out of advice, it says to go on.
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
    answers: Mutex<VecDeque<Answer>>,
    questions: Mutex<Vec<Consult>>,
    turns: Mutex<Vec<TurnContext>>,
}

#[derive(Debug)]
enum Answer {
    Advice(Advice),
    Panic,
    Silence,
}

impl ScriptedAdvisor {
    /// Makes one without advice.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers the next question.
    #[must_use]
    pub fn then(self, advice: Advice) -> Self {
        self.push(Answer::Advice(advice))
    }

    /// Panics at the next question.
    #[must_use]
    pub fn panic(self) -> Self {
        self.push(Answer::Panic)
    }

    /// Never answers the next question.
    #[must_use]
    pub fn stay_silent(self) -> Self {
        self.push(Answer::Silence)
    }

    /// Returns the questions so far.
    #[must_use]
    pub fn questions(&self) -> Vec<Consult> {
        let questions = self.questions.lock();
        questions.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the turns that the questions were about.
    #[must_use]
    pub fn turns(&self) -> Vec<TurnContext> {
        let turns = self.turns.lock();
        turns.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn push(self, answer: Answer) -> Self {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.push_back(answer);
        drop(answers);
        self
    }
}

#[async_trait]
impl Advisor for ScriptedAdvisor {
    #[expect(
        clippy::panic,
        reason = "an advisor that panics is what the test asks for"
    )]
    async fn advise(&self, question: &Consult, turn: &TurnContext) -> Advice {
        self.turns
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(turn.clone());
        self.questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(question.clone());
        let answer = self
            .answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        match answer {
            Some(Answer::Advice(advice)) => advice,
            Some(Answer::Panic) => panic!("as the test wants it"),
            Some(Answer::Silence) => future::pending().await,
            None => Advice::Continue,
        }
    }
}
