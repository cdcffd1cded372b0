//! Server-sent events, fed to the decoder itself.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| neuraxis_wire_fuzz::sse(input));
