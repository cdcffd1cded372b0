//! There are no commands on this system, and so no sandbox.

use std::process::ExitCode;

/// Does nothing: there is a helper process on Linux only. `main` calls it all the same, first.
#[must_use]
pub fn run_sandbox_helper() -> Option<ExitCode> {
    None
}
