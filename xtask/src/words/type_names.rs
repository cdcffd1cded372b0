//! Finds names that several crates give to public types: a name should mean one thing.
//!
//! Types that are not public are left alone: within a crate, a short name such as `Kind` is clear.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Names that several crates may use, because no reader meets two of their types in one place. A new entry needs a
/// reason of the same kind.
const RECURRING: [&str; 19] = [
    // Why something of the crate failed, or what is wrong with its configuration.
    "BuildError",
    "ConfigFault",
    "ConnectError",
    "Fault",
    "StartError",
    // The same setting of another provider, with other values.
    "ReasoningEffort",
    "Thinking",
    // Both ends of a connection, or a program and a test's handle on it.
    "McpServer",
    "Restate",
    "Server",
    // A port, and what the application or the tests have of it.
    "Provider",
    "RunLog",
    // Words whose crate says what they are about: an adapter, a program or a kind of test.
    "Answer",
    "Arguments",
    "CaseReport",
    "Delivery",
    "Endpoint",
    "Origin",
    "Source",
];

/// The public types found so far: their names, each with the crates that declare it.
#[derive(Debug, Default)]
pub(super) struct TypeNames(BTreeMap<String, BTreeSet<String>>);

impl TypeNames {
    /// Adds the public types of a file, whose path begins at the workspace.
    pub(super) fn add(&mut self, file: &Path, text: &str) {
        let path = file.to_string_lossy();
        let owner = path.split("/src/").next().unwrap_or_default();
        for name in text.lines().filter_map(public_type) {
            let owners = self.0.entry(name.to_owned()).or_default();
            owners.insert(owner.to_owned());
        }
    }

    /// Prints the names that several crates use although they must not, and the entries of the list that are no longer
    /// needed. Returns their number.
    pub(super) fn print_violations(&self) -> usize {
        let recurs = |name: &str| self.0.get(name).is_some_and(|owners| owners.len() > 1);
        let unneeded = RECURRING.iter().filter(|name| !recurs(name));
        let unneeded = unneeded.inspect(|name| println!("{name}: no longer in several crates"));
        let repeated = self
            .0
            .iter()
            .filter(|(name, owners)| owners.len() > 1 && !RECURRING.contains(&name.as_str()));
        let repeated = repeated.inspect(|(name, owners)| {
            let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
            println!("{name}: a public type of {}: rename one", owners.join(", "));
        });
        unneeded.count() + repeated.count()
    }
}

/// Returns the name of the public type that a line declares, if it declares one.
fn public_type(line: &str) -> Option<&str> {
    let declaration = line.trim_start().strip_prefix("pub ")?;
    let (kind, rest) = declaration.split_once(' ')?;
    let end = rest.find(|letter: char| !letter.is_alphanumeric());
    let name = rest.get(..end.unwrap_or(rest.len()))?;
    let is_type = matches!(kind, "struct" | "enum" | "trait" | "type");
    // The parameter of a macro is no name.
    (is_type && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_public_types_in_two_crates_is_found_unless_it_is_listed() {
        let mut names = TypeNames::default();
        for owner in ["crates/core", "crates/adapters/wire"] {
            let text = RECURRING.map(|name| format!("pub enum {name} {{"));
            let file = format!("{owner}/src/a/b.rs");
            names.add(Path::new(&file), &text.join("\n"));
        }
        names.add(Path::new("crates/core/src/a.rs"), "pub struct Step<'a> {");
        names.add(Path::new("crates/core/src/b.rs"), "pub struct Step;");
        let others = "pub(crate) struct Step;\nfn Step() {}\npub struct $name;";
        names.add(Path::new("crates/cli/src/a.rs"), others);
        names.add(Path::new("crates/app/src/a.rs"), "pub struct $name;");
        assert_eq!(names.print_violations(), 0);
        names.add(Path::new("crates/cli/src/b.rs"), "    pub type Step = u8;");
        assert_eq!(names.print_violations(), 1);
    }

    #[test]
    fn an_entry_of_the_list_that_is_not_needed_is_found() {
        assert_eq!(TypeNames::default().print_violations(), RECURRING.len());
    }
}
