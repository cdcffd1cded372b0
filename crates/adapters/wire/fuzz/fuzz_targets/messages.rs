//! Streams of Anthropic's Messages API, through the client.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| neuraxis_wire_fuzz::messages(input));
