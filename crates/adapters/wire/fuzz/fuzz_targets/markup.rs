//! Texts with calls written into them, through the client of DeepSeek.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| neuraxis_wire_fuzz::markup(input));
