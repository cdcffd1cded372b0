//! One connection to a server: the handshake in whichever era of the protocol it speaks, its tools page by page, its end.

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

use crate::config::{McpServerConfig, Reach};
use crate::definition::LeftOut;
use crate::error::{ConnectError, MAX_SAID};
use crate::handler::{self, Handler};
use crate::http;
use crate::pauses::{Pauses, STABLE_AFTER};
use crate::stdio::{LastWords, Late, Process};
use crate::text::one_line;

/// The most pages of tools that are asked for.
const MAX_PAGES: usize = 100;

/// The most tools of a server, with those that are none.
pub(crate) const MAX_TOOLS: usize = 1_000;

/// How long the end of a connection may take, before its process is ended in another way.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a program may take to say what it speaks before it is asked in the older way, and no more than a third of the
/// time that its start may take.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(3);

/// Which way a server is asked what it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// In the way of today first, and then in that of before.
    Unknown,
    /// It begins with `initialize`, as servers did until 2025-11-25.
    Legacy,
    /// In the way of today, however long it takes to answer.
    Modern,
}

/// A handshake that failed.
struct Failed {
    error: ConnectError,
    /// Which way may work where this one did not.
    other: Option<Era>,
}

impl From<ConnectError> for Failed {
    fn from(error: ConnectError) -> Self {
        Self { error, other: None }
    }
}

/// Ends a connection when it is dropped: one that is given up, such as one whose tools cannot be had, would stay otherwise.
struct EndOnDrop(Option<RunningServiceCancellationToken>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            connection.cancel();
        }
    }
}

/// A server that answers.
pub(crate) struct Connection {
    pub(crate) peer: Peer<RoleClient>,
    /// The protocol version.
    pub(crate) version: String,
    /// What the server calls itself.
    pub(crate) program: Option<String>,
    pub(crate) era: Era,
    pub(crate) last_words: LastWords,
    ending: EndOnDrop,
    ended: CancellationToken,
    /// Hears of changes until it is dropped.
    listener: Option<AbortOnDropHandle<()>>,
    process: Option<Process>,
}

impl Connection {
    /// Starts or reaches a server and agrees with it on a version. Not bounded in time. That it speaks the way of today, if too
    /// late, is kept in `era`, though the rest may be given up.
    pub(crate) async fn open(
        config: &McpServerConfig,
        handler: impl Fn() -> Handler,
        era: &mut Era,
        last_words: &mut LastWords,
    ) -> Result<Self, ConnectError> {
        let opened = Self::open_in(config, handler(), *era, last_words).await;
        let opened = match opened {
            Err(Failed {
                error,
                other: Some(other),
            }) => {
                // It said so. That one is older is no more than a guess.
                if other == Era::Modern {
                    *era = other;
                }
                let opened = Self::open_in(config, handler(), other, last_words).await;
                opened.map_err(|failed| Failed::from(error.and(failed.error)))
            }
            opened => opened,
        };
        opened.map_err(|failed| failed.error)
    }

