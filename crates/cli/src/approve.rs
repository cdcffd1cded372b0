//! Asks the user at the terminal about calls, and returns the answers.
//!
//! A run asks through the port, on whichever thread it runs. The question waits in a [`Prompter`] until the one place
//! that writes to the terminal is ready for it. Questions are asked one at a time, and nothing else is written
//! meanwhile.
//!
//! What may be asked, and what may be remembered of an answer, is decided elsewhere.

mod arguments;
mod batch;
mod change;
mod conflicting_call;
mod console;
mod dialog;
mod editor;
mod form;
mod lasting;
mod settled;
mod show;
mod subject;

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;

use neuraxis::core::{ApprovalDecision, AskApproval, JsonText, Record, ToolSpec};
use neuraxis::engine::ToolCatalog;
use neuraxis::ports::{
    self, Approver, ApproverReply, CancellationToken, QuestionReply, TurnContext, async_trait,
};
use neuraxis::{DecideLater, RunHandle};
use neuraxis_app::{Config, FolderRules};
use tokio::sync::{mpsc, oneshot};

use crate::confirm::can_ask_user;
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::progress;

pub(crate) use conflicting_call::ConflictingCall;
pub(crate) use console::{Line, discard_typed_input, line_of, name as user_name};
pub(crate) use dialog::Postponing;
use dialog::{Answer, Terms};
pub(crate) use lasting::causes;
pub(crate) use show::{
    ApprovalView, Extent, asking_agent, folder_elsewhere, is_folder_of, safe_words, scope,
    text as question_text,
};

/// The maximum number of queued questions; further callers wait until there is room.
const MAX_QUEUED: usize = 64;

/// What to answer when nobody can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfUnattended {
    /// Deny the call.
    Deny,
    /// Do not answer: the run waits until the decision comes from elsewhere.
    Wait,
}

/// Asks the user at the terminal.
#[derive(Debug)]
struct PromptingApprover {
    questions: mpsc::Sender<Question>,
}

/// The questions that wait until the user can be asked.
#[derive(Debug)]
pub(crate) struct Prompter {
    /// `None` if nobody is at the terminal.
    questions: Option<mpsc::Receiver<Question>>,
    postponing: Postponing,
    /// The folder that the file tools work in.
    project: PathBuf,
    /// The rules for that folder, if they can be stored.
    rules: Option<FolderRules>,
    /// Questions that were received but not asked yet.
    waiting: VecDeque<Question>,
}

/// A question, and the channel for its answer.
#[derive(Debug)]
pub(crate) enum Question {
    /// Whether a call may run.
    Call {
        /// The call.
        ask: Box<AskApproval>,
        /// The channel for the answer.
        reply: oneshot::Sender<ApproverReply>,
    },
    /// Input that a tool needs in the middle of a call.
    Form {
        /// The question, with the fields to fill in.
        question: ports::Question,
        /// The channel for the answer.
        reply: oneshot::Sender<QuestionReply>,
    },
}

impl Question {
    /// Returns whether the asker has stopped waiting for the answer.
    fn is_withdrawn(&self) -> bool {
        match self {
            Self::Call { reply, .. } => reply.is_closed(),
            Self::Form { reply, .. } => reply.is_closed(),
        }
    }
}

/// Returns whether a user who can be asked is at the terminal.
fn is_attended() -> bool {
    // The prompt goes to the terminal itself if there is one, not to standard output.
    let is_reachable = io::stdout().is_terminal() || has_controlling_terminal();
    can_ask_user() && is_reachable
}

#[cfg(unix)]
fn has_controlling_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

#[cfg(not(unix))]
const fn has_controlling_terminal() -> bool {
    true
}

/// Returns the approver for calls, if there is one, and the prompter that receives its questions.
pub(crate) fn prompter(
    if_unattended: IfUnattended,
    postponing: Postponing,
    config: &Config,
) -> (Option<Arc<dyn Approver>>, Prompter) {
    let (approver, questions): (Option<Arc<dyn Approver>>, _) = match (is_attended(), if_unattended)
    {
        (true, _) => {
            let (questions, receiver) = mpsc::channel(MAX_QUEUED);
            let approver = PromptingApprover { questions };
            (Some(Arc::new(approver)), Some(receiver))
        }
        (false, IfUnattended::Wait) => (Some(Arc::new(DecideLater)), None),
        (false, IfUnattended::Deny) => (None, None),
    };
    let prompter = Prompter {
        questions,
        postponing,
        project: config.project_root().to_owned(),
        rules: config.folder_rules().cloned(),
        waiting: VecDeque::new(),
    };
    (approver, prompter)
}

