//! One client over a pair of streams, such as standard input and output.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use neuraxis_ports::CancellationToken;
use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use crate::server::McpServer;
use crate::shutdown::SHUTDOWN;

/// The maximum length of a line, in bytes. A longer line is dropped, which is logged.
const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;

/// Why a client is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The first message does not begin the protocol.
    #[error("the client does not speak the Model Context Protocol")]
    Handshake(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A client's input, and whether it has ended.
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
    /// Serves one client, one message per line, until it closes its stream or `stop` completes. Only protocol messages
    /// are written.
    ///
    /// When the client closes its stream, calls in progress have 5 seconds to answer. After that, or immediately when
    /// `stop` completes, their runs are cancelled, because no client would receive their results. A run that waits for
    /// an approval that the client was asked for keeps waiting.
    ///
    /// # Errors
    ///
    /// Returns a [`ServeError`] if the client's first message does not begin the protocol.
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
        // Waits only for this client's calls: clones may serve other clients.
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
            // A client that only checks whether the program starts sends nothing.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(ServeError::Handshake(error.into())),
        };
        let mut ended = pin!(running.waiting());
        // Writing does not finish if the client does not read.
        let unread = async {
            over.cancelled().await;
            sleep(SHUTDOWN.work).await;
        };
        let how = tokio::select! {
            how = &mut ended => Some(how),
            () = unread => None,
            () = &mut stop => {
                stopped.cancel();
                timeout(SHUTDOWN.last_answers, ended).await.ok()
            }
        };
        tracing::debug!(?how, "the client disconnected");
        tasks.close();
        if timeout(SHUTDOWN.work, tasks.wait()).await.is_err() {
            tracing::warn!("some runs did not end in time");
        }
        Ok(())
    }
}
