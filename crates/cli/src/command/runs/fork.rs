//! `neuraxis runs fork`.

use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use neuraxis::core::log::RunView;
use neuraxis::core::log::describe::counted;
use neuraxis::core::{PlanName, Record, Turn, last_turn};
use neuraxis::engine::ForkOptions;
use neuraxis::ports::RunSummary;
use neuraxis::{Channel, Mode, Role, SessionId};
use neuraxis_app::{App, CassetteUse, Config};

use crate::approve::IfUnattended;
use crate::command::ask::{Attended, Format, View, watch};
use crate::command::last_run;
use crate::command::lookup::{self, new_session};
use crate::completion;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::invocation::neuraxis;
use crate::progress;
use crate::setup::{Loaded, Setup, with_app};
use crate::unknown::unknown;

const EXAMPLES: &str = "\
Examples:
  neuraxis runs fork last --message \"And in Osaka?\"
  neuraxis runs fork 9b7a5c31 --at-turn 1 --mode exploratory
  neuraxis runs fork last --at-turn 0 --message \"Say it in French\"";

/// Continue a run differently from one of its turns, in a new session
///
/// The new session begins with the conversation up to the end of that turn; the old session and run are not changed.
/// Prints the answer.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Fork {
    /// The run: its id, the beginning or end of its id, or last
    #[arg(value_name = "RUN", add = ArgValueCompleter::new(completion::runs))]
    id: String,

    /// The turn to continue after; 0 is before the model's first reply. Default: the last turn
    #[arg(long, value_name = "K")]
    at_turn: Option<u32>,

    /// How much freedom the new run has; default: as the run had
    #[arg(long, add = ArgValueCandidates::new(completion::modes))]
    mode: Option<String>,

    /// What kind of request it is; default: that of the run
    #[arg(long, add = ArgValueCandidates::new(completion::channels))]
    channel: Option<String>,

    /// The model that serves it: a role, or the name of a model configured for one. Default: chosen by policy
    #[arg(long, value_name = "MODEL", visible_alias = "role", add = ArgValueCandidates::new(completion::models))]
    model: Option<String>,

    /// The new message; default: continue the conversation without one
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,

    /// The id of the new session
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,

    /// What to print: the answer, one JSON object with the whole result, or one JSON object per line for each event
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl Fork {
    pub(super) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let loaded = setup.load()?;
        let role = match &self.model {
            Some(model) => Some(role_of(&loaded.config, model)?),
            None => None,
        };
        let mut attended = Attended::new(&loaded.config, IfUnattended::Deny)?;
        let app = attended.app(&loaded, CassetteUse::Off).await?;
        with_app(app, async |app| {
            self.branch_off((app, &loaded), role, &mut attended).await
        })
        .await
    }

    async fn branch_off(
        self,
        (app, loaded): (&App, &Loaded),
        role: Option<Role>,
        attended: &mut Attended,
    ) -> Result<(), CommandError> {
        let sessions = app.orchestrator.sessions();
        let run = lookup::run(&sessions, &self.id).await;
        let run = run.inspect_err(|_| loaded.warn_store_incomplete())?;
        let records = sessions.records(run.run_id).await?;
        let turn = self.turn(&run, &records)?;
        if let Ok(Some(why)) = sessions.alteration(&run.session).await {
            let session = &run.session;
            progress::warn(&format!(
                "session {session} was altered since it was stored ({why}): the new session starts from its current \
                 contents"
            ));
        }
        let session = match &self.session {
            Some(session) => session.clone(),
            None => new_session()?,
        };
        let format = self.format;
        let mut options = self.options(session.clone(), role, &run, &records);
        options.plan = plan_of(app, &records);
        let runs = app.orchestrator.runs();
        let forked = runs.fork(run.run_id, turn, options).await;
        let handle = forked.inspect_err(|_| loaded.warn_settings_ignored())?;
        watch(app, View::new(format), &handle, attended).await?;
        if format == Format::Text && app.is_persistent() {
            let policy = app.orchestrator.policy();
            let command = last_run::continue_command(&sessions, &session, policy, None).await;
            progress::done(&format!("to continue: {} {command}", neuraxis()));
        }
        Ok(())
    }

    /// Returns the turn to continue after.
    fn turn(&self, run: &RunSummary, records: &[Arc<Record>]) -> Result<Turn, CommandError> {
        let Some(asked) = self.at_turn else {
            return Ok(Turn(u32::MAX));
        };
        let turns = last_turn(records).0;
        if asked <= turns {
            return Ok(Turn(asked));
        }
        let (id, turns) = (run.run_id, counted(turns.into(), "turn"));
        let error = anyhow!("run {id} has {turns}, so there is no turn {asked}");
        Err(CommandError::usage(error).hint("omit --at-turn to continue from the end of the run"))
    }

    fn options(
        self,
        session: SessionId,
        role: Option<Role>,
        run: &RunSummary,
        records: &[Arc<Record>],
    ) -> ForkOptions {
        let view = RunView::of(records);
        // The settings of an imported run were written by a third party.
        let decided = view.decision().filter(|_| !run.imported);
        if run.imported && (self.mode.is_none() || self.channel.is_none()) {
            progress::notice(&format!(
                "run {} was imported, so its mode and channel are not used; set them with --mode and --channel",
                run.run_id
            ));
        }
        let mut options = ForkOptions::new(session);
        let mode = self.mode.map(Mode::new);
        let channel = self.channel.map(Channel::new);
        if let Some(mode) = mode.or_else(|| decided.map(|decided| decided.mode.clone())) {
            options = options.mode(mode);
        }
        if let Some(channel) = channel.or_else(|| decided.map(|decided| decided.channel.clone())) {
            options = options.channel(channel);
        }
        if let Some(role) = role {
            options = options.role(role);
        }
        match self.message {
            Some(message) => options.message(message),
            None => options,
        }
    }
}

/// Returns the run's plan if it is still configured: the limits of a removed plan do not apply to another run.
fn plan_of(app: &App, records: &[Arc<Record>]) -> Option<PlanName> {
    let plan = RunView::of(records).spec()?.plan.clone()?;
    let mut plans = app.orchestrator.policy().plans();
    if plans.any(|known| *known == plan) {
        return Some(plan);
    }
    let name = one_line(plan.as_str());
    progress::warn(&format!(
        "the run's plan {name} is not configured here, so it sets no limits"
    ));
    None
}

/// Returns the role with this name, or the one whose configured model has this name.
pub(in crate::command) fn role_of(config: &Config, model: &str) -> Result<Role, CommandError> {
    let roles = config.models().keys().cloned();
    let mut roles: Vec<Role> = roles.chain(Role::BUILT_IN).collect();
    if let Some(role) = roles.iter().find(|role| role.as_str() == model) {
        return Ok(role.clone());
    }
    let settings = config.settings();
    let is_its_name = |role: &&Role| {
        let key = format!("models.{role}.model");
        let quoted = format!("{model:?}");
        settings
            .iter()
            .any(|setting| setting.key == key && setting.value == quoted)
    };
    if let Some(role) = roles.iter().find(is_its_name) {
        return Ok(role.clone());
    }
    roles.sort();
    roles.dedup();
    let listed = "`neuraxis models` lists the roles and their models";
    let known = roles.iter().map(Role::as_str);
    Err(unknown("model", model, known, listed))
}
