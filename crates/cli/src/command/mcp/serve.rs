//! `neuraxis mcp serve`: offers the agents to the program that started this one.

use std::sync::Arc;

use clap::Args;
use clap_complete::ArgValueCandidates;
use neuraxis::mcp_server::McpServer;
use neuraxis::ports::CancellationToken;
use neuraxis::{DecideLater, Mode, Orchestrator};

use crate::command::ask::require_persistent_runs;
use crate::completion;
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::progress;
use crate::setup::{Loaded, Setup, end_runs, poll_for_messages, with_app};
use crate::unknown::{self, LIST_OF_MODES};

const EXAMPLES: &str = "\
Examples:
  neuraxis mcp serve
  neuraxis --set store.url=sqlite://sessions.db mcp serve --wait
  neuraxis mcp serve --modes moderate,exploratory

For a desktop client or an editor, in its list of MCP servers:
  { \"mcpServers\": { \"neuraxis\": { \"command\": \"neuraxis\", \"args\": [\"mcp\", \"serve\"] } } }";

/// Offer the agents to an MCP client over standard input and output
///
/// Each agent is a tool, and `ask` is a plain question; sessions are resources. A call that needs approval is put to
/// the client's user, if the client supports that. The command ends when the client closes standard input, or on a
/// signal; runs in progress are cancelled then. Notices go to standard error.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Serve {
    /// The modes that the client may choose, instead of those no freer than moderate. The client's model makes the
    /// choice
    #[arg(long, value_name = "MODE", value_delimiter = ',', add = ArgValueCandidates::new(completion::modes))]
    modes: Vec<String>,

    /// If the client cannot ask for approval, leave the run waiting instead of denying the call
    #[arg(long)]
    wait: bool,
}

impl Serve {
    pub(super) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let loaded = setup.load()?;
        self.check(&loaded)?;
        let stop = CancellationToken::new();
        let stop_on_signal = stop.clone();
        // From here on, a signal lets runs end before the program does.
        let _interrupt = Interrupt::watch(move |_| stop_on_signal.cancel());
        let mut app = loaded
            .app()
            .extend(neuraxis::OrchestratorBuilder::verify_sessions);
        if self.wait {
            app = app.approver(Arc::new(DecideLater));
        }
        let app = app.build().await?;
        poll_for_messages(&app);
        for notice in &app.notices {
            progress::notice(notice);
        }
        let served = with_app(app, async |app| {
            let server = self.server(&app.orchestrator);
            let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
            let served = server.serve(input, output, stop.cancelled()).await;
            end_runs(app).await;
            served
        });
        served.await.map_err(CommandError::failed)
    }

    fn server(self, orchestrator: &Orchestrator) -> McpServer {
        let server = McpServer::new(orchestrator.clone());
        match self.modes.is_empty() {
            true => server,
            false => server.modes(self.modes.into_iter().map(Mode::new)),
        }
    }

    fn check(&self, loaded: &Loaded) -> Result<(), CommandError> {
        if self.wait {
            require_persistent_runs(&loaded.config)?;
        }
        let known: Vec<&str> = loaded.config.policy().modes().map(Mode::as_str).collect();
        let unknown = self
            .modes
            .iter()
            .find(|mode| !known.contains(&mode.as_str()));
        match unknown {
            None => Ok(()),
            Some(unknown) => Err(unknown::unknown("mode", unknown, known, LIST_OF_MODES)),
        }
    }
}
