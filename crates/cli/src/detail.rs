//! How much is shown about a run in addition to its answer.

use clap::Args;

/// How much is shown about a run in addition to its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Detail {
    /// Only warnings and questions.
    Quiet,
    /// One line per call, with the beginning and the end of what it printed or changed.
    #[default]
    Usual,
    /// All of that in full, with the model's thinking and its calls.
    Verbose,
}

/// The options for the level of detail.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct DetailArguments {
    /// Do not show the calls and tokens of a run
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
    fn each_option_selects_its_level_of_detail() {
        for (quiet, verbose, expected) in [
            (false, false, Detail::Usual),
            (true, false, Detail::Quiet),
            (false, true, Detail::Verbose),
        ] {
            assert_eq!(DetailArguments { quiet, verbose }.detail(), expected);
        }
    }
}
