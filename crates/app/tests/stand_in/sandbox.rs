//! A program that replaces the sandbox's helper: it reports that everything is available, and runs nothing. So these
//! tests have the tools of a machine with a sandbox, wherever they run.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::OnceLock;

use neuraxis_tools::{sandbox_features, use_sandbox_helper};
use tempfile::TempDir;

const PROGRAM: &str =
    "#!/bin/sh\nread -r order\necho '{\"Found\":{\"landlock\":7,\"missing\":[]}}' >&0\n";

/// Installs the replacement, once for all tests of a process.
pub(crate) fn has_sandbox() {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let helper = folder.path().join("helper");
        fs::write(&helper, PROGRAM).unwrap();
        fs::set_permissions(&helper, Permissions::from_mode(0o755)).unwrap();
        use_sandbox_helper(helper);
        sandbox_features().unwrap();
        folder
    });
}
