//! Looks for a model server on this machine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_llama::{LlamaClient, LlamaConfig, Server, ServerState};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::owner::belongs_to_other_user;

/// The time limit for a port of this machine to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_millis(200);

/// The time limit for a server there to identify itself.
const PROBE_WITHIN: Duration = Duration::from_millis(1_500);

/// Advice if it is not certain that it is a model server.
const LOOK_AT_LOG: &str = "if it is your model server, check its log";

/// A model server that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalServer {
    /// The program, assuming the one that usually has this address.
    pub server: Server,
    /// Its address.
    pub base_url: String,
    /// The model it serves, if it reported one.
    pub model: Option<String>,
    /// Whether it can answer yet.
    pub state: ServerState,
}

impl fmt::Display for LocalServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let model = self.model.as_deref().unwrap_or("the model");
        write!(f, "{} at {}", crate::names::shown(model), self.base_url)?;
        match self.state {
            ServerState::Loading => f.write_str(", which is still loading"),
            _ => Ok(()),
        }
    }
}

/// A usual address of a model server where an unusable program listens.
///
/// Contains no text from that program, because its author is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedServer {
    /// The address and port.
    pub address: String,
    /// Why it cannot be used.
    pub obstacle: Obstacle,
}

/// Why the program at a usual address of a model server cannot be used as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// It belongs to another user of this machine.
    OtherUser,
    /// It requires a key.
    WantsKey,
    /// It is a model server without a model.
    NoModel,
    /// It answers with an error, such as HTTP 500.
    Fails {
        /// The HTTP status, if any.
        status: Option<u16>,
    },
    /// The server is overloaded.
    Busy,
    /// It accepts connections and sends nothing.
    Silent,
    /// It accepts connections and closes them.
    HangsUp,
    /// Its answer is not that of a model server, such as a page or a redirect.
    Foreign,
}

impl Obstacle {
    const fn of(error: &LlmErrorKind) -> Self {
        match error {
            LlmErrorKind::Unauthorized => Self::WantsKey,
            LlmErrorKind::Server { status, .. } => Self::Fails { status: *status },
            LlmErrorKind::RateLimited { .. } => Self::Busy,
            LlmErrorKind::Timeout => Self::Silent,
            LlmErrorKind::Connection => Self::HangsUp,
            _ => Self::Foreign,
        }
    }
}

impl fmt::Display for SkippedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.address, self.obstacle)
    }
}

/// Describes what was found, and what to do about it.
impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (found, what_to_do) = match self {
            Self::OtherUser => (
                "belongs to another user of this machine and is not used",
                "to use it, set provider and base_url in [models.reasoning]",
            ),
            Self::WantsKey => (
                "answers, but requires a key",
                "set provider, base_url and api_key_env in [models.reasoning]",
            ),
            Self::NoModel => (
                "is a model server, but has no model",
                "load one, then try again",
            ),
            Self::Busy => ("answers, but is too busy", "try again in a moment"),
            Self::Fails { .. } => ("answers, but fails", LOOK_AT_LOG),
            Self::Silent => ("accepts connections, but does not answer", LOOK_AT_LOG),
            Self::HangsUp => ("accepts connections, but closes them", LOOK_AT_LOG),
            Self::Foreign => (
                "answers, but is not a model server",
                "if yours is elsewhere, set provider and base_url in [models.reasoning]",
            ),
        };
        f.write_str(found)?;
        if let Self::Fails {
            status: Some(status),
        } = self
        {
            write!(f, " with status {status}")?;
        }
        write!(f, ": {what_to_do}")
    }
}

/// The result of checking the usual addresses.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The first address, in the given order, with a usable model.
    pub(super) found: Option<(Arc<LlamaClient>, LocalServer)>,
    /// The addresses before that one with an unusable program.
    pub(super) skipped: Vec<SkippedServer>,
}

/// Contacts all addresses at the same time and takes the first, in the given order, with a usable model.
pub(super) async fn find(places: Vec<LlamaConfig>) -> Search {
    let mut search = Search::default();
    for place in join_all(places.into_iter().map(ask)).await {
        match place {
            ProbeResult::Empty => {}
            ProbeResult::Useless(skipped) => search.skipped.push(skipped),
            ProbeResult::Model(client, server) => {
                search.found = Some((client, server));
                break;
            }
        }
    }
    search
}

/// What answered at an address.
enum ProbeResult {
    /// Nothing listens.
    Empty,
    /// An unusable program listens.
    Useless(SkippedServer),
    /// A model.
    Model(Arc<LlamaClient>, LocalServer),
}

async fn ask(place: LlamaConfig) -> ProbeResult {
    let Some(address) = place.base_url.strip_prefix("http://").map(str::to_owned) else {
        return ProbeResult::Empty;
    };
    // If nothing listens, this ends immediately, without the cost of a client.
    let connected = timeout(CONNECT_WITHIN, TcpStream::connect(&address));
    // The connection is closed before the request: a server may accept only one at a time.
    if !connected.await.is_ok_and(|connection| connection.is_ok()) {
        return ProbeResult::Empty;
    }
    let port = address
        .rsplit(':')
        .next()
        .and_then(|port| port.parse().ok());
    let useless = |obstacle| ProbeResult::Useless(SkippedServer { address, obstacle });
    if port.is_some_and(belongs_to_other_user) {
        return useless(Obstacle::OtherUser);
    }
    match question(place).await {
        Ok(Some((client, server))) => ProbeResult::Model(client, server),
        Ok(None) => useless(Obstacle::NoModel),
        Err(error) => useless(Obstacle::of(&error.kind)),
    }
}

