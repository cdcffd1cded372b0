//! An approver that gives the answers it was told to give.

use std::collections::VecDeque;
use std::future;
use std::sync::{Mutex, PoisonError};

use neuraxis_core::{ApprovalDecision, AskApproval, GrantScope, JsonText};
use neuraxis_ports::{Approver, ApproverReply, Question, QuestionReply, TurnContext, async_trait};

/// Gives answers in order and remembers the questions. Out of answers, it says that nobody can answer.
///
/// ```
/// use neuraxis_testkit::ScriptedApprover;
///
/// let approver = ScriptedApprover::new().approve().deny("too risky").approve_with(r#"{"path":"/tmp"}"#);
/// ```
#[derive(Debug, Default)]
pub struct ScriptedApprover {
    answers: Mutex<VecDeque<Answer>>,
    asks: Mutex<Vec<AskApproval>>,
    turns: Mutex<Vec<TurnContext>>,
    answer: Option<QuestionReply>,
    questions: Mutex<Vec<Question>>,
}

#[derive(Debug)]
enum Answer {
    Reply(ApproverReply),
    Silence,
}

impl ScriptedApprover {
    /// Makes one without answers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers the next question with yes.
    #[must_use]
    pub fn approve(self) -> Self {
        self.decide(ApprovalDecision::APPROVE)
    }

    /// Answers the next question with yes, for these calls and the rest of the session.
    #[must_use]
    pub fn approve_for_session(self, calls: GrantScope) -> Self {
        self.decide(ApprovalDecision::approve_for_session(calls))
    }

    /// Answers the next question with yes, but with these arguments, a JSON text.
    #[must_use]
    pub fn approve_with(self, arguments: &str) -> Self {
        let arguments = JsonText::from_text(arguments);
        self.decide(ApprovalDecision::approve_with(arguments))
    }

    /// Answers the next question with no.
    #[must_use]
    pub fn deny(self, reason: &str) -> Self {
        self.decide(ApprovalDecision::Deny {
            reason: Some(reason.to_owned()),
        })
    }

    /// Answers the next question with the given reply.
    #[must_use]
    pub fn then(self, reply: ApproverReply) -> Self {
        self.push(Answer::Reply(reply))
    }

    /// Never answers the next question.
    #[must_use]
    pub fn stay_silent(self) -> Self {
        self.push(Answer::Silence)
    }

    /// Answers every question of a tool with this; declines them otherwise.
    #[must_use]
    pub fn answering(mut self, reply: QuestionReply) -> Self {
        self.answer = Some(reply);
        self
    }

    /// Returns what tools asked so far.
    #[must_use]
    pub fn questions(&self) -> Vec<Question> {
        let questions = self.questions.lock();
        questions.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the calls that were asked about so far.
    #[must_use]
    pub fn asks(&self) -> Vec<AskApproval> {
        self.asks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the turns that the questions came from.
    #[must_use]
    pub fn turns(&self) -> Vec<TurnContext> {
        self.turns
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn decide(self, decision: ApprovalDecision) -> Self {
        self.then(ApproverReply::Decided {
            decision,
            by: Some("tester".to_owned()),
        })
    }

    fn push(self, answer: Answer) -> Self {
        self.answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(answer);
        self
    }
}

#[async_trait]
impl Approver for ScriptedApprover {
    async fn decide(&self, ask: &AskApproval, turn: &TurnContext) -> ApproverReply {
        self.turns
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(turn.clone());
        self.asks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(ask.clone());
        let answer = self
            .answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        match answer {
            Some(Answer::Reply(reply)) => reply,
            Some(Answer::Silence) => future::pending().await,
            None => ApproverReply::Nobody,
        }
    }

    async fn answer(&self, question: &Question) -> QuestionReply {
        let mut questions = self
            .questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        questions.push(question.clone());
        self.answer.clone().unwrap_or(QuestionReply::Declined)
    }
}
