//! Wires an engine according to the configuration.

mod error;
mod models;
mod tools;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{ToolKind, ToolName};
use neuraxis_engine::{Orchestrator, OrchestratorBuilder};
use neuraxis_otel::Endpoints;
use neuraxis_ports::Approver;
use neuraxis_restate::RestateDispatcher;
use neuraxis_tools::ProgramFiles;

use self::models::{Models, discovered, replayed};
use self::tools::{project_tools, root, tools};
use crate::approval_key;
use crate::commands::{self, RUN_COMMAND};
use crate::config::{Config, DriverKind, Origin, StoreConfig};
use crate::environment::Environment;
use crate::mcp::McpServers;
use crate::recordings::{CassetteUse, Recordings};
use crate::store::OpenStore;
use crate::telemetry::Telemetry;
pub use error::BuildError;
pub use tools::{is_project_tool, may_be_tool, tool_names, tool_specs};

/// Returns a warning if no store is configured and the usual session file exists, or may exist, but cannot be used, so
/// that none of its content is shown.
#[must_use]
pub fn hidden_store_warning(config: &Config, environment: &Environment) -> Option<String> {
    if !is_memory_by_default(config) || !environment.is_data_read_only() {
        return None;
    }
    let file = StoreConfig::usual_file(environment)?;
    let shown = file.display();
    match file.try_exists() {
        Ok(true) => Some(format!(
            "{shown} exists but cannot be opened for writing, so its contents are not shown"
        )),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Some(format!(
            "{shown} may exist but cannot be accessed, so its contents are not shown"
        )),
        _ => None,
    }
}

/// Returns the usual session file if it exists, or may exist, but nothing can be stored in it, and no store is configured.
pub(crate) fn hidden_store_file(config: &Config, environment: &Environment) -> Option<PathBuf> {
    hidden_store_warning(config, environment)?;
    StoreConfig::usual_file(environment)
}

/// Returns whether sessions are only in memory, although this was not configured.
fn is_memory_by_default(config: &Config) -> bool {
    config.origin("store.url") == Origin::Default && config.store().is_in_memory()
}

/// Returns a warning if there is nowhere to keep sessions, unless the configuration says to keep none.
#[must_use]
pub fn no_store_warning(config: &Config, environment: &Environment) -> Option<String> {
    if !is_memory_by_default(config) {
        return None;
    }
    if let Some(hidden) = hidden_store_warning(config, environment) {
        return Some(format!(
            "{hidden}, and sessions end with the program (--set store.url=sqlite://FILE names a copy of it in a \
             folder that you can write to, or another file)"
        ));
    }
    let why = match environment.data_dir() {
        Some(folder) => format!("{} is not writable", folder.display()),
        None => "there is no data folder".to_owned(),
    };
    Some(format!(
        "{why}, so sessions end with the program (--set store.url=sqlite://FILE stores them in a file)"
    ))
}

/// Returns warnings about folders of the user in which nothing applies: the configuration folder, if this process may
/// not read it, and all folders in a home folder that is a relative path.
#[must_use]
pub fn folder_warnings(environment: &Environment) -> Vec<String> {
    let locked = environment.locked_config_dir().map(|folder| {
        format!(
            "{} cannot be read, so its configuration is ignored (--config FILE names another one)",
            folder.display()
        )
    });
    let relative = environment.relative_home().map(|home| {
        format!(
            "HOME is not an absolute path ({:?}), so your configuration and data in it are ignored",
            home.to_string_lossy()
        )
    });
    locked.into_iter().chain(relative).collect()
}

/// An engine, ready for requests.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct App {
    /// The engine, with the services for runs, sessions and approvals.
    pub orchestrator: Orchestrator,
    /// What a user should know before the first answer, a sentence each.
    pub notices: Vec<String>,
    /// The subset of `notices` that is about MCP servers.
    pub server_notices: Vec<String>,
    /// What is recorded and replayed. Finish it when all runs have ended.
    pub recordings: Recordings,
    store: OpenStore,
    servers: McpServers,
    telemetry: Telemetry,
    /// The program's own files, which its tools cannot access.
    own: ProgramFiles,
    /// How traces name the models and servers that it uses; `None` for a replay, since a recording has no addresses.
    endpoints: Option<Endpoints>,
}

