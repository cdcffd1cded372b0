//! One client over a pair of streams, such as standard input and output.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use neuraxis_ports::CancellationToken;
use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::server::McpServer;

/// The most bytes of a line: one of a client that sends more is dropped, and logged.
const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;

/// How long what is under way may take to end once the client is gone or the program stops.
const ENDING: Duration = Duration::from_secs(6);

/// How long the client may take its last answers once the program stops: whoever stops it gives it 5 seconds.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// Why a client is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// What came first does not begin the protocol.
    #[error("the client does not speak the Model Context Protocol")]
    Handshake(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What a client sends, and whether that is over.
struct Input<R> {
    from: R,
    over: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.from).poll_read(cx, buf);
        if read.is_ready() && buf.filled().len() == before {
            self.over.cancel();
        }
        read
    }
}

impl McpServer {
    /// Serves one client, a line a message, until it closes its stream or `stop` is over. What is written is the protocol and
    /// nothing else.
    ///
    /// When the client closes its stream, calls under way have 5 seconds to answer; then, and at once when `stop` is over, their
    /// runs are cancelled: nobody is there for their results. A run that waits for an approval which the client was given to
    /// ask about goes on waiting.
    ///
    /// # Errors
    ///
    /// A [`ServeError`] if the client begins with something else than the protocol does.
    pub async fn serve<R, W>(
        mut self,
        input: R,
        output: W,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServeError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        // Its calls and no others are waited for: clones may serve other clients.
        let tasks = TaskTracker::new();
        self = self.for_client();
        self.tasks = tasks.clone();
        let stopped = CancellationToken::new();
        let over = CancellationToken::new();
        let input = Input {
            from: input,
            over: over.clone(),
        };
        let transport =
            AsyncRwTransport::new_server(input, output).with_max_line_length(MAX_LINE_BYTES);
        let mut stop = pin!(stop);
        let started = tokio::select! {
            started = serve_server_with_ct(self, transport, stopped.clone()) => started,
            () = &mut stop => return Ok(()),
        };
        let running = match started {
            Ok(running) => running,
            // Whoever looks whether the program starts says nothing.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(ServeError::Handshake(error.into())),
        };
        let mut ended = pin!(running.waiting());
        // It does not end while it writes what the client does not read.
        let unread = async {
            over.cancelled().await;
            sleep(ENDING).await;
        };
        let how = tokio::select! {
            how = &mut ended => Some(how),
            () = unread => None,
            () = &mut stop => {
                stopped.cancel();
                timeout(LAST_ANSWERS, ended).await.ok()
            }
        };
        tracing::debug!(?how, "the client is gone");
        tasks.close();
        if timeout(ENDING, tasks.wait()).await.is_err() {
            tracing::warn!("some runs did not end in time");
        }
        Ok(())
    }
}
