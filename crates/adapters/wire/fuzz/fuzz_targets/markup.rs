//! Texts that contain tool calls, through the DeepSeek client.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| neuraxis_wire_fuzz::markup(input));
