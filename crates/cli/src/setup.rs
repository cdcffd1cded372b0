//! From the command line to a configuration and an engine.

use std::sync::Arc;

use neuraxis::ports::Approver;
use neuraxis_app::{App, Config, Environment, FoundFile, OpenStore, Sources, Tape, tool_names};

use crate::arguments::ConfigurationArguments;
use crate::error::CommandError;
use crate::progress::Progress;

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
        let config = self.config_of_any_tools(environment)?;
        config.check_tools(&tool_names()?)?;
        Ok(config)
    }

    /// Merges the configuration in given surroundings, whatever tools it names.
    pub(crate) fn config_of_any_tools(
        &self,
        environment: &Environment,
    ) -> Result<Config, CommandError> {
        let sources = match self.file() {
            Some(file) => self.sources().with_file(file),
            None => self.sources(),
        };
        Ok(Config::load(environment, &sources)?)
    }

    /// Merges the configuration in given surroundings as if nobody trusted the file that is found there, which then says
    /// what it would change.
    pub(crate) fn config_without_trust(
        &self,
        environment: &Environment,
    ) -> Result<Config, CommandError> {
        Ok(Config::load(environment, &self.sources().without_trust())?)
    }

    /// Returns what the command line says, but for the file.
    fn sources(&self) -> Sources {
        let settings = self.arguments.settings.iter();
        settings.fold(Sources::default(), |sources, (key, value)| {
            sources.with_flag("--set", key, value)
        })
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
        say_what_is_ignored(&config);
        let store = OpenStore::in_memory();
        Ok(App::build_on(store, &config, &environment, Tape::Off, |builder| builder).await?)
    }

    /// Wires an engine.
    pub(crate) async fn app(&self) -> Result<App, CommandError> {
        let (environment, config) = self.surroundings()?;
        say_what_is_ignored(&config);
        Ok(App::build(&config, &environment).await?)
    }

    /// Opens the store.
    pub(crate) async fn store(&self) -> Result<OpenStore, CommandError> {
        let config = self.config()?;
        say_what_is_ignored(&config);
        Ok(OpenStore::open(&config).await?)
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

/// Says what of the file of the working directory is ignored. Who shows the notices of an engine does not need it.
pub(crate) fn say_what_is_ignored(config: &Config) {
    if let Some(notice) = config.found().and_then(FoundFile::notice) {
        Progress::new().notice(&notice);
    }
}
