//! A checked rule, and whether it matches a call.

use std::sync::Arc;

use globset::GlobSet;
use neuraxis_core::{Access, Channel, Mode, Remember, RuleRef, ToolClass, ToolSpec};

use super::arguments::Names;
use super::command::{CommandPattern, Part};
use super::facts::Facts;
use super::host::HostPattern;
use super::path::{PathTarget, folded};
use super::value::ValuePatterns;
use crate::config::Permission;

/// Why it is unknown whether a rule matches a call, worded as the end of a sentence.
const IN_SEVERAL_WAYS: &str = "its arguments can be read in more than one way";

/// Why it is unknown if a function should decide it.
const NO_ANSWER: &str = "the function that the rule names gives no answer";

/// An answer about calls.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) at: RuleRef,
    pub(crate) answer: Permission,
    pub(crate) remember: Option<Remember>,
    pub(crate) reason: Option<Arc<str>>,
    pub(crate) class: Option<Vec<ToolClass>>,
    pub(crate) destructive: Option<bool>,
    pub(crate) open_world: Option<bool>,
    pub(crate) modes: Option<Vec<Mode>>,
    pub(crate) channels: Option<Vec<Channel>>,
    /// What a rule that allows lets a command request of the sandbox; it does not allow what it omits.
    pub(crate) access: Vec<Access>,
    pub(crate) conditions: Vec<Condition>,
}

/// A condition on the arguments.
#[derive(Debug, Clone)]
pub(crate) enum Condition {
    Paths {
        globs: GlobSet,
        names: Option<Vec<String>>,
    },
    OutsideRoot {
        names: Option<Vec<String>>,
    },
    Hosts {
        patterns: Vec<HostPattern>,
        names: Option<Vec<String>>,
    },
    Commands {
        patterns: Vec<CommandPattern>,
        names: Option<Vec<String>>,
    },
    /// The folder that the call runs in.
    Folder {
        globs: GlobSet,
    },
    /// What the call requests of the sandbox.
    Access {
        listed: Vec<Access>,
    },
    Value {
        name: String,
        patterns: ValuePatterns,
    },
    /// The answer of a function of the program.
    When {
        function: String,
    },
    /// The owner of the session.
    Owners {
        owners: Vec<String>,
    },
}

/// Whether something holds. Ordered so that the minimum decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    No,
    /// Perhaps: the arguments do not reveal what the call does.
    Unclear(&'static str),
    Yes,
}

impl Rule {
    /// Returns whether the rule is about such calls, regardless of their arguments.
    pub(crate) fn is_about(&self, tool: &ToolSpec, mode: &Mode, channel: &Channel) -> bool {
        let annotations = tool.annotations;
        self.class
            .as_ref()
            .is_none_or(|classes| classes.contains(&tool.class))
            && self
                .destructive
                .is_none_or(|wanted| wanted == annotations.destructive)
            && self
                .open_world
                .is_none_or(|wanted| wanted == annotations.open_world)
            && self.modes.as_ref().is_none_or(|modes| modes.contains(mode))
            && self
                .channels
                .as_ref()
                .is_none_or(|channels| channels.contains(channel))
    }

    pub(crate) fn asks_for_commands(&self) -> bool {
        let is_commands =
            |condition: &Condition| matches!(condition, Condition::Commands { names: None, .. });
        self.conditions.iter().any(is_commands)
    }

    /// Returns whether the arguments match the rule. `part` is the part of the command that is judged.
    ///
    /// For a rule that allows, everything that the call names must match; for a rule that asks or denies, one match is
    /// enough.
    pub(crate) fn fits(&self, facts: &Facts<'_>, part: Option<&Part>) -> Fit {
        if self.ignores_command(facts) {
            return Fit::No;
        }
        let fits = self
            .conditions
            .iter()
            .map(|condition| self.holds(condition, facts, part));
        let allows = self.answer == Permission::Allow;
        let access = allows.then(|| self.fits_access(&self.access, facts));
        fits.chain(access).min().unwrap_or(Fit::Yes)
    }

    /// Returns whether the rule would allow a command only because of what is next to it, such as a folder or a host,
    /// which says nothing about what runs. A rule that is only about the tool or the owner allows whatever the tool is
    /// asked to do.
    fn ignores_command(&self, facts: &Facts<'_>) -> bool {
        let is_beside = |condition: &Condition| {
            matches!(
                condition,
                Condition::Paths { .. }
                    | Condition::OutsideRoot { .. }
                    | Condition::Hosts { .. }
                    | Condition::Folder { .. }
                    | Condition::Value { .. }
            )
        };
        let describes_it = |condition: &Condition| {
            matches!(
                condition,
                Condition::Commands { .. } | Condition::When { .. }
            )
        };
        self.answer == Permission::Allow
            && self.conditions.iter().any(is_beside)
            && !self.conditions.iter().any(describes_it)
            && facts.parts().is_some()
    }

