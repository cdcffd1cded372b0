//! One connection to a server: the handshake in either era of the protocol, the paged list of tools, and the end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_ports::CancellationToken;
use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, ErrorCode, ListToolsRequest, PaginatedRequestParams, ProtocolVersion,
    ServerResult, SubscriptionFilter, Tool,
};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer,
    RunningService, RunningServiceCancellationToken, ServiceError,
};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::config::{McpServerConfig, Transport};
use crate::definition::UnusedTool;
use crate::error::{ConnectError, MAX_MESSAGE_CHARS};
use crate::handler::{self, Handler};
use crate::http;
use crate::pauses::{Pauses, STABLE_AFTER};
use crate::stdio::{DiscoveryLate, Process, StderrTail};
use crate::text::one_line;

/// The maximum number of pages of tools that are requested.
const MAX_PAGES: usize = 100;

/// The maximum number of tools of a server, including invalid ones.
pub(crate) const MAX_TOOLS: usize = 1_000;

/// How long closing a connection may take before its process is ended in another way.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a program may take to say which versions it speaks before it is asked in the older way. At most a third of
/// the configured start timeout.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(3);

/// How a server is asked which versions it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// First in the current way, then in the older way.
    Unknown,
    /// With `initialize`, as in revisions up to 2025-11-25.
    Legacy,
    /// In the current way, however long the server takes to answer.
    Modern,
}

/// A handshake that failed.
struct FailedHandshake {
    error: ConnectError,
    /// The era that may work although this one did not.
    other: Option<Era>,
}

impl From<ConnectError> for FailedHandshake {
    fn from(error: ConnectError) -> Self {
        Self { error, other: None }
    }
}

/// Ends a connection when it is dropped. A connection that is given up, for example because its tools cannot be listed,
/// would otherwise stay open.
struct EndOnDrop(Option<RunningServiceCancellationToken>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            connection.cancel();
        }
    }
}

/// A connected server.
pub(crate) struct Connection {
    pub(crate) peer: Peer<RoleClient>,
    /// The protocol version.
    pub(crate) version: String,
    /// The name and version that the server gives for itself.
    pub(crate) program: Option<String>,
    pub(crate) era: Era,
    pub(crate) stderr_tail: StderrTail,
    ending: EndOnDrop,
    ended: CancellationToken,
    /// Receives change notifications until it is dropped.
    listener: Option<AbortOnDropHandle<()>>,
    process: Option<Process>,
}

impl Connection {
    /// Starts or reaches a server and negotiates a version. Has no time limit of its own. If the server turns out to
    /// speak the current protocol, only too slowly, that is stored in `era`, even if this call is then given up.
    pub(crate) async fn open(
        config: &McpServerConfig,
        handler: impl Fn() -> Handler,
        era: &mut Era,
        stderr_tail: &mut StderrTail,
    ) -> Result<Self, ConnectError> {
        let opened = Self::open_in(config, handler(), *era, stderr_tail).await;
        let opened = match opened {
            Err(FailedHandshake {
                error,
                other: Some(other),
            }) => {
                // The server said so itself. That a server is legacy is only a guess.
                if other == Era::Modern {
                    *era = other;
                }
                let opened = Self::open_in(config, handler(), other, stderr_tail).await;
                opened.map_err(|failed| FailedHandshake::from(error.and(failed.error)))
            }
            opened => opened,
        };
        opened.map_err(|failed| failed.error)
    }

