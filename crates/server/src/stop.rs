//! When the program has to stop, and how.

use std::future::Future;
use std::io;

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
