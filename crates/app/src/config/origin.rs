//! Where a value of the configuration comes from.

use std::fmt;
use std::path::PathBuf;

use neuraxis_brainstem::SourceLine;

/// Where a value comes from.
///
/// `Display` includes the line (`neuraxis.toml:3`), and with `{:#}` also the column (`neuraxis.toml:3:5`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Not set: the built-in default.
    Default,
    /// A file.
    File {
        /// The file; relative to the working directory if it is inside it.
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

impl Origin {
    /// Returns the location as verdicts name it; `None` for a default.
    pub(super) fn place(&self) -> Option<SourceLine> {
        let (source, line) = match self {
            Self::Default => return None,
            Self::File { path, line, .. } => (path.display().to_string(), *line),
            Self::Variable(name) | Self::Flag(name) => (name.clone(), 0),
        };
        Some(SourceLine {
            source: source.into(),
            line: u32::try_from(line).unwrap_or_default(),
        })
    }
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
