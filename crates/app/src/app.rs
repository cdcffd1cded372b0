//! Wires an engine as the configuration says.

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
use neuraxis_tools::OwnFiles;

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

/// Says that the file in which sessions are kept where no store is named is there, or may be, and is not used, so that nothing of
/// what it holds is shown.
#[must_use]
pub fn hidden_store(config: &Config, environment: &Environment) -> Option<String> {
    if !has_nowhere(config) || !environment.is_data_read_only() {
        return None;
    }
    let file = StoreConfig::usual_file(environment)?;
    let shown = file.display();
    match file.try_exists() {
        Ok(true) => Some(format!(
            "{shown} is there and cannot be opened for writing: what it holds is not shown"
        )),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Some(format!(
            "{shown} cannot be reached, if it is there: what it holds is not shown"
        )),
        _ => None,
    }
}

/// Tells whether sessions are in memory though nobody said so.
fn has_nowhere(config: &Config) -> bool {
    config.origin("store.url") == Origin::Default && config.store().is_in_memory()
}

/// Says why there is nowhere to keep anything, where nobody said that nothing is to be kept.
#[must_use]
pub fn nowhere_to_keep(config: &Config, environment: &Environment) -> Option<String> {
    if !has_nowhere(config) {
        return None;
    }
    if let Some(hidden) = hidden_store(config, environment) {
        return Some(format!(
            "{hidden}, and sessions end with the program \
             (--set store.url=sqlite://FILE names a copy of it in a folder that you may write to, or another file)"
        ));
    }
    let why = match environment.data_dir() {
        Some(folder) => format!("{} cannot be written", folder.display()),
        None => "there is no folder for your data".to_owned(),
    };
    Some(format!(
        "{why}: sessions end with the program (--set store.url=sqlite://FILE keeps them in a file)"
    ))
}

/// Says that nothing of the user's own configuration counts, where this process may not look at it.
#[must_use]
pub fn locked_configuration(environment: &Environment) -> Option<String> {
    let folder = environment.locked_config_dir()?.display();
    Some(format!(
        "{folder} cannot be read: no configuration there counts (--config FILE names another one)"
    ))
}

/// An engine, ready for requests.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct App {
    /// The engine, with the services for runs, sessions and approvals.
    pub orchestrator: Orchestrator,
    /// What a user should know before the first answer, a sentence each.
    pub notices: Vec<String>,
    /// Those of them that are about MCP servers.
    pub server_notices: Vec<String>,
    /// What is recorded and replayed. To be finished when all runs are over.
    pub recordings: Recordings,
    opened: OpenStore,
    servers: McpServers,
    telemetry: Telemetry,
    /// The files that its tools do not get at.
    own: OwnFiles,
    /// What traces say of the models and servers that it uses; a recording says nothing of where they are.
    endpoints: Option<Endpoints>,
}

/// Wires an [`App`] as a configuration says, with what a program brings of its own.
pub struct AppBuilder<'a> {
    config: &'a Config,
    environment: &'a Environment,
    cassette: CassetteUse,
    store: Option<OpenStore>,
    telemetry: Option<Telemetry>,
    own: OwnFiles,
    servers: Servers,
    driving: Driving,
    extend: Vec<Extension<'a>>,
}

/// Whether runs are driven by the process that begins them whatever the configuration says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Driving {
    #[default]
    Here,
    AsConfigured,
}

/// Whether the MCP servers of the configuration are started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Servers {
    #[default]
    Started,
    Left,
}

/// Adds to an engine what no configuration says.
type Extension<'a> = Box<dyn FnOnce(OrchestratorBuilder) -> OrchestratorBuilder + Send + 'a>;

impl App {
    /// Begins to wire an engine as a configuration says.
    #[must_use]
    pub fn builder<'a>(config: &'a Config, environment: &'a Environment) -> AppBuilder<'a> {
        AppBuilder {
            config,
            environment,
            cassette: CassetteUse::Off,
            store: None,
            telemetry: None,
            own: OwnFiles::default(),
            servers: Servers::default(),
            driving: Driving::default(),
            extend: Vec::new(),
        }
    }

