//! `neuraxis mcp trust`: accepts the current tools of a server.

use anyhow::anyhow;
use clap::Args;
use clap_complete::ArgValueCandidates;
use neuraxis_app::{McpServer, OfferStatus, PinFile};

use super::shown::{connected, not_accepted};
use crate::completion;
use crate::confirm::{ask_yes_no, require_user};
use crate::error::CommandError;
use crate::output::Output;
use crate::setup::Setup;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  neuraxis mcp trust everything
  neuraxis mcp trust everything --yes";

/// Accept the tools of a server as they are now
///
/// The tools' definitions are remembered in your data folder when their server is first used. A tool that changes after
/// that, or is added later, is not offered until you accept it here. This does not affect what its calls may do.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Trust {
    /// The server, as listed by `neuraxis mcp list`
    #[arg(add = ArgValueCandidates::new(completion::mcp_servers))]
    name: String,

    /// Do not ask: required if nobody can be asked
    #[arg(long)]
    yes: bool,
}

impl Trust {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let loaded = setup.load()?;
        loaded.warn_settings_ignored();
        // An acceptance would be lost with this process, and other processes would not see it.
        PinFile::of(&loaded.environment).map_err(|why| {
            CommandError::from(why).hint(
                "a running neuraxis-server accepts the tools as they are when it restarts or reloads its configuration (SIGHUP)",
            )
        })?;
        let server = connected(&loaded, &self.name).await?;
        let report = server.report();
        let waits = report
            .tools
            .iter()
            .any(|tool| tool.status != OfferStatus::Offered);
        let accepted = match (waits, self.yes) {
            (false, _) => Output::new()
                .line("all tools that it offers on connection are already accepted")
                .map_err(CommandError::from),
            (true, true) => accept(&self.name, &server),
            (true, false) => {
                let name = &self.name;
                let hint = format!(
                    "read the output of `neuraxis mcp test {name}`; --yes accepts the tools without asking"
                );
                require_user(&hint).and_then(|()| ask(&self.name, &server))
            }
        };
        server.shutdown().await;
        accepted
    }
}

/// Shows what is not accepted, and asks whether to accept it.
pub(super) fn ask(name: &str, server: &McpServer) -> Result<(), CommandError> {
    let columns = terminal::width(std::io::stderr());
    anstream::eprint!("{}", not_accepted(&server.report(), columns));
    match ask_yes_no("Accept them as they are now?")? {
        true => accept(name, server),
        false => Err(CommandError::failed(anyhow!(
            "the tools were not accepted and are not offered"
        ))),
    }
}

fn accept(name: &str, server: &McpServer) -> Result<(), CommandError> {
    server
        .accept()
        .map_err(|why| CommandError::failed(anyhow!(why)))?;
    Ok(Output::new().line(&format!("accepted the tools of {name} as they are now"))?)
}