/// Asks what answers at an address for its model, and creates a client for it.
async fn question(place: LlamaConfig) -> Result<Option<(Arc<LlamaClient>, LocalServer)>, LlmError> {
    let client = |config| {
        LlamaClient::new(config)
            .map_err(|error| LlmError::new(LlmErrorKind::BadRequest, error.to_string()))
    };
    let probe = client(place.clone())?.probe(PROBE_WITHIN).await?;
    if probe.state == ServerState::Ready && probe.models.is_empty() {
        return Ok(None);
    }
    let config = place.informed_by(&probe);
    let server = LocalServer {
        server: config.server,
        base_url: config.base_url.clone(),
        model: config.model.clone(),
        state: probe.state,
    };
    Ok(Some((Arc::new(client(config)?), server)))
}

#[cfg(test)]
mod tests {
    use neuraxis_ports::LlmClient;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers every request on its own port with the same text.
    async fn serving(kind: &'static str, body: &'static str) -> LlamaConfig {
        let length = body.len();
        saying(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
        .await
    }

    async fn saying(answer: String) -> LlamaConfig {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = place(listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let mut head = [0; 4_096];
                // The check whether anything listens sends nothing.
                if connection.read(&mut head).await.unwrap_or_default() == 0 {
                    continue;
                }
                let _ = connection.write_all(answer.as_bytes()).await;
            }
        });
        place
    }

    fn place(port: u16) -> LlamaConfig {
        let mut place = LlamaConfig::new(format!("http://127.0.0.1:{port}"));
        place.server = Server::Ollama;
        place
    }

    async fn nobody() -> LlamaConfig {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        place(listener.local_addr().unwrap().port())
    }

    const MODELS: &str = r#"{"object":"list","data":[{"id":"qwen3:8b"}]}"#;

    #[tokio::test]
    async fn a_server_that_responds_is_used_and_reported() {
        let place = serving("application/json", MODELS).await;
        let url = place.base_url.clone();
        let (client, server) = find(vec![nobody().await, place]).await.found.unwrap();
        assert_eq!(server.to_string(), format!("qwen3:8b at {url}"));
        assert_eq!(server.server, Server::Ollama);
        assert_eq!(client.info().model.model.as_ref(), "qwen3:8b");
    }

    #[tokio::test]
    async fn the_first_of_several_servers_is_used() {
        let other = r#"{"object":"list","data":[{"id":"other"}]}"#;
        let places = vec![
            serving("application/json", MODELS).await,
            serving("application/json", other).await,
        ];
        let (_, server) = find(places).await.found.unwrap();
        assert_eq!(server.model.as_deref(), Some("qwen3:8b"));
    }

    /// Returns the messages about the addresses that were passed over, with their ports as numbers.
    fn told(search: &Search, places: &[LlamaConfig]) -> Vec<String> {
        let told = search.skipped.iter().map(SkippedServer::to_string);
        told.map(|told| {
            let places = places.iter().enumerate();
            places.fold(told, |told, (number, place)| {
                let address = place.base_url.strip_prefix("http://").unwrap();
                told.replace(address, &format!("place {number}"))
            })
        })
        .collect()
    }

    #[tokio::test]
    async fn unusable_listeners_are_skipped_and_reported_without_their_own_text() {
        let status = |head: &str| {
            format!("HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: 6\r\n\r\ncanary")
        };
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let places = vec![
            nobody().await,
            saying(status("401 Unauthorized")).await,
            saying(status("500 canary")).await,
            serving("text/html", "<html>canary</html>").await,
            saying(status("302 Found\r\nlocation: http://canary/")).await,
            saying(status("404 Not Found")).await,
            saying(String::new()).await,
            place(silent.local_addr().unwrap().port()),
            serving("application/json", r#"{"object":"list","data":[]}"#).await,
            saying(status("429 Too Many Requests")).await,
        ];
        let search = find(places.clone()).await;
        assert!(search.found.is_none());
        let foreign = |number: usize| {
            format!(
                "place {number} answers, but is not a model server: if yours is elsewhere, set provider and base_url in [models.reasoning]"
            )
        };
        assert_eq!(
            told(&search, &places),
            [
                "place 1 answers, but requires a key: set provider, base_url and api_key_env in [models.reasoning]",
                "place 2 answers, but fails with status 500: if it is your model server, check its log",
                &foreign(3),
                &foreign(4),
                &foreign(5),
                "place 6 accepts connections, but closes them: if it is your model server, check its log",
                "place 7 accepts connections, but does not answer: if it is your model server, check its log",
                "place 8 is a model server, but has no model: load one, then try again",
                "place 9 answers, but is too busy: try again in a moment",
            ]
        );
    }

    #[tokio::test]
    async fn servers_after_the_one_in_use_are_not_reported() {
        let page = || serving("text/html", "<html>a router's page</html>");
        let places = vec![
            page().await,
            serving("application/json", MODELS).await,
            page().await,
        ];
        let search = find(places.clone()).await;
        assert!(search.found.is_some());
        let told = told(&search, &places);
        assert!(
            matches!(told.as_slice(), [told] if told.starts_with("place 0 ")),
            "{told:?}"
        );
    }
}
