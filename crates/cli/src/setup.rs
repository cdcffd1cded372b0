//! From the command line to a configuration, and from there to an engine or a store.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::anyhow;
use neuraxis::engine::Sessions;
use neuraxis_app::{
    App, AppBuilder, Config, Environment, FoundFile, OpenStore, Sources, folder_warnings,
    hidden_store_warning, no_store_warning, register_secrets, tool_names,
};
use tokio::time::timeout;

use crate::arguments::ConfigurationArguments;
use crate::error::CommandError;
use crate::progress;

/// How often runs of this process check their inboxes: a user who stops a run should not have to wait long.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How long runs may take to end once nothing waits for them.
const ENDING: Duration = Duration::from_secs(3);

/// What the command line says about the configuration.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    arguments: ConfigurationArguments,
    /// The settings of `-m` and `/model`.
    model: Vec<(String, String)>,
    /// Whether the named file need not exist.
    named_file: NamedFile,
}

/// Whether the file given by --config must exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NamedFile {
    Required,
    /// The command writes it.
    ToBeWritten,
}

/// The configuration of a command and the environment it was merged in. Loaded once and passed to all code that needs
/// it.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) environment: Environment,
    pub(crate) config: Config,
}

impl Setup {
    pub(crate) const fn new(arguments: ConfigurationArguments) -> Self {
        Self {
            arguments,
            model: Vec::new(),
            named_file: NamedFile::Required,
        }
    }

    /// Returns the same setup with another model.
    pub(crate) fn with_model(&self, settings: Vec<(String, String)>) -> Self {
        Self {
            arguments: self.arguments.clone(),
            model: settings,
            named_file: self.named_file,
        }
    }

    /// Returns the configuration file to use instead of the default ones.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.arguments.config.as_deref()
    }

    /// Returns the same setup with this as the only configuration file.
    pub(crate) fn with_file(&self, file: PathBuf) -> Self {
        let mut arguments = self.arguments.clone();
        arguments.config = Some(file);
        Self {
            arguments,
            model: self.model.clone(),
            named_file: self.named_file,
        }
    }

    /// Returns the same setup for a command that writes the file given by --config: it need not exist yet.
    pub(crate) fn writing_file(&self) -> Self {
        Self {
            named_file: NamedFile::ToBeWritten,
            ..self.clone()
        }
    }

    /// Reads the environment of this process.
    pub(crate) fn environment(&self) -> Result<Environment, CommandError> {
        Environment::of_process().map_err(|error| {
            let error = anyhow::Error::new(error).context("cannot read the working directory");
            CommandError::configuration(error).hint("change to a folder that exists")
        })
    }

    /// Reads the environment of this process and merges the configuration.
    pub(crate) fn load(&self) -> Result<Loaded, CommandError> {
        let environment = self.environment()?;
        let config = self.config(&environment)?;
        Ok(Loaded {
            environment,
            config,
        })
    }

    /// Merges the configuration in this environment.
    pub(crate) fn config(&self, environment: &Environment) -> Result<Config, CommandError> {
        let config = self.config_without_tool_check(environment)?;
        let names = tool_names()?;
        config.check_tools(&names)?;
        config.check_agents(&names)?;
        Ok(config)
    }

    /// Merges the configuration in this environment, without checking which tools it names.
    pub(crate) fn config_without_tool_check(
        &self,
        environment: &Environment,
    ) -> Result<Config, CommandError> {
        let sources = match self.file() {
            Some(file) => self.sources().with_file(file),
            None => self.sources(),
        };
        let config = Config::load(environment, &sources)?;
        register_secrets(&config, environment);
        Ok(config)
    }

    /// Merges the configuration in this environment as if the project file there were not trusted. The result says what
    /// the file would change.
    pub(crate) fn config_without_trust(
        &self,
        environment: &Environment,
    ) -> Result<Config, CommandError> {
        Ok(Config::load(environment, &self.sources().without_trust())?)
    }

    /// Merges the configuration in this environment as every command does that names no file.
    pub(crate) fn config_as_trusted(
        &self,
        environment: &Environment,
    ) -> Result<Config, CommandError> {
        let mut setup = self.clone();
        setup.arguments.config = None;
        setup.config(environment)
    }

    /// Returns what the command line says, except the file.
    fn sources(&self) -> Sources {
        let settings = self.arguments.settings.iter();
        let sources = Sources::default().with_folder_rules();
        let sources = match self.named_file {
            NamedFile::Required => sources,
            NamedFile::ToBeWritten => sources.with_missing_file(),
        };
        let sources = settings.fold(sources, |sources, (key, value)| {
            sources.with_flag("--set", key, value)
        });
        let model = self.model.iter();
        model.fold(sources, |sources, (key, value)| {
            sources.with_flag("-m", key, value)
        })
    }
}

