//! Requests that tell their length twice, in `Content-Length` and by `Transfer-Encoding`.
//!
//! Whoever reads such a request otherwise than we do, as a proxy before us may, sees another request in its body. hyper
//! removes the length and reads chunks, so that nobody after it can tell; this looks at the bytes before hyper does.
//!
//! It does not read HTTP: what is wrong in any other way is left to hyper, which refuses it and closes the connection.

use std::io;
use std::mem::take;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use axum::http::Request;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::linger::Linger;

/// How many bytes of a line are looked at: a name and a number have room.
const KEPT_BYTES: usize = 64;

/// A request that has it among its extensions tells its length twice, or in a way that cannot be followed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AmbiguousLength;

/// What the bytes and the requests of one connection have to do with one another.
#[derive(Debug, Clone, Default)]
pub(crate) struct Framing(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// The number of the first ambiguous request, from 1; 0 while there is none. Nothing is taken after it.
    ambiguous: AtomicU64,
    /// How many requests were taken.
    taken: AtomicU64,
}

impl Framing {
    /// Looks at what comes through a stream.
    pub(crate) fn watch<S>(&self, stream: S) -> Watched<S> {
        Watched {
            stream,
            framing: self.clone(),
            requests: Requests::default(),
            linger: None,
        }
    }

    /// Marks the next request of the connection, if it is ambiguous.
    pub(crate) fn mark<B>(&self, request: &mut Request<B>) {
        let number = self.0.taken.fetch_add(1, Ordering::Relaxed) + 1;
        if number == self.0.ambiguous.load(Ordering::Relaxed) {
            request.extensions_mut().insert(AmbiguousLength);
        }
    }
}

/// A stream that is looked at while it is read.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    stream: S,
    framing: Framing,
    requests: Requests,
    /// Once our side is closed.
    linger: Option<Linger>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let new = buffer.filled().get(before..).unwrap_or_default();
        if let Some(number) = self.requests.read(new) {
            self.framing.0.ambiguous.store(number, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Watched<S> {
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

    /// Closes our side, and where the client is still sending a body lingers until it has stopped.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let linger = match &mut this.linger {
            Some(linger) => linger,
            none => {
                ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
                if matches!(this.requests.place, Place::Between | Place::Head) {
                    return Poll::Ready(Ok(()));
                }
                none.insert(Linger::begin())
            }
        };
        linger.poll(&mut this.stream, cx).map(Ok)
    }
}

/// Where in a connection's requests the bytes stand that come next.
#[derive(Debug, Default)]
struct Requests {
    place: Place,
    /// How many heads have begun.
    begun: u64,
    /// The beginning of the line that is not over yet.
    line: Vec<u8>,
    head: Head,
}

#[derive(Debug, Clone, Copy, Default)]
enum Place {
    /// Before the first line of a head. There may be empty lines.
    #[default]
    Between,
    Head,
    /// In a body of which so many bytes are to come.
    Body(u64),
    /// In chunks, or behind what was refused: the connection ends with this request.
    Beyond,
}

/// What a head says of its body.
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    length: Option<u64>,
    is_in_chunks: bool,
    /// It tells a length that cannot be followed.
    is_unclear: bool,
}

impl Requests {
    /// Looks at the next bytes. Returns the number of the request among them that is ambiguous.
    fn read(&mut self, mut bytes: &[u8]) -> Option<u64> {
        let mut ambiguous = None;
        while !bytes.is_empty() {
            match self.place {
                Place::Beyond => break,
                Place::Body(left) => {
                    let here =
                        usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                    bytes = bytes.get(here..).unwrap_or_default();
                    // A length of bytes at hand is smaller than one of bytes to come.
                    self.place =
                        Place::after(left.saturating_sub(u64::try_from(here).unwrap_or(left)));
                }
                Place::Between | Place::Head => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let line = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
                    let room = KEPT_BYTES.saturating_sub(self.line.len());
                    self.line
                        .extend_from_slice(line.get(..room.min(line.len())).unwrap_or_default());
                    let Some(end) = end else { break };
                    bytes = bytes.get(end + 1..).unwrap_or_default();
                    ambiguous = self.end_line().or(ambiguous);
                }
            }
        }
        ambiguous
    }

    /// Looks at a line that is over.
    fn end_line(&mut self) -> Option<u64> {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        match (self.place, line.is_empty()) {
            (Place::Head, true) => return self.end_head(),
            (Place::Head, false) => self.head.read(line),
            (_, true) => {}
            (_, false) => {
                self.place = Place::Head;
                self.begun += 1;
            }
        }
        self.line.clear();
        None
    }

    fn end_head(&mut self) -> Option<u64> {
        self.line.clear();
        let head = take(&mut self.head);
        let is_ambiguous = head.is_unclear || (head.is_in_chunks && head.length.is_some());
        self.place = match head.length {
            _ if head.is_in_chunks || is_ambiguous => Place::Beyond,
            length => Place::after(length.unwrap_or_default()),
        };
        is_ambiguous.then_some(self.begun)
    }
}

