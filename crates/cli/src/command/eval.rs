//! `neuraxis eval`: checks whether agents still do what they should.

mod add;
mod engines;
mod junit;
mod results;
mod run;
mod table;

use clap::{Args, Subcommand};

use crate::error::CommandError;
use crate::setup::Setup;

const EXAMPLES: &str = "\
Examples:
  neuraxis eval add evals.toml last
  neuraxis eval evals.toml
  neuraxis eval --repeat 5 --jobs 2 --out now.json evals.toml
  neuraxis eval --resume now.json --out now.json evals.toml
  neuraxis eval --compare before.json --junit evals.xml evals.toml
  neuraxis eval --record evals.cassette evals.toml
  neuraxis eval --replay evals.cassette evals.toml

A case in the file:
  [[case]]
  name = \"the time in Tokyo\"
  message = \"What time is it in Tokyo?\"
  check = [
    { tool_called = \"current_time\", arguments = { time_zone = \"Asia/Tokyo\" } },
    { regex = \"[0-9]{1,2}:[0-9]{2}\" },
    { max_turns = 3 },
  ]

`neuraxis help evals` lists all checks.

Exit codes: 0 every case passed, or with --compare none got worse; 1 otherwise;
2 wrong usage, configuration or file, and nothing was run;
130, 143, 129 stopped by Ctrl-C, SIGTERM, SIGHUP, with the results so far;
141 the reader of standard output was gone.";

/// Check what agents do: run the cases in a file, and compare with earlier results
///
/// A case is a message and checks of the run: its answer, the tools that were called, turns, cost and time. Each case
/// runs in a session of its own, under the same policy as `neuraxis ask`, and its run is stored like any other. A case
/// may also be about a recording or a stored run; then no model is called. Calls that need approval are denied, except
/// those that a case approves if --approve is given.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Eval {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    run: run::Run,
}

#[derive(Debug, Subcommand)]
enum Command {
    Add(add::Add),
}

impl Eval {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        match self.command {
            Some(Command::Add(add)) => add.run(setup).await,
            None => self.run.run(setup).await,
        }
    }
}
