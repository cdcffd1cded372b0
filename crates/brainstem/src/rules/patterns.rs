//! Patterns of tool names.

use globset::{Glob, GlobSet, GlobSetBuilder};
use neuraxis_core::ToolName;

use crate::error::PolicyError;
use crate::names;

/// A list of patterns; a name matches if it matches any of them.
#[derive(Debug, Clone)]
pub(crate) struct ToolPatterns(GlobSet);

impl ToolPatterns {
    pub(crate) fn check(at: &str, patterns: &[String]) -> Result<Self, PolicyError> {
        glob_set(at, patterns, Self::glob).map(Self)
    }

    /// Reads a pattern of tool names.
    pub(crate) fn glob(pattern: &str) -> Result<Glob, globset::Error> {
        Glob::new(pattern)
    }

    /// Returns the patterns that name something: a pattern of only wildcards matches every tool and names none.
    pub(crate) fn naming(patterns: &[String]) -> impl Iterator<Item = &String> {
        patterns
            .iter()
            .filter(|pattern| pattern.chars().any(|letter| !matches!(letter, '*' | '?')))
    }

    pub(crate) fn matches(&self, name: &ToolName) -> bool {
        self.0.is_match(name.as_str())
    }
}

/// Checks patterns and combines them, reading each with `glob`.
pub(crate) fn glob_set(
    at: &str,
    patterns: &[String],
    glob: impl Fn(&str) -> Result<Glob, globset::Error>,
) -> Result<GlobSet, PolicyError> {
    let invalid = |pattern: &str, reason: String| PolicyError::InvalidPattern {
        at: at.to_owned(),
        pattern: names::shown(pattern),
        reason,
    };
    let mut globs = GlobSetBuilder::new();
    for pattern in patterns {
        if pattern.is_empty() {
            return Err(invalid(pattern, "it is empty".to_owned()));
        }
        globs.add(glob(pattern).map_err(|error| invalid(pattern, reason(&error)))?);
    }
    let globs = globs.build();
    globs.map_err(|error| invalid(&patterns.join(" "), reason(&error)))
}

/// Returns what is wrong with a pattern, without the pattern itself.
fn reason(error: &globset::Error) -> String {
    names::shown_up_to(200, &error.kind().to_string())
}
