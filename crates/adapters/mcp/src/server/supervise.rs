//! Keeps a server connected: connects, lists its tools, receives its changes, and restarts it when it ends.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::ContentHash;
use neuraxis_ports::{CancellationToken, SPAN_TARGET};
use tokio::time::{Instant, sleep, timeout};
use tracing::field::Empty;

use super::{LastListing, OfferStatus, Shared, State, lock};
use crate::config::Transport;
use crate::connection::{Connection, Era, MAX_TOOLS};
use crate::definition::{self, Definition};
use crate::error::{self, ConnectError};
use crate::handler::Handler;
use crate::notices::ServerNotice;
use crate::pauses::{Pauses, STABLE_AFTER};
use crate::pins::Accepted;
use crate::stdio::StderrTail;

/// The number of consecutive failures after which a server's tools are withdrawn.
const MAX_FAILURES: u32 = 5;

/// How long listing the tools of a connected server may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait after a change, since changes rarely come alone.
const SETTLE: Duration = Duration::from_millis(300);

/// How often to check whether definitions that are not offered have been accepted in the meantime.
const PINS_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The maximum number of unused tools that a notice names.
const MAX_NAMED: usize = 5;

/// Whether the tools were compared with the accepted definitions, which may be unreadable.
enum PinsReadable {
    Yes,
    No,
}

/// Recent failures.
struct Failures {
    count: u32,
    pauses: Pauses,
}

impl Failures {
    fn none() -> Self {
        Self {
            count: 0,
            pauses: Pauses::new(),
        }
    }
}

/// Keeps a server connected until `stop` is cancelled.
pub(super) async fn supervise(shared: Arc<Shared>, stop: CancellationToken) {
    let mut era = Era::Unknown;
    let mut failures = Failures::none();
    let mut was_connected = false;
    loop {
        let opened = tokio::select! {
            opened = open(&shared, &mut era) => opened,
            () = stop.cancelled() => break,
        };
        let (has_ended, why) = match opened {
            Ok(connection) => {
                if failures.count > 0 {
                    tracing::info!(server = %shared.config.name, "it is connected now");
                }
                era = connection.era;
                was_connected = true;
                let since = Instant::now();
                let Some(why) = serve(&shared, connection, &stop).await else {
                    break;
                };
                // Only connected time counts, not the time spent connecting.
                if since.elapsed() >= STABLE_AFTER {
                    failures = Failures::none();
                }
                (true, why)
            }
            Err(error) => {
                let why = shared.redacted(&error.to_string());
                // What worked before may work again: a proxy that is being redeployed rejects every token.
                if !was_connected && is_permanent(&error) {
                    shared.publish(&[]);
                    shared.notify_not_connected(&why);
                    shared.state.send_replace(State::Off(why.into()));
                    return;
                }
                (false, why)
            }
        };
        failures.count += 1;
        match (has_ended, failures.count) {
            // Reported each time, since nothing else reveals that a restored connection is lost again.
            (true, ..MAX_FAILURES) => shared.notify_lost(&why),
            (true, _) | (false, 1 | MAX_FAILURES) => shared.notify_not_connected(&why),
            (false, _) => {}
        }
        if failures.count >= MAX_FAILURES {
            shared.publish(&[]);
        }
        shared.state.send_replace(State::Down(why.into()));
        tokio::select! {
            () = failures.pauses.wait() => {}
            () = stop.cancelled() => break,
        }
    }
    shared.retire();
}

/// Returns whether the error is permanent: another attempt cannot help.
const fn is_permanent(error: &ConnectError) -> bool {
    matches!(
        error,
        ConnectError::Config(_)
            | ConnectError::NoProgram { .. }
            | ConnectError::Version { .. }
            | ConnectError::Unauthorized
            | ConnectError::Refused(_)
    )
}

/// Connects, in a separate trace span that can be exported.
async fn open(shared: &Arc<Shared>, era: &mut Era) -> Result<Connection, ConnectError> {
    let name = &*shared.config.name;
    let span = tracing::info_span!(
        target: SPAN_TARGET,
        parent: None,
        "connect",
        otel.name = %format_args!("connect {name}"),
        otel.kind = "client",
        otel.status_code = Empty,
        neuraxis.mcp.server = name,
    );
    // The span is not entered: the task that reads from the connection would keep it open until that task ends.
    let opened = connect(shared, era).await;
    if opened.is_err() {
        span.record("otel.status_code", "ERROR");
    }
    opened
}

