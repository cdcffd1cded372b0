//! Options shared by `ask` and `chat`: which session continues, and which model answers.

use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use neuraxis::engine::Sessions;
use neuraxis::{Role, SessionId};
use neuraxis_app::{Endpoint, FoundFile, Readiness, UnknownModel, choose_model, discover};

use super::lookup::{self, Announcing};
use crate::completion;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::invocation;
use crate::progress;
use crate::setup::{Loaded, Setup};

/// How long a server that answers a conversation may take to list its models, which the user did not ask for.
const LISTED_WITHIN: Duration = Duration::from_secs(5);

/// Selects the session to continue.
#[derive(Debug, Clone, Args)]
pub(super) struct SessionChoice {
    /// The session to continue: its id, the beginning or end of its id, or last; or the name of a new session. Default:
    /// a new session
    #[arg(long, value_name = "ID", add = ArgValueCompleter::new(completion::sessions))]
    pub(super) session: Option<SessionId>,

    /// Start a new session with the name in --session, even if it looks like part of an id
    #[arg(long, requires = "session")]
    new: bool,

    /// Continue the session of the last run
    #[arg(long = "continue", short = 'c', conflicts_with = "session")]
    goes_on: bool,
}

/// The option that names the model.
#[derive(Debug, Clone, Args)]
pub(super) struct ModelArgument {
    /// The model that answers: a configured role, a model of the provider in use, or PROVIDER/MODEL. Default: chosen by
    /// policy
    #[arg(long, short = 'm', value_name = "MODEL", value_parser = model, add = ArgValueCandidates::new(completion::models))]
    pub(super) model: Option<String>,
}

/// Parses the name of a model. Refuses an empty name, as from an unset variable.
fn model(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("the name is empty: leave the option out instead".to_owned()),
        false => Ok(text.to_owned()),
    }
}

impl SessionChoice {
    /// Returns whether a session was selected.
    pub(super) const fn is_given(&self) -> bool {
        self.session.is_some() || self.goes_on
    }

    /// Fails if a session was selected and sessions are stored here but cannot be opened: another session of the same
    /// name would begin in memory, and end with the program.
    pub(super) fn require_visible(&self, loaded: &Loaded) -> Result<(), CommandError> {
        match self.is_given() {
            true => loaded.require_visible_sessions(),
            false => Ok(()),
        }
    }

    /// Finds the session, or creates a new one.
    pub(super) async fn find(self, sessions: &Sessions) -> Result<SessionId, CommandError> {
        match self.session {
            Some(session) if self.new => lookup::new_session_named(sessions, session).await,
            Some(session) => lookup::session_to_continue(sessions, session, Announcing::Here).await,
            None if self.goes_on => lookup::last_session(sessions).await,
            None => lookup::new_session(),
        }
    }
}

impl ModelArgument {
    /// Loads the configuration in which that model answers, and returns the role that must serve, if one is required.
    pub(super) async fn apply(
        &self,
        setup: &Setup,
        loaded: Loaded,
    ) -> Result<(Loaded, Option<Role>), CommandError> {
        match self.model.as_deref() {
            Some(name) => {
                let ignored = loaded.config.found().and_then(FoundFile::notice);
                let served = load_with_model(setup, loaded, name).await;
                if let (Err(_), Some(ignored)) = (&served, ignored) {
                    progress::notice(&ignored);
                }
                served
            }
            None => Ok((loaded, None)),
        }
    }
}

/// Loads the configuration in which a model answers, and returns the role that must serve, if one is required.
pub(super) async fn load_with_model(
    setup: &Setup,
    loaded: Loaded,
    name: &str,
) -> Result<(Loaded, Option<Role>), CommandError> {
    let chosen = choose_model(&loaded.config, &loaded.environment, name).await;
    let chosen = chosen.map_err(unknown)?;
    let loaded = match chosen.settings.is_empty() {
        true => loaded,
        false => setup.with_model(chosen.settings).load()?,
    };
    Ok((loaded, chosen.role))
}

/// Prints a notice if the server lists its models but not the one of this name; otherwise only its first answer would
/// show that. The model is used anyway, since not every server lists all of its models.
pub(super) async fn note_unlisted(loaded: &Loaded, name: &str) {
    let discovery = discover(&loaded.config, &loaded.environment).await;
    let is_meant = |endpoint: &Endpoint| {
        let model = endpoint.info().model.model;
        let before = name.strip_suffix(&*model);
        before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let mut endpoints = discovery.endpoints.into_values().flatten();
    let Some(endpoint) = endpoints.find(is_meant) else {
        return;
    };
    let Ok(offer) = endpoint.offer(LISTED_WITHIN).await else {
        return;
    };
    let is_listed = offer.models.iter().any(|it| endpoint.is_asked(it));
    if offer.readiness == Readiness::Ready && !offer.models.is_empty() && !is_listed {
        let model = one_line(&endpoint.info().model.model);
        let models = invocation::again("`neuraxis models` lists those");
        progress::notice(&format!(
            "{model} is not one of the models that its server lists; using it anyway ({models})"
        ));
    }
}

fn unknown(error: UnknownModel) -> CommandError {
    let hint = match &error {
        UnknownModel::NoKey { variable, .. } => format!("export {variable}=…"),
        UnknownModel::NotConfigured(provider) => format!(
            "add a section [models.reasoning] with provider = \"{provider}\", or run `neuraxis setup`"
        ),
        _ => "`neuraxis models` lists the models, `neuraxis setup` configures one".to_owned(),
    };
    CommandError::usage(anyhow!(error)).hint(hint)
}

#[cfg(test)]
mod tests {
    use neuraxis_app::{Config, Environment, Sources};

    use super::*;

    #[test]
    fn a_session_that_is_named_does_not_begin_anew_where_the_stored_ones_cannot_be_opened() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::new(folder.path()).with_data_dir(folder.path());
        let environment = environment.with_read_only_data();
        let config = Config::load(&environment, &Sources::default()).unwrap();
        let loaded = Loaded {
            environment,
            config,
        };
        let choice = |session: Option<&str>, new, goes_on| SessionChoice {
            session: session.map(|name| name.parse().unwrap()),
            new,
            goes_on,
        };
        let given = [
            choice(Some("notes"), false, false),
            choice(Some("notes"), true, false),
            choice(None, false, true),
        ];
        // As in a container: nothing was ever stored.
        for choice in &given {
            choice.require_visible(&loaded).unwrap();
        }
        std::fs::write(folder.path().join("sessions.db"), "what was kept").unwrap();
        for choice in &given {
            let error = choice.require_visible(&loaded).unwrap_err().in_one_line();
            assert!(error.contains("cannot be opened"), "{choice:?}: {error}");
        }
        // A question without a session is still answered, with a notice.
        choice(None, false, false).require_visible(&loaded).unwrap();
    }
}
