//! The calls in progress on a connection: where their progress is reported, and who answers the server's questions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use neuraxis_core::{ProgressSteps, Question, SessionId};
use neuraxis_ports::{Progress, QuestionReply, QuestionSender, ToolContext};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::time::Instant;

use crate::text::one_line;

/// The minimum interval between two progress reports of a call that are passed on; reports in between are dropped.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// The maximum length of a report, in characters.
const MAX_MESSAGE: usize = 200;

/// The calls in progress.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<Vec<Call>>);

#[derive(Debug)]
struct Call {
    token: ProgressToken,
    progress: Progress,
    questions: QuestionSender,
    /// The session that made the call.
    session: Option<SessionId>,
    owner: Option<String>,
    reported: Option<Instant>,
    /// The number of open questions that are asked in the name of this call.
    open_questions: usize,
}

/// A call that is in progress until this value is dropped.
#[derive(Debug)]
pub(crate) struct Open {
    calls: Arc<Calls>,
    token: ProgressToken,
}

impl Calls {
    /// Registers a call as in progress.
    pub(crate) fn open(self: &Arc<Self>, token: ProgressToken, ctx: &ToolContext) -> Open {
        self.lock().push(Call {
            token: token.clone(),
            progress: ctx.progress.clone(),
            questions: ctx.questions.clone(),
            session: ctx.turn.session_id.clone(),
            owner: ctx.owner().map(str::to_owned),
            reported: None,
            open_questions: 0,
        });
        Open {
            calls: Arc::clone(self),
            token,
        }
    }

    /// Passes progress to the call it belongs to. Dropped if there is no such call.
    pub(crate) fn report(&self, report: &ProgressNotificationParam) {
        let progress = {
            let mut calls = self.lock();
            let call = calls
                .iter_mut()
                .find(|call| call.token == report.progress_token);
            let Some(call) = call else { return };
            let now = Instant::now();
            let is_soon = |before: Instant| now.saturating_duration_since(before) < MIN_INTERVAL;
            if call.reported.is_some_and(is_soon) {
                return;
            }
            call.reported = Some(now);
            call.progress.clone()
        };
        let message = report.message.as_deref().unwrap_or_default();
        progress.report(
            &one_line(message, MAX_MESSAGE),
            None,
            steps(report.progress, report.total),
        );
    }

    /// Asks the user behind the calls in progress. Returns `None` if there are no calls, or if they belong to different
    /// users: the server's question does not say which user it is for.
    ///
    /// Nor does it say which call it is for. It is asked in the name of one of the calls. If that call ends first, it
    /// was not the one that the question was for: the question is asked again in the name of another, and so stays open
    /// as long as any call is in progress.
    ///
    /// # Cancel safety
    ///
    /// Same as [`QuestionSender::ask`].
    pub(crate) async fn ask(&self, question: &Question) -> Option<QuestionReply> {
        let mut attributed = self.attribute_question()?;
        loop {
            let reply = attributed.questions.ask(question).await;
            let ended_with_its_call =
                reply == QuestionReply::Cancelled && !self.holds(&attributed.token);
            attributed = match ended_with_its_call
                .then(|| self.attribute_question())
                .flatten()
            {
                Some(other) => other,
                None => return Some(reply),
            };
        }
    }

    /// Assigns a question to the call with the fewest open questions, and among those to the oldest: a server that
    /// answers calls in order asks about the oldest.
    fn attribute_question(&self) -> Option<AttributedQuestion<'_>> {
        let mut calls = self.lock();
        let (session, owner) = calls.first().map(|call| (&call.session, &call.owner))?;
        // Without owners, it is unknown who is behind another session.
        let is_same =
            |call: &Call| call.owner == *owner && (owner.is_some() || call.session == *session);
        if !calls.iter().all(is_same) {
            return None;
        }
        let least = calls.iter_mut().min_by_key(|call| call.open_questions)?;
        least.open_questions += 1;
        Some(AttributedQuestion {
            calls: self,
            token: least.token.clone(),
            questions: least.questions.clone(),
        })
    }

    /// Returns whether a call is in progress.
    fn holds(&self, token: &ProgressToken) -> bool {
        self.lock().iter().any(|call| call.token == *token)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Call>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.calls.lock().retain(|call| call.token != self.token);
    }
}

/// A question that is asked in the name of a call until this value is dropped.
struct AttributedQuestion<'a> {
    calls: &'a Calls,
    token: ProgressToken,
    questions: QuestionSender,
}

impl Drop for AttributedQuestion<'_> {
    fn drop(&mut self) {
        let mut calls = self.calls.lock();
        // The call may have ended.
        if let Some(call) = calls.iter_mut().find(|call| call.token == self.token) {
            call.open_questions = call.open_questions.saturating_sub(1);
        }
    }
}

