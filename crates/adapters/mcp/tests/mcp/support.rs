//! Servers for tests: scripts that misbehave in one way each, and the real ones that `cargo xtask test` provides.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{JsonText, ToolOutput};
use neuraxis_mcp::{McpServer, McpServerConfig, MemoryPins, Pins, StdioConfig, Transport};
use neuraxis_ports::{Secret, Tool, ToolContext, ToolError, ToolSource};
use neuraxis_testkit::{mcp_script, tool_context};

/// Returns a server that is a shell script: `acts` replaces the usual functions by others.
pub(crate) fn script(acts: &str) -> McpServerConfig {
    script_in(Path::new("/"), acts)
}

/// Like [`script`], with a working directory.
pub(crate) fn script_in(folder: &Path, acts: &str) -> McpServerConfig {
    let mut program = StdioConfig::new("/bin/sh", ["-c", &mcp_script(acts)]);
    program.env = path();
    program.cwd = Some(folder.to_owned());
    let mut config = McpServerConfig::new("shop", Transport::Stdio(program));
    config.start_timeout = Duration::from_secs(20);
    config
}

pub(crate) fn path() -> BTreeMap<String, Secret> {
    let path = std::env::var("PATH").unwrap();
    BTreeMap::from([("PATH".to_owned(), Secret::new(&path))])
}

pub(crate) fn start(config: McpServerConfig) -> Arc<McpServer> {
    start_with(config, Arc::new(MemoryPins::default()))
}

pub(crate) fn start_with(config: McpServerConfig, pins: Arc<dyn Pins>) -> Arc<McpServer> {
    McpServer::start(config, pins).unwrap()
}

/// Starts a server and waits until it is connected.
pub(crate) async fn ready(config: McpServerConfig) -> Arc<McpServer> {
    let server = start(config);
    server.ready().await.unwrap();
    server
}

pub(crate) fn tool(server: &McpServer, name: &str) -> Arc<dyn Tool> {
    let tools = server.tools();
    let found = tools.iter().find(|tool| tool.spec().name.as_str() == name);
    found
        .unwrap_or_else(|| panic!("{name} in {tools:?}"))
        .clone()
}

pub(crate) fn names(server: &McpServer) -> Vec<String> {
    let tools = server.tools();
    tools
        .iter()
        .map(|tool| tool.spec().name.to_string())
        .collect()
}

pub(crate) async fn call(
    server: &McpServer,
    name: &str,
    arguments: &str,
) -> Result<ToolOutput, ToolError> {
    call_in(server, name, arguments, tool_context()).await
}

pub(crate) async fn call_in(
    server: &McpServer,
    name: &str,
    arguments: &str,
    ctx: ToolContext,
) -> Result<ToolOutput, ToolError> {
    tool(server, name)
        .call(JsonText::from_text(arguments), ctx)
        .await
}

/// Waits until a condition holds, and fails if it does not.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    waited.unwrap_or_else(|_| panic!("{what}"));
}

pub(crate) fn notices(server: &McpServer) -> String {
    let notices = server.take_notices();
    let notices: Vec<String> = notices.iter().map(ToString::to_string).collect();
    notices.join("\n")
}
