//! `neuraxis-server worker`: drives the runs that servers hand over.

use std::future::pending;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use neuraxis::core::Limits;
use neuraxis_app::{
    App, BuildError, Config, DriverKind, Environment, Origin, Sources, Telemetry, Worker,
    WorkerError,
};
use tokio::time::Instant;

use crate::keys::Keys;
use crate::metrics::Metrics;
use crate::program::of_build;
use crate::reload::{Duty, EngineSetup};
use crate::stop::{self, Hangups};

/// Says where the driver is configured to be local.
fn local_driver(at: &Origin) -> String {
    match at {
        Origin::Default => "driver.kind is local (the default)".to_owned(),
        at => format!("{at:#}: driver.kind is local"),
    }
}

/// Why no runs were driven.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkFailure {
    /// The configuration has runs driven where they start.
    #[error(
        "{}, so servers drive their own runs and hand over none; set it to restate",
        local_driver(at)
    )]
    Local {
        /// Where this is configured.
        at: Origin,
    },
    /// Sessions are in the memory of another process.
    #[error(
        "{at:#}: store.url: a worker must share the store of the servers that start runs, but memory: is private to \
         one process"
    )]
    NothingShared {
        /// Where this is configured.
        at: Origin,
    },
    /// Restate would abandon tool calls that take as long as they are allowed to.
    #[error(
        "{at:#}: driver.restate: Restate abandons a step after {longest_step:?} (inactivity_ms and abort_ms), but \
         {tool} may take {may_take:?}; increase abort_ms"
    )]
    TooShort {
        /// Where this is configured.
        at: Origin,
        /// How long a step may take.
        longest_step: Duration,
        /// The name of the tool.
        tool: String,
        /// How long one call of it may take.
        may_take: Duration,
    },
    /// The engine cannot be wired as configured.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The worker cannot be reached as configured.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// The operating system refused a basic service.
    #[error("cannot start")]
    System(#[from] io::Error),
}

impl WorkFailure {
    /// Returns the exit code for this failure.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Build(error) => of_build(error),
            Self::Worker(WorkerError::Listen { .. }) | Self::System(_) => ExitCode::FAILURE,
            _ => ExitCode::from(2),
        }
    }
}

/// Wires an engine as configured, and drives the runs that Restate sends until a signal arrives. Prints one line on
/// standard output once it listens.
pub(crate) async fn run(
    environment: Environment,
    sources: Sources,
    config: &Config,
    telemetry: Telemetry,
) -> Result<(), WorkFailure> {
    if config.driver().kind == DriverKind::Local {
        let at = config.origin("driver.kind");
        return Err(WorkFailure::Local { at });
    }
    if config.store().is_in_memory() {
        let at = config.origin("store.url");
        return Err(WorkFailure::NothingShared { at });
    }
    let wiring = EngineSetup {
        environment,
        sources,
        metrics: Metrics::new(),
        decisions: None,
        keys: Keys::default(),
        is_loopback: true,
        is_address_given: false,
        duty: Duty::Work,
        tls: None,
        telemetry,
    };
    let app = wiring.build(config, None).await?;
    let stop_signal = stop::signal()?;
    let hangups = Hangups::listen()?;
    let runs = app.orchestrator.runs();
    let restate = &config.driver().restate;
    let longest_step = restate.longest_step();
    if let Some((tool, may_take)) = slowest_tool(&app).filter(|slowest| slowest.1 >= longest_step) {
        let at = config.origin("driver.restate.abort_ms");
        return Err(WorkFailure::TooShort {
            at,
            longest_step,
            tool,
            may_take,
        });
    }
    let worker = Worker::bind(restate, runs).await?;
    let address = worker.address();
    if !address.ip().is_loopback() && restate.identity_key.is_none() {
        tracing::warn!(
            "any client that can reach {address} can have runs driven; keep it in a private network, or set \
             driver.restate.identity_key"
        );
    }
    tracing::info!("listening on http://{address}");
    // Standard output may be closed.
    let mut stdout = io::stdout();
    let _ = writeln!(stdout, "listening on http://{address}").and_then(|()| stdout.flush());
    let stop_requested_at = OnceLock::new();
    let until = async {
        tokio::select! {
            // All signals are treated alike: other workers continue the runs.
            _ = stop_signal => {}
            () = log_hangups(hangups) => {}
        }
        stop_requested_at.get_or_init(Instant::now);
    };
    worker.serve(until).await;
    app.orchestrator.suspend(Duration::ZERO).await;
    stop::close(&app, &stop_requested_at).await;
    tracing::info!("stopped");
    Ok(())
}

/// Logs on each SIGHUP that nothing is reloaded; unhandled, the signal would end the process with its runs. Never
/// returns.
async fn log_hangups(mut hangups: Hangups) {
    while hangups.next().await {
        tracing::warn!("a worker applies a changed configuration only after a restart");
    }
    pending::<()>().await;
}

/// Returns the tool whose calls may take longest, and how long that is.
fn slowest_tool(app: &App) -> Option<(String, Duration)> {
    let tools = app.orchestrator.tools();
    let times = tools.specs().map(|spec| {
        let time = spec.timeout.unwrap_or(Limits::NONE.tool_timeout);
        (spec.name.to_string(), time)
    });
    times.max_by_key(|(_, time)| *time)
}