/// Makes the runs of an engine check often for what other commands post to them.
pub(crate) fn poll_for_messages(app: &App) {
    let runs = app.orchestrator.runs();
    // Runs until the engine shuts down. Nothing is polled while no run is active.
    tokio::spawn(async move { runs.keep_checking_inboxes(POLL_INTERVAL).await });
}

impl Loaded {
    /// Starts building an engine.
    pub(crate) fn app(&self) -> AppBuilder<'_> {
        App::builder(&self.config, &self.environment)
    }

    /// Builds an engine for commands that need no session and no tools of MCP servers: its store keeps nothing,
    /// whatever is configured, and no server is started.
    pub(crate) async fn app_without_sessions(&self) -> Result<App, CommandError> {
        self.warn_settings_ignored();
        let app = self.app().store(OpenStore::in_memory());
        Ok(app.without_servers().build().await?)
    }

    /// Builds an engine for commands that need no session, with all available tools. Reports which are missing.
    pub(crate) async fn app_with_tools(&self) -> Result<App, CommandError> {
        self.warn_settings_ignored();
        let app = self.app().store(OpenStore::in_memory()).build().await?;
        for notice in &app.server_notices {
            progress::notice(notice);
        }
        Ok(app)
    }

    /// Opens the store, for commands that only need its content and no engine. If it cannot be written, it is only read,
    /// and a notice says so.
    pub(crate) async fn store(&self) -> Result<OpenStore, CommandError> {
        let hidden = hidden_store_warning(&self.config, &self.environment);
        if hidden.is_none() {
            self.warn_store_incomplete();
        }
        let opened = OpenStore::open_to_read(&self.config, &self.environment).await;
        match (opened, hidden) {
            (Ok(store), _) => {
                if let Some(notice) = store.read_only_notice(&self.config) {
                    progress::notice(&notice);
                }
                Ok(store)
            }
            (Err(error), None) => Err(error.into()),
            (Err(error), Some(why)) => Err(hidden_error(anyhow::Error::new(error).context(why))),
        }
    }

    /// Fails if sessions are stored here but cannot be shown: a store in memory would claim that there are none.
    pub(crate) fn require_visible_sessions(&self) -> Result<(), CommandError> {
        match hidden_store_warning(&self.config, &self.environment) {
            None => Ok(()),
            Some(why) => Err(hidden_error(anyhow!(why))),
        }
    }

    /// Prints what the configured store lacks, and why. Not needed by commands that print an engine's notices.
    pub(crate) fn warn_store_incomplete(&self) {
        self.warn_settings_ignored();
        let ignored = folder_warnings(&self.environment);
        let nowhere = no_store_warning(&self.config, &self.environment);
        for notice in ignored.into_iter().chain(nowhere) {
            progress::notice(&notice);
        }
    }

    /// Prints which settings in the file of the working directory are ignored. Not needed by commands that print an
    /// engine's notices.
    pub(crate) fn warn_settings_ignored(&self) {
        if let Some(notice) = self.config.found().and_then(FoundFile::notice) {
            progress::notice(&notice);
        }
    }
}

/// Returns the error that sessions are stored but cannot be shown.
fn hidden_error(why: anyhow::Error) -> CommandError {
    CommandError::failed(why).hint(
        "check who owns it and its folder (root, after sudo?), or name another file, such as a copy of it: --set store.url=sqlite://FILE",
    )
}

/// Does some work with a store, and closes it whatever the outcome.
pub(crate) async fn with_store<T>(open: OpenStore, work: impl AsyncFnOnce(&Sessions) -> T) -> T {
    let done = work(&open.sessions()).await;
    open.close().await;
    done
}

/// Does some work with an engine, and closes it whatever the outcome.
pub(crate) async fn with_app<T>(app: App, work: impl AsyncFnOnce(&App) -> T) -> T {
    let done = work(&app).await;
    close(&app).await;
    done
}

/// Ends all runs of an engine. A run that does not end in time can be resumed later.
pub(crate) async fn end_runs(app: &App) {
    let _ = timeout(ENDING, app.orchestrator.shutdown()).await;
}

/// Closes an engine once all runs have ended, and reports which traces were lost.
pub(crate) async fn close(app: &App) {
    for notice in app.close().await {
        progress::notice(&notice);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_existing_store_that_cannot_be_opened_is_not_shown_as_empty() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::new(folder.path()).with_data_dir(folder.path());
        let environment = environment.with_read_only_data();
        let config = Config::load(&environment, &Sources::default()).unwrap();
        let loaded = Loaded {
            environment,
            config,
        };
        // As in a container: nothing was ever stored.
        loaded.store().await.unwrap();
        std::fs::write(folder.path().join("sessions.db"), "what was kept").unwrap();
        let error = loaded.store().await.unwrap_err().in_one_line();
        assert!(error.contains("its contents are not shown"), "{error}");
    }
}
