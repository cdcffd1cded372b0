//! One connection: what is known of it, and how the requests that come over it are answered.

use std::net::IpAddr;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::Watcher;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;
use tokio_io_timeout::TimeoutStream;

use crate::address::is_loopback;
use crate::linger::Linger;
use crate::tls::Tls;

/// How long a client may take for the head of a request, and how long a connection may be idle: longer than balancers keep one
/// that they do not use, mostly for a minute. A request that is sent while its connection is closed is lost.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// How long a client may take to begin TLS.
const TLS_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may take none of what is sent to it.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The most bytes of the head of a request, and of what is kept in memory on the way to or from a client.
const MAX_BUFFERED_BYTES: usize = 64 * 1024;

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// Returns what a URL begins with.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Http => "http://",
            Self::Https => "https://",
        }
    }

    /// Returns the port of URLs that name none.
    pub(crate) const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// The connection of a request, one of its extensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connection {
    peer: IpAddr,
    pub(crate) scheme: Scheme,
}

impl Connection {
    pub(crate) const fn new(peer: IpAddr, scheme: Scheme) -> Self {
        Self { peer, scheme }
    }

    /// Tells whether who asks is a program on this machine.
    pub(crate) const fn is_local(self) -> bool {
        is_loopback(self.peer)
    }
}

/// A connection, with what answers its requests.
pub(crate) struct Accepted {
    /// What answers now. A connection that stays is answered by what is there when its next request comes.
    pub(crate) router: watch::Receiver<Router>,
    pub(crate) connection: Connection,
    pub(crate) watcher: Watcher,
    /// Its place among the connections.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

impl Accepted {
    /// Answers the requests of the connection, after the handshake if there is one.
    pub(crate) async fn begin(self, stream: TcpStream, tls: Option<Tls>) {
        // Events are small, and somebody waits for each. Without it they only come later.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(STALL_TIMEOUT));
        let stream = Box::pin(stream);
        let Some(tls) = tls else {
            return self.converse(stream).await;
        };
        // Boxed, so that a connection without it has no room for it.
        let agreed = Box::pin(timeout(TLS_TIMEOUT, tls.acceptor().accept(stream))).await;
        match agreed.map(|agreed| agreed.map(Box::pin)) {
            Ok(Ok(stream)) => self.converse(stream).await,
            Ok(Err(error)) => tracing::debug!(%error, "a client and the server agree on no TLS"),
            Err(_) => tracing::debug!("a client took too long to begin TLS"),
        }
    }

    /// Answers the requests of the connection.
    async fn converse<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self {
            router,
            connection,
            watcher,
            permit,
        } = self;
        let mut protocol = http1::Builder::new();
        protocol
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_header_size(MAX_BUFFERED_BYTES)
            .max_buf_size(MAX_BUFFERED_BYTES);
        let linger = Linger::default();
        let stream = TokioIo::new(linger.on(stream));
        let watched = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(connection);
            let service = TowerToHyperService::new(router.borrow().clone());
            service.call(request.map(|body| linger.watch(body)))
        });
        let talk = protocol.serve_connection(stream, watched);
        if let Err(error) = watcher.watch(talk).await {
            tracing::debug!(%error, "a connection broke");
        }
        drop(permit);
    }
}
