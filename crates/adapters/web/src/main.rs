//! The process that reads documents as a program of its own, for those whose `main` cannot call
//! [`run_convert_helper`](neuraxis_web::run_convert_helper).

use std::process::ExitCode;

fn main() -> ExitCode {
    // Called by hand, without what the tools hand it, it has nothing to do.
    neuraxis_web::run_convert_helper().unwrap_or(ExitCode::FAILURE)
}
