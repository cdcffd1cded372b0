//! Schemathesis: it makes requests out of an OpenAPI document and looks at the answers.

use std::path::Path;

use super::registries::Packages;

/// The program, seen from the folder of the provisions.
pub(super) const PROGRAM: &str = "schemathesis/bin/schemathesis";

const SCHEMATHESIS: Packages = Packages::Python("schemathesis", &["schemathesis==4.32.5"]);

/// Tells whether the pinned version is there.
pub(super) fn is_ready(folder: &Path) -> bool {
    SCHEMATHESIS.are_ready(folder)
}

/// Installs the pinned version, in place of whatever is there.
pub(super) fn install(folder: &Path) -> anyhow::Result<()> {
    SCHEMATHESIS.install(folder)
}
