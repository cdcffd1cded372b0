//! A conversation: its state, and how it handles the user's input.

use anyhow::{Context, anyhow};
use neuraxis::brainstem::Refusal;
use neuraxis::core::{AgentName, Part, PlanName, RunId, Seq, Turn};
use neuraxis::engine::{ClientInput, Earlier, RequestError, ResumedBy};
use neuraxis::ports::RunSummary;
use neuraxis::{Channel, Mode, Role, RunHandle, RunStatus, SessionId, UserRequest};
use neuraxis_app::App;

use super::super::ask::{self, Attended, Format, View};
use super::super::choice;
use super::super::last_run::RunSettings;
use super::super::lease_progress;
use super::super::prompts;
use super::named_files;
use super::slash::{self, ParsedLine, nearest_of};
use crate::detail::Detail;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::interrupt::{Interrupt, Signal, Signals};
use crate::invocation::again;
use crate::output::Output;
use crate::progress::{self, Progress};
use crate::setup::{Loaded, Setup, end_runs, poll_for_messages};
use crate::terminal::NextReader;
use crate::unknown::with_suggestion;

/// What to do about attachments that stay until a message is accepted.
const WITHOUT_FILES: &str = "/attach none removes all attachments";

/// A conversation.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) app: App,
    pub(super) attended: Attended,
    pub(super) loaded: Loaded,
    pub(super) session: SessionId,
    pub(super) mode: Mode,
    pub(super) channel: Channel,
    /// The agent that answers; the channel's default if `None`.
    pub(super) agent: Option<AgentName>,
    /// The attachments of the next message that is accepted, with the names as given.
    pub(super) attachments: Vec<(String, Part)>,
    /// The role that must serve; chosen by policy if `None`.
    pub(super) role: Option<Role>,
    /// The name by which the model was chosen.
    pub(super) model: Option<String>,
    /// Where the next message continues, if not at the end of the session: at the end of this turn of a run.
    pub(super) continues_from: Option<(RunId, Turn)>,
    /// What happens to the earlier messages once the next message is sent.
    pub(super) earlier: Earlier,
    /// The agent's instructions from the project's files.
    pub(super) instructions: Option<String>,
    /// How the configuration is loaded, for switching models.
    pub(super) setup: Setup,
    /// Limits of requests in addition to those of mode and channel.
    pub(super) plan: Option<PlanName>,
    pub(super) output: Output,
    /// How much is shown in addition to the answers.
    pub(super) detail: Detail,
    /// What reads input that is typed while an answer arrives.
    pub(super) next_reader: NextReader,
}

/// Whether the conversation continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    Exit,
}

impl Conversation {
    /// Creates a conversation in the default mode and channel.
    pub(super) fn new(
        (app, attended): (App, Attended),
        (setup, loaded): (Setup, Loaded),
        session: SessionId,
    ) -> Self {
        Self {
            app,
            attended,
            loaded,
            session,
            mode: Mode::MODERATE,
            channel: Channel::CHAT,
            agent: None,
            attachments: Vec::new(),
            role: None,
            model: None,
            continues_from: None,
            earlier: Earlier::Whole,
            instructions: None,
            setup,
            plan: None,
            output: Output::new(),
            detail: Detail::default(),
            next_reader: NextReader::Other,
        }
    }

    pub(super) fn request(&self, message: impl Into<String>) -> UserRequest {
        let mut request = UserRequest::new(self.session.clone(), message)
            .mode(self.mode.clone())
            .channel(self.channel.clone());
        request.agent.clone_from(&self.agent);
        request.plan.clone_from(&self.plan);
        let mut client_input = ClientInput::default();
        client_input.role.clone_from(&self.role);
        client_input.instructions.clone_from(&self.instructions);
        match client_input == ClientInput::default() {
            true => request,
            false => request.with_client_input(client_input),
        }
    }

