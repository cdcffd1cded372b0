//! Brings questions about calls to the user at the terminal, and returns the answers.
//!
//! A run asks through the port, on whichever thread it runs. The question waits in a [`Prompter`] until the one place
//! that writes to the terminal is ready for it. Questions are asked one at a time, and nothing else is written
//! meanwhile.
//!
//! What may be asked, and what may be remembered of an answer, is decided elsewhere.

mod arguments;
mod batch;
mod change;
mod dialog;
mod earlier;
mod editor;
mod elsewhere;
mod form;
mod lasting;
mod person;
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

use crate::confirm::is_somebody_there;
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::progress;

pub(crate) use dialog::Postponing;
use dialog::{Answer, Terms};
pub(crate) use earlier::Earlier;
pub(crate) use lasting::causes;
pub(crate) use person::{Line, forget_what_was_typed, line_of, name as user_name};
pub(crate) use show::{
    Asked, Whole, asker, folder_elsewhere, is_folder_of, said, scope, text as question_text,
};

/// The maximum number of queued questions; further callers wait until there is room.
const MAX_IN_LINE: usize = 64;

/// What to answer when nobody can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenAway {
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

/// The queue of questions that wait to be put to the user.
#[derive(Debug)]
pub(crate) struct Prompter {
    /// `None` if nobody is at the terminal.
    questions: Option<mpsc::Receiver<Question>>,
    postponing: Postponing,
    /// The folder that the file tools work in.
    project: PathBuf,
    /// The rules for that folder, if they can be stored.
    rules: Option<FolderRules>,
    /// Questions that were received and not put yet.
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
    let is_reachable = io::stdout().is_terminal() || has_terminal_of_its_own();
    is_somebody_there() && is_reachable
}

#[cfg(unix)]
fn has_terminal_of_its_own() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

#[cfg(not(unix))]
const fn has_terminal_of_its_own() -> bool {
    true
}

/// Returns the approver for calls, if there is one, and the prompter that receives its questions.
pub(crate) fn prompter(
    away: WhenAway,
    postponing: Postponing,
    config: &Config,
) -> (Option<Arc<dyn Approver>>, Prompter) {
    let (approver, questions): (Option<Arc<dyn Approver>>, _) = match (is_attended(), away) {
        (true, _) => {
            let (questions, receiver) = mpsc::channel(MAX_IN_LINE);
            let approver = PromptingApprover { questions };
            (Some(Arc::new(approver)), Some(receiver))
        }
        (false, WhenAway::Wait) => (Some(Arc::new(DecideLater)), None),
        (false, WhenAway::Deny) => (None, None),
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

    /// Puts a question to the user and sends the answer back, unless the question is settled elsewhere first.
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
        let elsewhere = elsewhere::settled(run, &ask);
        tokio::pin!(elsewhere);
        let is_settled = CancellationToken::new();
        let seen = is_settled.clone();
        let others = self.others().await;
        let about = About {
            call: AskApproval::clone(&ask),
            others: others
                .iter()
                .map(|(ask, _)| AskApproval::clone(ask))
                .collect(),
            records: run.records(),
            tools: Arc::clone(tools),
            project: self.project.clone(),
            keeps_rules: self.rules.is_some(),
            postponing: self.postponing,
        };
        let mut answered = tokio::task::spawn_blocking(move || about.ask(seen));
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
            settled.tell();
            return Ok(());
        }
        if answer == Answer::StopRun {
            interrupt.note();
            // Cancel the run before it receives the denial, so that it does not continue in between.
            let _ = run.cancel("interrupted at the terminal");
        }
        let reply_to_run = ApproverReply::from(answer.clone());
        // The run may have ended meanwhile and no longer need an answer.
        let _ = reply.send(reply_to_run.clone());
        if let ApproverReply::Decided { decision, .. } = reply_to_run
            && answer != Answer::StopRun
        {
            elsewhere.await.tell_unless(&decision);
        }
        if let Answer::ApproveHere { rule, .. } = answer {
            self.keep(rule).await;
        }
        Ok(())
    }

    /// Stores a rule for the project folder, and reports where.
    async fn keep(&self, rule: String) {
        let Some(rules) = self.rules.clone() else {
            return;
        };
        let kept = tokio::task::spawn_blocking(move || {
            let file = rules.file().display().to_string();
            rules.add(&rule).map(|()| file)
        });
        let kept = kept.await.map_err(anyhow::Error::new);
        match kept.and_then(|kept| kept.map_err(anyhow::Error::new)) {
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
struct About {
    call: AskApproval,
    others: Vec<AskApproval>,
    records: Vec<Arc<Record>>,
    tools: Arc<ToolCatalog>,
    project: PathBuf,
    keeps_rules: bool,
    postponing: Postponing,
}

impl About {
    /// Asks the user until there is an answer or the call is settled elsewhere.
    fn ask(&self, is_settled: CancellationToken) -> io::Result<Answer> {
        let asked = self.described(&self.call);
        let others = self.others.iter().map(|call| self.described(call));
        let others: Vec<Asked> = others.collect();
        forget_what_was_typed();
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
        dialog::ask(&asked, &terms, &mut person::Terminal::asked(is_settled))
    }

    /// Describes a call. Reads the current files for this, and fits a patch to them.
    fn described(&self, call: &AskApproval) -> Asked {
        let (records, project) = (&self.records, &self.project);
        let spec = spec_of(&self.tools, &call.name);
        let earlier = Earlier::find(call, records, project, |name| spec_of(&self.tools, name));
        Asked::new(call, spec, records, project)
            .keeping_rules(self.keeps_rules)
            .after(earlier)
    }
}

/// Puts a tool's question to the user, unless it is withdrawn.
async fn put_form(
    question: ports::Question,
    mut reply: oneshot::Sender<QuestionReply>,
) -> Result<(), CommandError> {
    let is_withdrawn = CancellationToken::new();
    let seen = is_withdrawn.clone();
    let mut answered = tokio::task::spawn_blocking(move || {
        forget_what_was_typed();
        form::ask(&question, &mut person::Terminal::asked(seen))
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
            Answer::ApproveHere { remember, .. } => ApprovalDecision::Approve {
                arguments: None,
                remember: Some(remember),
            },
            Answer::ApproveAll => ApprovalDecision::APPROVE,
            Answer::Deny(reason) | Answer::DenyAll(reason) => ApprovalDecision::Deny { reason },
            Answer::StopRun => ApprovalDecision::Deny {
                reason: Some("the user interrupted the run".to_owned()),
            },
        };
        let by = Some(person::name());
        Self::Decided { decision, by }
    }
}

/// Returns the tool's spec, if the catalog has it.
pub(crate) fn spec_of<'a>(tools: &'a ToolCatalog, name: &str) -> Option<&'a ToolSpec> {
    tools.specs().find(|spec| spec.name.as_str() == name)
}

#[cfg(test)]
mod tests;
