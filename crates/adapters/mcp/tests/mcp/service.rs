//! HTTP services for tests: what each answers is a function of the request.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuraxis_mcp::{HttpConfig, McpServerConfig, Transport};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;
use tokio_util::sync::{CancellationToken, DropGuard};

/// An answer: its status, its content type and its body. Without a status, the connection is closed instead.
pub(crate) struct Reply {
    pub(crate) status: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
    /// How many bytes more it announces than it has.
    pub(crate) missing: usize,
    /// The requests that must arrive before it is given.
    pub(crate) together: Option<Arc<Barrier>>,
}

/// A service that runs until it is dropped.
pub(crate) struct Service {
    pub(crate) port: u16,
    /// The requests it received; for a request other than POST, its method.
    pub(crate) heard: Arc<Mutex<Vec<Value>>>,
    _stop: DropGuard,
}

/// The body of an answer: text or JSON.
pub(crate) struct Body(String);

impl From<&str> for Body {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<Value> for Body {
    fn from(json: Value) -> Self {
        Self(json.to_string())
    }
}

impl Reply {
    pub(crate) fn json(body: impl Into<Body>) -> Self {
        Self::of("200 OK", "application/json", body)
    }

    pub(crate) fn of(
        status: &'static str,
        content_type: &'static str,
        body: impl Into<Body>,
    ) -> Self {
        Self {
            status,
            content_type,
            body: body.into().0,
            missing: 0,
            together: None,
        }
    }

    /// Returns no answer at all, although the request was read.
    pub(crate) fn none() -> Self {
        Self::of("", "", "")
    }
}

/// Returns a service's default answer: it speaks the protocol of 2025-11-25, and has one tool, `look`.
pub(crate) fn usual(asked: &Value) -> Reply {
    let result = match asked["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "service", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "fine"}]}),
        _ if asked.get("id").is_none() => return Reply::of("202 Accepted", "text/plain", ""),
        _ => {
            let error = json!({"code": -32601, "message": "unknown"});
            return Reply::json(json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}));
        }
    };
    answer(asked, &result)
}

/// Answers a request with a result.
pub(crate) fn answer(asked: &Value, result: &Value) -> Reply {
    Reply::json(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
}

/// Starts a service at the given port, or at any free one.
pub(crate) async fn serve_at(
    port: u16,
    answers: impl Fn(&Value) -> Reply + Send + Sync + 'static,
) -> Service {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard: Arc<Mutex<Vec<Value>>> = Arc::default();
    let (hears, answers) = (Arc::clone(&heard), Arc::new(answers));
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        loop {
            let stream = tokio::select! {
                Ok((stream, _)) = listener.accept() => stream,
                () = stopped.cancelled() => return,
            };
            let (hears, answers) = (Arc::clone(&hears), Arc::clone(&answers));
            let ended = stopped.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = talk(stream, &hears, &*answers) => {}
                    () = ended.cancelled() => {}
                }
            });
        }
    });
    Service {
        port,
        heard,
        _stop: stop.drop_guard(),
    }
}

pub(crate) async fn serve(answers: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Service {
    serve_at(0, answers).await
}

impl Service {
    pub(crate) fn config(&self) -> McpServerConfig {
        let address = HttpConfig::new(format!("http://127.0.0.1:{}/mcp", self.port));
        let mut config = McpServerConfig::new("shop", Transport::Http(address));
        config.start_timeout = Duration::from_secs(20);
        config
    }
}

async fn talk(
    mut stream: TcpStream,
    heard: &Mutex<Vec<Value>>,
    answers: &(dyn Fn(&Value) -> Reply + Send + Sync),
) {
    let Some((head, body)) = request(&mut stream).await else {
        return;
    };
    let reply = match head.starts_with("POST") {
        false => {
            let method = head.split(' ').next().unwrap_or_default();
            heard.lock().unwrap().push(method.into());
            Reply::of("405 Method Not Allowed", "text/plain", "")
        }
        true => {
            let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
            heard.lock().unwrap().push(asked.clone());
            answers(&asked)
        }
    };
    if let Some(others) = &reply.together {
        others.wait().await;
    }
    if reply.status.is_empty() {
        return;
    }
    let length = reply.body.len() + reply.missing;
    let head = format!(
        "HTTP/1.1 {}\r\ncontent-type: {}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n",
        reply.status, reply.content_type
    );
    // The client may not want the rest.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(reply.body.as_bytes()).await;
    let _ = stream.shutdown().await;
}

async fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut read = Vec::new();
    loop {
        let end = read.windows(4).position(|it| it == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&read[..end]).into_owned();
            let lower = head.to_ascii_lowercase();
            let length = lower
                .lines()
                .find_map(|line| line.strip_prefix("content-length:"));
            let length = length.map_or(0, |it| it.trim().parse().unwrap());
            if read.len() >= end + 4 + length {
                return Some((head, read[end + 4..].to_vec()));
            }
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(count) if count > 0 => read.extend_from_slice(&piece[..count]),
            _ => return None,
        }
    }
}
