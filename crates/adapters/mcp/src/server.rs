//! A server whose tools come and go: kept connected in the background, and started anew when it dies.
//!
//! Whatever it does, only its own tools suffer.

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
use crate::config::{ConfigFault, McpServerConfig, Reach};
use crate::definition::{Definition, LeftOut};
use crate::notices::{Notices, ServerNotice};
use crate::pins::{Accepted, Pins};
use crate::text::Secrets;
use crate::tool::McpTool;
pub use report::{ReportedTool, ServerReport, Standing};

/// How long a call waits for a server that is being started anew.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// A server, from its start until it is [shut down](Self::shutdown) or dropped.
///
/// It is a [`ToolSource`]: its tools are there once it is connected, and change when it says so.
pub struct McpServer {
    shared: Arc<Shared>,
    supervisor: Mutex<Option<JoinHandle<()>>>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

/// What a server, its tools and its supervisor share.
pub(crate) struct Shared {
    pub(crate) config: McpServerConfig,
    pub(crate) calls: Arc<Calls>,
    changed: Arc<Notify>,
    /// Told when a call reached nobody, with why.
    lost: watch::Sender<Option<Arc<str>>>,
    pins: Arc<dyn Pins>,
    state: watch::Sender<State>,
    published: RwLock<Published>,
    seen: Mutex<Seen>,
    pub(crate) notices: Notices,
}

/// How it stands with a server.
#[derive(Clone)]
enum State {
    /// It was not connected yet.
    Starting,
    /// It is connected and answers.
    Up(Peer<RoleClient>),
    /// It does not, and is tried again.
    Down(Arc<str>),
    /// It is not used any more.
    Off(Arc<str>),
}

/// The tools that are offered.
#[derive(Default)]
struct Published {
    version: u64,
    tools: Vec<Arc<dyn Tool>>,
    hashes: BTreeMap<Arc<str>, ContentHash>,
}

/// What a server said last.
#[derive(Default)]
struct Seen {
    version: String,
    program: Option<String>,
    definitions: Vec<(Definition, Standing)>,
    left_out: Vec<LeftOut>,
    /// What was accepted by then.
    accepted: Accepted,
    /// What a user was told of that.
    told: Vec<ServerNotice>,
    /// Whether it was never used before this process began to: what it adds later is accepted with the rest.
    is_first_use: bool,
}

impl McpServer {
    /// Begins to connect to a server, in the background. Needs a runtime of tokio.
    ///
    /// # Errors
    ///
    /// A [`ConfigFault`], when it cannot be used as it is configured.
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
            seen: Mutex::default(),
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

    /// Waits until the server is connected and has named its tools, or until that failed for the first time.
    ///
    /// # Errors
    ///
    /// Why it is not connected, for people. It is tried again in the background, unless that cannot help.
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

    /// Returns what is known of the server.
    #[must_use]
    pub fn report(&self) -> ServerReport {
        self.shared.report()
    }

    /// Returns what a user should know that was not told yet, and forgets it.
    #[must_use]
    pub fn take_notices(&self) -> Vec<ServerNotice> {
        self.shared.notices.take()
    }

    /// Accepts all definitions as the server has them now, and offers them.
    ///
    /// # Errors
    ///
    /// Why that cannot be remembered, for people.
    pub fn accept(&self) -> Result<(), String> {
        self.shared.accept()
    }

    /// Ends the connection and the server's process, and waits for that: at most some seconds, whatever it does.
    pub async fn shutdown(&self) {
        if let Some(supervisor) = self.stopping() {
            // One that crashed has dropped what it held.
            let _ = supervisor.await;
        }
    }

    /// Ends it as [`shutdown`](Self::shutdown) does, but for no longer than `limit`: a process that is still there then is
    /// stopped, with all it started. Returns whether that was not needed.
    pub async fn shutdown_within(&self, limit: Duration) -> bool {
        let Some(mut supervisor) = self.stopping() else {
            return true;
        };
        if tokio::time::timeout(limit, &mut supervisor).await.is_ok() {
            return true;
        }
        supervisor.abort();
        // Until it has dropped the connection, and with it the process.
        let _ = supervisor.await;
        self.shared.retire();
        false
    }

    /// Tells the supervisor to stop, and returns it to the first who wants to wait for it.
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
    /// Returns the connection, and waits a while for one that is made anew. Where there is none, `known` says what is known of
    /// the call that wants it.
    pub(crate) async fn peer(&self, known: &str) -> Result<Peer<RoleClient>, ToolError> {
        let server = &self.config.name;
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| match state {
            // Who heard that it ended may call again before its supervisor has heard of it.
            State::Up(peer) => !peer.is_transport_closed(),
            State::Off(_) => true,
            State::Starting | State::Down(_) => false,
        });
        match tokio::time::timeout(MAX_WAIT, settled).await {
            Ok(Ok(state)) => match &*state {
                State::Up(peer) => Ok(peer.clone()),
                _ => Err(ToolError::permanent(format!(
                    "MCP server {server} is not used any more"
                ))),
            },
            _ => Err(ToolError::temporary(format!(
                "MCP server {server} is not there: {}; {known}. Try again later or go on without it",
                self.why_away()
            ))),
        }
    }

    /// Says why the server is not there. The last words of a program are for people alone.
    fn why_away(&self) -> String {
        match (&*self.state.borrow(), &self.config.reach) {
            (State::Down(why), Reach::Http(_)) => self.redacted(why),
            _ => "it is being started anew".to_owned(),
        }
    }

    /// Tells whether a tool is offered as it was.
    pub(crate) fn offers(&self, remote: &str, hash: ContentHash) -> bool {
        self.published().hashes.get(remote) == Some(&hash)
    }

    /// Returns a text without what must not be shown.
    pub(crate) fn redacted(&self, text: &str) -> String {
        self.notices.secrets.text(text)
    }

    /// Notes that a call reached nobody: the connection is made anew.
    pub(crate) fn lose(&self, why: &str) {
        self.lost.send_replace(Some(why.into()));
    }

    /// Has the tools be asked for again: a connection that is no use any more ends then.
    pub(crate) fn look_again(&self) {
        self.changed.notify_one();
    }

    fn accept(self: &Arc<Self>) -> Result<(), String> {
        let mut seen = lock(&self.seen);
        let definitions = seen.definitions.iter();
        let all: Accepted = definitions
            .map(|(it, _)| (it.remote.to_string(), it.hash))
            .collect();
        self.pins
            .accept(&self.config.name, self.config.identity(), all)?;
        for (_, standing) in &mut seen.definitions {
            *standing = Standing::Offered;
        }
        self.publish(&seen.definitions);
        Ok(())
    }

    /// Says that it was shut down, and offers nothing any more.
    fn retire(self: &Arc<Self>) {
        // The tools know the server, and the server no longer knows them.
        self.publish(&[]);
        let off = "it was shut down".into();
        self.state.send_replace(State::Off(off));
    }

    /// Offers the tools that are accepted, if they are others than before.
    fn publish(self: &Arc<Self>, definitions: &[(Definition, Standing)]) {
        let offered = definitions
            .iter()
            .filter(|(_, standing)| *standing == Standing::Offered);
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
