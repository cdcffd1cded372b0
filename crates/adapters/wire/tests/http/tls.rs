//! Servers that are reached over TLS: whose certificates are trusted, and HTTP/2 if the server offers it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use neuraxis_core::LlmErrorKind;
use neuraxis_testkit::{call_context, request};
use neuraxis_wire::ChatClient;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::{STREAM, WHOLE, client_at, respond, stream};

/// A server that offers only HTTP/2. It stops when it is dropped.
struct TlsServer {
    address: SocketAddr,
    /// Holds the certificate to trust.
    folder: tempfile::TempDir,
    log: Arc<Log>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Log {
    connections: AtomicUsize,
    requests: AtomicUsize,
    reset: Notify,
}

/// What the server does once a stream has begun.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Finish,
    Stall,
}

impl TlsServer {
    async fn start(then: Then) -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), made.cert.pem()).unwrap();
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], PrivateKeyDer::from(key))
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let log = Arc::new(Log::default());
        let task = tokio::spawn(accept(listener, acceptor, Arc::clone(&log), then));
        Self {
            address,
            folder,
            log,
            task,
        }
    }

    fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    fn client(&self) -> ChatClient {
        let ca_file = self.ca_file();
        client_at(&format!("https://{}", self.address), |config| {
            config.ca_file = Some(ca_file);
        })
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, log: Arc<Log>, then: Then) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (acceptor, log) = (acceptor.clone(), Arc::clone(&log));
        connections.spawn(async move {
            // A client that does not trust the certificate hangs up.
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
            log.connections.fetch_add(1, Ordering::SeqCst);
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((request, respond))) = connection.accept().await {
                log.requests.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(request, respond, Arc::clone(&log), then));
            }
        });
    }
}

async fn serve(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
    log: Arc<Log>,
    then: Then,
) {
    let is_streamed = request.headers()["accept"] == "text/event-stream";
    let kind = if is_streamed {
        "text/event-stream"
    } else {
        "application/json"
    };
    let head = http::Response::builder().header("content-type", kind);
    let mut body = respond
        .send_response(head.body(()).unwrap(), false)
        .unwrap();
    let text = if is_streamed { STREAM } else { WHOLE };
    if then == Then::Finish {
        body.send_data(Bytes::from_static(text.as_bytes()), true)
            .unwrap();
        return;
    }
    let first: String = text.split_inclusive("\n\n").take(4).collect();
    body.send_data(Bytes::from(first), false).unwrap();
    let reset = std::future::poll_fn(|cx| body.poll_reset(cx)).await;
    assert_eq!(reset.unwrap(), h2::Reason::CANCEL);
    log.reset.notify_one();
}

#[tokio::test]
async fn http_2_is_used_if_offered_on_one_connection_for_all_calls() {
    let server = TlsServer::start(Then::Finish).await;
    let client = server.client();
    assert_eq!(stream(&client).await.unwrap().text(), "Héllo 🦀");
    let together = [(); 8].map(|()| respond(&client));
    for reply in futures_util::future::join_all(together).await {
        assert_eq!(reply.unwrap().text(), "Héllo 🦀");
    }
    assert_eq!(server.log.connections.load(Ordering::SeqCst), 1);
    assert_eq!(server.log.requests.load(Ordering::SeqCst), 9);
}

#[tokio::test]
async fn an_untrusted_certificate_is_a_connection_error() {
    let server = TlsServer::start(Then::Finish).await;
    let client = client_at(&format!("https://{}", server.address), |_| {});
    let error = respond(&client).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Connection);
    assert!(error.is_certificate_refused, "{error}");
    assert_eq!(server.log.requests.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_dropped_or_cancelled_stream_is_reset_and_its_connection_is_kept() {
    let server = TlsServer::start(Then::Stall).await;
    let client = server.client();
    for cancels in [false, true] {
        let (ctx, request) = (call_context(), request("hi"));
        let mut reply = client.stream(&request, &ctx).await.unwrap();
        assert!(reply.next().await.unwrap().is_ok());
        if cancels {
            assert!(reply.next().await.unwrap().is_ok());
            ctx.cancellation.cancel();
            let error = reply.next().await.unwrap().unwrap_err();
            assert_eq!(error.kind, LlmErrorKind::Cancelled);
        }
        drop(reply);
        let reset = tokio::time::timeout(Duration::from_secs(10), server.log.reset.notified());
        reset
            .await
            .expect("the server goes on with what nobody reads");
    }
    assert_eq!(server.log.connections.load(Ordering::SeqCst), 1);
}
