//! Patterns of tool names.

use globset::{Glob, GlobSet, GlobSetBuilder};
use neuraxis_core::ToolName;

use crate::error::PolicyError;
use crate::names;

/// A list of patterns; a name matches if it matches one of them.
#[derive(Debug, Clone)]
pub(crate) struct ToolPatterns(GlobSet);

impl ToolPatterns {
    pub(crate) fn check(at: &str, patterns: &[String]) -> Result<Self, PolicyError> {
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
            let glob = Glob::new(pattern).map_err(|error| invalid(pattern, reason(&error)))?;
            globs.add(glob);
        }
        let globs = globs.build();
        let globs = globs.map_err(|error| invalid(&patterns.join(" "), reason(&error)))?;
        Ok(Self(globs))
    }

    /// Keeps the patterns that name something: one of wildcards alone matches every tool and names none.
    pub(crate) fn naming(patterns: &[String]) -> impl Iterator<Item = &String> {
        patterns
            .iter()
            .filter(|pattern| pattern.chars().any(|letter| !matches!(letter, '*' | '?')))
    }

    pub(crate) fn matches(&self, name: &ToolName) -> bool {
        self.0.is_match(name.as_str())
    }
}

/// Says what is wrong with a pattern, without the pattern itself.
fn reason(error: &globset::Error) -> String {
    names::shown_up_to(200, &error.kind().to_string())
}
