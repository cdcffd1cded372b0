//! Looks for a model server on this machine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use neuraxis_llama::{LlamaClient, LlamaConfig, ServerState};
use neuraxis_ports::LlmClient;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a port of this machine may take to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_millis(200);

/// How long what answers there may take to say what it is.
const PROBE_WITHIN: Duration = Duration::from_millis(1_500);

/// A model server that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalServer {
    /// Its address.
    pub base_url: String,
    /// The model it serves, if it said so.
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

/// Asks all places at the same time and returns the first, in the order given, at which a model can be had.
pub(super) async fn find(places: Vec<LlamaConfig>) -> Option<(Arc<dyn LlmClient>, LocalServer)> {
    let found = join_all(places.into_iter().map(ask)).await;
    found.into_iter().flatten().next()
}

async fn ask(place: LlamaConfig) -> Option<(Arc<dyn LlmClient>, LocalServer)> {
    // Where nothing listens this is over at once, without the cost of a client.
    let address = place.base_url.strip_prefix("http://")?.to_owned();
    timeout(CONNECT_WITHIN, TcpStream::connect(address))
        .await
        .ok()?
        .ok()?;
    let probe = LlamaClient::new(place.clone())
        .ok()?
        .probe(PROBE_WITHIN)
        .await
        .ok()?;
    if probe.state == ServerState::Ready && probe.models.is_empty() {
        return None;
    }
    let config = place.informed_by(&probe);
    let server = LocalServer {
        base_url: config.base_url.clone(),
        model: config.model.clone(),
        state: probe.state,
    };
    Some((Arc::new(LlamaClient::new(config).ok()?), server))
}
