//! Tests of the decoder of server-sent events.

use proptest::prelude::*;

use super::*;

/// Decodes a stream that arrives in these pieces: names and data.
fn decode<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    limit: usize,
) -> Result<Vec<(String, String)>, SseError> {
    let mut decoder = SseDecoder::with_limit(limit);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(Bytes::copy_from_slice(piece));
        while let Some(event) = decoder.next_event()? {
            events.push((event.name.to_owned(), event.data.to_owned()));
        }
    }
    Ok(events)
}

fn data_of(stream: &[u8]) -> Vec<String> {
    let events = decode([stream], MAX_EVENT_BYTES).unwrap();
    events.into_iter().map(|(_, data)| data).collect()
}

#[test]
fn lines_may_end_in_lf_crlf_or_cr() {
    let expected = ["a", "b"];
    assert_eq!(data_of(b"data: a\n\ndata: b\n\n"), expected);
    assert_eq!(data_of(b"data: a\r\n\r\ndata: b\r\n\r\n"), expected);
    assert_eq!(data_of(b"data: a\r\rdata: b\r\r"), expected);
    assert_eq!(data_of(b"data: a\r\n\ndata: b\r\r\n"), expected);
}

#[test]
fn a_line_feed_after_a_carriage_return_starts_no_new_line() {
    let stream = b"data: a\r\ndata: b\r\n\r\n";
    assert_eq!(data_of(stream), ["a\nb"]);
    let split = decode(stream.chunks(1), 100).unwrap();
    assert_eq!(split, [(String::new(), "a\nb".to_owned())]);
}

#[test]
fn an_event_that_ends_in_a_carriage_return_does_not_wait_for_a_line_feed() {
    let events = decode([b"data: a\r\r".as_slice()], 100).unwrap();
    assert_eq!(events, [(String::new(), "a".to_owned())]);
}

#[test]
fn comments_and_other_fields_are_skipped() {
    assert_eq!(
        data_of(b": keep-alive\n\nid: 7\nretry: 10\nother\ndata: a\n: more\n\n"),
        ["a"]
    );
}

#[test]
fn data_lines_are_joined_by_line_feeds_and_lose_one_leading_space() {
    assert_eq!(
        data_of(b"data:a\ndata:  b\ndata\ndata:\ndata: c: d\n\n"),
        ["a\n b\n\n\nc: d"]
    );
}

#[test]
fn an_event_has_only_the_name_given_in_its_own_lines() {
    let stream = b"event: first\ndata: a\n\ndata: b\n\nevent: lost\n\ndata: c\n\n";
    let events = decode([stream.as_slice()], 100).unwrap();
    let events: Vec<_> = events
        .iter()
        .map(|(name, data)| (&**name, &**data))
        .collect();
    assert_eq!(events, [("first", "a"), ("", "b"), ("", "c")]);
}

#[test]
fn a_byte_order_mark_is_skipped_at_the_start_and_nowhere_else() {
    assert_eq!(data_of(b"\xef\xbb\xbfdata: a\n\n"), ["a"]);
    assert_eq!(data_of(b"data: a\n\n\xef\xbb\xbfdata: b\n\n"), ["a"]);
    assert_eq!(data_of(b"data: \xef\xbb\xbfa\n\n"), ["\u{feff}a"]);
}

#[test]
fn an_event_cut_off_by_the_end_is_never_returned() {
    assert_eq!(data_of(b"data: a\n\ndata: b\n"), ["a"]);
    assert_eq!(data_of(b"data: a\n\ndata: b"), ["a"]);
}

#[test]
fn invalid_utf_8_is_an_error() {
    for stream in [
        b"data: \xff\n\n".as_slice(),
        b"data: \xc3\n\n",
        b"event: \xff\ndata: a\n\n",
        b"data: \xed\xa0\x80\n\n",
    ] {
        assert_eq!(decode([stream], 100), Err(SseError::NotUtf8));
    }
}

#[test]
fn a_character_may_be_split_between_pieces() {
    let stream = "data: héllo 🦀\n\n".as_bytes();
    let pieces = stream.chunks(1);
    assert_eq!(decode(pieces, 100).unwrap()[0].1, "héllo 🦀");
}

