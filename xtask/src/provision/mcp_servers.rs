//! MCP servers of other people, from the registries of Node and Python: the reference servers of the protocol.
//!
//! Their versions are pinned here; what they depend on is what the registries have.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;

use crate::cargo::{program, succeed};

/// Where the programs of Node go, seen from the folder of the provisions.
pub(super) const NODE: &str = "mcp/node/node_modules/.bin";

/// Where those of Python go.
pub(super) const PYTHON: &str = "mcp/python/bin";

const NODE_FOLDER: &str = "mcp/node";
const PYTHON_FOLDER: &str = "mcp/python";

/// Says which versions are there, in either folder, once all of them are.
const PINNED: &str = "pinned.txt";

const NODE_PACKAGES: [&str; 3] = [
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
];

const PYTHON_PACKAGES: [&str; 3] = [
    "mcp-server-fetch==2026.10.24",
    "mcp-server-git==2026.10.19",
    "mcp-server-time==2026.10.19",
];

/// Tells whether the pinned versions are there.
pub(super) fn is_ready(folder: &Path) -> bool {
    let is_there = |place: &str, packages: &[&str]| {
        let pinned = fs::read_to_string(folder.join(place).join(PINNED));
        pinned.is_ok_and(|pinned| pinned == packages.join("\n"))
    };
    is_there(NODE_FOLDER, &NODE_PACKAGES) && is_there(PYTHON_FOLDER, &PYTHON_PACKAGES)
}

/// Installs the pinned versions, in place of whatever is there.
pub(super) fn install(folder: &Path) -> anyhow::Result<()> {
    let (node, python) = (folder.join(NODE_FOLDER), folder.join(PYTHON_FOLDER));
    for place in [&node, &python] {
        if place.exists() {
            fs::remove_dir_all(place)
                .with_context(|| format!("{} cannot be removed", place.display()))?;
        }
        fs::create_dir_all(place).with_context(|| format!("{} cannot be made", place.display()))?;
    }
    let mut npm = program(
        "npm",
        "install --ignore-scripts --no-audit --no-fund --prefix",
    );
    npm.arg(&node).args(NODE_PACKAGES);
    succeed(npm).context("it takes npm and its registry (Debian: `apt-get install npm`)")?;
    let mut venv = program("python3", "-m venv");
    venv.arg(&python);
    succeed(venv)
        .context("it takes python3 and its module venv (Debian: `apt-get install python3-venv`)")?;
    let mut pip = Command::new(python.join("bin/python"));
    pip.args("-m pip install --quiet --no-compile".split(' '));
    pip.args(PYTHON_PACKAGES);
    succeed(pip).context("it takes a package index that pip can reach")?;
    fs::write(node.join(PINNED), NODE_PACKAGES.join("\n"))
        .and_then(|()| fs::write(python.join(PINNED), PYTHON_PACKAGES.join("\n")))
        .context("what was installed cannot be written down")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_pinned_versions_are_ready() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        assert!(!is_ready(folder));
        for (place, packages) in [
            (NODE_FOLDER, NODE_PACKAGES),
            (PYTHON_FOLDER, PYTHON_PACKAGES),
        ] {
            fs::create_dir_all(folder.join(place)).unwrap();
            fs::write(folder.join(place).join(PINNED), packages.join("\n")).unwrap();
        }
        assert!(is_ready(folder));
        fs::write(folder.join(NODE_FOLDER).join(PINNED), "older").unwrap();
        assert!(!is_ready(folder), "of other versions");
    }
}