    /// Tells whether sessions are still there when the process has ended.
    #[must_use]
    pub const fn outlives_the_process(&self) -> bool {
        self.opened.outlives_the_process()
    }

    /// Returns the store, for another engine on it: [`AppBuilder::store`].
    #[must_use]
    pub fn opened(&self) -> OpenStore {
        self.opened.clone()
    }

    /// Ends the MCP servers, and waits for that: some seconds at the most.
    pub async fn stop_servers(&self) {
        self.servers.shutdown().await;
    }

    /// Ends the MCP servers, and waits for that no longer than `limit`: those that are still there then are stopped, with all
    /// they started. Returns whether there were none.
    pub async fn stop_servers_within(&self, limit: Duration) -> bool {
        self.servers.shutdown_within(limit).await
    }

    /// Returns what happened to the MCP servers that a user should know and was not told yet, a sentence each, and forgets it.
    #[must_use]
    pub fn take_server_notices(&self) -> Vec<String> {
        self.servers.take_notices()
    }

    /// Returns where traces go, for another engine of the same process: [`AppBuilder::telemetry`].
    #[must_use]
    pub fn telemetry(&self) -> Telemetry {
        self.telemetry.clone()
    }

    /// Has traces name the models and MCP servers of this engine again, where another one was built that shares where they go.
    pub fn name_in_traces(&self) {
        if let Some(endpoints) = &self.endpoints {
            self.telemetry.know(endpoints.clone());
        }
    }

