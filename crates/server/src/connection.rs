//! One connection: what is known about it, and how its requests are answered.

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

/// How long a client may take to send the head of a request, and how long a connection may be idle. This is longer than
/// load balancers keep an unused connection, usually a minute: a request sent while its connection is being closed is
/// lost.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);

/// How long the TLS handshake may take.
const TLS_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may accept none of the data sent to it.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum size in bytes of a request's head, and of the data buffered on the way to or from a client.
const MAX_BUFFERED_BYTES: usize = 64 * 1024;

/// The URL scheme of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// Returns the prefix of a URL.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Http => "http://",
            Self::Https => "https://",
        }
    }

    /// Returns the default port.
    pub(crate) const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// The connection of a request, stored as a request extension.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connection {
    peer: IpAddr,
    pub(crate) scheme: Scheme,
}

impl Connection {
    pub(crate) const fn new(peer: IpAddr, scheme: Scheme) -> Self {
        Self { peer, scheme }
    }

    /// Returns whether the caller is a program on this machine.
    pub(crate) const fn is_local(self) -> bool {
        is_loopback(self.peer)
    }
}

/// A connection, with what it needs to answer its requests.
pub(crate) struct Accepted {
    /// The current router. Each request on a kept connection is answered by the router that is current then.
    pub(crate) router: watch::Receiver<Router>,
    pub(crate) connection: Connection,
    pub(crate) watcher: Watcher,
    /// Counts toward the limit on connections.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

impl Accepted {
    /// Answers the requests of the connection, after the TLS handshake if there is one.
    pub(crate) async fn begin(self, stream: TcpStream, tls: Option<Tls>) {
        // Events are small, and clients wait for each. If this fails, they only arrive later.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(STALL_TIMEOUT));
        let stream = Box::pin(stream);
        let Some(tls) = tls else {
            return self.converse(stream).await;
        };
        // Boxed, so a connection without TLS reserves no space for it.
        let agreed = Box::pin(timeout(TLS_TIMEOUT, tls.acceptor().accept(stream))).await;
        match agreed.map(|agreed| agreed.map(Box::pin)) {
            Ok(Ok(stream)) => self.converse(stream).await,
            Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
            Err(_) => tracing::debug!("TLS handshake timed out"),
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
            tracing::debug!(%error, "connection failed");
        }
        drop(permit);
    }
}