    /// Switches to another model. A signal during the start of its engine leaves everything unchanged. A signal after
    /// that skips waiting for the end of the previous engine and for the list of models.
    pub(super) async fn set_model(&mut self, name: &str) -> Result<(), CommandError> {
        let progress = Progress::with_detail(self.detail);
        let mut servers = self.loaded.config.mcp().servers.values();
        progress.activity(&match servers.any(|server| server.enabled) {
            true => format!("starting the engine for {name} and its MCP servers"),
            false => format!("starting the engine for {name}"),
        });
        let mut signals = Signals::listen().context("cannot listen for signals")?;
        let (app, loaded, role) = tokio::select! {
            biased;
            // Dropping the build ends the servers that were started for it.
            signal = signals.next() => return Err(CommandError::interrupted(signal)),
            built = self.engine_of(name) => built?,
        };
        poll_for_messages(&app);
        let before = std::mem::replace(&mut self.app, app);
        let role = std::mem::replace(&mut self.role, role);
        if let Err(error) = self.check_role() {
            let refused = std::mem::replace(&mut self.app, before);
            self.app.name_in_traces();
            self.role = role;
            return match unless_signaled(&mut signals, retire(&refused)).await {
                Ok(()) => Err(error),
                Err(interrupted) => {
                    // The refusal still applies.
                    error.print();
                    Err(interrupted)
                }
            };
        }
        self.print_notices();
        self.loaded = loaded;
        self.model = Some(name.to_owned());
        let rest = async {
            progress.activity("stopping the engine of the previous model");
            retire(&before).await;
            progress.activity("asking the server which models it lists");
            choice::note_unlisted(&self.loaded, name).await;
        };
        match unless_signaled(&mut signals, rest).await {
            // The switch itself is already complete.
            Err(error) if error.interruption() == Some(Signal::Interrupt) => {
                progress::notice(&format!("{} answers from now on", one_line(name)));
                Ok(())
            }
            done => done,
        }
    }

    /// Builds the engine for another model, and returns it with its configuration and the role that must serve. The
    /// open store is shared, so that a conversation in memory continues, and traces go where they went before.
    async fn engine_of(&self, name: &str) -> Result<(App, Loaded, Option<Role>), CommandError> {
        let loaded = self.setup.load()?;
        let (loaded, role) = choice::load_with_model(&self.setup, loaded, name).await?;
        let app = loaded
            .app()
            .store(self.app.open_store())
            .protecting_files_of(&self.app);
        let app = app.telemetry(self.app.telemetry());
        let app = self.attended.with_approver(app).build().await?;
        Ok((app, loaded, role))
    }

    fn print_notices(&self) {
        for notice in &self.app.notices {
            progress::notice(notice);
        }
    }

    /// Fails if policy does not allow the requested role to serve.
    fn check_role(&self) -> Result<(), CommandError> {
        match self.app.orchestrator.decide(&self.request("Hello?")) {
            Err(error @ RequestError::Policy(Refusal::RoleNotAllowed { .. })) => {
                Err(CommandError::usage(error).hint("/mode and /channel change what is allowed"))
            }
            decided => Ok(decided.map(drop)?),
        }
    }

    /// Prints the state of the conversation before it starts.
    pub(super) async fn greet(&self, is_interactive: bool) {
        self.print_notices();
        let session = self.session_in_words().await;
        let help = if is_interactive {
            "; /help lists the commands"
        } else {
            ""
        };
        progress::notice_with_id(&format!("{session}{help}"), self.session.as_str());
        if let Some(run) = self.unfinished().await {
            let what = lease_progress::describe_state(&run);
            let way = self.how_to_continue(&run).await;
            progress::notice(&again(&format!("{what}: {way}")));
        }
    }

    /// Returns the prompt before the user's input.
    pub(super) fn prompt(&self) -> String {
        one_line(&format!("{}/{}> ", self.channel, self.mode)) + " "
    }

    /// Handles a line of input: a command or a message.
    pub(super) async fn handle_line(&mut self, text: &str) -> Result<Flow, CommandError> {
        match slash::read(text) {
            ParsedLine::Nothing => Ok(Flow::Continue),
            ParsedLine::Message(message) => {
                self.send(message, text).await?;
                Ok(Flow::Continue)
            }
            ParsedLine::Command(command, argument) => self.run_command(command, argument).await,
            ParsedLine::Unknown { name, argument, .. } if prompts::exists(&self.loaded, name) => {
                let given = argument.unwrap_or_default();
                let words = prompts::words_of(given);
                let message = prompts::filled(&self.loaded, name, given, &words)?;
                self.send(message, text).await?;
                Ok(Flow::Continue)
            }
            ParsedLine::Unknown { name, nearest, .. } => {
                let meant = nearest.map(|nearest| format!("/{nearest}"));
                let error = with_suggestion("command", &format!("/{name}"), meant.as_deref());
                Err(error.hint(
                    "/help lists the commands, /prompts your prompts; type // to begin a message with a slash",
                ))
            }
        }
    }

