//! Gives a client that is still sending the time to read its answer: a connection that closes while bytes come in is reset,
//! and what was on its way to the client is lost with it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long the rest is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most bytes of the rest that are read and forgotten.
const FORGOTTEN_BYTES: usize = 8 * 1024 * 1024;

/// The end of a connection of which the client has not sent all.
#[derive(Debug)]
pub(crate) struct Linger {
    until: Pin<Box<Sleep>>,
    forgotten: usize,
}

impl Linger {
    pub(crate) fn begin() -> Self {
        Self {
            until: Box::pin(sleep(PATIENCE)),
            forgotten: 0,
        }
    }

    /// Reads and forgets what comes, until the client has closed its side or it was enough.
    pub(crate) fn poll<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let mut bytes = [0; 8 * 1024];
        while self.forgotten <= FORGOTTEN_BYTES {
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
                Poll::Pending => return self.until.as_mut().poll(cx),
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.forgotten += buffer.filled().len();
                }
                Poll::Ready(_) => break,
            }
        }
        Poll::Ready(())
    }
}
