//! Wires an engine as the configuration says.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use neuraxis_cassette::{Cassette, CassetteConfig, CassetteError};
use neuraxis_core::{InvalidId, READ_OUTPUT, Role, ToolKind, ToolName, ToolSpec};
use neuraxis_engine::{Orchestrator, OrchestratorBuilder, SystemClock};
use neuraxis_otel::Endpoints;
use neuraxis_ports::{Approver, Clock, LlmClient, Tool};
use neuraxis_restate::{ConfigFault, RestateDispatcher};
use neuraxis_sql::OpenError;
use neuraxis_tools::{DefinitionError, OwnFiles, ProjectError};

use crate::approval_key::{self, ApprovalKeyError};
use crate::commands::{self, RUN_COMMAND};
use crate::config::{Config, ConfigError, DriverKind, Origin};
use crate::discover::{ModelError, discover, secrets_of};
use crate::environment::Environment;
use crate::mcp::McpServers;
use crate::providers::Provider;
use crate::secrecy::discreet;
use crate::store::{OpenStore, STORES};
use crate::tape::{Tape, Tapes};
use crate::telemetry::{Telemetry, TelemetryError};
use crate::web::{self, FETCH, SearchError};

/// Says why there is nowhere to keep anything, where nobody said that nothing is to be kept.
#[must_use]
pub fn nowhere_to_keep(config: &Config, environment: &Environment) -> Option<String> {
    let is_unnamed = config.origin("store.url") == Origin::Default;
    if !is_unnamed || !config.store().is_in_memory() {
        return None;
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
    pub tapes: Tapes,
    opened: OpenStore,
    servers: McpServers,
    telemetry: Telemetry,
}

/// Wires an [`App`] as a configuration says, with what a program brings of its own.
pub struct AppBuilder<'a> {
    config: &'a Config,
    environment: &'a Environment,
    tape: Tape,
    store: Option<OpenStore>,
    telemetry: Option<Telemetry>,
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
            tape: Tape::Off,
            store: None,
            telemetry: None,
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
            .field("tape", &self.tape)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl<'a> AppBuilder<'a> {
    /// Records what the models say, or lets a recording answer in their place.
    #[must_use]
    pub fn tape(mut self, tape: Tape) -> Self {
        self.tape = tape;
        self
    }

    /// Keeps sessions in this store, whichever the configuration names.
    #[must_use]
    pub fn store(mut self, store: OpenStore) -> Self {
        self.store = Some(store);
        self
    }

    /// Lets traces go to these places, whichever the configuration names.
    #[must_use]
    pub fn telemetry(mut self, telemetry: Telemetry) -> Self {
        self.telemetry = Some(telemetry);
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
        let is_replay = matches!(self.tape, Tape::Replay(_));
        let opened = match self.store {
            Some(store) => store,
            None => OpenStore::open(config, environment).await?,
        };
        let recording = recording_of(&self.tape, environment);
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
            .tools(tools(config, environment, recording)?);
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
            tapes,
        } = match self.tape {
            Tape::Replay(recorded) => replayed(config, environment, &recorded)?,
            Tape::Record(file) => discovered(config, environment, Some(file)).await?,
            Tape::Off => discovered(config, environment, None).await?,
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
        // A recording says nothing of where models are, and others may use the same telemetry.
        if !is_replay {
            telemetry.know(endpoints);
        }
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
        Ok(App {
            orchestrator,
            notices,
            server_notices,
            tapes,
            opened,
            servers,
            telemetry,
        })
    }
}

/// Returns the file that a tape is recorded to.
fn recording_of(tape: &Tape, environment: &Environment) -> Option<PathBuf> {
    match tape {
        Tape::Record(file) => Some(environment.working_dir().join(file)),
        Tape::Off | Tape::Replay(_) => None,
    }
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

/// The models that answer, by the roles that they serve.
struct Models {
    clients: Vec<(Role, Arc<dyn LlmClient>)>,
    /// Where they answer, without what may be a secret.
    addresses: BTreeMap<Role, String>,
    notices: Vec<String>,
    tapes: Tapes,
}

/// Names the MCP servers, for spans.
fn mcp_endpoints(config: &Config) -> Endpoints {
    let servers = config.mcp().servers.iter();
    servers.fold(Endpoints::default(), |endpoints, (name, server)| {
        endpoints.mcp_server(name.clone(), server.url.as_deref())
    })
}

/// Lets models answer, and records them if so wished.
async fn discovered(
    config: &Config,
    environment: &Environment,
    file: Option<PathBuf>,
) -> Result<Models, BuildError> {
    let discovery = discover(config, environment).await;
    let mut notices = Vec::from_iter(discovery.notices());
    let mut tapes = Tapes::replaying(discovery.cassettes);
    let mut addresses = BTreeMap::new();
    let endpoints = discovery.endpoints.into_iter();
    let endpoints: Vec<_> = endpoints
        .map(|(role, endpoint)| {
            let endpoint = endpoint.map_err(|fault| BuildError::Model {
                at: fault.origin(config),
                fault,
            })?;
            // Whoever configured it may not remember that it is no model.
            if endpoint.provider() == Provider::of::<CassetteConfig>() {
                let notice = endpoint.info().notice.into_iter();
                notices.extend(notice.map(|notice| format!("{role}: {notice}")));
            }
            if let Some(address) = &endpoint.address {
                addresses.insert(role.clone(), address.clone());
            }
            Ok((role, endpoint.client()))
        })
        .collect::<Result<_, BuildError>>()?;
    let secrets = secrets_of(config, environment);
    if let Some(file) = file {
        let file = environment.working_dir().join(file);
        tapes.record(file, SystemClock.now(), secrets.clone())?;
    }
    let models = endpoints.into_iter();
    let models = models.map(|(role, client)| {
        let client = tapes.before(&role, discreet(client, &secrets));
        (role, client)
    });
    Ok(Models {
        clients: models.collect(),
        addresses,
        notices,
        tapes,
    })
}

/// Lets a recording answer.
fn replayed(
    config: &Config,
    environment: &Environment,
    recorded: &CassetteConfig,
) -> Result<Models, BuildError> {
    let redactor = secrets_of(config, environment);
    let cassette = Cassette::open(recorded, redactor)?;
    let models = cassette.roles().into_iter().map(|role| {
        let client: Arc<dyn LlmClient> = Arc::new(cassette.client(role.clone()));
        (role, client)
    });
    let clients: Vec<_> = models.collect();
    if clients.is_empty() {
        return Err(BuildError::EmptyTape {
            file: recorded.file.clone(),
        });
    }
    let file = recorded.file.display();
    Ok(Models {
        clients,
        addresses: BTreeMap::new(),
        notices: vec![format!("replaying {file}: no model is asked")],
        tapes: Tapes::replaying(vec![cassette]),
    })
}

/// Returns the folder that paths in calls are judged from: that of the file tools.
fn root(config: &Config) -> String {
    let root = config.project_root();
    // Where it cannot be resolved, the file tools say so.
    let real = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    real.to_string_lossy().into_owned()
}

/// The tools that work in the project's folder. Rules may name them also where they are not offered.
const PROJECT_TOOLS: [&str; 6] = [
    "list_files",
    "read_file",
    "search_files",
    "write_file",
    "apply_patch",
    RUN_COMMAND,
];

fn project_tools() -> impl Iterator<Item = ToolName> {
    PROJECT_TOOLS
        .into_iter()
        .filter_map(|name| name.parse().ok())
}

/// Tells whether a name is that of a tool which works in the project's folder, offered or not.
#[must_use]
pub fn is_project_tool(name: &str) -> bool {
    PROJECT_TOOLS.contains(&name)
}

/// Returns the names of the tools of this build, for whoever checks what a policy says about them without an engine.
///
/// # Errors
///
/// A [`BuildError`], when a tool is not defined as it should be.
pub fn tool_names() -> Result<Vec<ToolName>, BuildError> {
    let tools = neuraxis_tools::built_in(Arc::new(SystemClock))?;
    let names = tools.iter().map(|tool| tool.spec().name.clone());
    let own = [FETCH, READ_OUTPUT].map(str::parse::<ToolName>);
    Ok(names
        .chain(project_tools())
        .chain(own.into_iter().flatten())
        .collect())
}

/// Returns the tools that an engine would offer, for whoever checks what a policy says about them without one.
///
/// # Errors
///
/// A [`BuildError`], when their folder cannot be opened, or the search that is configured cannot be used.
pub fn tool_specs(config: &Config, environment: &Environment) -> Result<Vec<ToolSpec>, BuildError> {
    let tools = tools(config, environment, None)?;
    let specs = tools.iter().map(|tool| tool.spec().clone());
    Ok(specs.chain(neuraxis_engine::read_output_spec()).collect())
}

fn tools(
    config: &Config,
    environment: &Environment,
    recording: Option<PathBuf>,
) -> Result<Vec<Arc<dyn Tool>>, BuildError> {
    let mut tools = neuraxis_tools::built_in(Arc::new(SystemClock))?;
    tools.extend(web::tools(config, environment)?);
    if !config.offers_project_tools() {
        return Ok(tools);
    }
    let own = config.own_files(environment);
    let own = recording.into_iter().fold(own, OwnFiles::store);
    let commands = config.tools().commands;
    let files = neuraxis_tools::project_files_without(config.project_root(), &own, commands);
    tools.extend(files.map_err(|source| BuildError::ProjectRoot {
        at: config.origin("tools.root"),
        source,
    })?);
    Ok(tools)
}

/// Why no engine could be wired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A model cannot serve.
    #[error("{at:#}: {fault}")]
    Model {
        /// Where it is configured.
        at: Origin,
        /// What is wrong with its key, its address or its table.
        fault: ModelError,
    },
    /// This build has no such store.
    #[error("{at:#}: store.url: {}; supported: {STORES}", unsupported(scheme.as_deref()))]
    Store {
        /// Where it is configured.
        at: Origin,
        /// The URL's scheme, if it has one.
        scheme: Option<String>,
    },
    /// The folder of the database's file is not there, and nobody but the user should make it.
    #[error("{at:#}: store.url: there is no folder {}", folder.display())]
    StoreFolder {
        /// Where it is configured.
        at: Origin,
        /// The folder.
        folder: PathBuf,
    },
    /// The database cannot be opened.
    #[error(
        "{at:#}: store.url: the database cannot be opened; set store.url to another file, or to memory: to keep nothing"
    )]
    Database {
        /// Where it is configured.
        at: Origin,
        /// What the database, or the operating system, said.
        source: OpenError,
    },
    /// There is no key by which approvals count.
    #[error("{at:#}: store.approval_key_file: approvals need a key")]
    ApprovalKey {
        /// Where it is configured.
        at: Origin,
        /// Why there is none.
        source: ApprovalKeyError,
    },
    /// The database would open, but not now: another process keeps it locked, or the disk is full.
    #[error("{at:#}: store.url: the database cannot be opened now")]
    DatabaseBusy {
        /// Where it is configured.
        at: Origin,
        /// Whether it is locked or has no room.
        source: OpenError,
    },
    /// The folder that the log is to be copied to cannot be written.
    #[error("{at:#}: store.log.folder: the log cannot be copied there; name another folder")]
    LogCopy {
        /// Where it is configured.
        at: Origin,
        /// What the operating system said.
        source: OpenError,
    },
    /// The file tools have no folder.
    #[error("{at:#}: tools.root cannot be used")]
    ProjectRoot {
        /// Where it is configured.
        at: Origin,
        /// What is wrong with the folder.
        source: ProjectError,
    },
    /// What drives runs cannot be used.
    #[error("{at:#}: {fault}")]
    Driver {
        /// Where it is configured.
        at: Origin,
        /// What is wrong with it.
        fault: Box<ConfigFault>,
    },
    /// Other processes are to drive runs that this one alone knows of.
    #[error(
        "{at:#}: driver.kind: workers take runs up from a store that they share, and memory: is this process's own; set store.url"
    )]
    NothingShared {
        /// Where it is configured.
        at: Origin,
    },
    /// The search of the web cannot be used.
    #[error("{at:#}: {fault}")]
    Search {
        /// Where it is configured.
        at: Origin,
        /// What is wrong with it.
        fault: SearchError,
    },
    /// A tool of the web is not defined as it should be.
    #[error(transparent)]
    WebTool(#[from] InvalidId),
    /// The policy names tools that there are not.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A built-in tool is not defined as it should be.
    #[error(transparent)]
    Tool(#[from] DefinitionError),
    /// Traces cannot go where the configuration says.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// The recording cannot be made or replayed.
    #[error(transparent)]
    Tape(#[from] CassetteError),
    /// The recording is one of nothing.
    #[error("{} holds no recordings", file.display())]
    EmptyTape {
        /// The file.
        file: PathBuf,
    },
    /// The engine refuses its parts.
    #[error(transparent)]
    Engine(#[from] neuraxis_engine::BuildError),
}

fn unsupported(scheme: Option<&str>) -> String {
    match scheme {
        Some("memory") => "a store in memory has no address".to_owned(),
        Some(scheme) => format!("this build has no store for {scheme}:"),
        None => "not a URL".to_owned(),
    }
}