    /// Ends the MCP servers, finishes what is being written and sent and brings the store into order, when all runs are over.
    /// Not needed for safety. Returns what a user should know of what was not delivered, a sentence each.
    pub async fn close(&self) -> Vec<String> {
        self.stop_servers().await;
        self.opened.close().await;
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
    /// Records what the models say, or lets a recording answer in their place.
    #[must_use]
    pub fn cassette(mut self, cassette: CassetteUse) -> Self {
        self.cassette = cassette;
        self
    }

    /// Keeps sessions in this store, whichever the configuration names.
    #[must_use]
    pub fn store(mut self, store: OpenStore) -> Self {
        self.store = Some(store);
        self
    }

    /// Lets traces go to these places, whichever the configuration names. From when the engine is built on they name its models
    /// and servers: [`App::name_in_traces`].
    #[must_use]
    pub fn telemetry(mut self, telemetry: Telemetry) -> Self {
        self.telemetry = Some(telemetry);
        self
    }

    /// Keeps the files of the program from the tools of this engine and of another one in the same process alike, whichever of
    /// the two configurations names them: what the former one named may be in force still, and its engine at work.
    #[must_use]
    pub fn beside(mut self, other: &App) -> Self {
        self.own = other.own.clone();
        self
    }

    /// Starts no MCP server, for what needs none of their tools.
    #[must_use]
    pub const fn without_servers(mut self) -> Self {
        self.servers = Servers::Left;
        self
    }

    /// Has runs driven as the section `[driver]` says, for whoever takes requests of others. Otherwise they are driven in this
    /// process, as a worker has to, and whoever is gone before long.
    #[must_use]
    pub const fn driven_as_configured(mut self) -> Self {
        self.driving = Driving::AsConfigured;
        self
    }

    /// Asks somebody about calls that need approval. Without an approver such calls are denied.
    #[must_use]
    pub fn approver(self, approver: Arc<dyn Approver>) -> Self {
        self.extend(|builder| builder.approver(approver))
    }

    /// Adds more than the configuration says, such as tools of an embedding program.
    #[must_use]
    pub fn extend(
        mut self,
        extend: impl FnOnce(OrchestratorBuilder) -> OrchestratorBuilder + Send + 'a,
    ) -> Self {
        self.extend.push(Box::new(extend));
        self
    }

    /// Wires the engine: opens its store, finds its models and checks its tools.
    ///
    /// # Errors
    ///
    /// A [`BuildError`] that names the place of the value that cannot be used, and what can.
    pub async fn build(self) -> Result<App, BuildError> {
        let (config, environment) = (self.config, self.environment);
        let is_configured = self.store.is_none();
        let is_replay = matches!(self.cassette, CassetteUse::Replay(_));
        let opened = match self.store {
            Some(store) => store,
            None => OpenStore::open(config, environment).await?,
        };
        let recording = recording_of(&self.cassette, environment);
        // They come up while models are looked for.
        let servers = match self.servers {
            Servers::Started => McpServers::start(config, environment),
            Servers::Left => McpServers::default(),
        };
        let mut builder = opened.used_by(servers.offered_by(Orchestrator::builder()));
        // Where what is allowed ends with the process, so may the key.
        if opened.outlives_the_process() {
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
            // Without the configured store there are no runs worth telling of.
            None => Telemetry::default(),
        };
        builder = telemetry.attach(builder);
        for extend in self.extend {
            builder = extend(builder);
        }
        let orchestrator = builder.build()?;
        let server_notices = servers.connected().await;
        notices.extend_from_slice(&server_notices);
        notices.extend(names_checked(config, &orchestrator)?);
        notices.extend(locked_configuration(environment));
        let nowhere = nowhere_to_keep(config, environment);
        notices.extend(nowhere.filter(|_| is_configured));
        let app = App {
            orchestrator,
            notices,
            server_notices,
            recordings,
            opened,
            servers,
            telemetry,
            own: self.own,
            endpoints: (!is_replay).then_some(endpoints),
        };
        // Others may use the same telemetry: one that cannot be built is none of theirs.
        app.name_in_traces();
        Ok(app)
    }
}

/// Returns the file that is recorded to or replayed. File tools never see it then, so that they find the same both times.
fn recording_of(cassette: &CassetteUse, environment: &Environment) -> Option<PathBuf> {
    let file = match cassette {
        CassetteUse::Record(file) => file,
        CassetteUse::Replay(recorded) => &recorded.file,
        CassetteUse::Off => return None,
    };
    Some(environment.working_dir().join(file))
}

/// Checks the names of tools and agents that the configuration has against those there are; returns what is to be told.
fn names_checked(config: &Config, orchestrator: &Orchestrator) -> Result<Vec<String>, BuildError> {
    let tools = orchestrator.tools();
    let offered = tools.specs().map(|spec| spec.name.clone());
    let mut known: Vec<ToolName> = offered.collect();
    // Those of a folder that is none of a project are there all the same.
    let has_commands = commands::why_no_commands(config).is_none();
    let absent = project_tools().filter(|name| tools.tool(name).is_none());
    let absent = absent.filter(|name| has_commands || name.as_str() != RUN_COMMAND);
    known.extend(absent);
    let others = tools.specs().filter(|spec| spec.kind != ToolKind::Agent);
    let others: Vec<ToolName> = others.map(|spec| spec.name.clone()).collect();
    config.check_agents(&others)?;
    Ok(config.check_tools(&known)?)
}

/// Gives an engine the key by which its approvals are known, if there is one.
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

/// Has the runs of an engine driven elsewhere, if the configuration says so.
fn dispatching(
    builder: OrchestratorBuilder,
    config: &Config,
    opened: &OpenStore,
) -> Result<OrchestratorBuilder, BuildError> {
    let driver = config.driver();
    if driver.kind == DriverKind::Local {
        return Ok(builder);
    }
    if !opened.outlives_the_process() {
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

/// Names the MCP servers, for spans.
fn mcp_endpoints(config: &Config) -> Endpoints {
    let servers = config.mcp().servers.iter();
    servers.fold(Endpoints::default(), |endpoints, (name, server)| {
        endpoints.mcp_server(name.clone(), server.url.as_deref())
    })
}
