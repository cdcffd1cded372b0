//! From the command line to a configuration and an engine.

use std::sync::Arc;

use neuraxis::ports::Approver;
use neuraxis_app::{App, Config, Environment, OpenStore, Sources, Tape};

use crate::arguments::ConfigurationArguments;
use crate::error::CommandError;

/// What the command line says about the configuration.
#[derive(Debug)]
pub(crate) struct Setup {
    arguments: ConfigurationArguments,
}

impl Setup {
    pub(crate) const fn new(arguments: ConfigurationArguments) -> Self {
        Self { arguments }
    }

    /// Returns the file that is to be used instead of those that are looked for.
    pub(crate) fn file(&self) -> Option<&std::path::Path> {
        self.arguments.config.as_deref()
    }

    /// Returns the same setup, but with the one file to be read.
    pub(crate) fn with_file(&self, file: std::path::PathBuf) -> Self {
        let mut arguments = self.arguments.clone();
        arguments.config = Some(file);
        Self { arguments }
    }

    /// Reads the surroundings of this process.
    pub(crate) fn environment(&self) -> Result<Environment, CommandError> {
        Environment::of_process().map_err(|error| {
            let error = anyhow::Error::new(error).context("cannot read the working directory");
            CommandError::configuration(error).hint("change to a folder that exists")
        })
    }

    /// Merges the configuration.
    pub(crate) fn config(&self) -> Result<Config, CommandError> {
        self.config_in(&self.environment()?)
    }

    /// Merges the configuration in given surroundings.
    pub(crate) fn config_in(&self, environment: &Environment) -> Result<Config, CommandError> {
        let sources = match self.file() {
            Some(file) => Sources::default().with_file(file),
            None => Sources::default(),
        };
        let settings = self.arguments.settings.iter();
        let sources = settings.fold(sources, |sources, (key, value)| {
            sources.with_flag("--set", key, value)
        });
        Ok(Config::load(environment, &sources)?)
    }

    /// Reads the surroundings of this process and merges the configuration.
    pub(crate) fn surroundings(&self) -> Result<(Environment, Config), CommandError> {
        let environment = self.environment()?;
        let config = self.config_in(&environment)?;
        Ok((environment, config))
    }

    /// Wires an engine for what concerns no session: its store keeps nothing, whatever is configured.
    pub(crate) async fn app_without_sessions(&self) -> Result<App, CommandError> {
        let (environment, config) = self.surroundings()?;
        let store = OpenStore::in_memory();
        Ok(App::build_on(store, &config, &environment, Tape::Off, |builder| builder).await?)
    }

    /// Wires an engine.
    pub(crate) async fn app(&self) -> Result<App, CommandError> {
        self.app_with(Tape::Off).await
    }

    /// Opens the store.
    pub(crate) async fn store(&self) -> Result<OpenStore, CommandError> {
        Ok(OpenStore::open(&self.config()?).await?)
    }

    /// Wires an engine whose models are recorded, or replaced by a recording.
    pub(crate) async fn app_with(&self, tape: Tape) -> Result<App, CommandError> {
        let (environment, config) = self.surroundings()?;
        Ok(App::build_with(&config, &environment, tape).await?)
    }

    /// Wires an engine that asks `approver` about calls which need approval.
    pub(crate) async fn app_attended(
        &self,
        tape: Tape,
        approver: Arc<dyn Approver>,
    ) -> Result<App, CommandError> {
        let (environment, config) = self.surroundings()?;
        Ok(App::build_attended(&config, &environment, tape, Some(approver)).await?)
    }
}
