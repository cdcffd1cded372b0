//! A conversation: where it stands, and what is done with what the user says.

use anyhow::{Context, anyhow};
use neuraxis::brainstem::Refusal;
use neuraxis::core::{AgentName, Part, PlanName, RunId, Seq, Turn};
use neuraxis::engine::{Brought, Earlier, RequestError, Taker};
use neuraxis::ports::RunSummary;
use neuraxis::{Channel, Mode, Role, RunHandle, RunStatus, SessionId, UserRequest};
use neuraxis_app::App;

use super::super::ask::{self, Attended, Format, View};
use super::super::choice;
use super::super::last_run::AskedWith;
use super::super::lease_progress;
use super::super::prompts;
use super::named_files;
use super::slash::{self, Meant, nearest_of};
use crate::detail::Detail;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::interrupt::{Interrupt, Signal, Signals};
use crate::invocation::again;
use crate::output::Output;
use crate::progress::{self, Progress};
use crate::setup::{Loaded, Setup, end_runs, hear_of_other_commands};
use crate::terminal::NextReader;

/// What to do about files that stay with each message until one is taken.
const WITHOUT_FILES: &str = "/attach none lets the message go without what was attached";

/// A conversation.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) app: App,
    pub(super) attended: Attended,
    pub(super) loaded: Loaded,
    pub(super) session: SessionId,
    pub(super) mode: Mode,
    pub(super) channel: Channel,
    /// The agent that answers; that of the channel if `None`.
    pub(super) agent: Option<AgentName>,
    /// What goes with the next message that is taken, with the names that were given.
    pub(super) attachments: Vec<(String, Part)>,
    /// The role that has to serve; the one that policy chooses if `None`.
    pub(super) role: Option<Role>,
    /// The model that was named for it.
    pub(super) model: Option<String>,
    /// Where the next message goes on from, if that is not the end of the session: the end of this turn of a run.
    pub(super) goes_on_from: Option<(RunId, Turn)>,
    /// What becomes of what was said before, once the next message is sent.
    pub(super) earlier: Earlier,
    /// What the project's own files tell the agent.
    pub(super) instructions: Option<String>,
    /// How the configuration is loaded, for another model.
    pub(super) setup: Setup,
    /// The limits that requests have beside those of mode and channel.
    pub(super) plan: Option<PlanName>,
    pub(super) output: Output,
    /// How much is told beside the answers.
    pub(super) detail: Detail,
    /// Who reads what is typed while an answer comes.
    pub(super) next_reader: NextReader,
}

/// Whether the conversation goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    GoOn,
    Leave,
}

