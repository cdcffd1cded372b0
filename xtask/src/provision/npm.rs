//! Packages of the npm registry, pinned with their hashes. None of their code runs during installation.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::remove;
use crate::cargo::{program, run_command, succeeds};

/// Packages that are installed together.
pub(super) struct Packages {
    /// Where they are installed, relative to the folder of the provisions.
    pub(super) folder: &'static str,
    /// The `package.json` that names them.
    pub(super) package: &'static str,
    /// The `package-lock.json` with the versions and hashes of all dependencies.
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

/// Marks a complete installation.
const DONE: &str = "installed-package-lock.json";

/// Returns whether npm is missing, so that no npm package can be installed.
pub(super) fn is_absent() -> bool {
    !succeeds(program("npm", "--version"))
}

impl Packages {
    /// Returns whether the pinned versions and the program that runs them are installed.
    pub(super) fn are_ready(&self, folder: &Path) -> bool {
        let installed = fs::read_to_string(folder.join(self.folder).join(DONE));
        installed.is_ok_and(|it| it == self.lock) && succeeds(program("node", "--version"))
    }

    /// Installs the pinned versions, replacing any others.
    pub(super) fn install(&self, folder: &Path) -> anyhow::Result<()> {
        let packages = folder.join(self.folder);
        remove(&packages)?;
        fs::create_dir_all(&packages)
            .and_then(|()| fs::write(packages.join("package.json"), self.package))
            .and_then(|()| fs::write(packages.join("package-lock.json"), self.lock))
            .with_context(|| format!("cannot write {}", packages.display()))?;
        let mut npm = program(
            "npm",
            "ci --ignore-scripts --no-audit --no-fund --loglevel=error",
        );
        npm.current_dir(&packages);
        run_command(npm).context("needs node, npm and a registry that npm can reach")?;
        // Only a complete installation counts.
        let done = packages.join(DONE);
        fs::write(&done, self.lock).with_context(|| format!("cannot write {}", done.display()))
    }
}
