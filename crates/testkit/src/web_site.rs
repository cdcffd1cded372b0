//! A scripted web site on loopback.
#![expect(
    clippy::expect_used,
    reason = "a test fails if its site does not start"
)]

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;

use crate::call::Gauge;
use crate::scripted::lock;

/// A site on loopback: web pages, or an HTTP service. It serves until the runtime in which it was started ends.
///
/// ```
/// use neuraxis_testkit::{WebAnswer, WebSite};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let site = WebSite::start(|request| match request.path() {
///     "/" => WebAnswer::page("<h1>Welcome</h1>"),
///     _ => WebAnswer::status(404),
/// })
/// .await;
/// assert!(site.url("/").starts_with("http://127.0.0.1:"));
/// assert!(site.requests().is_empty());
/// # }
/// ```
pub struct WebSite {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<WebRequest>>>,
    open: Gauge,
}

/// A request to a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebRequest {
    /// The method.
    pub method: String,
    /// The path with the query.
    pub target: String,
    /// Names, in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl WebRequest {
    /// Returns the path without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let (_, value) = headers.find(|(other, _)| other == name)?;
        Some(value)
    }
}

/// A site's answer.
#[derive(Debug, Clone)]
pub struct WebAnswer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Whether the answer stalls after its head.
    stalls: bool,
}

impl WebAnswer {
    /// Creates an answer with a document of the given content type.
    pub fn document(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let mut answer = Self::status(200).header("content-type", content_type);
        answer.body = body.into();
        answer
    }

    /// Creates an answer with a web page in UTF-8.
    pub fn page(html: impl Into<Vec<u8>>) -> Self {
        Self::document("text/html; charset=utf-8", html)
    }

    /// Creates an answer with a JSON document.
    pub fn json(json: impl fmt::Display) -> Self {
        Self::document("application/json", json.to_string())
    }

    /// Creates an answer with a status only.
    #[must_use]
    pub const fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            stalls: false,
        }
    }

    /// Creates a redirect.
    pub fn redirect(to: impl Into<String>) -> Self {
        Self::status(302).header("location", to)
    }

    /// Creates an answer that sends its head, and then nothing until the client disconnects.
    #[must_use]
    pub const fn stalling() -> Self {
        let mut answer = Self::status(200);
        answer.stalls = true;
        answer
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// Changes the status.
    #[must_use]
    pub const fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }
}

impl WebSite {
    /// Starts a site on its own port.
    pub async fn start(answer: impl Fn(&WebRequest) -> WebAnswer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let requests = Arc::default();
        let site = Self {
            address,
            requests,
            open: Gauge::default(),
        };
        let (requests, open, answer) = (
            Arc::clone(&site.requests),
            site.open.clone(),
            Arc::new(answer),
        );
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (requests, open, answer) =
                    (Arc::clone(&requests), open.clone(), Arc::clone(&answer));
                tokio::spawn(async move {
                    // A client may disconnect in the middle; a site ignores that.
                    let _gone = serve(connection, &requests, &open, &*answer).await;
                });
            }
        });
        site
    }

    /// Returns its address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of a path.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<WebRequest> {
        lock(&self.requests).clone()
    }

    /// Returns the targets of the requests so far: paths with their queries.
    #[must_use]
    pub fn targets(&self) -> Vec<String> {
        let requests = self.requests().into_iter();
        requests.map(|request| request.target).collect()
    }

    /// Returns the maximum number of requests that it worked on at the same time.
    #[must_use]
    pub fn most_at_once(&self) -> usize {
        self.open.most()
    }
}

impl fmt::Debug for WebSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSite")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// How often a site yields before it answers, so that requests made at the same time are open at the same time.
const POLITE_YIELDS: usize = 50;

async fn serve(
    connection: TcpStream,
    requests: &Mutex<Vec<WebRequest>>,
    open: &Gauge,
    answer: &(dyn Fn(&WebRequest) -> WebAnswer + Send + Sync),
) -> io::Result<()> {
    let mut connection = BufReader::new(connection);
    let Some(request) = read(&mut connection).await? else {
        return Ok(());
    };
    let working = open.open();
    let answer = answer(&request);
    lock(requests).push(request);
    for _ in 0..POLITE_YIELDS {
        yield_now().await;
    }
    let mut head = format!("HTTP/1.1 {} Told\r\nconnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let length = if answer.stalls { 1 } else { answer.body.len() };
    head.push_str(&format!("content-length: {length}\r\n\r\n"));
    connection.write_all(head.as_bytes()).await?;
    drop(working);
    connection.write_all(&answer.body).await?;
    connection.flush().await?;
    if answer.stalls {
        let mut rest = Vec::new();
        connection.read_to_end(&mut rest).await?;
    }
    Ok(())
}

async fn read(connection: &mut BufReader<TcpStream>) -> io::Result<Option<WebRequest>> {
    let mut line = String::new();
    connection.read_line(&mut line).await?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Ok(None);
    };
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        connection.read_line(&mut line).await?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = WebRequest {
        method,
        target,
        headers,
        body: String::new(),
    };
    let length = request
        .header("content-length")
        .and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or_default()];
    connection.read_exact(&mut body).await?;
    request.body = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(request))
}
