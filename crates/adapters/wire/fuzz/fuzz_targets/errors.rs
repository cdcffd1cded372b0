//! Error bodies, under every status that means something.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| neuraxis_wire_fuzz::errors(input));