    /// Sends a message to the model and shows the result. `typed` is what the user typed for it.
    async fn send(&mut self, message: String, typed: &str) -> Result<(), CommandError> {
        // Named files belong to this attempt only: to repeat the message, they must be named again.
        let named = named_files::of(&message, typed)?;
        let attached = self.attachments.iter().map(|(_, part)| part.clone());
        let files = attached.chain(named).collect();
        if let Some(turn) = self.continues_from {
            return self.send_in_fork(turn, message, files).await;
        }
        let mut request = self.request(message);
        request.attachments = files;
        request.earlier = self.earlier;
        let begun = self.app.orchestrator.runs().start(request).await;
        match begun {
            Ok(run) => {
                self.attachments.clear();
                self.earlier = Earlier::Whole;
                self.show(run, Seq(0)).await
            }
            Err(RequestError::Busy { run, .. }) => {
                let run = self.app.orchestrator.sessions().run(run).await?;
                let error = CommandError::failed(anyhow!(lease_progress::describe_state(&run)));
                Err(error.hint(match run.status.is_ended() {
                    true => "send it again".to_owned(),
                    false => format!(
                        "{}; /new starts another session",
                        self.how_to_continue(&run).await
                    ),
                }))
            }
            Err(error) => {
                let is_too_much = matches!(
                    error,
                    RequestError::Attachment { .. } | RequestError::TooLarge { .. }
                );
                let error = CommandError::from(error);
                Err(match is_too_much && !self.attachments.is_empty() {
                    true => error.hint(WITHOUT_FILES),
                    false => error,
                })
            }
        }
    }

    /// Switches to another session. Settings for the next message belonged to the previous session and are cleared.
    pub(super) fn switch_session(&mut self, session: SessionId) {
        self.session = session;
        self.continues_from = None;
        self.earlier = Earlier::Whole;
        self.attachments.clear();
    }

    /// Resumes the unfinished run of the session.
    pub(super) async fn resume(&mut self) -> Result<(), CommandError> {
        let Some(run) = self.unfinished().await else {
            let error = anyhow!("session {} has no run to resume", self.session);
            return Err(CommandError::usage(error).hint("send a message to start one"));
        };
        let (run, status) = (run.run_id, run.status);
        if status == RunStatus::Waiting && !self.attended.prompter.is_attended() {
            let error = anyhow!("run {run} waits for an approval, but nobody can be asked here");
            return Err(CommandError::failed(error).hint(format!(
                "`neuraxis approvals show {run}` shows what would run"
            )));
        }
        let records = self.app.orchestrator.sessions().records(run).await;
        let known = records.map_err(CommandError::failed)?;
        let known = known.last().map_or(Seq(0), |record| record.seq);
        let run = match lease_progress::resume(&self.app, run, ResumedBy::Engine).await {
            Ok(run) => run,
            Err(error) if error.interruption().is_some() => return unless_interrupted(Err(error)),
            Err(error) => return Err(error.hint("/new starts another session")),
        };
        self.show(run, known).await
    }

    pub(super) async fn show(&mut self, run: RunHandle, known: Seq) -> Result<(), CommandError> {
        let listening = Interrupt::listen(
            {
                let run = run.clone();
                move |signal| ask::cancel(&run, signal)
            },
            || progress::notice("the run is ending; press Ctrl-C again to leave immediately"),
        );
        let view = View::new(Format::Text)
            .with_detail(self.detail)
            .skip_until(known)
            .with_next_reader(self.next_reader);
        let (app, attended) = (&self.app, &mut self.attended);
        let shown = ask::show(app, view, &run, attended, &listening.interrupt).await;
        unless_interrupted(shown)?;
        if let Err(denied) = ask::fail_if_denied_unattended(&self.attended, &run) {
            // Even if the error cannot be printed, the user has the answer.
            denied.print();
        }
        Ok(())
    }

    /// Returns the unfinished run of the session, if there is one.
    pub(super) async fn unfinished(&self) -> Option<RunSummary> {
        let sessions = self.app.orchestrator.sessions();
        // If the store fails, the error appears when the run is requested.
        sessions.unfinished_run(&self.session).await.ok().flatten()
    }

    /// Sets the initial mode and channel. Anything not given, including agent and plan, is taken from the session's
    /// last run, unless policy refuses that here.
    pub(super) fn set_initial_settings(
        &mut self,
        mode: Option<Mode>,
        channel: Option<Channel>,
        mut last: RunSettings,
    ) -> Result<(), CommandError> {
        let last_run = last.clone();
        let policy = self.loaded.config.policy();
        if let Some(mode) = &mode {
            nearest_of("mode", mode.as_str(), policy.modes().map(Mode::as_str))?;
            last.mode = None;
        }
        if let Some(channel) = &channel {
            let channels = policy.channels().map(Channel::as_str);
            nearest_of("channel", channel.as_str(), channels)?;
            // The agent belonged to the channel of the last run.
            last.agent = last
                .agent
                .filter(|_| last.channel.as_ref() == Some(channel));
            last.channel = None;
        }
        last.agent = last.agent.filter(|_| self.agent.is_none());
        last.plan = last.plan.filter(|_| self.plan.is_none());
        let last = last.usable(policy, self.loaded.config.project_root());
        self.mode = mode.unwrap_or(Mode::MODERATE);
        self.channel = channel.unwrap_or(Channel::CHAT);
        self.apply_settings(last);
        self.check_role()?;
        if self.model.is_none() {
            last_run.note_other_role(&self.app, &self.request("Hello?"));
        }
        ask::note_missing_search(&self.app, &self.channel);
        Ok(())
    }