#[async_trait]
impl Approver for PromptingApprover {
    async fn decide(&self, ask: &AskApproval, _turn: &TurnContext) -> ApproverReply {
        let (reply, answer) = oneshot::channel();
        let ask = Box::new(ask.clone());
        let question = Question::Call { ask, reply };
        if self.questions.send(question).await.is_err() {
            return ApproverReply::Nobody;
        }
        // If the prompter is gone, nobody answers and the call is denied.
        answer.await.unwrap_or(ApproverReply::Nobody)
    }

    async fn answer(&self, question: &ports::Question) -> QuestionReply {
        let (reply, answer) = oneshot::channel();
        let question = question.clone();
        if self
            .questions
            .send(Question::Form { question, reply })
            .await
            .is_err()
        {
            return QuestionReply::Declined;
        }
        answer.await.unwrap_or(QuestionReply::Declined)
    }
}

impl Prompter {
    /// Returns whether a user at the terminal is asked.
    pub(crate) const fn is_attended(&self) -> bool {
        self.questions.is_some()
    }

    /// Returns the next question that is still open. Never returns if nobody is at the terminal.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no question.
    pub(crate) async fn next(&mut self) -> Question {
        let Some(questions) = &mut self.questions else {
            return std::future::pending().await;
        };
        loop {
            let next = match self.waiting.pop_front() {
                Some(question) => Some(question),
                None => questions.recv().await,
            };
            match next {
                Some(question) if question.is_withdrawn() => {}
                Some(question) => return question,
                None => return std::future::pending().await,
            }
        }
    }

    /// Asks the user a question and sends the answer back, unless the question is settled elsewhere first.
    pub(crate) async fn put(
        &mut self,
        question: Question,
        run: &RunHandle,
        tools: &Arc<ToolCatalog>,
        interrupt: &Interrupt,
    ) -> Result<(), CommandError> {
        let (ask, reply) = match question {
            Question::Call { ask, reply } => (ask, reply),
            Question::Form { question, reply } => {
                return put_form(question, reply).await;
            }
        };
        let elsewhere = settled::wait_until_settled(run, &ask);
        tokio::pin!(elsewhere);
        let is_settled = CancellationToken::new();
        let token = is_settled.clone();
        let others = self.take_other_calls().await;
        let call_question = CallQuestion {
            call: AskApproval::clone(&ask),
            others: others
                .iter()
                .map(|(ask, _)| AskApproval::clone(ask))
                .collect(),
            records: run.records(),
            tools: Arc::clone(tools),
            project: self.project.clone(),
            can_store_rules: self.rules.is_some(),
            postponing: self.postponing,
        };
        let mut answered = tokio::task::spawn_blocking(move || call_question.ask(token));
        let (answered, settled) = tokio::select! {
            answered = &mut answered => (answered, None),
            settled = &mut elsewhere => {
                is_settled.cancel();
                (answered.await, Some(settled))
            }
        };
        let answer = match answered {
            Ok(Ok(answer)) => answer,
            // Without an answer the call is denied, because the reply channel is dropped.
            Ok(Err(error)) => {
                let error = anyhow::Error::new(error).context("cannot ask at the terminal");
                return Err(CommandError::failed(error));
            }
            Err(error) => {
                let error = anyhow::Error::new(error).context("asking at the terminal failed");
                return Err(CommandError::failed(error));
            }
        };
        let answers_all = settled.is_none().then_some(&answer);
        self.answer_others(others, answers_all);
        if let Some(settled) = settled {
            settled.report();
            return Ok(());
        }
        if answer == Answer::StopRun {
            interrupt.record_ctrl_c();
            // Cancel the run before it receives the denial, so that it does not continue in between.
            let stopped = run.clone().sent_by(Some(console::name()));
            let _ = stopped.cancel("interrupted at the terminal");
        }
        let reply_to_run = ApproverReply::from(answer.clone());
        // The run may have ended meanwhile and no longer need an answer.
        let _ = reply.send(reply_to_run.clone());
        if let ApproverReply::Decided { decision, .. } = reply_to_run
            && answer != Answer::StopRun
        {
            elsewhere.await.warn_if_different(&decision);
        }
        if let Answer::ApproveInFolder { rule, .. } = answer {
            self.store_rule(rule).await;
        }
        Ok(())
    }

