//! Third-party packages from the registries of Node and Python, each in a separate folder.
//!
//! Their versions are pinned; their dependencies are resolved by the registries.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use super::remove;
use crate::cargo::{program, run_command};

/// Lists the versions in a folder, once all of them are installed.
const PINNED: &str = "pinned.txt";

/// Packages of one registry, and the folder they go to, relative to that of the provisions.
#[derive(Debug)]
pub(super) enum Packages {
    /// From Node's registry: their programs are in `node_modules/.bin`.
    Node(&'static str, &'static [&'static str]),
    /// From Python's registry: their programs are in `bin`.
    Python(&'static str, &'static [&'static str]),
}

impl Packages {
    /// Returns whether the pinned versions are installed.
    fn are_ready(&self, folder: &Path) -> bool {
        let (place, packages) = self.parts();
        let pinned = fs::read_to_string(folder.join(place).join(PINNED));
        pinned.is_ok_and(|pinned| pinned == packages.join("\n"))
    }

    /// Installs the pinned versions, replacing any others.
    fn install(&self, folder: &Path) -> anyhow::Result<()> {
        let (place, packages) = self.parts();
        let place = folder.join(place);
        remove(&place)?;
        fs::create_dir_all(&place).with_context(|| format!("cannot create {}", place.display()))?;
        match self {
            Self::Node(..) => install_node(&place, packages)?,
            Self::Python(..) => install_python(&place, packages)?,
        }
        fs::write(place.join(PINNED), packages.join("\n"))
            .context("cannot record what was installed")
    }

    const fn parts(&self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::Node(place, packages) | Self::Python(place, packages) => (place, packages),
        }
    }
}

/// Third-party MCP servers: the reference servers of the protocol.
pub(super) const MCP_SERVERS: [Packages; 2] = [
    Packages::Node(
        "mcp/node",
        &[
            "@modelcontextprotocol/server-everything@2026.8.31",
            "@modelcontextprotocol/server-filesystem@2026.8.31",
            "@modelcontextprotocol/server-memory@2026.8.31",
        ],
    ),
    Packages::Python(
        "mcp/python",
        &[
            "mcp-server-fetch==2026.10.24",
            "mcp-server-git==2026.10.19",
            "mcp-server-time==2026.10.19",
        ],
    ),
];

/// Third-party clients of OpenAI's API: the official ones for Python and JavaScript, and the AI SDK's.
pub(super) const OPENAI_CLIENTS: [Packages; 2] = [
    Packages::Node(
        "openai/node",
        &[
            "openai@7.57.0",
            "ai@7.0.173",
            "@ai-sdk/openai-compatible@3.0.92",
        ],
    ),
    Packages::Python("openai/python", &["openai==3.54.0"]),
];

/// Schemathesis: generates requests from an OpenAPI document and checks the answers.
pub(super) const SCHEMATHESIS: [Packages; 1] =
    [Packages::Python("schemathesis", &["schemathesis==4.32.5"])];

/// Linters for the files of Compose, Kubernetes and containers.
pub(super) const DEPLOY_LINTERS: [Packages; 2] = [
    Packages::Python(
        "deploy-linters",
        &["check-jsonschema==0.39.0", "kubernetes-validate==1.37.0"],
    ),
    Packages::Node("container-linter", &["dockerfile-utils@0.16.3"]),
];

/// Returns whether the pinned versions of all are installed.
pub(super) fn are_ready(all: &[Packages], folder: &Path) -> bool {
    all.iter().all(|packages| packages.are_ready(folder))
}

/// Installs the pinned versions of all.
pub(super) fn install(all: &[Packages], folder: &Path) -> anyhow::Result<()> {
    all.iter().try_for_each(|packages| packages.install(folder))
}

fn install_node(place: &Path, packages: &[&str]) -> anyhow::Result<()> {
    let mut npm = program(
        "npm",
        "install --ignore-scripts --no-audit --no-fund --prefix",
    );
    npm.arg(place).args(packages);
    run_command(npm).context("needs npm and its registry (Debian: `apt-get install npm`)")
}

fn install_python(place: &Path, packages: &[&str]) -> anyhow::Result<()> {
    let mut venv = program("python3", "-m venv");
    venv.arg(place);
    run_command(venv)
        .context("needs python3 and its module venv (Debian: `apt-get install python3-venv`)")?;
    let mut pip = Command::new(place.join("bin/python"));
    pip.args("-m pip install --quiet --no-compile".split(' '));
    pip.args(packages);
    run_command(pip).context("needs a package index that pip can reach")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pinned_versions_are_ready() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        for packages in [
            Packages::Node("n", &["a@1", "b@2"]),
            Packages::Python("p", &["a==1"]),
        ] {
            assert!(!packages.are_ready(folder));
            let (place, pinned) = packages.parts();
            fs::create_dir_all(folder.join(place)).unwrap();
            fs::write(folder.join(place).join(PINNED), pinned.join("\n")).unwrap();
            assert!(packages.are_ready(folder));
            fs::write(folder.join(place).join(PINNED), "older").unwrap();
            assert!(!packages.are_ready(folder), "of other versions");
        }
    }
}
