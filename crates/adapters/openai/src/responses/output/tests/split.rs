//! Streams as the bytes in which they arrive.

use neuraxis_wire::SseDecoder;
use proptest::prelude::*;

use super::*;

/// Decodes the bytes of a stream that arrives in these pieces.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Reply, LlmError> {
    let mut events = SseDecoder::new();
    let (mut output, mut out) = (output(), VecDeque::new());
    let mut assembler = ReplyAssembler::default();
    'pieces: for piece in pieces {
        events.push(bytes::Bytes::copy_from_slice(piece));
        while let Some(event) = events.next_event()? {
            if output.event(event, &mut out, &errors())? == EventOutcome::End {
                break 'pieces;
            }
        }
    }
    out.into_iter()
        .try_for_each(|delta| assembler.push(delta))?;
    assembler.finish()
}

fn bytes_of(events: &[Value]) -> Vec<u8> {
    let event = |event: &Value| {
        format!(
            "event: {}\ndata: {event}\n\n",
            event["type"].as_str().unwrap()
        )
    };
    events.iter().map(event).collect::<String>().into_bytes()
}

#[test]
fn a_stream_that_is_split_at_any_byte_gives_the_same_reply() {
    let bytes = bytes_of(&stream());
    let expected = reply(&stream()).unwrap();
    for at in 0..=bytes.len() {
        let (first, second) = bytes.split_at(at);
        assert_eq!(decode([first, second]).unwrap(), expected, "split at {at}");
    }
    assert_eq!(decode(bytes.chunks(1)).unwrap(), expected);
}

#[test]
fn a_stream_that_is_cut_at_any_byte_gives_no_reply() {
    let bytes = bytes_of(&stream());
    for end in 0..bytes.len() - 1 {
        let error = decode([&bytes[..end]]).unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::Incomplete, "cut at {end}");
    }
}

/// Generates values that events often have in these fields.
fn junk() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z{}\\[\\]\"]{0,6}".prop_map(Value::from),
        prop::sample::select(vec![
            "message",
            "function_call",
            "reasoning",
            "completed",
            "failed"
        ])
        .prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "type",
        "item",
        "output_index",
        "delta",
        "response",
        "output",
        "status",
        "content",
        "summary",
        "text",
        "arguments",
        "name",
        "call_id",
        "id",
        "error",
        "usage",
        "encrypted_content",
        "incomplete_details",
        "reason",
    ]);
    leaf.prop_recursive(4, 32, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((names.clone(), inner), 0..6).prop_map(|fields| Value::Object(
                fields
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect()
            )),
        ]
    })
}

proptest! {
    #[test]
    fn no_event_makes_the_decoder_panic(
        kinds in prop::collection::vec((prop::sample::select(vec![
            "response.output_item.added", "response.output_item.done", "response.output_text.delta",
            "response.function_call_arguments.delta", "response.reasoning_summary_text.delta",
            "response.completed", "response.failed", "error", "other",
        ]), junk()), 0..8),
    ) {
        let events: Vec<Value> = kinds.into_iter().map(|(kind, mut event)| {
            if let Some(fields) = event.as_object_mut() {
                fields.insert("type".to_owned(), kind.into());
            }
            event
        }).collect();
        let _ = reply(&events);
        for event in &events {
            let _ = whole(event);
        }
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode([bytes.as_slice()]);
        let _ = output().decode_whole(&bytes, &errors());
    }
}
