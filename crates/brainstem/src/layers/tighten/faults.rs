//! Collects what a layer would loosen, key by key.

use neuraxis_core::Role;

use crate::rules::ToolPatterns;

/// The keys that would loosen something, and how.
#[derive(Default)]
pub(super) struct Faults(std::cell::RefCell<Vec<(String, String)>>);

impl Faults {
    pub(super) fn add(&self, at: &str, how: impl Into<String>) {
        self.0.borrow_mut().push((at.to_owned(), how.into()));
    }

    /// Returns all faults, in the order in which they were found.
    pub(super) fn all(self) -> Vec<(String, String)> {
        self.0.into_inner()
    }

    /// Requires that a number does not become larger. It may be set if it was not.
    pub(super) fn at_most<T: PartialOrd + Copy>(
        &self,
        at: &str,
        key: &str,
        given: Option<T>,
        base: Option<T>,
    ) {
        if let (Some(given), Some(base)) = (given, base)
            && given > base
        {
            self.add(&format!("{at}.{key}"), "it raises a limit");
        }
    }

    /// Requires a setting, if given, to stay the same.
    pub(super) fn same<T: PartialEq>(
        &self,
        at: &str,
        key: &str,
        given: &Option<T>,
        base: &Option<T>,
    ) {
        if given.is_some() && given != base {
            self.add(&format!("{at}.{key}"), "only a deployment may set it");
        }
    }

    /// Requires each pattern to be one of those above, or a name that one of them matches.
    pub(super) fn fewer_tools(
        &self,
        at: &str,
        given: Option<&Vec<String>>,
        base: Option<&Vec<String>>,
    ) {
        let Some(given) = given else { return };
        let base = base.map(Vec::as_slice).unwrap_or_default();
        let at = format!("{at}.tools");
        let Ok(above) = ToolPatterns::check(&at, base) else {
            return;
        };
        let is_there = |pattern: &String| {
            let as_name = pattern.parse().is_ok_and(|name| above.matches(&name));
            as_name || base.contains(pattern)
        };
        if let Some(added) = given.iter().find(|pattern| !is_there(pattern)) {
            self.add(&at, format!("it adds \"{}\"", crate::names::shown(added)));
        }
    }

    pub(super) fn fewer_roles(
        &self,
        at: &str,
        given: Option<&Vec<Role>>,
        base: Option<&Vec<Role>>,
    ) {
        let (Some(given), Some(base)) = (given, base) else {
            return;
        };
        if base.iter().any(|role| role.as_str() == "*") {
            return;
        }
        if let Some(added) = given.iter().find(|role| !base.contains(role)) {
            self.add(
                &format!("{at}.roles"),
                format!("it adds \"{}\"", crate::names::shown(added.as_str())),
            );
        }
    }
}
