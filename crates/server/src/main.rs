//! `neuraxis-server`: Neuraxis over HTTP.
//!
//! Parses the command line, runs the command, and reports the outcome as its exit code: 0 stopped by a signal, 1
//! failed, 2 wrong usage or configuration, 141 the reader of the output closed it. The work itself is done by this
//! crate's library and by `neuraxis-app`.

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Parser;
use neuraxis_app::start_runtime;
use neuraxis_server::{Arguments, Failure, KeyCommandError, run, write_in_time};

/// The exit code for wrong usage.
const USAGE: u8 = 2;

/// Much of what a run allocates is freed by another thread; mimalloc does that without a lock.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // This program starts itself a second time to run commands and to convert documents from the web.
    let helper = neuraxis::tools::run_sandbox_helper();
    if let Some(code) = helper.or_else(neuraxis::web::run_convert_helper) {
        return code;
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(refusal) => return print(&refusal),
    };
    let runtime = start_runtime(None).map_err(Failure::from);
    let done = runtime.and_then(|runtime| {
        let done = runtime.block_on(run(&arguments));
        // Anything still running on other threads is a tool that was stopped and has not noticed yet.
        runtime.shutdown_background();
        done
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let code = failure.exit_code();
            // A reader that closes the output early, for example after the first lines of a long list, is not reported.
            if !matches!(failure, Failure::KeyCommand(KeyCommandError::Unread)) {
                let hint = failure.hint();
                report(&failure.into());
                if let Some(hint) = hint {
                    write_in_time(&format!("hint: {hint}\n"));
                }
            }
            code
        }
    }
}

/// Prints help, the version or what is wrong with the command line, and returns the exit code.
fn print(refusal: &clap::Error) -> ExitCode {
    match refusal.print() {
        // The reader of the help may be gone; nothing is lost then. But a file may lack its text.
        Err(error) if !refusal.use_stderr() && error.kind() != ErrorKind::BrokenPipe => {
            report(&anyhow::Error::new(error).context("cannot write to standard output"));
            ExitCode::FAILURE
        }
        _ => ExitCode::from(u8::try_from(refusal.exit_code()).unwrap_or(USAGE)),
    }
}

fn report(error: &anyhow::Error) {
    let mut printed = error.to_string();
    let mut lines = format!("error: {printed}\n");
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // Some errors already include their cause in their message.
        if !printed.ends_with(&cause) {
            lines.extend(["  because: ", cause.as_str(), "\n"]);
            printed = cause;
        }
    }
    write_in_time(&lines);
}