impl Place {
    const fn after(left: u64) -> Self {
        match left {
            0 => Self::Between,
            left => Self::Body(left),
        }
    }
}

impl Head {
    /// Looks at the beginning of a header line.
    fn read(&mut self, line: &[u8]) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return;
        };
        let (name, value) = line.split_at(colon);
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_in_chunks = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let value = value.get(1..).unwrap_or_default().trim_ascii();
            // A line that was cut may go on with more digits.
            let is_whole = line.len() < KEPT_BYTES && value.iter().all(u8::is_ascii_digit);
            let digits = Some(value).filter(|_| is_whole);
            let length = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
            self.is_unclear |=
                length.is_none() || self.length.is_some_and(|other| Some(other) != length);
            self.length = length.or(self.length);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads requests in pieces of a size and returns the number of the ambiguous one.
    fn ambiguous(text: &str, size: usize) -> Option<u64> {
        let mut requests = Requests::default();
        let pieces = text.as_bytes().chunks(size);
        pieces.filter_map(|piece| requests.read(piece)).last()
    }

    #[test]
    fn a_request_that_tells_its_length_twice_is_found_by_its_number_however_it_arrives() {
        let plain = "POST / HTTP/1.1\r\ncontent-LENGTH:  5 \r\n\r\n\r\n\r\n\n\r\n\r\n";
        let none = "GET / HTTP/1.1\nHost: x\n\n";
        for (text, expected) in [
            (format!("{plain}{none}"), None),
            ("POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n".into(), Some(1)),
            (
                format!("{plain}{none}\r\nPOST / HTTP/1.1\r\ntransfer-encoding:x\r\nX: y\r\nContent-Length:1\r\n\r\n"),
                Some(3),
            ),
            // A body is no head.
            (
                "POST / HTTP/1.1\r\nContent-Length: 45\r\n\r\nContent-Length: 1\r\nTransfer-Encoding: x\r\n\r\n\r\n\r\n".into(),
                None,
            ),
            // Chunks are not followed.
            (
                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nGET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: x\r\n\r\n".into(),
                None,
            ),
        ] {
            for size in 1..=text.len() {
                assert_eq!(ambiguous(&text, size), expected, "{size} {text}");
            }
        }
    }

    #[test]
    fn a_length_that_cannot_be_followed_is_as_bad_as_two() {
        let spaces = " ".repeat(KEPT_BYTES);
        for length in [
            "",
            "five",
            "+5",
            "-1",
            "99999999999999999999999",
            "1, 1",
            &format!("{spaces}5"),
        ] {
            let text = format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
            assert_eq!(ambiguous(&text, text.len()), Some(1), "{length}");
        }
        let two = "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n";
        assert_eq!(ambiguous(two, two.len()), Some(1));
    }

    /// What requests are made of, and what they are not.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let said = [
            "POST / HTTP/1.1\r\n",
            "Content-Length: 5\r\n",
            "content-length:12\n",
            "Content-Length: x\r\n",
            "Transfer-Encoding: chunked\r\n",
            "X: y\r\n",
            "\r\n",
            "\n",
            "hello",
        ];
        let said = prop::sample::select(said.to_vec());
        prop_oneof![
            4 => said.prop_map(|text| text.as_bytes().to_vec()),
            1 => prop::collection::vec(any::<u8>(), 0..100),
        ]
    }

    proptest! {
        #[test]
        fn how_bytes_arrive_makes_no_difference(pieces in prop::collection::vec(piece(), 0..30), size in 1_usize..40) {
            let bytes = pieces.concat();
            let mut whole = Requests::default();
            let at_once = whole.read(&bytes);
            let mut split = Requests::default();
            let found: Vec<u64> = bytes.chunks(size).filter_map(|piece| split.read(piece)).collect();
            prop_assert_eq!(found.last().copied(), at_once);
            prop_assert!(found.len() <= 1, "nothing is taken after the first");
            prop_assert_eq!(split.begun, whole.begun);
            prop_assert!(split.line.len() <= KEPT_BYTES);
        }
    }
}
