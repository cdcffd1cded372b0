//! `cargo xtask serve-llama`: a real llama-server with the scripted model, for trying the product by hand.

use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;

use anyhow::{Context, bail};
use clap::Args;

use crate::provision;

/// Where to listen, and how.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The port on 127.0.0.1; by default, any free one.
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Further arguments for llama-server, such as `-- --api-key KEY`.
    #[arg(last = true)]
    arguments: Vec<String>,
}

/// Starts the server, which runs until it is interrupted.
pub(crate) fn serve(options: &Options) -> anyhow::Result<()> {
    if let Some(missing) = provision::all().into_iter().next() {
        bail!("missing: {}", missing.name);
    }
    let port = available(options.port)?;
    println!("\nllama-server with the scripted model: http://127.0.0.1:{port}");
    let mut server = provision::scripted_llama_server(port);
    server.args(&options.arguments);
    become_program(server)
}

/// Replaces this process by the program, so that ending one ends the other.
#[cfg(unix)]
fn become_program(mut command: Command) -> anyhow::Result<()> {
    use std::os::unix::process::CommandExt;

    let error = command.exec();
    Err(error).with_context(|| format!("cannot start {}", command.get_program().display()))
}

#[cfg(not(unix))]
fn become_program(command: Command) -> anyhow::Result<()> {
    crate::cargo::run_command(command)
}

/// Returns the port if it is free, or any free port for 0.
fn available(port: u16) -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .with_context(|| format!("port {port} is not available; choose another with --port"))?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_an_error_that_names_it() {
        let free = available(0).unwrap();
        assert_ne!(free, 0);
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = available(port).unwrap_err().to_string();
        assert_eq!(
            error,
            format!("port {port} is not available; choose another with --port")
        );
    }
}