impl Conversation {
    /// Begins a conversation in the default mode and channel.
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
            goes_on_from: None,
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
        let mut brought = Brought::default();
        brought.role.clone_from(&self.role);
        brought.instructions.clone_from(&self.instructions);
        match brought == Brought::default() {
            true => request,
            false => request.bring(brought),
        }
    }

    /// Lets another model answer from now on. A signal that comes while its engine is built leaves all as it was; with one that
    /// comes later, neither the end of the engine before nor the list of models is waited for.
    pub(super) async fn set_model(&mut self, name: &str) -> Result<(), CommandError> {
        let progress = Progress::telling(self.detail);
        let mut servers = self.loaded.config.mcp().servers.values();
        progress.activity(&match servers.any(|server| server.enabled) {
            true => format!("starting the engine of {name} and its MCP servers"),
            false => format!("starting the engine of {name}"),
        });
        let mut signals = Signals::listen().context("cannot listen for signals")?;
        let (app, loaded, role) = tokio::select! {
            biased;
            // The servers that were started for it end as it is dropped.
            signal = signals.next() => return Err(CommandError::interrupted(signal)),
            built = self.engine_of(name) => built?,
        };
        hear_of_other_commands(&app);
        let before = std::mem::replace(&mut self.app, app);
        let role = std::mem::replace(&mut self.role, role);
        if let Err(error) = self.check_role() {
            let refused = std::mem::replace(&mut self.app, before);
            self.app.name_in_traces();
            self.role = role;
            return match unless_told(&mut signals, retire(&refused)).await {
                Ok(()) => Err(error),
                Err(interrupted) => {
                    // It is no less true.
                    error.tell();
                    Err(interrupted)
                }
            };
        }
        self.tell_notices();
        self.loaded = loaded;
        self.model = Some(name.to_owned());
        let rest = async {
            progress.activity("ending the engine of the model before");
            retire(&before).await;
            progress.activity("asking the server which models it lists");
            choice::note_unlisted(&self.loaded, name).await;
        };
        match unless_told(&mut signals, rest).await {
            // What it was all for is done.
            Err(error) if error.interruption() == Some(Signal::Interrupt) => {
                progress::notice(&format!("{} answers from now on", one_line(name)));
                Ok(())
            }
            done => done,
        }
    }

    /// Wires the engine in which another model answers, and returns it with its configuration and the role that has to serve. What
    /// is open of the store stays open, so that a conversation in memory goes on, and traces go where they went before.
    async fn engine_of(&self, name: &str) -> Result<(App, Loaded, Option<Role>), CommandError> {
        let loaded = self.setup.load()?;
        let (loaded, role) = choice::serve_by(&self.setup, loaded, name).await?;
        let app = loaded.app().store(self.app.opened()).beside(&self.app);
        let app = app.telemetry(self.app.telemetry());
        let app = self.attended.asked_by(app).build().await?;
        Ok((app, loaded, role))
    }

    fn tell_notices(&self) {
        for notice in &self.app.notices {
            progress::notice(notice);
        }
    }

    /// Makes sure that policy lets the role serve that is asked for.
    fn check_role(&self) -> Result<(), CommandError> {
        match self.app.orchestrator.decide(&self.request("Hello?")) {
            Err(error @ RequestError::Policy(Refusal::RoleNotAllowed { .. })) => {
                Err(CommandError::usage(error).hint("/mode and /channel change what is allowed"))
            }
            decided => Ok(decided.map(drop)?),
        }
    }

    /// Says where it stands before it begins.
    pub(super) async fn greet(&self, is_interactive: bool) {
        self.tell_notices();
        let session = &self.session;
        if is_interactive {
            progress::notice(&format!("session {session}; /help lists the commands"));
        } else {
            progress::notice(&format!("session {session}"));
        }
        if let Some(run) = self.unfinished().await {
            let what = lease_progress::what_it_does(&run);
            let way = self.way_on(&run).await;
            progress::notice(&again(&format!("{what}: {way}")));
        }
    }

    /// Returns what stands before what the user types.
    pub(super) fn prompt(&self) -> String {
        one_line(&format!("{}/{}> ", self.channel, self.mode)) + " "
    }

    /// Takes a line of the user's: a command, or a message.
    pub(super) async fn hear(&mut self, text: &str) -> Result<Flow, CommandError> {
        match slash::read(text) {
            Meant::Nothing => Ok(Flow::GoOn),
            Meant::Message(message) => {
                self.say(message, text).await?;
                Ok(Flow::GoOn)
            }
            Meant::Command(command, argument) => self.obey(command, argument).await,
            Meant::Unknown { name, argument, .. } if prompts::is_kept(&self.loaded, name) => {
                let given = argument.unwrap_or_default();
                let words = prompts::words_of(given);
                let message = prompts::filled(&self.loaded, name, given, &words)?;
                self.say(message, text).await?;
                Ok(Flow::GoOn)
            }
            Meant::Unknown { name, nearest, .. } => {
                let error = CommandError::usage(anyhow!("there is no command /{name}"));
                Err(match nearest {
                    Some(nearest) => error.hint(format!("did you mean /{nearest}?")),
                    None => {
                        error.hint("/help lists the commands, /prompts the prompts that you keep; // begins a message with a slash")
                    }
                })
            }
        }
    }

    /// Says something to the model and shows what comes of it. `typed` is what the user wrote for it.
    async fn say(&mut self, message: String, typed: &str) -> Result<(), CommandError> {
        // They go with this attempt alone: whoever says it again names them again.
        let named = named_files::of(&message, typed)?;
        let attached = self.attachments.iter().map(|(_, part)| part.clone());
        let files = attached.chain(named).collect();
        if let Some(turn) = self.goes_on_from {
            return self.say_after(turn, message, files).await;
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
                let error = CommandError::failed(anyhow!(lease_progress::what_it_does(&run)));
                Err(error.hint(match run.status.is_ended() {
                    true => "say it again".to_owned(),
                    false => format!("{}; /new begins another session", self.way_on(&run).await),
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

    /// Goes to another session. What was set for the next message was meant for the one before.
    pub(super) fn go_to(&mut self, session: SessionId) {
        self.session = session;
        self.goes_on_from = None;
        self.earlier = Earlier::Whole;
        self.attachments.clear();
    }

    /// Goes on with the run of the session that has not ended.
    pub(super) async fn resume(&mut self) -> Result<(), CommandError> {
        let Some(run) = self.unfinished().await else {
            let error = anyhow!("session {} has no run that waits", self.session);
            return Err(CommandError::usage(error).hint("say what you want, and it begins one"));
        };
        let (run, status) = (run.run_id, run.status);
        if status == RunStatus::Waiting && !self.attended.prompter.is_attended() {
            let error = anyhow!("run {run} waits for an approval, which nobody can give here");
            return Err(CommandError::failed(error).hint(format!(
                "`neuraxis approvals show {run}` shows what would run"
            )));
        }
        let records = self.app.orchestrator.sessions().records(run).await;
        let known = records.map_err(CommandError::failed)?;
        let known = known.last().map_or(Seq(0), |record| record.seq);
        let run = match lease_progress::resume(&self.app, run, Taker::Engine).await {
            Ok(run) => run,
            Err(error) if error.interruption().is_some() => return unless_interrupted(Err(error)),
            Err(error) => return Err(error.hint("/new begins another session")),
        };
        self.show(run, known).await
    }

    pub(super) async fn show(&mut self, run: RunHandle, known: Seq) -> Result<(), CommandError> {
        let listening = Interrupt::listen(
            {
                let run = run.clone();
                move |signal| ask::cancel(&run, signal.reason())
            },
            || progress::notice("the run is ending; Ctrl-C once more leaves at once"),
        );
        let view = View::new(Format::Text)
            .telling(self.detail)
            .after(known)
            .read_next_by(self.next_reader);
        let (app, attended) = (&self.app, &mut self.attended);
        let shown = ask::show(app, view, &run, attended, &listening.interrupt).await;
        unless_interrupted(shown)?;
        if let Err(denied) = ask::unless_turned_away(&self.attended, &run) {
            // Whoever cannot be told still has the answer.
            denied.tell();
        }
        Ok(())
    }

    /// Returns the run of the session that has not ended, if there is one.
    pub(super) async fn unfinished(&self) -> Option<RunSummary> {
        let sessions = self.app.orchestrator.sessions();
        // One of which nobody can tell is met when it is asked for.
        sessions.unfinished_run(&self.session).await.ok().flatten()
    }

    /// Begins in a mode and a channel. What is not given, agent and plan as well, is as it was in the last run of the session,
    /// unless policy refuses that here.
    pub(super) fn begin_in(
        &mut self,
        mode: Option<Mode>,
        channel: Option<Channel>,
        mut last: AskedWith,
    ) -> Result<(), CommandError> {
        let was = last.clone();
        let policy = self.loaded.config.policy();
        if let Some(mode) = &mode {
            nearest_of("mode", mode.as_str(), policy.modes().map(Mode::as_str))?;
            last.mode = None;
        }
        if let Some(channel) = &channel {
            let channels = policy.channels().map(Channel::as_str);
            nearest_of("channel", channel.as_str(), channels)?;
            // Its agent answered what came from its channel.
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
        self.take_up(last);
        self.check_role()?;
        if self.model.is_none() {
            was.note_other_role(&self.app, &self.request("Hello?"));
        }
        ask::note_missing_search(&self.app, &self.channel);
        Ok(())
    }

    fn take_up(&mut self, last: AskedWith) {
        let Some(words) = last.in_words() else {
            return;
        };
        // What limits stays also where the rest is refused.
        if let Some(mode) = last.mode {
            self.mode = mode;
        }
        self.plan = last.plan.or_else(|| self.plan.take());
        let changed = self.change(|it| {
            it.channel = last.channel.unwrap_or_else(|| it.channel.clone());
            it.agent = last.agent.or_else(|| it.agent.take());
        });
        match changed {
            Ok(()) => progress::notice(&format!("goes on as the session's last run: {words}")),
            // What is refused without all this, too, is told of next.
            Err(_) if self.check_role().is_err() => {}
            Err(refusal) => progress::warn(&format!(
                "goes on as the session's last run ({words}) in mode and plan alone: {refusal}"
            )),
        }
    }

    /// Changes how much freedom requests have.
    pub(super) fn set_mode(&mut self, mode: Mode) -> Result<(), CommandError> {
        let known = self.loaded.config.policy().modes().map(Mode::as_str);
        nearest_of("mode", mode.as_str(), known)?;
        self.change(|it| it.mode = mode).map_err(refused)
    }

    /// Changes which agent answers, if the policy lets it answer such requests.
    pub(super) fn set_agent(&mut self, agent: AgentName) -> Result<(), CommandError> {
        let known = self.loaded.config.policy().agents().map(AgentName::as_str);
        nearest_of("agent", agent.as_str(), known)?;
        Ok(self.change(|it| it.agent = Some(agent))?)
    }

    /// Changes where requests come from.
    pub(super) fn set_channel(&mut self, channel: Channel) -> Result<(), CommandError> {
        let known = self.loaded.config.policy().channels().map(Channel::as_str);
        nearest_of("channel", channel.as_str(), known)?;
        self.change(|it| it.channel = channel).map_err(refused)?;
        ask::note_missing_search(&self.app, &self.channel);
        Ok(())
    }

    /// Changes the mode, the channel or the agent of requests from now on, unless policy refuses such ones: then they say what
    /// they said before.
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

/// Ends an engine beside which another one serves. What it shares with that one stays open. Whoever does not wait for it drops it,
/// with which its servers end.
async fn retire(app: &App) {
    end_runs(app).await;
    app.stop_servers().await;
}

/// Waits for something until a signal comes.
async fn unless_told(
    signals: &mut Signals,
    done: impl Future<Output = ()>,
) -> Result<(), CommandError> {
    tokio::select! {
        biased;
        signal = signals.next() => Err(CommandError::interrupted(signal)),
        () = done => Ok(()),
    }
}

/// Takes Ctrl-C for the end of what was going on, such as an answer, and not of the conversation.
pub(super) fn unless_interrupted(done: Result<(), CommandError>) -> Result<(), CommandError> {
    match done {
        Err(error) if error.interruption() == Some(Signal::Interrupt) => {
            progress::notice("interrupted");
            Ok(())
        }
        done => done,
    }
}

/// Says in the words of the chat what to do about a request that policy refuses.
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
