//! Messages of MCP servers.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| neuraxis_app_fuzz::frames(input));
