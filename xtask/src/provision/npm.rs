//! Packages of the npm registry, pinned with their hashes. Nothing of them is run while they are installed.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::remove;
use crate::cargo::{program, succeed, succeeds};

/// Packages that are installed together.
pub(super) struct Packages {
    /// Where they go, seen from the folder of the provisions.
    pub(super) folder: &'static str,
    /// The `package.json` that names them.
    pub(super) package: &'static str,
    /// The `package-lock.json` with the versions and hashes of all that they need.
    pub(super) lock: &'static str,
}

/// The official client of AG-UI.
pub(super) const AGUI_CLIENT: Packages = Packages {
    folder: "agui-client",
    package: include_str!("agui_client/package.json"),
    lock: include_str!("agui_client/package-lock.json"),
};

/// The official client of the Model Context Protocol in TypeScript.
pub(super) const MCP_CLIENT: Packages = Packages {
    folder: "mcp-client",
    package: include_str!("mcp_client/package.json"),
    lock: include_str!("mcp_client/package-lock.json"),
};

/// What says that all of them are there.
const DONE: &str = "installed-package-lock.json";

/// Tells whether there is no npm here, so that nothing of it can be had.
pub(super) fn is_absent() -> bool {
    !succeeds(program("npm", "--version"))
}

impl Packages {
    /// Tells whether the pinned versions are there, and what runs them.
    pub(super) fn are_ready(&self, folder: &Path) -> bool {
        let installed = fs::read_to_string(folder.join(self.folder).join(DONE));
        installed.is_ok_and(|it| it == self.lock) && succeeds(program("node", "--version"))
    }

    /// Installs the pinned versions, in place of whatever is there.
    pub(super) fn install(&self, folder: &Path) -> anyhow::Result<()> {
        let packages = folder.join(self.folder);
        remove(&packages)?;
        fs::create_dir_all(&packages)
            .and_then(|()| fs::write(packages.join("package.json"), self.package))
            .and_then(|()| fs::write(packages.join("package-lock.json"), self.lock))
            .with_context(|| format!("{} cannot be written", packages.display()))?;
        let mut npm = program(
            "npm",
            "ci --ignore-scripts --no-audit --no-fund --loglevel=error",
        );
        npm.current_dir(&packages);
        succeed(npm).context("it takes node, npm and a registry that npm can reach")?;
        // Only what was installed whole counts.
        let done = packages.join(DONE);
        fs::write(&done, self.lock).with_context(|| format!("{} cannot be written", done.display()))
    }
}