    fn holds(&self, condition: &Condition, facts: &Facts<'_>, part: Option<&Part>) -> Fit {
        match condition {
            Condition::Paths { globs, names } => {
                let paths = facts.paths(names.as_deref());
                let inside = |led: &PathTarget| self.is_inside(globs, led);
                // A glob only narrows what a call reads, so it allows nothing.
                let looks_for_globs = self.answer != Permission::Allow && names.is_none();
                if looks_for_globs && facts.narrowed_to().iter().any(inside) {
                    return Fit::Yes;
                }
                self.enough(&paths.items, paths.is_unclear, inside)
            }
            Condition::OutsideRoot { names } => {
                let paths = facts.paths(names.as_deref());
                self.enough(&paths.items, paths.is_unclear, |led| {
                    *led == PathTarget::Outside
                })
            }
            Condition::Hosts { patterns, names } => {
                let hosts = facts.hosts(names.as_deref());
                let listed = |host: &String| patterns.iter().any(|pattern| pattern.matches(host));
                self.enough(&hosts.items, hosts.is_unclear, listed)
            }
            Condition::Commands {
                patterns,
                names: None,
            } => match part {
                Some(part) => self.fits_part(patterns, part, facts),
                None => Fit::No,
            },
            Condition::Commands {
                patterns,
                names: Some(names),
            } => {
                let parts = facts.parts_in(Names::These(names)).unwrap_or_default();
                let fits = parts
                    .iter()
                    .map(|part| self.fits_part(patterns, part, facts));
                let all = self.answer == Permission::Allow;
                if all { fits.min() } else { fits.max() }.unwrap_or(Fit::No)
            }
            Condition::Folder { globs } => self.fits_folder(globs, facts),
            Condition::Access { listed } => self.fits_access(listed, facts),
            Condition::Owners { owners } => {
                let is_one = |owner: &str| owners.iter().any(|one| one == owner);
                if facts.owner().is_some_and(is_one) {
                    Fit::Yes
                } else {
                    Fit::No
                }
            }
            Condition::Value { name, patterns } => {
                let name = Names::These(std::slice::from_ref(name));
                let texts = facts.arguments().texts(name);
                let is_unclear = |text: &&str| patterns.is_unclear(text);
                let is_unclear = texts.is_unclear || texts.found.iter().any(is_unclear);
                self.enough(&texts.found, is_unclear, |text| patterns.matches(text))
            }
            Condition::When { function } => match facts.answer_of(function) {
                Some(true) => Fit::Yes,
                Some(false) => Fit::No,
                None => Fit::Unclear(NO_ANSWER),
            },
        }
    }

    fn fits_part(&self, patterns: &[CommandPattern], part: &Part, facts: &Facts<'_>) -> Fit {
        if self.answer == Permission::Allow {
            let covers = |pattern: &CommandPattern| {
                let folders = facts.command_folders();
                folders.map(|folder| pattern.covers(part, folder)).min()
            };
            let fits = patterns.iter().filter_map(covers);
            // If the command matches none of its patterns, the rule does not apply, whatever else the command contains.
            return fits.max().unwrap_or(Fit::No);
        }
        if patterns.iter().any(|pattern| pattern.may_concern(part)) {
            return Fit::Yes;
        }
        part.unclear.map_or(Fit::No, Fit::Unclear)
    }

    fn fits_folder(&self, globs: &GlobSet, facts: &Facts<'_>) -> Fit {
        let folders = facts.folders();
        let listed = |led: &PathTarget| self.is_inside(globs, led);
        self.enough(&folders.items, folders.is_unclear, listed)
    }

    /// Returns whether the globs match where a path leads. A rule that asks or denies ignores case, and how accents are
    /// encoded.
    fn is_inside(&self, globs: &GlobSet, led: &PathTarget) -> bool {
        let PathTarget::Inside(path) = led else {
            return false;
        };
        let as_folded = || folded(path).is_some_and(|path| globs.is_match(path));
        globs.is_match(path) || self.answer != Permission::Allow && as_folded()
    }

    fn fits_access(&self, listed: &[Access], facts: &Facts<'_>) -> Fit {
        let asked = facts.access();
        let asks_nothing = asked.items.is_empty() && !asked.is_unclear;
        if self.answer == Permission::Allow && (asks_nothing || !self.is_about_command(facts)) {
            return Fit::Yes;
        }
        self.enough(&asked.items, asked.is_unclear, |access| {
            listed.contains(access)
        })
    }

    /// Returns whether the rule or the call is about a command: in another tool's arguments, `access` may mean
    /// anything.
    fn is_about_command(&self, facts: &Facts<'_>) -> bool {
        let is_commands = |condition: &Condition| matches!(condition, Condition::Commands { .. });
        self.conditions.iter().any(is_commands) || facts.parts().is_some()
    }

    fn enough<T>(&self, items: &[T], is_unclear: bool, fits: impl Fn(&T) -> bool) -> Fit {
        let fits = if self.answer == Permission::Allow {
            !items.is_empty() && items.iter().all(fits)
        } else {
            items.iter().any(fits)
        };
        match (fits, is_unclear, self.answer) {
            (true, false, _) | (true, true, Permission::Ask | Permission::Deny) => Fit::Yes,
            (_, true, _) => Fit::Unclear(IN_SEVERAL_WAYS),
            (false, false, _) => Fit::No,
        }
    }
}
