//! An approver that gives scripted answers.

use std::sync::Mutex;

use neuraxis_core::{ApprovalDecision, AskApproval, GrantScope, JsonText};
use neuraxis_ports::{Approver, ApproverReply, Question, QuestionReply, TurnContext, async_trait};

use crate::scripted::{Answers, lock};

/// Gives answers in order and records the questions. When no answers are left, it replies [`ApproverReply::Nobody`].
///
/// ```
/// use neuraxis_testkit::ScriptedApprover;
///
/// let approver = ScriptedApprover::new().approve().deny("too risky").approve_with(r#"{"path":"/tmp"}"#);
/// ```
#[derive(Debug, Default)]
pub struct ScriptedApprover {
    answers: Answers<ApproverReply>,
    asks: Mutex<Vec<AskApproval>>,
    turns: Mutex<Vec<TurnContext>>,
    answer: Option<QuestionReply>,
    questions: Mutex<Vec<Question>>,
}

impl ScriptedApprover {
    /// Creates an approver without answers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Approves the next question.
    #[must_use]
    pub fn approve(self) -> Self {
        self.decide(ApprovalDecision::APPROVE)
    }

    /// Approves the next question, and such calls for the rest of the session.
    #[must_use]
    pub fn approve_for_session(self, calls: GrantScope) -> Self {
        self.decide(ApprovalDecision::approve_for_session(calls))
    }

    /// Approves the next question, but with these arguments, given as JSON.
    #[must_use]
    pub fn approve_with(self, arguments: &str) -> Self {
        let arguments = JsonText::from_text(arguments);
        self.decide(ApprovalDecision::approve_with(arguments))
    }

    /// Denies the next question.
    #[must_use]
    pub fn deny(self, reason: &str) -> Self {
        self.decide(ApprovalDecision::Deny {
            reason: Some(reason.to_owned()),
        })
    }

    /// Answers the next question with the given reply.
    #[must_use]
    pub fn then(self, reply: ApproverReply) -> Self {
        self.answers.says(reply);
        self
    }

    /// Never answers the next question.
    #[must_use]
    pub fn stay_silent(self) -> Self {
        self.answers.silence();
        self
    }

    /// Answers every question of a tool with this reply. Without it, such questions are declined.
    #[must_use]
    pub fn answering(mut self, reply: QuestionReply) -> Self {
        self.answer = Some(reply);
        self
    }

    /// Returns the questions that tools have asked so far.
    #[must_use]
    pub fn questions(&self) -> Vec<Question> {
        lock(&self.questions).clone()
    }

    /// Returns the calls for which approval was requested so far.
    #[must_use]
    pub fn asks(&self) -> Vec<AskApproval> {
        lock(&self.asks).clone()
    }

    /// Returns the turns from which the questions came.
    #[must_use]
    pub fn turns(&self) -> Vec<TurnContext> {
        lock(&self.turns).clone()
    }

    fn decide(self, decision: ApprovalDecision) -> Self {
        self.then(ApproverReply::Decided {
            decision,
            by: Some("tester".to_owned()),
        })
    }
}

#[async_trait]
impl Approver for ScriptedApprover {
    async fn decide(&self, ask: &AskApproval, turn: &TurnContext) -> ApproverReply {
        lock(&self.turns).push(turn.clone());
        lock(&self.asks).push(ask.clone());
        self.answers.next(ApproverReply::Nobody).await
    }

    async fn answer(&self, question: &Question) -> QuestionReply {
        lock(&self.questions).push(question.clone());
        self.answer.clone().unwrap_or(QuestionReply::Declined)
    }
}