#[test]
fn an_endless_line_is_an_error() {
    let piece = [b'x'; 40];
    let endless = std::iter::repeat_n(piece.as_slice(), 3);
    assert_eq!(decode(endless, 100), Err(SseError::TooLong { limit: 100 }));
}

#[test]
fn an_endless_event_is_an_error() {
    let piece = format!("data: {}\n", "x".repeat(40));
    let endless = std::iter::repeat_n(piece.as_bytes(), 3);
    assert_eq!(decode(endless, 100), Err(SseError::TooLong { limit: 100 }));
    let line = format!("data: {}\n\n", "x".repeat(101));
    assert_eq!(
        decode([line.as_bytes()], 100),
        Err(SseError::TooLong { limit: 100 })
    );
}

#[test]
fn several_pieces_may_be_pushed_before_reading() {
    let mut decoder = SseDecoder::new();
    for piece in ["data: a\n", "\ndata", ": b\n\nda", "ta: c\n\n"] {
        decoder.push(piece.into());
    }
    let mut seen = Vec::new();
    while let Some(event) = decoder.next_event().unwrap() {
        seen.push(event.data.to_owned());
    }
    assert_eq!(seen, ["a", "b", "c"]);
}

/// Splits a stream at the given positions.
fn cut<'a>(stream: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    cuts.extend([0, stream.len()]);
    cuts.sort_unstable();
    cuts.windows(2)
        .map(|pair| &stream[pair[0]..pair[1]])
        .collect()
}

/// Bytes that are often significant to the decoder.
fn streams() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "data", "data:", "data: ", "event: ", "id: 1", ":", " ", "\n", "\r", "\r\n", "\n\n", "x",
        "é", "🦀", "\u{feff}",
    ]);
    let text = prop::collection::vec(word, 0..60).prop_map(|words| words.concat().into_bytes());
    let noise = prop::collection::vec(any::<u8>(), 0..60);
    prop_oneof![4 => text, 1 => noise]
}

proptest! {
    #[test]
    fn any_split_of_a_stream_gives_the_same_events(
        stream in streams(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        limit in prop_oneof![Just(1_000_usize), 0..20_usize],
    ) {
        let whole = decode([stream.as_slice()], limit);
        let split = decode(cut(&stream, &cuts), limit);
        if limit == 1_000 {
            prop_assert_eq!(split, whole);
        } else if let Ok(events) = split {
            // A field's name counts toward the limit while its end is unknown, so a split stream may be refused
            // earlier, never later.
            prop_assert_eq!(Ok(events), whole);
        }
    }

    #[test]
    fn written_events_are_read_back(data in prop::collection::vec("[^\r\n]{1,20}", 0..8)) {
        let stream: String = data.iter().map(|data| format!("data: {data}\n\n")).collect();
        prop_assert_eq!(data_of(stream.as_bytes()), data);
    }
}

#[test]
fn the_streams_of_the_corpus_are_read_the_same_whole_and_byte_by_byte() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/sse");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let stream = std::fs::read(&path).unwrap();
        let whole = decode([stream.as_slice()], MAX_EVENT_BYTES);
        assert_eq!(decode(stream.chunks(1), MAX_EVENT_BYTES), whole, "{path:?}");
        names.push(path);
    }
    assert!(
        names.len() >= 10,
        "the corpus is not where it should be: {names:?}"
    );
}

#[test]
fn a_piece_is_released_once_it_is_fully_read() {
    let mut decoder = SseDecoder::new();
    for (piece, data) in [
        ("data: a\n\ndata: b", Some("a")),
        ("c\n\n", Some("bc")),
        ("data: d\n", None),
    ] {
        let piece = Bytes::copy_from_slice(piece.as_bytes());
        decoder.push(piece.clone());
        let mut read = Vec::new();
        while let Some(event) = decoder.next_event().unwrap() {
            read.push(event.data.to_owned());
        }
        assert_eq!(read.first().map(String::as_str), data);
        assert!(piece.is_unique(), "{piece:?}");
    }
}
