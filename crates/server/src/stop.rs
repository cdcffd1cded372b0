//! When the program must stop, and how.

use std::future::Future;
use std::io;
use std::sync::OnceLock;

use neuraxis_app::App;
use tokio::time::Instant;

use crate::shutdown::SHUTDOWN;

/// How a server stops. In either case it accepts no new connections and no new turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// Turns in progress are cancelled, which is reported to their clients and in their logs.
    Cancel,
    /// Turns in progress have 5 seconds to end. Those that have not are left as they are, for the next server on the
    /// same store to resume. Only for stores that another server can open.
    Drain,
}

/// Starts to listen for the signals that ask a program to stop. Returns a future that completes when one arrives.
#[cfg(unix)]
pub(crate) fn signal() -> io::Result<impl Future<Output = Stop>> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {
                tracing::info!("SIGTERM: stopping; turns in progress get time to end");
                Stop::Drain
            }
            _ = interrupt.recv() => {
                tracing::info!("SIGINT: stopping");
                Stop::Cancel
            }
        }
    })
}

/// Starts to listen for Ctrl-C. Returns a future that completes when it is pressed.
#[cfg(windows)]
pub(crate) fn signal() -> io::Result<impl Future<Output = Stop>> {
    let mut pressed = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        pressed.recv().await;
        tracing::info!("Ctrl-C: stopping");
        Stop::Cancel
    })
}

/// Ends the MCP servers and delivers the remaining traces, both at the same time, in what is left of the time since the
/// program was asked to stop. A server that does not end in time is stopped, with every process it started.
pub(crate) async fn close(app: &App, requested_at: &OnceLock<Instant>) {
    let elapsed = requested_at.get_or_init(Instant::now).elapsed();
    let left = SHUTDOWN.total.saturating_sub(elapsed);
    let telemetry = app.telemetry();
    let (have_ended, notices) =
        tokio::join!(app.stop_servers_within(left), telemetry.close_within(left));
    if !have_ended {
        tracing::warn!("some MCP servers did not end in time and were stopped");
    }
    for notice in notices {
        tracing::warn!("{notice}");
    }
}

/// Receives requests to reload the configuration.
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

    /// Waits for the next signal. Returns false if none can follow.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) -> bool {
        self.signal.recv().await.is_some()
    }

    /// This platform has no such signal.
    #[cfg(not(unix))]
    #[expect(clippy::unnecessary_wraps, reason = "listening for a signal can fail")]
    pub(crate) const fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// This platform has no such signal.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) -> bool {
        std::future::ready(false).await
    }
}
