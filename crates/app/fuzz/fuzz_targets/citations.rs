//! Answers whose citations are checked.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| neuraxis_app_fuzz::citations(input));
