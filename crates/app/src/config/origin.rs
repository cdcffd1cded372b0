//! Where a value of the configuration comes from.

use std::fmt;
use std::path::PathBuf;

/// Where a value comes from.
///
/// Written plainly it says which line (`neuraxis.toml:3`), with `{:#}` also which column (`neuraxis.toml:3:5`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Nobody set it: it is built in.
    Default,
    /// A file.
    File {
        /// The file; relative to the working directory if it stands there.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1, in characters.
        column: usize,
    },
    /// The environment variable of this name.
    Variable(String),
    /// The flag of this name.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line, column } => {
                write!(f, "{}:{line}", path.display())?;
                if f.alternate() {
                    write!(f, ":{column}")?;
                }
                Ok(())
            }
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}
