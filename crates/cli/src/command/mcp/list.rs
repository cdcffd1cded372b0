//! `neuraxis mcp list`: lists the configured servers, without starting any.

use clap::Args;
use neuraxis_app::{McpServerSection, shown_setting};
use serde_json::json;

use crate::error::CommandError;
use crate::harmless::one_line;
use crate::output::{ListFormat, Output};
use crate::setup::Setup;

const EXAMPLES: &str = "\
Examples:
  neuraxis mcp list
  neuraxis mcp list --format json | jq -r '.[].name'";

/// List the configured servers
///
/// No server is started; `neuraxis mcp test NAME` does that.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct List {
    /// What to print: a line or two per server, or a JSON array
    #[arg(long, value_enum, default_value_t = ListFormat::Text)]
    format: ListFormat,
}

impl List {
    pub(crate) fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let loaded = setup.load()?;
        loaded.warn_settings_ignored();
        let servers = &loaded.config.mcp().servers;
        let text = match self.format {
            ListFormat::Text if servers.is_empty() => {
                "no MCP servers are configured; see `neuraxis mcp add --help`\n".to_owned()
            }
            ListFormat::Text => {
                let lines = servers.iter().map(|(name, section)| {
                    let off = if section.enabled {
                        ""
                    } else {
                        " (not enabled)"
                    };
                    let at = loaded.config.mcp_origin(name);
                    // A section that only turns a server off has none.
                    let place = match one_line(&place(name, section)) {
                        place if place.is_empty() => place,
                        place => format!("    {place}\n"),
                    };
                    format!("{name}{off}\n{place}    {at}\n")
                });
                lines.collect()
            }
            ListFormat::Json => {
                let list = servers.iter().map(|(name, section)| {
                    json!({
                        "name": name,
                        "enabled": section.enabled,
                        "place": place(name, section),
                        "tools": section.tools,
                        "origin": loaded.config.mcp_origin(name).to_string(),
                    })
                });
                format!("{:#}\n", list.collect::<serde_json::Value>())
            }
        };
        let mut output = Output::new();
        match self.format {
            ListFormat::Text => output.plain_lines(&text)?,
            ListFormat::Json => output.text(&text)?,
        }
        Ok(())
    }
}

/// Describes where a server is, without secrets.
fn place(name: &str, section: &McpServerSection) -> String {
    if let Some(url) = &section.url {
        return shown_setting(&format!("mcp.servers.{name}.url"), url);
    }
    let command = section.command.iter().cloned();
    command
        .chain(section.shown_args())
        .collect::<Vec<_>>()
        .join(" ")
}
