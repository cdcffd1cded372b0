//! How much is told about a run beside its answer.

use clap::Args;

/// How much is told about a run beside its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Detail {
    /// Warnings and questions alone.
    Quiet,
    /// Each call on a line, with the beginning and the end of what it printed or changed.
    #[default]
    Usual,
    /// All of that, what the model thinks, and its calls.
    Verbose,
}

/// The options that say so.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct DetailArguments {
    /// Say nothing about the calls and tokens of a run
    #[arg(short, long)]
    quiet: bool,

    /// Show what calls print and change, what the model thinks, and each of its calls
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
}

impl DetailArguments {
    pub(crate) const fn detail(self) -> Detail {
        match (self.quiet, self.verbose) {
            (true, _) => Detail::Quiet,
            (false, true) => Detail::Verbose,
            (false, false) => Detail::Usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_says_how_much_is_told() {
        for (quiet, verbose, expected) in [
            (false, false, Detail::Usual),
            (true, false, Detail::Quiet),
            (false, true, Detail::Verbose),
        ] {
            assert_eq!(DetailArguments { quiet, verbose }.detail(), expected);
        }
    }
}
