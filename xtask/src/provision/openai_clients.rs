//! Clients of OpenAI's API that other people wrote: the official ones for Python and JavaScript, and the AI SDK's.

use std::path::Path;

use super::registries::Packages;

/// Where programs of Node find the packages, seen from the folder of the provisions.
pub(super) const NODE: &str = "openai/node/node_modules";

/// What runs programs of Python with the packages.
pub(super) const PYTHON: &str = "openai/python/bin/python";

const CLIENTS: [Packages; 2] = [
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

/// Tells whether the pinned versions are there.
pub(super) fn is_ready(folder: &Path) -> bool {
    CLIENTS.iter().all(|clients| clients.are_ready(folder))
}

/// Installs the pinned versions, in place of whatever is there.
pub(super) fn install(folder: &Path) -> anyhow::Result<()> {
    CLIENTS
        .iter()
        .try_for_each(|clients| clients.install(folder))
}