    fn apply_settings(&mut self, last: RunSettings) {
        let Some(words) = last.in_words() else {
            return;
        };
        // Limits are kept even if the rest is refused.
        if let Some(mode) = last.mode {
            self.mode = mode;
        }
        self.plan = last.plan.or_else(|| self.plan.take());
        let changed = self.change(|it| {
            it.channel = last.channel.unwrap_or_else(|| it.channel.clone());
            it.agent = last.agent.or_else(|| it.agent.take());
        });
        match changed {
            Ok(()) => progress::notice(&format!("continuing like the session's last run: {words}")),
            // If requests are refused even without these settings, that is reported next.
            Err(_) if self.check_role().is_err() => {}
            Err(refusal) => progress::warn(&format!(
                "continuing like the session's last run ({words}), but only in mode and plan: {refusal}"
            )),
        }
    }

    /// Sets the mode of requests.
    pub(super) fn set_mode(&mut self, mode: Mode) -> Result<(), CommandError> {
        let known = self.loaded.config.policy().modes().map(Mode::as_str);
        nearest_of("mode", mode.as_str(), known)?;
        self.change(|it| it.mode = mode).map_err(refused)
    }

    /// Sets the agent that answers, if policy allows it for such requests.
    pub(super) fn set_agent(&mut self, agent: AgentName) -> Result<(), CommandError> {
        let known = self.loaded.config.policy().agents().map(AgentName::as_str);
        nearest_of("agent", agent.as_str(), known)?;
        Ok(self.change(|it| it.agent = Some(agent))?)
    }

    /// Sets the channel of requests.
    pub(super) fn set_channel(&mut self, channel: Channel) -> Result<(), CommandError> {
        let known = self.loaded.config.policy().channels().map(Channel::as_str);
        nearest_of("channel", channel.as_str(), known)?;
        self.change(|it| it.channel = channel).map_err(refused)?;
        ask::note_missing_search(&self.app, &self.channel);
        Ok(())
    }

    /// Changes the mode, channel or agent of future requests. If policy refuses such requests, the previous values are
    /// restored.
    fn change(&mut self, change: impl FnOnce(&mut Self)) -> Result<(), RequestError> {
        let before = (self.mode.clone(), self.channel.clone(), self.agent.clone());
        change(self);
        let decided = self.app.orchestrator.decide(&self.request("Hello?"));
        if decided.is_err() {
            (self.mode, self.channel, self.agent) = before;
        }
        decided.map(drop)
    }
}

/// Ends an engine that another engine replaces. What both share stays open. Dropping the engine instead of waiting also
/// ends its servers.
async fn retire(app: &App) {
    end_runs(app).await;
    app.stop_servers().await;
}

/// Waits for a future until a signal arrives.
async fn unless_signaled(
    signals: &mut Signals,
    done: impl Future<Output = ()>,
) -> Result<(), CommandError> {
    tokio::select! {
        biased;
        signal = signals.next() => Err(CommandError::interrupted(signal)),
        () = done => Ok(()),
    }
}

/// Treats Ctrl-C as the end of the current activity, such as an answer, and not of the conversation.
pub(super) fn unless_interrupted(done: Result<(), CommandError>) -> Result<(), CommandError> {
    match done {
        Err(error) if error.interruption() == Some(Signal::Interrupt) => {
            progress::notice("interrupted");
            Ok(())
        }
        done => done,
    }
}

/// Adds what to do in the chat about a request that policy refuses.
fn refused(error: RequestError) -> CommandError {
    let RequestError::Policy(refusal) = &error else {
        return error.into();
    };
    let hint = match refusal {
        Refusal::ModeNotAllowed { allowed, .. } => allowed.first().map(|it| format!("/mode {it}")),
        _ => None,
    };
    match hint {
        Some(hint) => CommandError::usage(anyhow!(error)).hint(format!("{hint} first")),
        None => error.into(),
    }
}
