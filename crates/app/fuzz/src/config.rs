//! Configuration: a file is accepted or refused, the same way each time, and its error reveals no secret.

use std::fs;

use neuraxis_app::{Config, Environment, Sources};
use neuraxis_core::with_causes;

/// A secret in the environment. No file can make an error reveal it.
const CANARY: &str = "sk-canary-5f1e";

/// Far above the length of an error about any file.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// Loads a configuration file twice.
pub fn config(input: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("my.toml"), input).unwrap();
    let environment = Environment::new(folder.path()).with_variable("OPENAI_API_KEY", CANARY);
    let sources = Sources::default().with_file("my.toml");
    let load = || {
        let loaded = Config::load(&environment, &sources);
        loaded.map_err(|error| with_causes(&error))
    };
    match (load(), load()) {
        (Ok(one), Ok(other)) => assert_eq!(one.policy().hash(), other.policy().hash()),
        (Err(one), Err(other)) => {
            assert_eq!(one, other);
            assert!(one.len() < MAX_ERROR_BYTES, "{one}");
            assert!(!one.contains(CANARY), "{one}");
        }
        (one, other) => panic!("once taken, once not: {one:?}, {other:?}"),
    }
}
