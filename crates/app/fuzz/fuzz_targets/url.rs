//! URLs that a model or a redirect names, and hosts that are allowed.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| neuraxis_app_fuzz::url(input));
