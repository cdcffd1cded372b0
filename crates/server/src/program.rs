//! The program: from the command line to a server that listens until a signal stops it.

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::iter;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock};

use clap::{Parser, Subcommand};
use neuraxis::core::with_causes;
use neuraxis::ports::StoreError;
use neuraxis_app::{
    BuildError, Config, ConfigError, Environment, OpenError, Origin, ServerConfig, ServerKeyFile,
    ServerKeysError, ServerToken, ServerTokenError, Sources, StartError, Telemetry,
    register_secrets,
};
use tokio::time::Instant;
use tokio_rustls::rustls::pki_types::pem;

use crate::address::{ListenAddress, ListenAddressError, Protection};
use crate::key_command::{self, KeyCommand, KeyCommandError};
use crate::keys::Keys;
use crate::logs::{self, LogFilterError};
use crate::metrics::Metrics;
use crate::permits::PermitPool;
use crate::reload::{self, Duty, EngineSetup};
use crate::retention::Retention;
use crate::server::{BindError, Server, Unfinished};
use crate::stop::{self, Hangups, Stop};
use crate::tls::{Tls, TlsError};
use crate::token::DecisionToken;
use crate::worker::{self, WorkFailure};

/// The exit code for wrong usage or configuration.
const USAGE: u8 = 2;

/// The exit code of a command whose output is no longer read: that of a program ended by SIGPIPE, signal 13.
const OUTPUT_CLOSED: u8 = 128 + 13;

/// Errors of a file system that may disappear without anything being fixed.
const TRANSIENT: [io::ErrorKind; 12] = [
    io::ErrorKind::HostUnreachable,
    io::ErrorKind::Interrupted,
    io::ErrorKind::NetworkDown,
    io::ErrorKind::NetworkUnreachable,
    io::ErrorKind::NotConnected,
    io::ErrorKind::OutOfMemory,
    io::ErrorKind::QuotaExceeded,
    io::ErrorKind::ResourceBusy,
    io::ErrorKind::StaleNetworkFileHandle,
    io::ErrorKind::StorageFull,
    io::ErrorKind::TimedOut,
    io::ErrorKind::WouldBlock,
];

const AFTER_HELP: &str = "\
Once it listens, it prints one line on standard output, such as: listening on http://127.0.0.1:8787
On a terminal, it also prints the address of the page with the token that authorizes decisions: keep it secret.
Logs go to standard error. NEURAXIS_LOG (or RUST_LOG) sets the log level, such as debug or neuraxis_engine=debug.
SIGTERM gives turns in progress 5 seconds to end, and leaves the others for the next server to resume. \
SIGINT cancels them. If sessions are only in memory, both cancel. SIGHUP reloads the configuration for new turns.
GET /healthz answers 200 while the process runs, GET /readyz while the server accepts turns.

Exit codes: 0 stopped by a signal, 1 failed, 2 wrong usage or configuration.";

/// Neuraxis over HTTP.
#[derive(Debug, Clone, Parser)]
#[command(name = "neuraxis-server", version, after_help = AFTER_HELP, max_term_width = 100)]
#[non_exhaustive]
pub struct Arguments {
    /// Read this file, instead of neuraxis.toml here and in the user's configuration folder
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,

    /// Listen on this address, instead of server.listen in the configuration (default 127.0.0.1:8787); port 0 picks any
    /// free port. Without keys, only a loopback address is allowed
    #[arg(long, value_name = "ADDR:PORT", value_parser = socket_address)]
    pub listen: Option<SocketAddr>,

    /// What to do instead of serving
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What the program can do besides serving.
#[derive(Debug, Clone, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Create, list and revoke the keys of clients
    #[command(subcommand)]
    Keys(KeyCommand),
    /// Drive the runs that servers hand over to Restate, as the `driver` section configures, until SIGTERM or SIGINT
    Worker,
}

fn socket_address(text: &str) -> Result<SocketAddr, ListenAddressError> {
    text.parse().map_err(|_| ListenAddressError::Malformed)
}