/// Builds an [`App`] from a configuration and a program's own additions.
pub struct AppBuilder<'a> {
    config: &'a Config,
    environment: &'a Environment,
    cassette: CassetteUse,
    store: Option<OpenStore>,
    telemetry: Option<Telemetry>,
    own: ProgramFiles,
    servers: Servers,
    driving: Driving,
    extend: Vec<Extension<'a>>,
}

/// Whether the process that starts runs also drives them, whatever the configuration says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Driving {
    #[default]
    InProcess,
    AsConfigured,
}

/// Whether the MCP servers of the configuration are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Servers {
    #[default]
    Start,
    Skip,
}

/// Adds to an engine what no configuration can express.
type Extension<'a> = Box<dyn FnOnce(OrchestratorBuilder) -> OrchestratorBuilder + Send + 'a>;

impl App {
    /// Starts to build an engine from a configuration.
    #[must_use]
    pub fn builder<'a>(config: &'a Config, environment: &'a Environment) -> AppBuilder<'a> {
        AppBuilder {
            config,
            environment,
            cassette: CassetteUse::Off,
            store: None,
            telemetry: None,
            own: ProgramFiles::default(),
            servers: Servers::default(),
            driving: Driving::default(),
            extend: Vec::new(),
        }
    }

    /// Returns whether sessions still exist after the process has ended.
    #[must_use]
    pub const fn is_persistent(&self) -> bool {
        self.store.is_persistent()
    }

    /// Returns the store, for another engine on it: [`AppBuilder::store`].
    #[must_use]
    pub fn open_store(&self) -> OpenStore {
        self.store.clone()
    }

    /// Stops the MCP servers, and waits until they have stopped, for at most a few seconds.
    pub async fn stop_servers(&self) {
        self.servers.shutdown().await;
    }

    /// Stops the MCP servers, and waits until they have stopped, for at most `limit`. After that, it terminates the
    /// remaining ones with all the processes they started. Returns whether none remained.
    pub async fn stop_servers_within(&self, limit: Duration) -> bool {
        self.servers.shutdown_within(limit).await
    }

    /// Returns, and removes, the notices about MCP servers that the user has not seen yet, a sentence each.
    #[must_use]
    pub fn take_server_notices(&self) -> Vec<String> {
        self.servers.take_notices()
    }

    /// Returns where traces go, for another engine of the same process: [`AppBuilder::telemetry`].
    #[must_use]
    pub fn telemetry(&self) -> Telemetry {
        self.telemetry.clone()
    }

    /// Makes traces name the models and MCP servers of this engine again, after another engine was built that shares
    /// the telemetry.
    pub fn name_in_traces(&self) {
        if let Some(endpoints) = &self.endpoints {
            self.telemetry.set_endpoints(endpoints.clone());
        }
    }

    /// Stops the MCP servers, finishes pending writes and deliveries, and closes the store cleanly. Call it when all
    /// runs have ended. Not needed for data safety. Returns notices about what was not delivered, a sentence each.
    pub async fn close(&self) -> Vec<String> {
        self.stop_servers().await;
        self.store.close().await;
        self.telemetry.close().await
    }
}

