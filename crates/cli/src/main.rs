//! `neuraxis`: Neuraxis in a terminal.
//!
//! Parses the command line, runs the command, and reports the outcome in the exit code: 0 answered, 1 failed, 2 wrong
//! usage or configuration, 3 a limit was reached before there was an answer, 4 a call was denied because nobody could
//! be asked, 5 the run waits for a decision or for its client, 6 nothing could answer, 130 interrupted, 143 and 129
//! ended by SIGTERM and SIGHUP, 141 the reader of the output is gone. The work itself is in `neuraxis-app` and the
//! crates below it.

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
mod glyphs;
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
mod unknown;
mod wrap;

use std::io::ErrorKind;
use std::process::ExitCode;
use std::time::Duration;

use arguments::Arguments;
use error::CommandError;

/// How long to wait at exit for tasks that are dropped on other threads.
const ENDING: Duration = Duration::from_millis(200);

/// Much of what a run allocates is freed by another thread: mimalloc does that without a lock.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // This program starts itself a second time to run sandboxed commands and to read web documents.
    let helper = neuraxis::tools::run_sandbox_helper();
    if let Some(code) = helper.or_else(neuraxis::web::run_convert_helper) {
        return code;
    }
    completion::answer();
    let given: Vec<_> = std::env::args_os().collect();
    match question::parse(&given) {
        Ok(arguments) => match run(arguments) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => error.report(),
        },
        Err(refusal) => {
            if let Some(error) = question::unknown_command(&refusal, &given) {
                return error.report();
            }
            match refusal.print() {
                // The reader of the help may be gone; nothing is lost then. But a file may lack its text.
                Err(error) if !refusal.use_stderr() && error.kind() != ErrorKind::BrokenPipe => {
                    CommandError::from(error).report()
                }
                _ => ExitCode::from(u8::try_from(refusal.exit_code()).unwrap_or(error::USAGE)),
            }
        }
    }
}

fn run(arguments: Arguments) -> Result<(), CommandError> {
    invocation::remember(&arguments.configuration);
    call_warnings::show();
    glyphs::choose(arguments.command.stream());
    // Two workers are enough for a single run: it continues while a tool blocks one of them, or slow output blocks
    // this thread.
    let runtime = neuraxis_app::start_runtime(Some(2)).map_err(CommandError::failed)?;
    let done = runtime.block_on(command::run(arguments));
    terminal::restore();
    // Drops what is still running, which also ends what it started: an MCP server with all of its child processes. Only
    // a tool that has not noticed yet that it was stopped, or a thread that waits for terminal input, takes longer.
    runtime.shutdown_timeout(ENDING);
    done
}
