//! Error bodies, under every status that has a meaning.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| neuraxis_wire_fuzz::errors(input));