/// Wires an engine as configured, and serves it until a signal arrives. Prints one line on standard output once it
/// listens.
///
/// # Errors
///
/// Returns a [`Failure`], which knows its exit code.
pub async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let environment = Environment::of_process().map_err(Failure::Surroundings)?;
    let sources = match &arguments.config {
        Some(file) => Sources::default().with_file(file),
        None => Sources::default(),
    };
    let config = Config::load(&environment, &sources)?;
    if let Some(Command::Keys(command)) = &arguments.command {
        return Ok(key_command::run(command, &config, &environment)?);
    }
    register_secrets(&config, &environment);
    let telemetry = Telemetry::start(&config, &environment).map_err(BuildError::from)?;
    // Held until everything logged has been written.
    let _log = logs::start(&environment, config.server().access_log, &telemetry)?;
    if let Some(Command::Worker) = &arguments.command {
        let worked = worker::run(environment, sources, &config, telemetry).await;
        return Ok(worked.map_err(Box::new)?);
    }
    let keys = keys(&config, &environment)?;
    let listen = listen(arguments, &config, &keys)?;
    let tls = tls(&config)?;
    let mut wiring = EngineSetup {
        environment: environment.clone(),
        sources,
        metrics: Metrics::new(),
        decisions: None,
        keys,
        is_loopback: listen.is_loopback(),
        is_address_given: arguments.listen.is_some(),
        duty: Duty::Serve,
        tls: tls.clone(),
        telemetry,
    };
    let app = wiring.build(&config, None).await?;
    wiring.metrics.watch(app.telemetry());
    // From here on, a signal no longer kills the process.
    let stop_signal = stop::signal()?;
    let hangups = Hangups::listen()?;
    let is_persistent = app.is_persistent();
    let server = Server::bind(listen, app.orchestrator.clone()).await?;
    // Only after binding: a server that cannot listen must not overwrite the token file of the one that does.
    let token = decision_token(&config, &environment, &wiring.keys)?;
    let shown = token.as_ref().map(ServerToken::reveal);
    wiring.decisions = shown.map(DecisionToken::new);
    let mut limits = wiring.limits(&config);
    let permits = PermitPool::new(limits.max_runs);
    limits.permits = Some(permits.clone());
    let server = server
        .with_limits(limits)
        .with_metrics(wiring.metrics.clone())
        .with_access_log(config.server().access_log);
    let server = match tls {
        Some(tls) => server.with_tls(tls),
        None => server,
    };
    reload::recover_in_the_background(&app, &permits);
    // Held until the server has stopped.
    let _retention = Retention::start(app.orchestrator.sessions(), config.store(), config.policy());
    announce(&server.url(), token.as_ref());
    let (app, replacer) = (Arc::new(Mutex::new(app)), server.engine_replacer());
    let reloading = wiring.keep_reloading(config, Arc::clone(&app), replacer, permits, hangups);
    let reloading = tokio::spawn(reloading);
    let stop_requested_at = OnceLock::new();
    let stop = async {
        let how = stop_signal.await;
        stop_requested_at.get_or_init(Instant::now);
        reloading.abort();
        match how {
            // A run that is only in memory cannot be resumed by any other process.
            Stop::Drain if !is_persistent => Stop::Cancel,
            how => how,
        }
    };
    let served = server.serve(stop).await;
    stop::close(&reload::locked(&app), &stop_requested_at).await;
    served?;
    tracing::info!("stopped");
    Ok(())
}

/// Reads the keys of clients, if a location for them exists.
fn keys(config: &Config, environment: &Environment) -> Result<Keys, Failure> {
    let Some(file) = ServerKeyFile::of(config, environment) else {
        return Ok(Keys::default());
    };
    // If the configuration names a file, no client may get in without a key: a missing file must not open the server to
    // all.
    let keys = match &config.server().keys {
        Some(_) => Keys::open_named(file),
        None => Keys::open(file),
    };
    keys.map_err(Failure::Keys)
}

