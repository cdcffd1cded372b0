//! A server whose tools may change: kept connected in the background, and restarted when it dies.
//!
//! Whatever it does, only its own tools are affected.

mod report;
mod supervise;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use neuraxis_core::ContentHash;
use neuraxis_ports::{CancellationToken, Tool, ToolError, ToolSource};
use rmcp::RoleClient;
use rmcp::service::Peer;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::DropGuard;

use crate::calls::Calls;
use crate::config::{ConfigFault, McpServerConfig, Transport};
use crate::definition::{Definition, UnusedTool};
use crate::notices::{Notices, ServerNotice};
use crate::pins::{Accepted, Pins};
use crate::text::Secrets;
use crate::tool::McpTool;
pub use report::{OfferStatus, ReportedTool, ServerReport};

/// How long a call waits for a server that is being restarted.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// A server, from its start until it is [shut down](Self::shutdown) or dropped.
///
/// It is a [`ToolSource`]: its tools are available once it is connected, and change when the server says so.
pub struct McpServer {
    shared: Arc<Shared>,
    supervisor: Mutex<Option<JoinHandle<()>>>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

/// The state that a server, its tools and its supervisor share.
pub(crate) struct Shared {
    pub(crate) config: McpServerConfig,
    pub(crate) calls: Arc<Calls>,
    changed: Arc<Notify>,
    /// Notified with the reason when a call could not reach the server.
    lost: watch::Sender<Option<Arc<str>>>,
    pins: Arc<dyn Pins>,
    state: watch::Sender<State>,
    published: RwLock<Published>,
    listing: Mutex<LastListing>,
    pub(crate) notices: Notices,
}

/// The state of a server.
#[derive(Clone)]
enum State {
    /// Not connected yet.
    Starting,
    /// Connected.
    Up(Peer<RoleClient>),
    /// Not connected, and being retried. Contains the reason.
    Down(Arc<str>),
    /// No longer used. Contains the reason.
    Off(Arc<str>),
}

/// The tools that are offered.
#[derive(Default)]
struct Published {
    version: u64,
    tools: Vec<Arc<dyn Tool>>,
    hashes: BTreeMap<Arc<str>, ContentHash>,
}

/// What the server last listed, and which of that is offered.
#[derive(Default)]
struct LastListing {
    version: String,
    program: Option<String>,
    definitions: Vec<(Definition, OfferStatus)>,
    unused_tools: Vec<UnusedTool>,
    /// The definitions that were accepted at that time.
    accepted: Accepted,
    /// The notices that were given about it.
    notices_given: Vec<ServerNotice>,
    /// Whether the server was first used by this process: tools that it adds later are then accepted, too.
    is_first_use: bool,
}

impl McpServer {
    /// Starts connecting to a server in the background. Requires a tokio runtime.
    ///
    /// # Errors
    ///
    /// A [`ConfigFault`] if the configuration cannot be used.
    pub fn start(config: McpServerConfig, pins: Arc<dyn Pins>) -> Result<Arc<Self>, ConfigFault> {
        config.check()?;
        let shared = Arc::new(Shared {
            notices: Notices::new(Arc::clone(&config.name), Secrets::new(config.secrets())),
            config,
            calls: Arc::default(),
            changed: Arc::default(),
            lost: watch::Sender::new(None),
            pins,
            state: watch::Sender::new(State::Starting),
            published: RwLock::default(),
            listing: Mutex::default(),
        });
        let stop = CancellationToken::new();
        let supervising = supervise::supervise(Arc::clone(&shared), stop.clone());
        Ok(Arc::new(Self {
            shared,
            supervisor: Mutex::new(Some(tokio::spawn(supervising))),
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
        }))
    }

    /// Waits until the server is connected and has listed its tools, or until the first attempt has failed.
    ///
    /// # Errors
    ///
    /// Why it is not connected, as text for users. Further attempts are made in the background, unless they cannot
    /// help.
    pub async fn ready(&self) -> Result<(), String> {
        let mut state = self.shared.state.subscribe();
        let settled = state
            .wait_for(|state| !matches!(state, State::Starting))
            .await;
        match settled.as_deref() {
            Ok(State::Up(_)) => Ok(()),
            Ok(State::Down(why) | State::Off(why)) => Err(why.to_string()),
            Ok(State::Starting) | Err(_) => Err("it is not started".to_owned()),
        }
    }

    /// Returns what is known about the server.
    #[must_use]
    pub fn report(&self) -> ServerReport {
        self.shared.report()
    }

    /// Returns the notices that were not fetched yet, and removes them.
    #[must_use]
    pub fn take_notices(&self) -> Vec<ServerNotice> {
        self.shared.notices.take()
    }

    /// Accepts all of the server's current definitions, and offers them.
    ///
    /// # Errors
    ///
    /// Why that cannot be stored, as text for users.
    pub fn accept(&self) -> Result<(), String> {
        self.shared.accept()
    }