    async fn open_in(
        config: &McpServerConfig,
        handler: Handler,
        era: Era,
        stderr_tail: &mut StderrTail,
    ) -> Result<Self, FailedHandshake> {
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        let mode = match era {
            Era::Legacy => ClientLifecycleMode::Initialize,
            Era::Modern => ClientLifecycleMode::Discover { preferred_versions },
            Era::Unknown => ClientLifecycleMode::Auto {
                preferred_versions,
                legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
            },
        };
        let mut late = None;
        let secrets = handler.notices.secrets.clone();
        let (service, process) = match &config.transport {
            Transport::Stdio(stdio) => {
                let (process, mut lines) = Process::start(stdio, &handler.notices).await?;
                *stderr_tail = process.stderr_tail();
                if era == Era::Unknown {
                    let limit = DISCOVERY_LIMIT.min(config.start_timeout / 3);
                    late = Some(lines.limit_discovery(limit));
                }
                let service = handler.serve_with_lifecycle(lines, mode).await;
                (service, Some(process))
            }
            Transport::Http(address) => {
                let transport = http::transport(address, Arc::clone(&handler.changed))?;
                (handler.serve_with_lifecycle(transport, mode).await, None)
            }
        };
        let service = match service {
            Ok(service) => service,
            Err(error) => {
                let said = stderr_tail.final_explanation().await;
                let was_asked_both =
                    matches!(error, ClientInitializeError::LegacyFallbackFailed { .. });
                let error = ConnectError::of_handshake(&error, said, &secrets);
                let other = match era {
                    // The server does speak the current protocol; it took longer than it was given.
                    Era::Unknown if late.as_ref().is_some_and(DiscoveryLate::get) => {
                        Some(Era::Modern)
                    }
                    Era::Legacy => None,
                    // Some servers exit on a request that they do not know.
                    _ if error.is_end() => Some(Era::Legacy),
                    // Others answer it with an error of their own, such as status 500.
                    _ if error.violates_protocol() && !was_asked_both => Some(Era::Legacy),
                    _ => None,
                };
                // Stopped before the next start, so that two processes do not exist at the same time.
                if let (Some(_), Some(process)) = (other, process) {
                    process.stop().await;
                }
                return Err(FailedHandshake { error, other });
            }
        };
        let connection = Self::of(service, process, era, stderr_tail.clone()).await;
        let is_spoken = |known: &ProtocolVersion| known.as_str() == connection.version;
        if !ProtocolVersion::KNOWN_VERSIONS.iter().any(is_spoken) {
            let theirs = connection.version.clone();
            connection.close().await;
            return Err(ConnectError::Version { theirs }.into());
        }
        Ok(connection)
    }

    async fn of(
        service: RunningService<RoleClient, Handler>,
        process: Option<Process>,
        asked_in: Era,
        stderr_tail: StderrTail,
    ) -> Self {
        let peer = service.peer().clone();
        // If the list cannot be fetched, the previous list must not be used instead.
        peer.set_response_cache_config(ClientCacheConfig::disabled())
            .await;
        let info = peer.peer_info();
        let version = info.as_ref().map(|info| info.protocol_version.clone());
        let is_legacy = version.as_ref().is_none_or(ProtocolVersion::has_initialize);
        let program = info.as_ref().and_then(|info| info.server_info.as_ref());
        let secrets = service.service().notices.secrets.clone();
        let program = program.map(|it| secrets.text(&format!("{} {}", it.name, it.version)));
        let program = program.map(|it| one_line(&it, 120));
        let tells = info
            .as_ref()
            .and_then(|info| info.capabilities.tools.as_ref());
        let tells = tells.is_some_and(|tools| tools.list_changed == Some(true));
        if is_legacy {
            handler::ask_for_messages(&peer);
        }
        let changed = Arc::clone(&service.service().changed);
        let listener = (tells && !is_legacy).then(|| {
            let listening = listen(peer.clone(), changed);
            AbortOnDropHandle::new(tokio::spawn(listening))
        });
        let ending = EndOnDrop(Some(service.cancellation_token()));
        let ended = CancellationToken::new();
        let ends = ended.clone().drop_guard();
        tokio::spawn(async move {
            // The connection has ended, whatever the result says.
            let _ = service.waiting().await;
            drop(ends);
        });
        Self {
            peer,
            version: version.map_or_else(String::new, |it| one_line(&it.to_string(), 40)),
            program,
            era: if is_legacy { Era::Legacy } else { asked_in },
            stderr_tail,
            ending,
            ended,
            listener,
            process,
        }
    }