impl fmt::Debug for AppBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppBuilder")
            .field("cassette", &self.cassette)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl<'a> AppBuilder<'a> {
    /// Records the replies of the models, or replaces the models with a recording.
    #[must_use]
    pub fn cassette(mut self, cassette: CassetteUse) -> Self {
        self.cassette = cassette;
        self
    }

    /// Keeps sessions in this store instead of the configured one.
    #[must_use]
    pub fn store(mut self, store: OpenStore) -> Self {
        self.store = Some(store);
        self
    }

    /// Sends traces to these places instead of the configured ones. Once the engine is built, they name its models and
    /// servers: [`App::name_in_traces`].
    #[must_use]
    pub fn telemetry(mut self, telemetry: Telemetry) -> Self {
        self.telemetry = Some(telemetry);
        self
    }

    /// Protects the program's own files, as named by either of two configurations, from the tools of this engine and of
    /// another engine in the same process: the other configuration may still be in effect, and its engine running.
    #[must_use]
    pub fn protecting_files_of(mut self, other: &App) -> Self {
        self.own = other.own.clone();
        self
    }

    /// Starts no MCP servers, for programs that need none of their tools.
    #[must_use]
    pub const fn without_servers(mut self) -> Self {
        self.servers = Servers::Skip;
        self
    }

    /// Drives runs as the section `[driver]` says, for programs that accept requests from clients. Otherwise this
    /// process drives its runs, as workers and short-lived programs require.
    #[must_use]
    pub const fn driven_as_configured(mut self) -> Self {
        self.driving = Driving::AsConfigured;
        self
    }

    /// Asks this approver about calls that need approval. Without an approver, such calls are denied.
    #[must_use]
    pub fn approver(self, approver: Arc<dyn Approver>) -> Self {
        self.extend(|builder| builder.approver(approver))
    }

    /// Adds what the configuration cannot express, such as tools of an embedding program.
    #[must_use]
    pub fn extend(
        mut self,
        extend: impl FnOnce(OrchestratorBuilder) -> OrchestratorBuilder + Send + 'a,
    ) -> Self {
        self.extend.push(Box::new(extend));
        self
    }

    /// Builds the engine: opens its store, finds its models and checks its tools.
    ///
    /// # Errors
    ///
    /// A [`BuildError`] that names the location of the unusable value and says what can be used.
    pub async fn build(self) -> Result<App, BuildError> {
        let (config, environment) = (self.config, self.environment);
        let is_configured = self.store.is_none();
        let is_replay = matches!(self.cassette, CassetteUse::Replay(_));
        let opened = match self.store {
            Some(store) => store,
            None => OpenStore::open(config, environment).await?,
        };
        let recording = recording_of(&self.cassette, environment);
        // The servers start while the models are discovered.
        let servers = match self.servers {
            Servers::Start => McpServers::start(config, environment),
            Servers::Skip => McpServers::default(),
        };
        let mut builder = opened.attach(servers.attach(Orchestrator::builder()));
        // If approvals end with the process, so may the key.
        if opened.is_persistent() {
            builder = with_key(builder, config, environment)?;
        }
        builder = builder
            .policy(config.policy().clone())
            .root(root(config))
            .search_tools_above(config.tools().search_above())
            .result_bounds(config.tools().result_bounds())
            .tools(tools(config, environment, self.own.clone(), recording)?);
        if let Some(project) = &config.tools().project_id {
            builder = builder.project_id(project.as_str());
        }
        if self.driving == Driving::AsConfigured {
            builder = dispatching(builder, config, &opened)?;
        }
        builder = commands::absent(builder, config);
        let Models {
            clients,
            addresses,
            mut notices,
            recordings,
        } = match self.cassette {
            CassetteUse::Replay(recorded) => replayed(config, environment, &recorded)?,
            CassetteUse::Record(file) => discovered(config, environment, Some(file)).await?,
            CassetteUse::Off => discovered(config, environment, None).await?,
        };
        notices.extend_from_slice(config.notices());
        notices.extend(commands::notice(config));
        let mut endpoints = mcp_endpoints(config);
        for (role, client) in clients {
            let address = addresses.get(&role).map(String::as_str);
            endpoints = endpoints.model(role.clone(), client.info().model, address);
            builder = builder.model(role, client);
        }
        let telemetry = match self.telemetry {
            Some(telemetry) => telemetry,
            None if is_configured => Telemetry::start(config, environment)?,
            // Without the configured store, no runs are worth tracing.
            None => Telemetry::default(),
        };
        builder = telemetry.attach(builder);
        for extend in self.extend {
            builder = extend(builder);
        }
        let orchestrator = builder.build()?;
        let server_notices = servers.wait_connected().await;
        notices.extend_from_slice(&server_notices);
        notices.extend(check_names(config, &orchestrator)?);
        notices.extend(folder_warnings(environment));
        let nowhere = no_store_warning(config, environment);
        notices.extend(nowhere.filter(|_| is_configured));
        let app = App {
            orchestrator,
            notices,
            server_notices,
            recordings,
            store: opened,
            servers,
            telemetry,
            own: self.own,
            endpoints: (!is_replay).then_some(endpoints),
        };
        // Other engines may use the same telemetry, so an engine that fails to build must not be named in it.
        app.name_in_traces();
        Ok(app)
    }
}

