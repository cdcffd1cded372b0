//! `neuraxis ask`: one question, one answer.

mod answer;
mod attach;
mod attended;
mod cassette;
mod follow;
mod message;
mod outcome;
mod page;
mod reporter;
mod schema;
mod tail;
mod view;
mod waiting;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use neuraxis::core::{AgentName, PlanName};
use neuraxis::engine::{AnswerSchema, ClientInput, Delivery, RequestError};
use neuraxis::{Channel, Mode, Role, UserRequest};
use neuraxis_app::App;

use crate::approve::IfUnattended;
use crate::command::choice::{ModelArgument, SessionChoice};
use crate::command::last_run::{self, RunSettings};
use crate::command::lease_progress;
use crate::command::project::{self, Asking};
use crate::command::prompts;
use crate::command::trust;
use crate::completion;
use crate::detail::DetailArguments;
use crate::error::CommandError;
use crate::invocation::{self, neuraxis};
use crate::piped::reopen_terminal_as_stdin;
use crate::progress::{self, Progress};
use crate::setup::{Loaded, Setup, with_app};
use attach::AttachArguments;
pub(in crate::command) use attach::attached;
pub(in crate::command) use cassette::CassetteArguments;
use message::Question;

pub(in crate::command) use attended::{Attended, require_persistent_runs};
pub(in crate::command) use follow::{
    cancel, fail_if_denied_unattended, served_by_rules, show, watch,
};
pub(in crate::command) use outcome::root_calls;
pub(in crate::command) use view::View;

const EXAMPLES: &str = "\
Examples:
  neuraxis ask \"What time is it in Tokyo?\"
  neuraxis ask --channel system_health \"How is this machine?\"
  neuraxis ask --channel code_task \"Where is the turn loop?\"
  git diff | neuraxis ask \"Review this change\"
  neuraxis ask -f screenshot.png \"What is wrong here?\"
  neuraxis ask -c \"And in Osaka?\"
  git diff | neuraxis ask -p review \"only errors\"
  neuraxis ask -m gpt-5.4 \"What time is it in Tokyo?\"
  neuraxis ask --format json \"What time is it?\" | jq -r .reply
  neuraxis ask --schema place.json \"Where is the TU Delft?\" | jq -r .city
  neuraxis ask --format events \"What time is it?\" | jq -r .type
  neuraxis ask --wait --set store.url=sqlite://sessions.db \"What time is it?\"
  neuraxis ask --record time.cassette \"What time is it?\"
  neuraxis ask --replay time.cassette \"What time is it?\"";

/// Ask a question and print the answer
///
/// The answer goes to standard output, at a terminal while it is generated, and everything else to standard error.
/// Piped input goes with the question; without a question, or with - instead of one, it is the question itself.
/// `neuraxis "QUESTION"` is the same as `neuraxis ask "QUESTION"`.
///
/// A call that needs approval is shown at the terminal and you decide, even if input is piped in. If nobody can be
/// asked, the call is denied; with --wait the run waits instead, until you decide with `neuraxis approvals`. The exit
/// code is 1 if the run failed, 3 if a limit was reached before there was an answer, 4 if a call was denied because
/// nobody could be asked, 5 while the run waits, and 6 if there is no language model and no rule matched.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ask {
    /// The question; - reads it from standard input
    #[arg(value_name = "QUESTION")]
    words: Vec<String>,

    /// What kind of request it is, and so which tools it gets: chat (time, sums, the web), code_task (files and
    /// commands), system_health (this machine), deep_research (only in mode exploratory), or a channel of your own
    #[arg(long, default_value = "chat", add = ArgValueCandidates::new(completion::channels))]
    channel: String,

    /// How much may run without asking you: conservative, moderate, exploratory, or a mode of your own
    #[arg(long, default_value = "moderate", add = ArgValueCandidates::new(completion::modes))]
    mode: String,

    /// Ask a prompt that you saved as [prompts.NAME] or as prompts/NAME.md next to your configuration; the question
    /// fills its placeholders
    #[arg(long, short = 'p', value_name = "NAME", add = ArgValueCandidates::new(completion::prompts))]
    prompt: Option<String>,

    #[command(flatten)]
    session: SessionChoice,

    #[command(flatten)]
    model: ModelArgument,

    /// The agent that answers instead of the channel's default: one of [agents.NAME]
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::agents))]
    agent: Option<String>,

    /// Limits in addition to those of mode and channel: one of [plans.NAME]
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(completion::plans))]
    plan: Option<String>,

    /// What to print: the answer, one JSON object with the whole result, or one JSON object per line for each event
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Require a JSON answer that fits the JSON Schema in this file, and print nothing else; the exit code is 1 or 3 if
    /// there is none
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,

    /// Request each model reply as a whole, instead of streaming it
    #[arg(long)]
    no_stream: bool,

    /// If nobody can be asked for approval, leave the run waiting instead of denying the call
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    detail: DetailArguments,

    #[command(flatten)]
    attach: AttachArguments,

    #[command(flatten)]
    cassette: CassetteArguments,
}

/// The question, and whom it is for.
struct AskInput {
    question: Question,
    schema: Option<AnswerSchema>,
    /// The role that must serve, if one is required.
    role: Option<Role>,
    /// The agent's instructions from the project's files.
    instructions: Option<String>,
}

/// How much of a run is printed, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::command) enum Format {
    /// The answer
    Text,
    /// The result as one JSON object
    Json,
    /// Records and live events, one JSON object per line
    Events,
}

