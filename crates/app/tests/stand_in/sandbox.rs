//! A program in place of the sandbox's helper: it says that everything is there, and runs nothing. So the tools of these tests
//! are those of a machine with a sandbox, whatever the tests run on.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::OnceLock;

use neuraxis_tools::{sandbox_features, use_sandbox_helper};
use tempfile::TempDir;

const PROGRAM: &str =
    "#!/bin/sh\nread -r order\necho '{\"Found\":{\"landlock\":7,\"missing\":[]}}' >&0\n";

/// Puts it in place, once for all tests of a process.
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
