//! When the program has to stop, and how.

use std::future::Future;
use std::io;
use std::sync::OnceLock;
use std::time::Duration;

use neuraxis_app::App;
use tokio::time::Instant;

/// How long it takes at the most from the signal until all is over but the writing of the log: with that, less than the 10 seconds
/// that Docker waits before it kills. Runs and connections take eight of these nine at the most.
const STOPPING: Duration = Duration::from_secs(9);

/// How a server stops. Either way it takes no new connections and no new turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// Turns at work are cancelled and say so, to their clients and in their logs.
    Cancel,
    /// Turns at work have 5 seconds to end. Those that have not are left as they are, for the next server on the same
    /// store to go on with: only where there can be one.
    Drain,
}

/// Starts to listen for the signals that ask a program to stop, and returns what ends when one comes.
#[cfg(unix)]
pub(crate) fn signal() -> io::Result<impl Future<Output = Stop>> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {
                tracing::info!("SIGTERM: stopping, once turns at work have had their time");
                Stop::Drain
            }
            _ = interrupt.recv() => {
                tracing::info!("SIGINT: stopping");
                Stop::Cancel
            }
        }
    })
}

/// Starts to listen for Ctrl-C, and returns what ends when it comes.
#[cfg(windows)]
pub(crate) fn signal() -> io::Result<impl Future<Output = Stop>> {
    let mut pressed = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        pressed.recv().await;
        tracing::info!("Ctrl-C: stopping");
        Stop::Cancel
    })
}

/// Ends the MCP servers and delivers what is left of traces, both at once, in what is left of the time since the program was asked
/// to stop. A server that does not end in it is stopped, with all it started.
pub(crate) async fn close(app: &App, asked: &OnceLock<Instant>) {
    let left = STOPPING.saturating_sub(asked.get_or_init(Instant::now).elapsed());
    let telemetry = app.telemetry();
    let (have_ended, notices) =
        tokio::join!(app.stop_servers_within(left), telemetry.close_within(left));
    if !have_ended {
        tracing::warn!("some MCP servers did not end in time: they were stopped");
    }
    for notice in notices {
        tracing::warn!("{notice}");
    }
}

/// Is told when the configuration is to be read again.
#[derive(Debug)]
pub(crate) struct Hangups {
    #[cfg(unix)]
    signal: tokio::signal::unix::Signal,
}

impl Hangups {
    /// Starts to listen for SIGHUP, which from then on no longer ends the process.
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        let signal = signal(SignalKind::hangup())?;
        Ok(Self { signal })
    }

    /// Waits for the next one; false if there will be none.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) -> bool {
        self.signal.recv().await.is_some()
    }

    /// There is no such signal here.
    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "listening for a signal can fail")]
    pub(crate) const fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// There is no such signal here.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) -> bool {
        std::future::ready(false).await
    }
}