/// Converts progress to whole steps; fractions of a whole become percent.
fn steps(done: f64, total: Option<f64>) -> Option<ProgressSteps> {
    let whole = |number: f64| -> Option<u64> {
        let is_countable = number.is_finite() && (0.0..=1e15).contains(&number);
        is_countable.then(|| number.round() as u64)
    };
    match total {
        Some(total) if total > 0.0 && total <= 1.0 => Some(ProgressSteps {
            done: whole(done / total * 100.0)?,
            total: Some(100),
        }),
        total => Some(ProgressSteps {
            done: whole(done)?,
            total: total.and_then(whole),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use neuraxis_core::{AskApproval, JsonText};
    use neuraxis_ports::{Approver, ApproverReply, RequestContext, TurnContext, async_trait};
    use neuraxis_testkit::tool_context;
    use rmcp::model::NumberOrString;
    use tokio::sync::oneshot;

    use super::*;

    /// A user whose answers the test supplies. Dropping an answer's sender withdraws the question.
    #[derive(Debug)]
    struct ByHand(Mutex<VecDeque<oneshot::Receiver<QuestionReply>>>);

    #[async_trait]
    impl Approver for ByHand {
        async fn decide(&self, _: &AskApproval, _: &TurnContext) -> ApproverReply {
            ApproverReply::Nobody
        }

        async fn answer(&self, _: &Question) -> QuestionReply {
            let next = self.0.lock().unwrap().pop_front().unwrap();
            next.await.unwrap_or(QuestionReply::Cancelled)
        }
    }

    /// Opens a call whose user is asked at most this many questions; the returned senders answer them.
    fn opened(
        calls: &Arc<Calls>,
        number: i64,
        questions: usize,
    ) -> (Open, Vec<oneshot::Sender<QuestionReply>>) {
        let pairs = (0..questions).map(|_| oneshot::channel());
        let (answers, asked): (Vec<_>, VecDeque<_>) = pairs.unzip();
        let mut ctx = tool_context();
        ctx.questions = QuestionSender::to(Arc::new(ByHand(Mutex::new(asked))));
        let token = ProgressToken(NumberOrString::Number(number));
        (calls.open(token, &ctx), answers)
    }

    fn answered(text: &str) -> QuestionReply {
        QuestionReply::Answered(JsonText::from_text(text))
    }

    #[tokio::test]
    async fn an_ended_call_does_not_cancel_a_question_that_may_belong_to_another() {
        let calls = Arc::new(Calls::default());
        let (first, mut of_first) = opened(&calls, 1, 1);
        let (second, mut of_second) = opened(&calls, 2, 2);
        let question = Question::new("shop", "Which size?");
        let mut one = Box::pin(calls.ask(&question));
        let mut two = Box::pin(calls.ask(&question));
        assert!(polled(&mut one).is_none() && polled(&mut two).is_none());
        // Each call has one question. The first call has ended, but the question attributed to it is not answered.
        drop(first);
        drop(of_first.pop());
        assert_eq!(polled(&mut one), None, "it is asked anew");
        of_second.remove(0).send(answered("2")).unwrap();
        assert_eq!(two.await, Some(answered("2")));
        of_second.remove(0).send(answered("1")).unwrap();
        assert_eq!(one.await, Some(answered("1")));
        drop(second);
        assert_eq!(calls.ask(&question).await, None);
    }

    #[tokio::test]
    async fn a_question_is_cancelled_by_the_user_or_when_the_last_call_ends() {
        let calls = Arc::new(Calls::default());
        let question = Question::new("shop", "Which size?");
        let (first, mut answers) = opened(&calls, 1, 2);
        let mut asked = Box::pin(calls.ask(&question));
        assert!(polled(&mut asked).is_none());
        answers.remove(0).send(QuestionReply::Cancelled).unwrap();
        assert_eq!(asked.await, Some(QuestionReply::Cancelled));
        let mut asked = Box::pin(calls.ask(&question));
        assert!(polled(&mut asked).is_none());
        drop((first, answers));
        assert_eq!(asked.await, Some(QuestionReply::Cancelled));
    }

    #[tokio::test]
    async fn a_question_is_asked_only_if_all_open_calls_have_one_owner_or_session() {
        let question = Question::new("shop", "Which size?");
        for (first, second, is_asked) in [
            ((Some("ada"), "a"), (Some("ada"), "b"), true),
            ((Some("ada"), "a"), (Some("eve"), "a"), false),
            ((Some("ada"), "a"), (None, "a"), false),
            ((None, "a"), (None, "a"), true),
            ((None, "a"), (None, "b"), false),
        ] {
            let calls = Arc::new(Calls::default());
            let open = |number: i64, (owner, session): (Option<&str>, &str)| {
                let mut ctx = tool_context();
                ctx.turn.session_id = Some(session.parse().unwrap());
                ctx.turn.request = RequestContext::default().owned_by(owner.map(str::to_owned));
                calls.open(ProgressToken(NumberOrString::Number(number)), &ctx)
            };
            let _open = (open(1, first), open(2, second));
            let asked = calls.ask(&question).await;
            assert_eq!(asked.is_some(), is_asked, "{first:?} {second:?}");
        }
    }

    /// Polls a future once.
    fn polled<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(future).poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn progress_is_reported_in_whole_steps_for_any_input() {
        let count = |done, total| steps(done, total).map(|steps| (steps.done, steps.total));
        assert_eq!(count(3.0, Some(5.0)), Some((3, Some(5))));
        assert_eq!(count(0.25, Some(1.0)), Some((25, Some(100))));
        assert_eq!(count(7.6, None), Some((8, None)));
        assert_eq!(count(1.0, Some(f64::INFINITY)), Some((1, None)));
        for hostile in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            assert_eq!(count(hostile, Some(5.0)), None);
        }
    }
}
