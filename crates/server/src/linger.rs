//! Gives a client that is still sending time to read its answer: closing a connection while bytes arrive resets it,
//! which loses the data on its way to the client.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long to wait for the rest of a body.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum number of bytes of the rest that are read and discarded.
const MAX_DROPPED_BYTES: usize = 8 * 1024 * 1024;

/// Whether the body of a connection's current request was not read in full.
#[derive(Debug, Clone, Default)]
pub(crate) struct Linger(Arc<AtomicBool>);

impl Linger {
    /// Makes closing the stream wait for the unread rest of a body.
    pub(crate) fn on<S>(&self, stream: S) -> Lingering<S> {
        Lingering {
            stream,
            has_unread: self.clone(),
            rest: None,
        }
    }

    /// Tracks whether the body of the connection's next request is read to its end.
    pub(crate) fn watch<B: Body>(&self, body: B) -> Watched<B> {
        self.0.store(!body.is_end_stream(), Ordering::Relaxed);
        Watched {
            body,
            has_unread: self.clone(),
        }
    }
}

/// The body of a request, tracked while it is read.
#[derive(Debug)]
pub(crate) struct Watched<B> {
    body: B,
    has_unread: Linger,
}

impl<B: Body + Unpin> Body for Watched<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.has_unread.0.store(false, Ordering::Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that waits for unread data when it is closed.
#[derive(Debug)]
pub(crate) struct Lingering<S> {
    stream: S,
    has_unread: Linger,
    /// Set once our side is closed.
    rest: Option<Rest>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Closes our side and, if the client is still sending a body, waits until it has stopped.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let rest = match &mut this.rest {
            Some(rest) => rest,
            none => {
                ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
                if !this.has_unread.0.load(Ordering::Relaxed) {
                    return Poll::Ready(Ok(()));
                }
                none.insert(Rest {
                    until: Box::pin(sleep(TIMEOUT)),
                    dropped: 0,
                })
            }
        };
        rest.poll_dropped(&mut this.stream, cx).map(Ok)
    }
}

/// The rest of a body that a client is still sending.
#[derive(Debug)]
struct Rest {
    until: Pin<Box<Sleep>>,
    /// How many bytes of it were read and discarded.
    dropped: usize,
}

impl Rest {
    /// Reads and discards data until the client has closed its side or a limit is reached.
    fn poll_dropped<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let mut bytes = [0; 8 * 1024];
        while self.dropped <= MAX_DROPPED_BYTES {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
                Poll::Pending => return self.until.as_mut().poll(cx),
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.dropped += buffer.filled().len();
                }
                Poll::Ready(_) => break,
            }
        }
        Poll::Ready(())
    }
}