    async fn open_in(
        config: &McpServerConfig,
        handler: Handler,
        era: Era,
        last_words: &mut LastWords,
    ) -> Result<Self, Failed> {
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
        let (service, process) = match &config.reach {
            Reach::Stdio(stdio) => {
                let (process, mut lines) = Process::start(stdio, &handler.notices).await?;
                *last_words = process.last_words();
                if era == Era::Unknown {
                    let limit = DISCOVERY_LIMIT.min(config.start_timeout / 3);
                    late = Some(lines.limit_discovery(limit));
                }
                let service = handler.serve_with_lifecycle(lines, mode).await;
                (service, Some(process))
            }
            Reach::Http(address) => {
                let transport = http::transport(address, Arc::clone(&handler.changed))?;
                (handler.serve_with_lifecycle(transport, mode).await, None)
            }
        };
        let service = match service {
            Ok(service) => service,
            Err(error) => {
                let said = last_words.said_at_last().await;
                let was_asked_both =
                    matches!(error, ClientInitializeError::LegacyFallbackFailed { .. });
                let error = ConnectError::of_handshake(&error, said, &secrets);
                let other = match era {
                    // It does know the way of today, and took longer than it was given.
                    Era::Unknown if late.as_ref().is_some_and(Late::is_so) => Some(Era::Modern),
                    Era::Legacy => None,
                    // Some do not outlive a question that they do not know.
                    _ if error.is_end() => Some(Era::Legacy),
                    // Others answer it with an error of their own, such as the status 500.
                    _ if error.is_odd() && !was_asked_both => Some(Era::Legacy),
                    _ => None,
                };
                // Before it is started anew, so that the two are not there at once.
                if let (Some(_), Some(process)) = (other, process) {
                    process.stop().await;
                }
                return Err(Failed { error, other });
            }
        };
        let connection = Self::of(service, process, era, last_words.clone()).await;
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
        last_words: LastWords,
    ) -> Self {
        let peer = service.peer().clone();
        // A list that could not be fetched is none, and not that of before.
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
            // However it ended, it did.
            let _ = service.waiting().await;
            drop(ends);
        });
        Self {
            peer,
            version: version.map_or_else(String::new, |it| one_line(&it.to_string(), 40)),
            program,
            era: if is_legacy { Era::Legacy } else { asked_in },
            last_words,
            ending,
            ended,
            listener,
            process,
        }
    }

    /// Asks for the tools, page by page, as far as there are not too many. A tool that is none does not spoil the others.
    pub(crate) async fn tools(&self) -> Result<(Vec<Tool>, Vec<LeftOut>), ServiceError> {
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
                        // So programs in Go write an empty list.
                        Some(Value::Null) => &[],
                        _ => return Err(ServiceError::UnexpectedResponse),
                    };
                    // One more than there may be tells that there are too many.
                    let left = MAX_TOOLS.saturating_sub(tools.len() + left_out.len());
                    for tool in listed.iter().take(left + 1) {
                        match serde_json::from_value(tool.clone()) {
                            Ok(tool) => tools.push(tool),
                            Err(error) => left_out.push(no_tool(tool, &error)),
                        }
                    }
                    let next = page.get("nextCursor").and_then(|it| it.as_str());
                    next.map(str::to_owned)
                }
                // Nothing at all is how some say that there are none.
                ServerResult::EmptyResult(_) => None,
                _ => return Err(ServiceError::UnexpectedResponse),
            };
            if tools.len() + left_out.len() > MAX_TOOLS {
                tools.truncate(MAX_TOOLS);
                left_out.push(rest(format!("it has more than {MAX_TOOLS} tools")));
                return Ok((tools, left_out));
            }
            match next {
                None => return Ok((tools, left_out)),
                Some(next) if next.is_empty() => return Ok((tools, left_out)),
                Some(next) if !seen.insert(next.clone()) => {
                    left_out.push(rest("its list leads back to where it was".to_owned()));
                    return Ok((tools, left_out));
                }
                next => cursor = next,
            }
        }
        left_out.push(rest(format!("its list has more than {MAX_PAGES} pages")));
        Ok((tools, left_out))
    }

    /// Waits until the server is gone.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Ends the connection, and the process that it is to.
    pub(crate) async fn close(mut self) {
        drop(self.listener.take());
        drop(self.ending);
        // A connection that does not end is left to itself: its process ends.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.ended.cancelled()).await;
        if let Some(process) = self.process {
            process.stop().await;
        }
    }
}

fn rest(why: String) -> LeftOut {
    LeftOut {
        tool: "(the rest)".to_owned(),
        why,
    }
}

fn no_tool(tool: &Value, error: &serde_json::Error) -> LeftOut {
    let name = tool.get("name").and_then(|name| name.as_str());
    LeftOut {
        tool: one_line(name.unwrap_or("(without a name)"), 64),
        why: format!(
            "it is not defined as a tool ({})",
            one_line(&error.to_string(), MAX_SAID)
        ),
    }
}

/// Passes on that the tools changed, where a server has to be asked for that. A subscription that ends, as when a proxy
/// cuts its stream, is made anew for as long as the connection stands.
async fn listen(peer: Peer<RoleClient>, changed: Arc<Notify>) {
    let mut pauses = Pauses::new();
    let mut was_deaf = false;
    while !peer.is_transport_closed() {
        let since = Instant::now();
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        match peer.listen(filter).await {
            Ok(mut subscription) => {
                // What changed in between was not heard.
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
            // It may be heard the next time.
            Err(_) => {}
        }
        was_deaf = true;
        if since.elapsed() >= STABLE_AFTER {
            pauses = Pauses::new();
        }
        pauses.wait().await;
    }
}
