//! The document reader as a separate program, for programs whose `main` cannot call
//! [`run_convert_helper`](neuraxis_web::run_convert_helper).

use std::process::ExitCode;

fn main() -> ExitCode {
    // When started by hand, without the input that the tools supply, it has nothing to do.
    neuraxis_web::run_convert_helper().unwrap_or(ExitCode::FAILURE)
}
