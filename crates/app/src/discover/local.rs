//! Looks for a model server on this machine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use neuraxis_llama::{LlamaClient, LlamaConfig, ServerState};
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
pub(super) async fn find(places: Vec<LlamaConfig>) -> Option<(Arc<LlamaClient>, LocalServer)> {
    let found = join_all(places.into_iter().map(ask)).await;
    found.into_iter().flatten().next()
}

async fn ask(place: LlamaConfig) -> Option<(Arc<LlamaClient>, LocalServer)> {
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

#[cfg(test)]
mod tests {
    use neuraxis_llama::Server;
    use neuraxis_ports::LlmClient;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers every request on a port of its own with the same text.
    async fn serving(kind: &'static str, body: &'static str) -> LlamaConfig {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let place = place(listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let mut head = [0; 4_096];
                // The look whether anybody listens sends nothing.
                if connection.read(&mut head).await.unwrap_or_default() == 0 {
                    continue;
                }
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
                );
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
    async fn a_server_that_answers_is_used_and_said() {
        let place = serving("application/json", MODELS).await;
        let url = place.base_url.clone();
        let (client, server) = find(vec![nobody().await, place]).await.unwrap();
        assert_eq!(server.to_string(), format!("qwen3:8b at {url}"));
        assert_eq!(client.info().model.model.as_ref(), "qwen3:8b");
    }

    #[tokio::test]
    async fn of_several_the_first_place_wins() {
        let other = r#"{"object":"list","data":[{"id":"other"}]}"#;
        let places = vec![
            serving("application/json", MODELS).await,
            serving("application/json", other).await,
        ];
        let (_, server) = find(places).await.unwrap();
        assert_eq!(server.model.as_deref(), Some("qwen3:8b"));
    }

    #[tokio::test]
    async fn what_is_no_model_server_or_has_no_model_is_passed_over() {
        let page = serving("text/html", "<html>a router's page</html>").await;
        let empty = serving("application/json", r#"{"object":"list","data":[]}"#).await;
        assert!(find(vec![page, empty, nobody().await]).await.is_none());
    }
}
