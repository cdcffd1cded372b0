//! The decoder of server-sent events.

use bytes::Bytes;
use neuraxis_wire::{SseDecoder, SseError};

/// Small enough for inputs to reach it.
const LIMIT: usize = 64;

type Decoded = (Vec<(String, String)>, Option<SseError>);

/// However a stream is split, it holds the same events, and none exceeds the limit.
pub fn sse(input: &[u8]) {
    for limit in [LIMIT, neuraxis_wire::MAX_EVENT_BYTES] {
        let (events, error) = decode([input], limit);
        assert!(events.iter().all(|(_, data)| data.len() <= limit));
        for size in [1, 2, 7] {
            let (split, split_error) = decode(input.chunks(size), limit);
            // A line that is too long is detected at its end if it arrived whole, and otherwise at its limit: never
            // later.
            let is_too_long = |error| matches!(error, Some(SseError::TooLong { .. }));
            if is_too_long(error) || is_too_long(split_error) {
                let shorter = events.len().min(split.len());
                assert_eq!(events[..shorter], split[..shorter]);
            } else {
                assert_eq!((&events, error), (&split, split_error));
            }
        }
    }
}

fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limit: usize) -> Decoded {
    let mut decoder = SseDecoder::with_limit(limit);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(Bytes::copy_from_slice(piece));
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => events.push((event.name.to_owned(), event.data.to_owned())),
                Ok(None) => break,
                Err(error) => return (events, Some(error)),
            }
        }
    }
    (events, None)
}