/// Returns the file that is recorded to or replayed. It is hidden from file tools, so that they see the same files both
/// times.
fn recording_of(cassette: &CassetteUse, environment: &Environment) -> Option<PathBuf> {
    let file = match cassette {
        CassetteUse::Record(file) => file,
        CassetteUse::Replay(recorded) => &recorded.file,
        CassetteUse::Off => return None,
    };
    Some(environment.working_dir().join(file))
}

/// Checks the names of tools and agents in the configuration against the existing ones. Returns notices for the user.
fn check_names(config: &Config, orchestrator: &Orchestrator) -> Result<Vec<String>, BuildError> {
    let tools = orchestrator.tools();
    let offered = tools.specs().map(|spec| spec.name.clone());
    let mut known: Vec<ToolName> = offered.collect();
    // Tools of a project folder count as existing even if they are not offered here.
    let has_commands = commands::why_no_commands(config).is_none();
    let absent = project_tools().filter(|name| tools.tool(name).is_none());
    let absent = absent.filter(|name| has_commands || name.as_str() != RUN_COMMAND);
    known.extend(absent);
    let others = tools.specs().filter(|spec| spec.kind != ToolKind::Agent);
    let others: Vec<ToolName> = others.map(|spec| spec.name.clone()).collect();
    config.check_agents(&others)?;
    Ok(config.check_tools(&known)?)
}

/// Sets the key that authenticates an engine's approvals, if there is one.
fn with_key(
    builder: OrchestratorBuilder,
    config: &Config,
    environment: &Environment,
) -> Result<OrchestratorBuilder, BuildError> {
    let key = approval_key::read(config, environment).map_err(|source| {
        let at = config.origin("store.approval_key_file");
        BuildError::ApprovalKey { at, source }
    })?;
    let key = key.into_iter();
    Ok(key.fold(builder, OrchestratorBuilder::approval_key))
}

/// Makes other processes drive the runs of an engine, if the configuration says so.
fn dispatching(
    builder: OrchestratorBuilder,
    config: &Config,
    opened: &OpenStore,
) -> Result<OrchestratorBuilder, BuildError> {
    let driver = config.driver();
    if driver.kind == DriverKind::Local {
        return Ok(builder);
    }
    if !opened.is_persistent() {
        let at = config.origin("driver.kind");
        return Err(BuildError::NothingShared { at });
    }
    let dispatcher = RestateDispatcher::new(&driver.restate);
    let dispatcher = dispatcher.map_err(|fault| BuildError::Driver {
        at: config.origin_around("driver.restate"),
        fault: Box::new(fault),
    })?;
    Ok(builder.dispatcher(Arc::new(dispatcher)))
}

/// Returns the names of the MCP servers, for spans.
fn mcp_endpoints(config: &Config) -> Endpoints {
    let servers = config.mcp().servers.iter();
    servers.fold(Endpoints::default(), |endpoints, (name, server)| {
        endpoints.mcp_server(name.clone(), server.url.as_deref())
    })
}
