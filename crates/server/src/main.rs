//! `neuraxis-server`: Neuraxis over HTTP.
//!
//! Parses what the user wants, has it done, and says by its exit code how it went: 0 stopped by a signal, 1 failed,
//! 2 wrong usage or configuration, 141 whoever read the output was gone. What it does is in the library of this
//! crate and in `neuraxis-app`.

use std::process::ExitCode;

use clap::Parser;
use neuraxis_server::{Arguments, Failure, KeyCommandError, run, write_in_time};
use tokio::runtime::Runtime;

/// Much of what a run allocates is freed by another thread: mimalloc does that without a lock.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Commands are run, and documents of the web read, by this program, started a second time.
    let helper = neuraxis::tools::run_sandbox_helper();
    if let Some(code) = helper.or_else(neuraxis::web::run_convert_helper) {
        return code;
    }
    let arguments = Arguments::parse();
    let done = Runtime::new().map_err(Failure::from).and_then(|runtime| {
        let done = runtime.block_on(run(&arguments));
        // What is still under way on other threads is a tool that was stopped and does not know it yet.
        runtime.shutdown_background();
        done
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let code = failure.exit_code();
            // Nobody has to hear that a list was long.
            if !matches!(failure, Failure::KeyCommand(KeyCommandError::Unread)) {
                report(&failure.into());
            }
            code
        }
    }
}

fn report(error: &anyhow::Error) {
    let mut said = error.to_string();
    let mut lines = format!("error: {said}\n");
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // Some errors say what caused them themselves.
        if !said.ends_with(&cause) {
            lines.extend(["  because: ", cause.as_str(), "\n"]);
            said = cause;
        }
    }
    write_in_time(&lines);
}
