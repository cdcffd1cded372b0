//! Starts the MCP servers that the configuration names.
//!
//! They start concurrently in the background. A server that does not start in time only loses its own tools, with a
//! notice.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use neuraxis_engine::OrchestratorBuilder;
use neuraxis_mcp::{McpServer, MemoryPins, Pins};
use neuraxis_ports::{Tool, ToolSource};

use crate::config::{Config, McpFault};
use crate::environment::Environment;
use crate::trust::PinFile;

/// The servers of an engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct McpServers {
    servers: Vec<Started>,
    /// Servers that could not even be started.
    absent: Vec<Arc<UnstartedServer>>,
    /// Notices about servers that could not even be started.
    notices: Vec<String>,
}

#[derive(Debug, Clone)]
struct Started {
    server: Arc<McpServer>,
    name: String,
    /// How long to wait for it.
    patience: Duration,
}

/// A server that cannot be started as configured. Calls of its tools that wait for a person keep waiting.
#[derive(Debug)]
struct UnstartedServer(String);

impl ToolSource for UnstartedServer {
    fn name(&self) -> &str {
        &self.0
    }

    fn version(&self) -> u64 {
        0
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }
}

/// Returns where accepted definitions are stored. For a user without a data folder, they only last as long as the
/// process.
fn pins(environment: &Environment) -> Arc<dyn Pins> {
    match PinFile::of(environment) {
        Ok(file) => Arc::new(file),
        Err(_) => Arc::new(MemoryPins::default()),
    }
}

/// Starts to connect to one configured server; `None` if there is none with this name. Requires a tokio runtime.
///
/// # Errors
///
/// A [`McpFault`] if it cannot be used as configured.
pub fn start_mcp_server(
    config: &Config,
    environment: &Environment,
    name: &str,
) -> Option<Result<Arc<McpServer>, McpFault>> {
    start(config, environment, name, pins(environment))
}

fn start(
    config: &Config,
    environment: &Environment,
    name: &str,
    pins: Arc<dyn Pins>,
) -> Option<Result<Arc<McpServer>, McpFault>> {
    let section = config.mcp().servers.get(name)?;
    let resolved = section.resolved(name, environment);
    let started = resolved.and_then(|it| Ok(McpServer::start(it, pins)?));
    Some(started)
}

impl McpServers {
    /// Starts to connect to all enabled servers.
    pub(crate) fn start(config: &Config, environment: &Environment) -> Self {
        let mut all = Self::default();
        let pins = pins(environment);
        let enabled = config
            .mcp()
            .servers
            .iter()
            .filter(|(_, section)| section.enabled);
        for (name, section) in enabled {
            match start(config, environment, name, Arc::clone(&pins)) {
                Some(Ok(server)) => all.servers.push(Started {
                    server,
                    name: name.clone(),
                    patience: section.start_timeout,
                }),
                Some(Err(fault)) => {
                    all.absent.push(Arc::new(UnstartedServer(name.clone())));
                    let at = config.mcp_origin(name);
                    all.notices
                        .push(format!("{at}: MCP server {name} is not started: {fault}"));
                }
                None => {}
            }
        }
        all
    }

    /// Makes an engine offer their tools.
    pub(crate) fn attach(&self, builder: OrchestratorBuilder) -> OrchestratorBuilder {
        let servers = self.servers.iter();
        let builder = servers.fold(builder, |builder, it| {
            builder.tool_source(Arc::clone(&it.server) as Arc<_>)
        });
        let absent = self.absent.iter();
        absent.fold(builder, |builder, it| {
            builder.tool_source(Arc::clone(it) as Arc<_>)
        })
    }

    /// Waits until each server is connected or its time is up. Returns notices for the user.
    pub(crate) async fn wait_connected(&self) -> Vec<String> {
        let waiting = self.servers.iter().map(|it| async {
            let ready = tokio::time::timeout(it.patience, it.server.ready()).await;
            let mut notices: Vec<String> = it
                .server
                .take_notices()
                .iter()
                .map(ToString::to_string)
                .collect();
            match ready {
                Ok(Ok(())) => {}
                Ok(Err(why)) if notices.is_empty() => {
                    notices.push(format!("MCP server {} is not connected: {why}", it.name));
                }
                Ok(Err(_)) => {}
                Err(_) => notices.push(format!(
                    "MCP server {} did not connect within {:?}: runs that start before it connects have none of its \
                     tools (mcp.servers.{}.start_timeout)",
                    it.name, it.patience, it.name
                )),
            }
            notices
        });
        let notices_of_servers = join_all(waiting).await;
        self.notices
            .iter()
            .cloned()
            .chain(notices_of_servers.into_iter().flatten())
            .collect()
    }

    /// Returns the notices that the user has not seen yet.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        let notices = self.servers.iter().flat_map(|it| it.server.take_notices());
        notices.map(|notice| notice.to_string()).collect()
    }

    /// Stops all servers, and waits until they have stopped.
    pub(crate) async fn shutdown(&self) {
        join_all(self.servers.iter().map(|it| it.server.shutdown())).await;
    }

    /// Stops all servers, and terminates those that take longer than `limit`. Returns whether none remained.
    pub(crate) async fn shutdown_within(&self, limit: Duration) -> bool {
        let servers = self.servers.iter();
        let ending = servers.map(|it| it.server.shutdown_within(limit));
        !join_all(ending).await.contains(&false)
    }
}
