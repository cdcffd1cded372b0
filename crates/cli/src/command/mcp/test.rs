//! `neuraxis mcp test`: connects to a server and shows what it offers.

use clap::Args;
use clap_complete::ArgValueCandidates;
use neuraxis_app::OfferStatus;
use serde_json::json;

use super::shown::{connected, in_text, not_accepted};
use super::trust;
use crate::completion;
use crate::confirm::can_ask_user;
use crate::error::CommandError;
use crate::listing::Format;
use crate::output::Output;
use crate::setup::Setup;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  neuraxis mcp test everything
  neuraxis mcp test everything --format json | jq -r '.tools[].name'";

/// Connect to a server, and show what it offers and how it is classified
///
/// A tool's class is what [trust] says, whatever its server says. Without an entry there, the tool is treated as one
/// that makes permanent changes and reaches outside this machine. Tools that changed since you accepted them are not
/// offered; at a terminal you are asked about them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Test {
    /// The server, as listed by `neuraxis mcp list`
    #[arg(add = ArgValueCandidates::new(completion::mcp_servers))]
    name: String,

    /// What to print: a line or two per tool, or a JSON object
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl Test {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let loaded = setup.load()?;
        loaded.warn_settings_ignored();
        let server = connected(&loaded, &self.name).await?;
        let report = server.report();
        let is_asked = can_ask_user();
        let text = match self.format {
            // If the user is asked, the question shows it.
            Format::Text if is_asked => in_text(&self.name, &report, &loaded.config),
            Format::Text => {
                let columns = terminal::width(std::io::stdout());
                in_text(&self.name, &report, &loaded.config) + &not_accepted(&report, columns)
            }
            Format::Json => {
                let policy = loaded.config.policy();
                let tools = report.tools.iter().map(|tool| {
                    let counted = policy.apply_trust(tool.claimed.clone());
                    json!({
                        "name": counted.name,
                        "description": counted.description,
                        "class": counted.class,
                        "claimed_class": tool.claimed.class,
                        "annotations": counted.annotations,
                        "offered": tool.status == OfferStatus::Offered,
                        "parameters": counted.parameters,
                    })
                });
                let unused = report.unused_tools.iter();
                let unused = unused.map(|it| json!({"tool": it.tool, "why": it.why}));
                let whole = json!({
                    "server": self.name,
                    "protocol": report.protocol,
                    "program": report.program,
                    "tools": tools.collect::<serde_json::Value>(),
                    "left_out": unused.collect::<serde_json::Value>(),
                });
                format!("{whole:#}\n")
            }
        };
        let waits = report
            .tools
            .iter()
            .any(|tool| tool.status != OfferStatus::Offered);
        let shown = Output::new().text(&text).map_err(CommandError::from);
        let done = shown.and_then(|()| match waits && is_asked {
            true => trust::ask(&self.name, &server),
            false => Ok(()),
        });
        server.shutdown().await;
        done
    }
}
