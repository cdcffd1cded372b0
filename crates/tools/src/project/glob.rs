//! The glob that narrows lists and searches.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::failure::FileError;

/// The maximum length of a glob, in bytes.
const MAX_GLOB_BYTES: usize = 1_000;

/// A glob over paths: `*` stays within a folder, `**` does not, and a glob without `/` matches names at any depth. A
/// glob that ends with `/` matches everything in that folder.
#[derive(Debug, Default)]
pub(super) struct PathGlob(Option<Narrowing>);

#[derive(Debug)]
struct Narrowing {
    matcher: GlobMatcher,
    /// The folders that the glob names literally before its first wildcard, including the file if there is no wildcard.
    beginning: PathBuf,
}

impl PathGlob {
    /// Parses a glob. A missing glob matches everything, and so does a blank one, which some models pass instead of
    /// omitting it. A glob may begin with a path by which the project root is known.
    pub(super) fn parse(glob: Option<&str>, tops: &[PathBuf]) -> Result<Self, FileError> {
        let Some(glob) = glob.filter(|glob| !glob.trim().is_empty()) else {
            return Ok(Self(None));
        };
        let invalid = |why: String| FileError::InvalidGlob {
            glob: glob.chars().take(100).collect(),
            why,
        };
        if glob.len() > MAX_GLOB_BYTES {
            return Err(invalid(format!("it has more than {MAX_GLOB_BYTES} bytes")));
        }
        let inside = tops
            .iter()
            .find_map(|top| Path::new(glob).strip_prefix(top).ok()?.to_str())
            .unwrap_or(glob);
        let anchored = inside.trim_start_matches("./").trim_matches('/');
        let whole = if anchored.is_empty() {
            "**".to_owned()
        } else if glob.ends_with('/') {
            format!("{anchored}/**")
        } else if glob.contains('/') {
            anchored.to_owned()
        } else {
            format!("**/{glob}")
        };
        let glob = GlobBuilder::new(&whole)
            .literal_separator(true)
            .build()
            .map_err(|error| invalid(error.kind().to_string()))?;
        let is_literal = |part: &&str| !part.contains(['*', '?', '[', '{', '\\']);
        Ok(Self(Some(Narrowing {
            matcher: glob.compile_matcher(),
            beginning: whole.split('/').take_while(is_literal).collect(),
        })))
    }

    /// Returns whether there is no glob.
    pub(super) const fn is_for_all(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether something inside a folder may match, given the folder's path from the project root and from the
    /// start of the walk.
    pub(super) fn leads_into(&self, from_top: &Path, from_start: &Path) -> bool {
        self.0.as_ref().is_none_or(|glob| {
            let leads_into = |folder: &Path| {
                glob.beginning.starts_with(folder) || folder.starts_with(&glob.beginning)
            };
            leads_into(from_start) || leads_into(from_top)
        })
    }

    /// Returns whether an entry matches, given its path from the project root and from the start of the walk.
    pub(super) fn matches(&self, from_top: &Path, from_start: &Path) -> bool {
        self.0
            .as_ref()
            .is_none_or(|glob| glob.matcher.is_match(from_start) || glob.matcher.is_match(from_top))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(glob: &str, path: &str) -> bool {
        PathGlob::parse(Some(glob), &[PathBuf::from("/home/me/project")])
            .unwrap()
            .matches(Path::new(path), Path::new(path))
    }

    #[test]
    fn a_glob_without_a_slash_matches_names_at_any_depth() {
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
    fn a_glob_may_be_relative_to_the_root_or_to_the_start_of_the_walk() {
        let glob = PathGlob::parse(Some("src/*.rs"), &[]).unwrap();
        assert!(glob.matches(Path::new("src/main.rs"), Path::new("main.rs")));
        assert!(glob.matches(Path::new("crates/core/src/lib.rs"), Path::new("src/lib.rs")));
    }

    #[test]
    fn an_invalid_glob_is_refused_with_the_reason() {
        let error = PathGlob::parse(Some("src/[a"), &[])
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("invalid_glob: \"src/[a\" is not a valid glob: "),
            "{error}"
        );
        assert!(PathGlob::parse(Some(&"x".repeat(1_001)), &[]).is_err());
    }

    #[test]
    fn a_glob_ending_with_a_slash_matches_everything_in_the_folder() {
        assert!(matches("src/", "src/deep/main.rs"));
        assert!(matches("./", "src/main.rs"));
        assert!(!matches("src/", "srcs/main.rs"));
    }

    #[test]
    fn a_glob_may_start_with_the_path_of_the_project() {
        assert!(matches("/home/me/project/src/*.rs", "src/main.rs"));
        assert!(matches("/home/me/project/src/", "src/deep/main.rs"));
        assert!(matches("/home/me/project", "src/main.rs"));
        assert!(!matches("/home/me/project/*.rs", "src/main.rs"));
        assert!(!matches("/home/me/projects/src/*.rs", "src/main.rs"));
    }

    #[test]
    fn folders_that_a_glob_cannot_match_are_not_entered() {
        let glob = PathGlob::parse(Some("crates/core/**/*.rs"), &[]).unwrap();
        let enters = |path: &str| glob.leads_into(Path::new(path), Path::new(path));
        assert!(enters("crates") && enters("crates/core") && enters("crates/core/src/deep"));
        assert!(!enters("target") && !enters("crates/cores"));
        assert!(glob.leads_into(Path::new("packages/crates"), Path::new("crates")));
        let anywhere = PathGlob::parse(Some("*.rs"), &[]).unwrap();
        assert!(anywhere.leads_into(Path::new("target"), Path::new("target")));
    }

    #[test]
    fn a_blank_glob_matches_everything() {
        for blank in [None, Some(""), Some(" ")] {
            assert!(PathGlob::parse(blank, &[]).unwrap().is_for_all());
        }
        assert!(!PathGlob::parse(Some("*"), &[]).unwrap().is_for_all());
    }
}