/// Writes the token that authorizes decisions, if a location for it exists.
fn decision_token(
    config: &Config,
    environment: &Environment,
    keys: &Keys,
) -> Result<Option<ServerToken>, Failure> {
    match ServerToken::write(config, environment) {
        Ok(token) => {
            if let Some(token) = &token {
                tracing::info!(file = %token.path.display(), "decisions about calls need the server's token");
            }
            Ok(token)
        }
        // Clients whose key has the scope for decisions can still decide.
        Err(error) if keys.are_needed() => {
            tracing::warn!(error = %with_causes(&error), "only keys can authorize decisions: the decision token cannot be written");
            Ok(None)
        }
        Err(error) => Err(Failure::Token(error)),
    }
}

/// Returns the address to listen on, from the command line or else from the configuration.
fn listen(arguments: &Arguments, config: &Config, keys: &Keys) -> Result<ListenAddress, Failure> {
    let (address, at) = match arguments.listen {
        Some(address) => (address, Origin::Flag("--listen".to_owned())),
        None => (config.server().listen, config.origin("server.listen")),
    };
    let protection = Protection {
        keys: keys.are_needed(),
        encryption: is_encrypted(config.server()),
    };
    let listen = ListenAddress::protected(address, protection);
    listen.map_err(|reason| Failure::Listen { at, reason })
}

/// Returns whether client traffic is encrypted on its way over a network.
const fn is_encrypted(server: &ServerConfig) -> bool {
    server.behind_proxy || server.tls.is_some()
}

/// Reads the certificate and the key, if the configuration names them.
fn tls(config: &Config) -> Result<Option<Tls>, Failure> {
    let Some(files) = &config.server().tls else {
        return Ok(None);
    };
    let tls = Tls::read(&files.certificate, &files.key);
    let tls = tls.map_err(|source| Failure::Tls {
        at: config.origin("server.tls"),
        source: Box::new(source),
    })?;
    Ok(Some(tls))
}

/// Returns the address of the page with the token after the `#`. The page removes the token from the address, and
/// browsers never send that part in a request.
fn page(url: &str, token: &ServerToken) -> String {
    format!("{url}/#token={}", token.reveal())
}

/// Prints the server's address for programs that need it: with port 0 only the server knows it. The address of the
/// page, which holds the token, is printed only at a terminal.
fn announce(url: &str, token: Option<&ServerToken>) {
    tracing::info!("listening on {url}");
    let mut stdout = io::stdout().lock();
    let mut lines = format!("listening on {url}\n");
    if let Some(token) = token.filter(|_| stdout.is_terminal()) {
        lines += &format!("page: {}\n", page(url, token));
    }
    // Standard output may be closed.
    let _ = stdout
        .write_all(lines.as_bytes())
        .and_then(|()| stdout.flush());
}

