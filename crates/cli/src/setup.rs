//! From the command line to a configuration and an engine.

use neuraxis_app::{App, Config, Environment, Sources};

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

    fn config_in(&self, environment: &Environment) -> Result<Config, CommandError> {
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

    /// Wires an engine.
    pub(crate) async fn app(&self) -> Result<App, CommandError> {
        let environment = self.environment()?;
        let config = self.config_in(&environment)?;
        Ok(App::build(&config, &environment).await?)
    }
}
