//! The official client of the Model Context Protocol in TypeScript, from the npm registry.
//!
//! Versions and hashes are pinned in `mcp_client/package-lock.json`. Nothing of the packages is run while they are installed.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::cargo::{program, succeed, succeeds};

/// Where programs find the packages, seen from the folder of the provisions.
pub(super) const PACKAGES: &str = "mcp-client/node_modules";

/// What is put together, and where.
const FOLDER: &str = "mcp-client";

/// What npm leaves when it is done.
const DONE: &str = "mcp-client/installed-package-lock.json";

const PACKAGE: &str = include_str!("mcp_client/package.json");
const LOCK: &str = include_str!("mcp_client/package-lock.json");

/// Tells whether the pinned version is there, and what runs it.
pub(super) fn is_ready(folder: &Path) -> bool {
    let installed = fs::read_to_string(folder.join(DONE));
    installed.is_ok_and(|it| it == LOCK) && succeeds(program("node", "--version"))
}

/// Installs the pinned version, in place of whatever is there.
pub(super) fn install(folder: &Path) -> anyhow::Result<()> {
    let packages = folder.join(FOLDER);
    if packages.exists() {
        fs::remove_dir_all(&packages)
            .with_context(|| format!("{} cannot be removed", packages.display()))?;
    }
    fs::create_dir_all(&packages)
        .and_then(|()| fs::write(packages.join("package.json"), PACKAGE))
        .and_then(|()| fs::write(packages.join("package-lock.json"), LOCK))
        .with_context(|| format!("{} cannot be written", packages.display()))?;
    let mut npm = program(
        "npm",
        "ci --ignore-scripts --no-audit --no-fund --loglevel=error",
    );
    npm.current_dir(&packages);
    succeed(npm).context("it takes node, npm and a registry that npm can reach")?;
    // Only what was installed whole counts.
    let done = folder.join(DONE);
    fs::write(&done, LOCK).with_context(|| format!("{} cannot be written", done.display()))
}
