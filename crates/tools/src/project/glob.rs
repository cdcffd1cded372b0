//! The glob by which lists and searches are narrowed.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

use super::failure::FileError;

/// The longest glob, in bytes.
const MAX_GLOB_BYTES: usize = 1_000;

/// A glob over paths: `*` stays within a folder, `**` does not, and a glob without `/` is for names at any depth.
#[derive(Debug)]
pub(super) struct PathGlob(Option<GlobMatcher>);

impl PathGlob {
    /// Reads a glob. None matches everything.
    pub(super) fn parse(glob: Option<&str>) -> Result<Self, FileError> {
        let Some(glob) = glob else {
            return Ok(Self(None));
        };
        let invalid = |why: String| FileError::InvalidGlob {
            glob: glob.chars().take(100).collect(),
            why,
        };
        if glob.is_empty() || glob.len() > MAX_GLOB_BYTES {
            return Err(invalid(format!("it must have 1 to {MAX_GLOB_BYTES} bytes")));
        }
        let anchored = glob.trim_start_matches("./").trim_start_matches('/');
        let whole = if glob.contains('/') {
            anchored.to_owned()
        } else {
            format!("**/{glob}")
        };
        let glob = GlobBuilder::new(&whole)
            .literal_separator(true)
            .build()
            .map_err(|error| invalid(error.kind().to_string()))?;
        Ok(Self(Some(glob.compile_matcher())))
    }

    /// Tells whether something is meant, given its path from the top of the project and from where the walk began.
    pub(super) fn matches(&self, from_top: &Path, from_start: &Path) -> bool {
        self.0
            .as_ref()
            .is_none_or(|glob| glob.is_match(from_start) || glob.is_match(from_top))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(glob: &str, path: &str) -> bool {
        PathGlob::parse(Some(glob))
            .unwrap()
            .matches(Path::new(path), Path::new(path))
    }

    #[test]
    fn a_glob_without_a_slash_is_for_names_at_any_depth() {
        assert!(matches("*.rs", "main.rs"));
        assert!(matches("*.{rs,toml}", "crates/core/Cargo.toml"));
        assert!(!matches("*.rs", "main.rs.bak"));
    }

    #[test]
    fn a_star_stays_within_a_folder_and_two_stars_do_not() {
        assert!(matches("src/*.rs", "src/main.rs"));
        assert!(!matches("src/*.rs", "src/deep/main.rs"));
        assert!(matches("./src/**/*.rs", "src/deep/er/main.rs"));
    }

    #[test]
    fn a_glob_may_be_written_from_the_top_or_from_where_the_walk_began() {
        let glob = PathGlob::parse(Some("src/*.rs")).unwrap();
        assert!(glob.matches(Path::new("src/main.rs"), Path::new("main.rs")));
        assert!(glob.matches(Path::new("crates/core/src/lib.rs"), Path::new("src/lib.rs")));
    }

    #[test]
    fn a_broken_glob_is_refused_with_the_reason() {
        let error = PathGlob::parse(Some("src/[a")).unwrap_err().to_string();
        assert!(
            error.starts_with("invalid_glob: \"src/[a\" is not a valid glob: "),
            "{error}"
        );
        assert!(PathGlob::parse(Some("")).is_err());
    }
}
