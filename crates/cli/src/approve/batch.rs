//! Calls that wait while the user is asked about one of them: they may be decided together.

use std::time::Duration;

use neuraxis::core::AskApproval;
use neuraxis::ports::ApproverReply;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::dialog::Answer;
use super::{Prompter, Question};

/// How long to wait for further calls of a reply before treating it as complete.
const BATCH_WAIT: Duration = Duration::from_millis(50);

/// A waiting call, and the channel for its answer.
type Waiting = (Box<AskApproval>, oneshot::Sender<ApproverReply>);

impl Prompter {
    /// Takes the other calls that are currently asked about. The calls of one reply are asked about at the same time
    /// but arrive one by one, so this waits a little for more.
    pub(super) async fn take_other_calls(&mut self) -> Vec<Waiting> {
        if let Some(questions) = &mut self.questions {
            while let Ok(Some(question)) = timeout(BATCH_WAIT, questions.recv()).await {
                self.waiting.push_back(question);
            }
        }
        self.take_waiting()
    }

    /// Takes the waiting calls, in order.
    fn take_waiting(&mut self) -> Vec<Waiting> {
        if let Some(questions) = &mut self.questions {
            while let Ok(question) = questions.try_recv() {
                self.waiting.push_back(question);
            }
        }
        let mut others = Vec::new();
        for question in std::mem::take(&mut self.waiting) {
            match question {
                question if question.is_withdrawn() => {}
                Question::Call { ask, reply } => others.push((ask, reply)),
                form @ Question::Form { .. } => self.waiting.push_back(form),
            }
        }
        others
    }

    /// Answers the other calls if the answer is about all of them; otherwise they keep waiting, in order.
    pub(super) fn answer_others(&mut self, others: Vec<Waiting>, answer: Option<&Answer>) {
        match answer {
            Some(all @ (Answer::ApproveAll | Answer::DenyAll(_))) => {
                for (_, reply) in others {
                    // A call that was settled meanwhile needs no answer any more.
                    let _ = reply.send(ApproverReply::from(all.clone()));
                }
            }
            // The whole run waits, including calls that arrived while the user looked at this one.
            Some(Answer::Later) => {
                for (_, reply) in others.into_iter().chain(self.take_waiting()) {
                    let _ = reply.send(ApproverReply::Later);
                }
            }
            _ => {
                for (ask, reply) in others.into_iter().rev() {
                    self.waiting.push_front(Question::Call { ask, reply });
                }
            }
        }
    }
}
