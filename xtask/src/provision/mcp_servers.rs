//! MCP servers of other people: the reference servers of the protocol.

use std::path::Path;

use super::registries::Packages;

/// Where the programs of Node go, seen from the folder of the provisions.
pub(super) const NODE: &str = "mcp/node/node_modules/.bin";

/// Where those of Python go.
pub(super) const PYTHON: &str = "mcp/python/bin";

const SERVERS: [Packages; 2] = [
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

/// Tells whether the pinned versions are there.
pub(super) fn is_ready(folder: &Path) -> bool {
    SERVERS.iter().all(|servers| servers.are_ready(folder))
}

/// Installs the pinned versions, in place of whatever is there.
pub(super) fn install(folder: &Path) -> anyhow::Result<()> {
    SERVERS
        .iter()
        .try_for_each(|servers| servers.install(folder))
}