/// Why the program ended, other than by a signal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The working directory does not exist or cannot be read.
    #[error("cannot read the working directory")]
    Surroundings(#[source] io::Error),
    /// The log filter is invalid.
    #[error(transparent)]
    LogFilter(#[from] LogFilterError),
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configured address must not be listened on.
    #[error("{}: {reason}", listen_place(at))]
    Listen {
        /// Where the address is configured.
        at: Origin,
        /// What is wrong with the address. It is part of the message, so it is not reported as a cause too.
        reason: ListenAddressError,
    },
    /// The certificate and the key cannot be used.
    #[error("{at:#}: server.tls: cannot set up TLS")]
    Tls {
        /// Where they are configured.
        at: Origin,
        /// What is wrong with them.
        #[source]
        source: Box<TlsError>,
    },
    /// The engine cannot be wired as configured.
    #[error(transparent)]
    Build(Box<BuildError>),
    /// The server cannot listen on the address.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Runs were lost when the server stopped.
    #[error(transparent)]
    Unfinished(#[from] Unfinished),
    /// The keys of clients cannot be used.
    #[error("cannot read the clients' keys")]
    Keys(#[source] ServerKeysError),
    /// A command on keys failed.
    #[error(transparent)]
    KeyCommand(#[from] KeyCommandError),
    /// The token that authorizes decisions cannot be stored.
    #[error(
        "cannot write the decision token; make the server's data folder writable, choose another with XDG_DATA_HOME, \
         or give clients keys"
    )]
    Token(#[source] ServerTokenError),
    /// A worker drove no runs.
    #[error(transparent)]
    Work(#[from] Box<WorkFailure>),
    /// This machine lacks what the program needs to start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The operating system refused a basic service.
    #[error("cannot start")]
    System(#[from] io::Error),
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        Self::Build(Box::new(error))
    }
}

/// Names the flag or setting that contains the address.
fn listen_place(at: &Origin) -> String {
    match at {
        Origin::Flag(name) => name.clone(),
        at => format!("{at:#}: server.listen"),
    }
}

impl Failure {
    /// Returns the exit code for this failure.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            _ if is_transient(self) => ExitCode::FAILURE,
            Self::Surroundings(_)
            | Self::LogFilter(_)
            | Self::Config(_)
            | Self::Listen { .. }
            | Self::Keys(_)
            | Self::Token(_)
            | Self::KeyCommand(KeyCommandError::Wrong { .. } | KeyCommandError::NoPlace)
            | Self::Tls { .. } => ExitCode::from(USAGE),
            Self::Work(failure) => failure.exit_code(),
            Self::Build(error) => of_build(error),
            Self::KeyCommand(KeyCommandError::Unread) => ExitCode::from(OUTPUT_CLOSED),
            Self::Bind(_)
            | Self::Unfinished(_)
            | Self::KeyCommand(_)
            | Self::Start(_)
            | Self::System(_) => ExitCode::FAILURE,
        }
    }
}

/// Returns the exit code for an engine that cannot be wired.
pub(crate) fn of_build(error: &BuildError) -> ExitCode {
    match error {
        // The configuration is correct and may work on another attempt.
        BuildError::DatabaseBusy { .. }
        | BuildError::Database {
            source:
                OpenError::Store(
                    StoreError::Unavailable(_)
                    | StoreError::ReadOnly(_)
                    | StoreError::Full(_)
                    | StoreError::Refused(_),
                ),
            ..
        } => ExitCode::FAILURE,
        // The fault is part of the model error's message rather than its cause.
        BuildError::Model { fault, .. } if is_transient(fault) => ExitCode::FAILURE,
        _ => ExitCode::from(USAGE),
    }
}

/// Returns whether something failed because of a temporary file system condition, such as a full disk or an
/// unresponsive share.
fn is_transient(error: &(dyn Error + 'static)) -> bool {
    let chain = iter::successors(Some(error), |&error| error.source());
    let mut kinds = chain.filter_map(|error| match error.downcast_ref::<pem::Error>() {
        // This error does not expose its cause.
        Some(pem::Error::Io(error)) => Some(error.kind()),
        _ => error.downcast_ref::<io::Error>().map(io::Error::kind),
    });
    kinds.any(|kind| TRANSIENT.contains(&kind))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use neuraxis::tools::ProjectError;

    use super::*;

    fn failures(kind: io::ErrorKind) -> [Failure; 4] {
        let path = || PathBuf::from("share");
        let at = Origin::Default;
        [
            Failure::Keys(ServerKeysError::Unusable {
                path: path(),
                source: kind.into(),
            }),
            Failure::Tls {
                at: at.clone(),
                source: Box::new(TlsError::Unreadable {
                    what: "the key",
                    path: path(),
                    source: pem::Error::Io(kind.into()),
                }),
            },
            Failure::from(BuildError::LogCopy {
                at: at.clone(),
                source: OpenError::LogCopy {
                    folder: path(),
                    source: kind.into(),
                },
            }),
            Failure::from(BuildError::ProjectRoot {
                at,
                source: ProjectError::Root {
                    path: path(),
                    source: kind.into(),
                },
            }),
        ]
    }

    /// A supervisor that restarts the program may give up after exit code 2.
    #[test]
    fn a_transient_file_system_error_is_not_a_configuration_error() {
        for failure in failures(io::ErrorKind::StaleNetworkFileHandle) {
            assert_eq!(failure.exit_code(), ExitCode::FAILURE, "{failure}");
        }
        for failure in failures(io::ErrorKind::NotFound) {
            assert_eq!(failure.exit_code(), ExitCode::from(USAGE), "{failure}");
        }
    }

    #[test]
    fn the_command_line_definition_is_consistent() {
        Arguments::command().debug_assert();
    }
}
