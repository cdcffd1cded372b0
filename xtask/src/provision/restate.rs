//! The Restate server, from the npm registry, which has it as a program for Linux on two architectures.

use std::path::Path;

use super::npm;
use crate::cargo::{program, succeeds};

/// The program, relative to the folder of the provisions.
#[cfg(target_arch = "aarch64")]
pub(super) const PROGRAM: &str =
    "restate/node_modules/@restatedev/restate-server-linux-arm64/bin/restate-server";

/// The program, relative to the folder of the provisions.
#[cfg(not(target_arch = "aarch64"))]
pub(super) const PROGRAM: &str =
    "restate/node_modules/@restatedev/restate-server-linux-x64/bin/restate-server";

const SERVER: npm::Packages = npm::Packages {
    folder: "restate",
    package: include_str!("restate/package.json"),
    lock: include_str!("restate/package-lock.json"),
};

/// Returns whether the pinned version is installed and runs here.
pub(super) fn is_ready(folder: &Path) -> bool {
    let server = folder.join(PROGRAM);
    SERVER.are_ready(folder) && succeeds(program(&server.to_string_lossy(), "--version"))
}

/// Installs the pinned version, replacing any other.
pub(super) fn install(folder: &Path) -> anyhow::Result<()> {
    SERVER.install(folder)
}
