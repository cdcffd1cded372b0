//! Tests of what a body's reader waits for, in paused time.

use std::collections::VecDeque;

use http_body::Frame;

use super::*;
use std::task::ready;

/// A body that sends pieces after pauses, and then nothing more without ending.
struct Paced {
    pieces: VecDeque<(Duration, &'static [u8])>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl http_body::Body for Paced {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let Some((pause, piece)) = self.pieces.front().copied() else {
            return Poll::Pending;
        };
        if pause.is_zero() {
            self.pieces.pop_front();
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(piece)))));
        }
        let sleep = self
            .pause
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(pause)));
        ready!(sleep.as_mut().poll(cx));
        self.pause = None;
        self.pieces.pop_front();
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(piece)))))
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn limits() -> TimeLimits {
    TimeLimits {
        first: Instant::now() + 60 * SECOND,
        idle: 10 * SECOND,
        output: 30 * SECOND,
        end: None,
    }
}

fn body(
    pieces: impl IntoIterator<Item = (Duration, &'static [u8])>,
    limits: TimeLimits,
    cancellation: &CancellationToken,
) -> Body {
    let paced = Paced {
        pieces: pieces.into_iter().collect(),
        pause: None,
    };
    let errors = ServerErrors::new("http://127.0.0.1:1", &[], Vec::new());
    Body::new(
        reqwest::Body::wrap(SyncBody(std::sync::Mutex::new(paced))),
        limits,
        cancellation.clone(),
        Arc::new(errors),
    )
}

/// `reqwest` requires a `Sync` body; a mutex that is only used through `&mut` provides that.
struct SyncBody(std::sync::Mutex<Paced>);

impl http_body::Body for SyncBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Pin::new(self.0.get_mut().unwrap()).poll_frame(cx)
    }
}

/// Reads to the end, marks each piece that says so as output, and returns the error and the elapsed time.
async fn read(mut body: Body) -> (LlmError, Duration) {
    let started = Instant::now();
    loop {
        match body.next().await.expect("the body never ends") {
            Ok(piece) if piece.as_ref() == b"output" => body.mark_output(),
            Ok(_) => {}
            Err(error) => return (error, started.elapsed()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_times_out_after_the_idle_time() {
    let pieces = [(8 * SECOND, b"output".as_slice()), (9 * SECOND, b"output")];
    let (error, after) = read(body(pieces, limits(), &CancellationToken::new())).await;
    assert_eq!(error.kind, LlmErrorKind::Timeout);
    assert!(error.message.contains("timeouts.idle"), "{error}");
    assert_eq!(after.as_secs(), 8 + 9 + 10);
}

#[tokio::test(start_paused = true)]
async fn the_first_byte_has_its_own_time_limit() {
    let (error, after) = read(body([], limits(), &CancellationToken::new())).await;
    assert_eq!(error.kind, LlmErrorKind::Timeout);
    assert!(error.message.contains("timeouts.first_byte"), "{error}");
    assert_eq!(after.as_secs(), 60);

    let late = [(50 * SECOND, b": keep-alive".as_slice())];
    let (error, after) = read(body(late, limits(), &CancellationToken::new())).await;
    assert!(error.message.contains("timeouts.idle"), "{error}");
    assert_eq!(after.as_secs(), 50 + 10);
}

#[tokio::test(start_paused = true)]
async fn keep_alive_comments_extend_the_idle_time_but_not_the_output_time() {
    let comments = std::iter::repeat_n((5 * SECOND, b": keep-alive".as_slice()), 100);
    let pieces = std::iter::once((5 * SECOND, b"output".as_slice())).chain(comments);
    let (error, after) = read(body(pieces, limits(), &CancellationToken::new())).await;
    assert_eq!(error.kind, LlmErrorKind::Timeout);
    assert!(error.message.contains("timeouts.output"), "{error}");
    assert_eq!(after.as_secs(), 5 + 30);
}

#[tokio::test(start_paused = true)]
async fn bytes_that_never_become_output_time_out() {
    let bytes = std::iter::repeat_n((SECOND, b"x".as_slice()), 1_000);
    let (error, after) = read(body(bytes, limits(), &CancellationToken::new())).await;
    assert_eq!(error.kind, LlmErrorKind::Timeout);
    assert_eq!(after.as_secs(), 1 + 30);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_pauses_still_times_out() {
    let endless = std::iter::repeat_n((Duration::ZERO, b": ".as_slice()), 1_000);
    let pieces = std::iter::once((SECOND, b"output".as_slice())).chain(endless);
    let mut body = body(pieces, limits(), &CancellationToken::new());
    for _ in 0..100 {
        assert!(body.next().await.unwrap().is_ok());
    }
    tokio::time::advance(31 * SECOND).await;
    let (error, after) = read(body).await;
    assert!(error.message.contains("timeouts.output"), "{error}");
    assert_eq!(after, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn the_time_a_reader_takes_does_not_count_against_the_server() {
    let pieces = std::iter::repeat_n((SECOND, b"output".as_slice()), 5);
    let mut body = body(pieces, limits(), &CancellationToken::new());
    for _ in 0..5 {
        assert!(body.next().await.unwrap().is_ok());
        body.mark_output();
        tokio::time::advance(100 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_whole_body_has_its_own_time_limit() {
    let limits = TimeLimits {
        end: Some(Instant::now() + 12 * SECOND),
        ..limits()
    };
    let pieces = std::iter::repeat_n((5 * SECOND, b"output".as_slice()), 100);
    let (error, after) = read(body(pieces, limits, &CancellationToken::new())).await;
    assert_eq!(error.kind, LlmErrorKind::Timeout);
    assert!(error.message.contains("did not finish"), "{error}");
    assert_eq!(after.as_secs(), 12);
}

#[tokio::test(start_paused = true)]
async fn a_duration_too_long_for_the_clock_is_no_limit() {
    let limits = TimeLimits {
        first: after(Instant::now(), Duration::MAX),
        idle: Duration::MAX,
        output: Duration::MAX,
        end: None,
    };
    let cancellation = CancellationToken::new();
    let reading = read(body([], limits, &cancellation));
    let (result, ()) = tokio::join!(reading, async {
        tokio::time::sleep(1_000_000 * SECOND).await;
        cancellation.cancel();
    });
    assert_eq!(result.0.kind, LlmErrorKind::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_reader_is_cancelled_immediately() {
    let cancellation = CancellationToken::new();
    let reading = read(body(
        [(SECOND, b"output".as_slice())],
        limits(),
        &cancellation,
    ));
    let (result, ()) = tokio::join!(reading, async {
        tokio::time::sleep(3 * SECOND).await;
        cancellation.cancel();
    });
    let (error, after) = result;
    assert_eq!(error.kind, LlmErrorKind::Cancelled);
    assert_eq!(after.as_secs(), 3);
}
