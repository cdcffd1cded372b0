//! Patches of files, applied to a project.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| neuraxis_app_fuzz::patch(input));
