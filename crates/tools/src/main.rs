//! The sandbox's helper process as a separate program, for programs whose `main` cannot call
//! [`run_sandbox_helper`](neuraxis_tools::run_sandbox_helper).

use std::process::ExitCode;

fn main() -> ExitCode {
    // When started by hand, without the input that the tools supply, it has nothing to do.
    neuraxis_tools::run_sandbox_helper().unwrap_or(ExitCode::FAILURE)
}