/// Connects and lists the tools, within the configured start timeout.
async fn connect(shared: &Arc<Shared>, era: &mut Era) -> Result<Connection, ConnectError> {
    let config = &shared.config;
    let handler = || {
        let (calls, changed) = (Arc::clone(&shared.calls), Arc::clone(&shared.changed));
        Handler::new(calls, changed, shared.notices.clone())
    };
    let mut stderr_tail = StderrTail::default();
    let opening = async {
        let connection = Connection::open(config, handler, era, &mut stderr_tail).await?;
        if let PinsReadable::No = refresh(shared, &connection).await? {
            // Requests another try.
            shared.changed.notify_one();
        }
        Ok::<_, ConnectError>(connection)
    };
    let opened = timeout(config.start_timeout, opening).await;
    let connection = opened.map_err(|_| ConnectError::Silent {
        within: config.start_timeout,
        said: stderr_tail.explanation(),
    })??;
    shared
        .state
        .send_replace(State::Up(connection.peer.clone()));
    Ok(connection)
}

/// Serves a connection until it ends, and returns the reason. Returns `None` if it was stopped from here.
async fn serve(
    shared: &Arc<Shared>,
    connection: Connection,
    stop: &CancellationToken,
) -> Option<String> {
    // Calls that failed before this connection do not count.
    let mut lost = shared.lost.subscribe();
    let why = tokio::select! {
        biased;
        () = stop.cancelled() => None,
        Ok(()) = lost.changed() => {
            let why = lost.borrow_and_update().clone();
            Some(why.as_deref().unwrap_or("it cannot be reached").to_owned())
        }
        () = connection.ended() => {
            Some(error::ended(&connection.stderr_tail.explanation()))
        }
        why = follow(shared, &connection) => Some(why),
    };
    let why = why.map(|why| shared.redacted(&why));
    // New calls wait for the next connection.
    if let Some(why) = &why {
        shared.state.send_replace(State::Down(why.as_str().into()));
    }
    connection.close().await;
    why
}

/// Lists the tools again whenever they, or the accepted definitions, have changed. Returns the reason once the server
/// is unreachable or rejects this client's credentials. No other failure ends the connection, since calls may be in
/// progress: the list is requested again.
async fn follow(shared: &Arc<Shared>, connection: &Connection) -> String {
    let mut pauses = Pauses::new();
    loop {
        tokio::select! {
            () = shared.changed.notified() => sleep(SETTLE).await,
            () = wait_for_acceptance(shared) => {}
        }
        let why = match timeout(LIST_TIMEOUT, refresh(shared, connection)).await {
            Ok(Ok(PinsReadable::Yes)) => {
                pauses = Pauses::new();
                continue;
            }
            // That was reported already.
            Ok(Ok(PinsReadable::No)) => None,
            Ok(Err(
                error @ (ConnectError::Away(_)
                | ConnectError::Unauthorized
                | ConnectError::Refused(_)),
            )) => return error.to_string(),
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer arrived within {LIST_TIMEOUT:?}")),
        };
        // A connection that ends in the meantime is reported separately.
        pauses.wait().await;
        if let Some(why) = why {
            shared.notices.misbehaves(format!(
                "it does not list its current tools ({why}): the previous ones stay, and it is asked again"
            ));
        }
        shared.changed.notify_one();
    }
}

/// Waits until another process has accepted a definition that is not offered here. For a service, which may be
/// redeployed without notice, waits until any accepted definition has changed.
async fn wait_for_acceptance(shared: &Shared) {
    let (name, identity) = (&shared.config.name, shared.config.identity());
    loop {
        sleep(PINS_CHECK_INTERVAL).await;
        let waiting: Vec<(Arc<str>, ContentHash)> = {
            let listing = lock(&shared.listing);
            let definitions = listing.definitions.iter();
            let waiting = definitions.filter(|(_, status)| *status != OfferStatus::Offered);
            let waiting = waiting.map(|(it, _)| (Arc::clone(&it.remote), it.hash));
            waiting.collect()
        };
        let is_service = matches!(shared.config.transport, Transport::Http(_));
        if waiting.is_empty() && !is_service {
            continue;
        }
        // What cannot be read now may be readable next time.
        let Ok(Some(accepted)) = shared.pins.accepted(name, identity) else {
            continue;
        };
        if is_service && accepted != lock(&shared.listing).accepted {
            return;
        }
        let is_accepted =
            |(remote, hash): &(Arc<str>, ContentHash)| accepted.get(&**remote) == Some(hash);
        if waiting.iter().any(is_accepted) {
            return;
        }
    }
}

