//! The sandbox's helper process as a program of its own, for those whose `main` cannot call
//! [`run_sandbox_helper`](neuraxis_tools::run_sandbox_helper).

use std::process::ExitCode;

fn main() -> ExitCode {
    // Called by hand, without what the tools hand it, it has nothing to do.
    neuraxis_tools::run_sandbox_helper().unwrap_or(ExitCode::FAILURE)
}
