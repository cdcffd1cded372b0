//! `neuraxis`: Neuraxis in a terminal.
//!
//! Parses what the user wants, has it done, and says by its exit code how it went: 0 answered, 1 failed, 2 wrong usage or
//! configuration, 3 a limit was reached before there was an answer, 4 a call was denied because nobody could be asked, 5 it
//! waits for a person or its client, 6 there was nothing that could answer, 130 interrupted, 143 and 129 ended by SIGTERM and
//! SIGHUP, 141 whoever read the output was gone. What it does is in `neuraxis-app` and below.

mod approve;
mod arguments;
mod bars;
mod call;
mod call_warnings;
mod command;
mod completion;
mod confirm;
mod destination;
mod detail;
mod error;
mod harmless;
mod interrupt;
mod invocation;
mod listing;
mod markdown;
mod output;
mod piped;
mod progress;
mod quantities;
mod question;
mod rows;
mod setup;
mod status;
mod terminal;
mod tree;
mod wrap;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use arguments::Arguments;
use error::CommandError;

/// How long is waited at the end for what is dropped on other threads.
const ENDING: Duration = Duration::from_millis(200);

/// Much of what a run allocates is freed by another thread: mimalloc does that without a lock.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Commands are run, and documents of the web read, by this program, started a second time.
    let helper = neuraxis::tools::run_sandbox_helper();
    if let Some(code) = helper.or_else(neuraxis::web::run_convert_helper) {
        return code;
    }
    completion::answer();
    match question::parse(&std::env::args_os().collect::<Vec<_>>()) {
        Ok(arguments) => match run(arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => error.report(),
        },
        Err(refusal) => {
            // Help goes to a reader that may be gone: nothing is lost then.
            let _ = refusal.print();
            ExitCode::from(u8::try_from(refusal.exit_code()).unwrap_or(error::USAGE))
        }
    }
}

fn run(arguments: Arguments) -> Result<(), CommandError> {
    invocation::remember(&arguments.configuration);
    call_warnings::show();
    // One worker beside this thread is enough for a single run, and keeps it alive while a tool blocks or output lags.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build();
    let runtime = runtime.context("cannot start")?;
    let done = runtime.block_on(command::run(arguments));
    terminal::restore();
    // What is still at work is dropped, and what it started ends with it: an MCP server with all that it started. What
    // takes longer is a tool that was stopped and does not know it yet, or somebody who reads what nobody types.
    runtime.shutdown_timeout(ENDING);
    done
}