/// Lists the tools and offers the accepted ones: none if the accepted definitions cannot be read.
async fn refresh(
    shared: &Arc<Shared>,
    connection: &Connection,
) -> Result<PinsReadable, ConnectError> {
    let (tools, mut unusable) = match connection.tools().await {
        Ok(listed) => listed,
        Err(error) => {
            let said = connection.stderr_tail.final_explanation().await;
            let secrets = &shared.notices.secrets;
            return Err(ConnectError::of_request(&error, said, secrets));
        }
    };
    let secrets = &shared.notices.secrets;
    let tools = tools.into_iter();
    let tools = tools.filter_map(|tool| definition::redacted(tool, secrets));
    let (definitions, unused_tools) = definition::sorted(&shared.config, tools.collect());
    unusable.extend(unused_tools);
    unusable.iter_mut().for_each(|it| it.redact(secrets));
    let mut listing = lock(&shared.listing);
    let (definitions, unknown) = match compare_with_accepted(shared, &listing, definitions) {
        Ok((definitions, accepted, is_first_use)) => {
            listing.is_first_use = is_first_use;
            listing.accepted = accepted;
            (definitions, None)
        }
        Err(why) => (Vec::new(), Some(why)),
    };
    let compared = match &unknown {
        None => PinsReadable::Yes,
        Some(_) => PinsReadable::No,
    };
    listing.version.clone_from(&connection.version);
    listing.program.clone_from(&connection.program);
    listing.definitions = definitions;
    listing.unused_tools = unusable;
    shared.publish(&listing.definitions);
    notify_about_tools(shared, &mut listing, unknown);
    Ok(compared)
}

/// Definitions, each with its status relative to the accepted ones.
type Statuses = Vec<(Definition, OfferStatus)>;

/// Compares definitions with the accepted ones, and accepts those of a server that was never used before. Also returns
/// the resulting accepted definitions, and whether this is the server's first use.
fn compare_with_accepted(
    shared: &Shared,
    listing: &LastListing,
    definitions: Vec<Definition>,
) -> Result<(Statuses, Accepted, bool), String> {
    let (name, identity) = (&shared.config.name, shared.config.identity());
    let accepted = shared.pins.accepted(name, identity)?;
    let is_first_use = listing.is_first_use || accepted.is_none();
    let mut accepted = accepted.unwrap_or_default();
    let before = accepted.len();
    let with_status = |definition: Definition| {
        let status = match accepted.get(&*definition.remote) {
            Some(hash) if *hash == definition.hash => OfferStatus::Offered,
            Some(_) => OfferStatus::Changed,
            // Limited, since a server could keep listing new names.
            None if is_first_use && accepted.len() < MAX_TOOLS => {
                accepted.insert(definition.remote.to_string(), definition.hash);
                OfferStatus::Offered
            }
            None => OfferStatus::New,
        };
        (definition, status)
    };
    let definitions: Vec<_> = definitions.into_iter().map(with_status).collect();
    let is_unknown = !listing.is_first_use && is_first_use;
    if accepted.len() > before || is_unknown {
        shared.pins.accept(name, identity, accepted.clone())?;
    }
    Ok((definitions, accepted, is_first_use))
}

/// Adds notices about tools that are not offered, and about unreadable accepted definitions, unless they were given for
/// the previous list.
fn notify_about_tools(shared: &Shared, listing: &mut LastListing, unknown: Option<String>) {
    let server = || Arc::clone(&shared.config.name);
    let mut notices = Vec::new();
    if let Some(why) = unknown {
        let server = server();
        notices.push(ServerNotice::NoPins { server, why });
    }
    if !listing.unused_tools.is_empty() {
        notices.push(ServerNotice::UnusedTools {
            server: server(),
            tools: listing
                .unused_tools
                .iter()
                .take(MAX_NAMED)
                .cloned()
                .collect(),
            count: listing.unused_tools.len(),
        });
    }
    let of = |wanted: OfferStatus| -> Vec<String> {
        let definitions = listing.definitions.iter();
        let such = definitions.filter(|(_, status)| *status == wanted);
        such.map(|(definition, _)| definition.spec.name.to_string())
            .collect()
    };
    let (changed, new) = (of(OfferStatus::Changed), of(OfferStatus::New));
    if !changed.is_empty() || !new.is_empty() {
        notices.push(ServerNotice::NotAccepted {
            server: server(),
            changed,
            new,
        });
    }
    for notice in notices
        .iter()
        .filter(|it| !listing.notices_given.contains(it))
    {
        shared.notices.add(notice.clone());
    }
    listing.notices_given = notices;
}

impl Shared {
    fn notify_lost(&self, why: &str) {
        self.notices.add(ServerNotice::Lost {
            server: Arc::clone(&self.config.name),
            why: why.to_owned(),
        });
    }

    fn notify_not_connected(&self, why: &str) {
        self.notices.add(ServerNotice::NotConnected {
            server: Arc::clone(&self.config.name),
            why: why.to_owned(),
        });
    }
}