    /// Lists the tools, page by page, up to the limits. An invalid tool does not affect the others.
    pub(crate) async fn tools(&self) -> Result<(Vec<Tool>, Vec<UnusedTool>), ServiceError> {
        let (mut tools, mut left_out) = (Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let request = match &cursor {
                Some(_) => ListToolsRequest::with_param(params),
                None => ListToolsRequest::default(),
            };
            let request = ClientRequest::ListToolsRequest(request);
            let next = match self.peer.send_request(request).await? {
                ServerResult::ListToolsResult(page) => {
                    tools.extend(page.tools);
                    page.next_cursor
                }
                ServerResult::CustomResult(page) => {
                    let page = page.0;
                    let listed: &[Value] = match page.get("tools") {
                        Some(Value::Array(listed)) => listed,
                        // Programs in Go write an empty list this way.
                        Some(Value::Null) => &[],
                        _ => return Err(ServiceError::UnexpectedResponse),
                    };
                    // Receiving one more than the limit shows that there are too many.
                    let left = MAX_TOOLS.saturating_sub(tools.len() + left_out.len());
                    for tool in listed.iter().take(left + 1) {
                        match serde_json::from_value(tool.clone()) {
                            Ok(tool) => tools.push(tool),
                            Err(error) => left_out.push(undefined_tool(tool, &error)),
                        }
                    }
                    let next = page.get("nextCursor").and_then(|it| it.as_str());
                    next.map(str::to_owned)
                }
                // Some servers send an empty result if they have no tools.
                ServerResult::EmptyResult(_) => None,
                _ => return Err(ServiceError::UnexpectedResponse),
            };
            if tools.len() + left_out.len() > MAX_TOOLS {
                tools.truncate(MAX_TOOLS);
                left_out.push(unread_tools(format!("it has more than {MAX_TOOLS} tools")));
                return Ok((tools, left_out));
            }
            match next {
                None => return Ok((tools, left_out)),
                Some(next) if next.is_empty() => return Ok((tools, left_out)),
                Some(next) if !seen.insert(next.clone()) => {
                    left_out.push(unread_tools("its list repeats a page".to_owned()));
                    return Ok((tools, left_out));
                }
                next => cursor = next,
            }
        }
        left_out.push(unread_tools(format!(
            "its list has more than {MAX_PAGES} pages"
        )));
        Ok((tools, left_out))
    }

    /// Waits until the connection to the server has ended.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Closes the connection and stops its process.
    pub(crate) async fn close(mut self) {
        drop(self.listener.take());
        drop(self.ending);
        // A connection that does not close is left alone: its process is stopped.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.ended.cancelled()).await;
        if let Some(process) = self.process {
            process.stop().await;
        }
    }
}

fn unread_tools(why: String) -> UnusedTool {
    UnusedTool {
        tool: "(the rest)".to_owned(),
        why,
    }
}

fn undefined_tool(tool: &Value, error: &serde_json::Error) -> UnusedTool {
    let name = tool.get("name").and_then(|name| name.as_str());
    UnusedTool {
        tool: one_line(name.unwrap_or("(without a name)"), 64),
        why: format!(
            "its definition is invalid ({})",
            one_line(&error.to_string(), MAX_MESSAGE_CHARS)
        ),
    }
}

/// Forwards tool changes from servers that require a subscription. A subscription that ends, for example because a
/// proxy cuts its stream, is renewed for as long as the connection lasts.
async fn listen(peer: Peer<RoleClient>, changed: Arc<Notify>) {
    let mut pauses = Pauses::new();
    let mut was_deaf = false;
    while !peer.is_transport_closed() {
        let since = Instant::now();
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        match peer.listen(filter).await {
            Ok(mut subscription) => {
                // Changes in the meantime were not received.
                if was_deaf {
                    changed.notify_one();
                }
                while let Ok(Some(_)) = subscription.next().await {
                    changed.notify_one();
                }
            }
            Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                return;
            }
            // The next attempt may succeed.
            Err(_) => {}
        }
        was_deaf = true;
        if since.elapsed() >= STABLE_AFTER {
            pauses = Pauses::new();
        }
        pauses.wait().await;
    }
}
