//! When the program has to stop.

use std::future::Future;
use std::io;

/// Starts to listen for the signals that ask a program to stop, and returns what ends when one comes.
#[cfg(unix)]
pub(crate) fn signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
            _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
        }
    })
}

/// Starts to listen for Ctrl-C, and returns what ends when it comes.
#[cfg(windows)]
pub(crate) fn signal() -> io::Result<impl Future<Output = ()>> {
    let mut pressed = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        pressed.recv().await;
        tracing::info!("Ctrl-C: stopping");
    })
}
