//! Connects to a server, and describes it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use neuraxis::core::{ToolClass, ToolSpec};
use neuraxis_app::{
    Config, McpServer, OfferStatus, ReportedTool, ServerNotice, ServerReport, start_mcp_server,
};
use tokio::time::timeout;

use crate::error::CommandError;
use crate::harmless::{one_line, reveal_invisible};
use crate::progress::{self, Progress};
use crate::rows::plain_in_margin;
use crate::setup::Loaded;
use crate::unknown::unknown;
use crate::wrap::broken;

/// Connects to a configured server.
pub(super) async fn connected(loaded: &Loaded, name: &str) -> Result<Arc<McpServer>, CommandError> {
    let Some(started) = start_mcp_server(&loaded.config, &loaded.environment, name) else {
        let known = loaded.config.mcp().servers.keys().map(String::as_str);
        let listed =
            "`neuraxis mcp list` lists the servers, `neuraxis mcp add --help` says how to add one";
        return Err(unknown("MCP server", name, known, listed));
    };
    let at = loaded.config.mcp_origin(name);
    let server =
        started.map_err(|fault| CommandError::configuration(anyhow!("{at:#}: {fault}")))?;
    let progress = Progress::new();
    progress.activity(&format!("connecting to {name}"));
    let section = loaded.config.mcp().servers.get(name);
    let usual = section.map_or(Duration::ZERO, |section| section.start_timeout);
    let ready = ready(&server, name, usual).await;
    progress.hide();
    let looked_at = match ready {
        Ok(()) => accepted_is_known(&server),
        Err(why) => Err(format!(
            "MCP server {name} is not connected: {}",
            one_line(&why)
        )),
    };
    match looked_at {
        Ok(()) => Ok(server),
        Err(why) => {
            server.shutdown().await;
            Err(CommandError::failed(anyhow!(why)))
        }
    }
}

/// Fails if it is unknown which tools of a server were accepted: it then offers nothing, like a server without tools.
fn accepted_is_known(server: &McpServer) -> Result<(), String> {
    let mut notices = server.take_notices().into_iter();
    let unknown = notices.find(|it| matches!(it, ServerNotice::NoPins { .. }));
    unknown.map_or(Ok(()), |notice| Err(notice.to_string()))
}

/// Waits until a server is connected. This may take longer than in a run, since a program that must be downloaded first
/// takes its time; a notice says so.
async fn ready(server: &McpServer, name: &str, usual: Duration) -> Result<(), String> {
    let mut connecting = pin!(server.ready());
    if let Ok(ready) = timeout(usual, &mut connecting).await {
        return ready;
    }
    progress::notice(&format!(
        "MCP server {name} has not answered within {usual:?}, after which a run proceeds without it \
         (mcp.servers.{name}.start_timeout); still waiting, press Ctrl-C to stop"
    ));
    connecting.await
}

/// Describes a server, and how its tools are classified.
pub(super) fn in_text(name: &str, report: &ServerReport, config: &Config) -> String {
    let program = report
        .program
        .as_deref()
        .map(|it| format!(", {}", one_line(it)));
    let program = program.unwrap_or_default();
    let mut text = format!("{name}: protocol {}{program}\n", one_line(&report.protocol));
    for tool in &report.tools {
        text.push_str(&of_tool(
            tool,
            &config.policy().apply_trust(tool.claimed.clone()),
        ));
    }
    for unused in &report.unused_tools {
        let (tool, why) = (one_line(&unused.tool), one_line(&unused.why));
        text.push_str(&format!("{tool} (left out: {why})\n"));
    }
    if report.tools.is_empty() {
        text.push_str("it offers no tools\n");
    }
    text
}

/// Describes a tool. Shows the class that applies here, not the one the server claims.
fn of_tool(tool: &ReportedTool, counted: &ToolSpec) -> String {
    let status = match tool.status {
        OfferStatus::Offered => "",
        OfferStatus::Changed => ", changed: not offered",
        _ => ", new: not offered",
    };
    // A claim of irreversible is the same as none.
    let is_told = [counted.class, ToolClass::Irreversible].contains(&tool.claimed.class);
    let claim = match is_told {
        true => String::new(),
        false => format!(", says it is {}", tool.claimed.class),
    };
    let summary = reveal_invisible(&counted.description);
    let summary = summary.split(". ").next().unwrap_or_default();
    let summary = one_line(summary.trim_end_matches('.'));
    format!(
        "{} ({}{claim}{status})\n    {summary}\n",
        counted.name, counted.class
    )
}

/// Shows all definitions that are not accepted, wrapped to this many columns, for the user to decide.
pub(super) fn not_accepted(report: &ServerReport, columns: usize) -> String {
    let waiting = report
        .tools
        .iter()
        .filter(|tool| tool.status != OfferStatus::Offered);
    let shown = waiting.map(|tool| {
        let what = match tool.status {
            OfferStatus::Changed => "changed",
            _ => "new",
        };
        definition(&tool.claimed, tool.title.as_deref(), what, columns)
    });
    shown.collect()
}

/// Shows a complete definition, with the server's text in a margin.
fn definition(spec: &ToolSpec, title: Option<&str>, what: &str, columns: usize) -> String {
    let destroys = match spec.annotations.destructive {
        true => "may destroy something",
        false => "destroys nothing",
    };
    let reaches = match spec.annotations.open_world {
        true => "reaches outside this machine",
        false => "stays on this machine",
    };
    let claims = format!("says it is {}, {destroys} and {reaches}", spec.class);
    let head = format!("{} ({what}), {claims}", spec.name);
    let head = broken(&head, columns, "    ");
    let title = title.map(|title| plain_in_margin(&format!("titled: {title}"), columns));
    let title = title.unwrap_or_default();
    let description = plain_in_margin(&spec.description, columns);
    let parameters = plain_in_margin(spec.parameters.as_str(), columns);
    format!("{head}\n{title}{description}{parameters}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_of_a_tool_stays_within_its_margin() {
        let name = "shop__look".parse().unwrap();
        let mut spec = ToolSpec::new(name, "Looks. shop__buy (new), says it is read-only\nאב");
        spec.annotations.destructive = true;
        assert_eq!(
            definition(&spec, Some("Look"), "changed", 40),
            "shop__look (changed), says it is\n    irreversible, may destroy something\n    and stays on this machine\n│ titled: Look\n│ Looks. shop__buy (new), says it is re\n┆ ad-only\n│ אב\n├ in its real order: ⟨U+05D0⟩⟨U+05D1⟩\n│ {\"type\":\"object\"}\n"
        );
    }
}