impl Ask {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let mut question = match &self.prompt {
            None => message::read(&self.words)?,
            Some(_) => message::read_with_prompt(&self.words)?,
        };
        // From here on, standard input is for answers to approval questions.
        reopen_terminal_as_stdin();
        let schema = self.schema.as_deref().map(schema::read).transpose()?;
        let loaded = match self.format {
            Format::Text => trust::load_and_ask(setup)?,
            Format::Json | Format::Events => setup.load()?,
        };
        self.session.require_visible(&loaded)?;
        if let Some(name) = &self.prompt {
            let filled = prompts::filled(&loaded, name, &self.words.join(" "), &self.words);
            question.text = filled.inspect_err(|_| loaded.warn_settings_ignored())?;
        }
        let (loaded, role) = self.model.apply(setup, loaded).await?;
        let cassette = self.cassette.chosen();
        let attended = Attended::new(&loaded.config, self.if_unattended())?;
        let app = attended.app(&loaded, cassette).await?;
        let recordings = app.recordings.clone();
        let instructions = project::instructions(
            &loaded,
            match self.format {
                Format::Text => Asking::User,
                Format::Json | Format::Events => Asking::Nobody,
            },
        );
        let input = AskInput {
            question,
            schema,
            role,
            instructions,
        };
        let answered = with_app(app, async |app| {
            self.answer((app, &loaded), attended, input).await
        });
        let answered = answered.await;
        let finished = recordings.finish();
        answered?;
        for notice in finished.map_err(CommandError::failed)? {
            progress::warn(&notice);
        }
        Ok(())
    }

    const fn if_unattended(&self) -> IfUnattended {
        if self.wait {
            IfUnattended::Wait
        } else {
            IfUnattended::Deny
        }
    }

    async fn answer(
        self,
        (app, loaded): (&App, &Loaded),
        mut attended: Attended,
        input: AskInput,
    ) -> Result<(), CommandError> {
        let format = self.format;
        let is_new = !self.session.is_given();
        let model = self.model.model.clone();
        let detail = self.detail.detail();
        let view = View::new(format).with_detail(detail);
        let request = self.request(app, input).await;
        let request = request.inspect_err(|_| loaded.warn_store_incomplete())?;
        if !is_new && format == Format::Text {
            let sessions = app.orchestrator.sessions();
            let last = RunSettings::last_of(&sessions, &request.session_id).await;
            if model.is_none() {
                last.note_other_role(app, &request);
            }
            note_other_channel(app, &request, &last);
        }
        let (session, channel) = (request.session_id.clone(), request.channel.clone());
        let run = match app.orchestrator.runs().start(request).await {
            Err(RequestError::Busy { run, .. }) => {
                return Err(lease_progress::busy(&app.orchestrator.sessions(), run).await);
            }
            Err(refused) => {
                // The missing item may be defined in a file that is not trusted.
                loaded.warn_settings_ignored();
                return Err(refused.into());
            }
            Ok(run) => run,
        };
        note_missing_search(app, &channel);
        watch(app, view, &run, &mut attended).await?;
        if is_new && format == Format::Text && app.is_persistent() {
            let (sessions, policy) = (app.orchestrator.sessions(), app.orchestrator.policy());
            let model = model.as_deref();
            let command = last_run::continue_command(&sessions, &session, policy, model).await;
            Progress::with_detail(detail).done(&format!("to continue: {} {command}", neuraxis()));
        }
        Ok(())
    }

    async fn request(self, app: &App, input: AskInput) -> Result<UserRequest, CommandError> {
        let attached = self.attach.read()?;
        let session = self.session.find(&app.orchestrator.sessions()).await?;
        let delivery = if self.no_stream {
            Delivery::Whole
        } else {
            Delivery::Streamed
        };
        let mut request = UserRequest::new(session, input.question.text)
            .mode(Mode::new(self.mode))
            .channel(Channel::new(self.channel))
            .delivery(delivery);
        request.attachments = input.question.piped.into_iter().chain(attached).collect();
        request.answer = input.schema;
        let mut client_input = ClientInput::default();
        client_input.role = input.role;
        client_input.instructions = input.instructions;
        if client_input != ClientInput::default() {
            request = request.with_client_input(client_input);
        }
        request.agent = self.agent.map(AgentName::new);
        request.plan = self.plan.map(PlanName::new);
        Ok(request)
    }
}

/// Notes that a session that continues in the default channel was in another one before: earlier messages may have
/// needed the tools of that channel.
fn note_other_channel(app: &App, request: &UserRequest, last: &RunSettings) {
    if request.channel != Channel::CHAT || request.agent.is_some() {
        return;
    }
    let last = RunSettings {
        mode: None,
        plan: None,
        ..last.clone()
    };
    let options = RunSettings::default().options(&last, app.orchestrator.policy());
    if !options.is_empty() {
        progress::notice(&format!(
            "the session's last run used{options}, and this one does not"
        ));
    }
}

/// Notes before research begins if there is no web search.
pub(in crate::command) fn note_missing_search(app: &App, channel: &Channel) {
    let tools = app.orchestrator.tools();
    let mut names = tools.specs().map(|spec| spec.name.as_str());
    if *channel == Channel::DEEP_RESEARCH && !names.any(|name| name == "web_search") {
        let doctor = invocation::again("`neuraxis doctor` says how to add one");
        progress::notice(&format!(
            "no search service is configured, so only pages whose addresses are given can be read ({doctor})"
        ));
    }
}

#[cfg(test)]
mod tests;