    /// Closes the connection, stops the server's process and waits for both: a few seconds at most, whatever the server
    /// does.
    pub async fn shutdown(&self) {
        if let Some(supervisor) = self.stopping() {
            // A supervisor that panicked has dropped everything it held.
            let _ = supervisor.await;
        }
    }

    /// Like [`shutdown`](Self::shutdown), but takes no longer than `limit`: a process that still exists then is killed,
    /// with everything it started. Returns `true` if that was not needed.
    pub async fn shutdown_within(&self, limit: Duration) -> bool {
        let Some(mut supervisor) = self.stopping() else {
            return true;
        };
        if tokio::time::timeout(limit, &mut supervisor).await.is_ok() {
            return true;
        }
        supervisor.abort();
        // Waits until it has dropped the connection, and with it the process.
        let _ = supervisor.await;
        self.shared.retire();
        false
    }

    /// Tells the supervisor to stop, and returns its handle to the first caller.
    fn stopping(&self) -> Option<JoinHandle<()>> {
        self.stop.cancel();
        lock(&self.supervisor).take()
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("McpServer")
            .field(&self.shared.config.name)
            .finish()
    }
}

impl ToolSource for McpServer {
    fn name(&self) -> &str {
        &self.shared.config.name
    }

    fn version(&self) -> u64 {
        self.shared.published().version
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.shared.published().tools.clone()
    }
}

impl Shared {
    /// Returns the connection, after waiting a while if it is being re-established. If there is none, the error
    /// includes `known`, which says what is known of the caller's call.
    pub(crate) async fn peer(&self, known: &str) -> Result<Peer<RoleClient>, ToolError> {
        let server = &self.config.name;
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| match state {
            // A caller that noticed the end may call again before the supervisor has noticed it.
            State::Up(peer) => !peer.is_transport_closed(),
            State::Off(_) => true,
            State::Starting | State::Down(_) => false,
        });
        match tokio::time::timeout(MAX_WAIT, settled).await {
            Ok(Ok(state)) => match &*state {
                State::Up(peer) => Ok(peer.clone()),
                _ => Err(ToolError::permanent(format!(
                    "MCP server {server} is no longer used"
                ))),
            },
            _ => Err(ToolError::temporary(format!(
                "MCP server {server} is unavailable: {}; {known}. Try again later or continue without it",
                self.why_disconnected()
            ))),
        }
    }

    /// Returns why the server is not connected. The last lines of a program's standard error are only for users.
    fn why_disconnected(&self) -> String {
        match (&*self.state.borrow(), &self.config.transport) {
            (State::Down(why), Transport::Http(_)) => self.redacted(why),
            _ => "it is being restarted".to_owned(),
        }
    }

    /// Returns whether a tool is still offered with the same definition.
    pub(crate) fn offers(&self, remote: &str, hash: ContentHash) -> bool {
        self.published().hashes.get(remote) == Some(&hash)
    }

    /// Returns a text without secrets.
    pub(crate) fn redacted(&self, text: &str) -> String {
        self.notices.secrets.text(text)
    }

    /// Reports that a call could not reach the server, so that it is reconnected.
    pub(crate) fn report_lost(&self, why: &str) {
        self.lost.send_replace(Some(why.into()));
    }

    /// Requests a new listing of the tools, which also ends a connection that is no longer usable.
    pub(crate) fn request_refresh(&self) {
        self.changed.notify_one();
    }

    fn accept(self: &Arc<Self>) -> Result<(), String> {
        let mut listing = lock(&self.listing);
        let definitions = listing.definitions.iter();
        let all: Accepted = definitions
            .map(|(it, _)| (it.remote.to_string(), it.hash))
            .collect();
        self.pins
            .accept(&self.config.name, self.config.identity(), all)?;
        for (_, status) in &mut listing.definitions {
            *status = OfferStatus::Offered;
        }
        self.publish(&listing.definitions);
        Ok(())
    }

    /// Marks the server as shut down and withdraws its tools.
    fn retire(self: &Arc<Self>) {
        // Breaks the reference cycle between the tools and the server.
        self.publish(&[]);
        let off = "it was shut down".into();
        self.state.send_replace(State::Off(off));
    }

    /// Offers the accepted tools, if they differ from those offered before.
    fn publish(self: &Arc<Self>, definitions: &[(Definition, OfferStatus)]) {
        let offered = definitions
            .iter()
            .filter(|(_, status)| *status == OfferStatus::Offered);
        let offered: Vec<&Definition> = offered.map(|(definition, _)| definition).collect();
        let hashes: BTreeMap<Arc<str>, ContentHash> = offered
            .iter()
            .map(|it| (Arc::clone(&it.remote), it.hash))
            .collect();
        let mut published = self
            .published
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if published.hashes == hashes {
            return;
        }
        let tools = offered.into_iter();
        let tools = tools.map(|it| Arc::new(McpTool::new(it, self)) as Arc<dyn Tool>);
        *published = Published {
            version: published.version + 1,
            tools: tools.collect(),
            hashes,
        };
    }

    fn published(&self) -> std::sync::RwLockReadGuard<'_, Published> {
        self.published
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