    /// Stores a rule for the project folder, and reports where.
    async fn store_rule(&self, rule: String) {
        let Some(rules) = self.rules.clone() else {
            return;
        };
        let stored = tokio::task::spawn_blocking(move || {
            let file = rules.file().display().to_string();
            rules.add(&rule).map(|()| file)
        });
        let stored = stored.await.map_err(anyhow::Error::new);
        match stored.and_then(|stored| stored.map_err(anyhow::Error::new)) {
            Ok(file) => progress::notice(&format!(
                "saved in {file} (`neuraxis trust show` shows it, `neuraxis trust remove` removes it)"
            )),
            Err(error) => progress::warn(&format!(
                "this applies to this session only, because it cannot be saved: {error:#}"
            )),
        }
    }
}

/// A question for the user, with everything needed to show it.
struct CallQuestion {
    call: AskApproval,
    others: Vec<AskApproval>,
    records: Vec<Arc<Record>>,
    tools: Arc<ToolCatalog>,
    project: PathBuf,
    can_store_rules: bool,
    postponing: Postponing,
}

impl CallQuestion {
    /// Asks the user until there is an answer or the call is settled elsewhere.
    fn ask(&self, is_settled: CancellationToken) -> io::Result<Answer> {
        let view = self.view_of(&self.call);
        let others = self.others.iter().map(|call| self.view_of(call));
        let others: Vec<ApprovalView> = others.collect();
        discard_typed_input();
        let (tools, name) = (Arc::clone(&self.tools), self.call.name.clone());
        let check = move |arguments: &JsonText| {
            let checked = tools.check(&name, arguments);
            checked.map(drop).map_err(|error| error.to_string())
        };
        let terms = Terms {
            postponing: self.postponing,
            others: &others,
            check: &check,
        };
        dialog::ask(
            &view,
            &terms,
            &mut console::Terminal::for_question(is_settled),
        )
    }

    /// Describes a call. Reads the current files for this, and fits a patch to them.
    fn view_of(&self, call: &AskApproval) -> ApprovalView {
        let (records, project) = (&self.records, &self.project);
        let spec = spec_of(&self.tools, &call.name);
        let conflict =
            ConflictingCall::find(call, records, project, |name| spec_of(&self.tools, name));
        ApprovalView::new(call, spec, records, project)
            .with_rule_storage(self.can_store_rules)
            .with_conflict(conflict)
    }
}

/// Asks the user a tool's question, unless it is withdrawn.
async fn put_form(
    question: ports::Question,
    mut reply: oneshot::Sender<QuestionReply>,
) -> Result<(), CommandError> {
    let is_withdrawn = CancellationToken::new();
    let token = is_withdrawn.clone();
    let mut answered = tokio::task::spawn_blocking(move || {
        discard_typed_input();
        form::ask(&question, &mut console::Terminal::for_question(token))
    });
    let answered = tokio::select! {
        answered = &mut answered => answered,
        () = reply.closed() => {
            is_withdrawn.cancel();
            answered.await
        }
    };
    let answered = answered.map_err(anyhow::Error::new);
    let answer = answered.and_then(|answer| answer.map_err(anyhow::Error::new));
    let answer = answer
        .map_err(|error| CommandError::failed(error.context("cannot ask at the terminal")))?;
    // The call may have been given up and no longer need an answer.
    let _ = reply.send(answer);
    Ok(())
}

impl From<Answer> for ApproverReply {
    fn from(answer: Answer) -> Self {
        let decision = match answer {
            Answer::Later => return Self::Later,
            Answer::Approve {
                arguments,
                remember,
            } => ApprovalDecision::Approve {
                arguments,
                remember,
            },
            Answer::ApproveInFolder { remember, .. } => ApprovalDecision::Approve {
                arguments: None,
                remember: Some(remember),
            },
            Answer::ApproveAll => ApprovalDecision::APPROVE,
            Answer::Deny(reason) | Answer::DenyAll(reason) => ApprovalDecision::Deny { reason },
            Answer::StopRun => ApprovalDecision::Deny {
                reason: Some("the user interrupted the run".to_owned()),
            },
        };
        let by = Some(console::name());
        Self::Decided { decision, by }
    }
}

/// Returns the tool's spec, if the catalog has it.
pub(crate) fn spec_of<'a>(tools: &'a ToolCatalog, name: &str) -> Option<&'a ToolSpec> {
    tools.specs().find(|spec| spec.name.as_str() == name)
}

#[cfg(test)]
mod tests;
