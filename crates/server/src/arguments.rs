//! What can be said on the command line.

use std::path::PathBuf;

use clap::Parser;

use crate::address::ListenAddress;

const AFTER_HELP: &str = "\
Once it listens, it prints one line on standard output, such as: listening on http://127.0.0.1:8787
Logs go to standard error; NEURAXIS_LOG (or RUST_LOG) says how much, such as debug or neuraxis_engine=debug.
SIGTERM lets turns at work end for 5 seconds and leaves the others for the next server to go on with; SIGINT cancels
them. Where sessions are in memory alone, both cancel.
GET /healthz answers 200 as long as the process lives, GET /readyz while it takes turns.

Exit codes: 0 stopped by a signal, 1 failed, 2 wrong usage or configuration.";

/// Neuraxis over HTTP.
#[derive(Debug, Clone, Parser)]
#[command(name = "neuraxis-server", version, after_help = AFTER_HELP, max_term_width = 100)]
#[non_exhaustive]
pub struct Arguments {
    /// Read this file, instead of neuraxis.toml here and in the user's configuration folder
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Listen on this loopback address, instead of server.listen in the configuration (127.0.0.1:8787 if nothing is said);
    /// port 0 is any that is free
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<ListenAddress>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_defined_without_contradictions() {
        Arguments::command().debug_assert();
    }
}
