//! "Allow for this session": answers of people that are remembered, listed and taken back.

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{
    ContentHash, Decision, Grant, GrantScope, JsonText, Remember, Remembered, ToolClass, ToolSpec,
    Verdict,
};

use crate::config::Permission;
use crate::policy::Policy;
use crate::request::Call;
use crate::rules::{
    CommandPattern, Facts, Fit, HostPattern, Part, PathTarget, path_glob, rememberable,
};

/// Why an answer is not remembered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// The call does not ask, so that there is nothing to remember.
    #[error("the call does not ask a person")]
    NotAsked,
    /// The policy does not let this much be remembered.
    #[error("the policy does not let this answer be remembered so far")]
    NotAllowed,
    /// The scope does not cover the call that was asked about.
    #[error("the answer is not about the call that was asked about")]
    OtherCall,
    /// Too many answers are remembered.
    #[error(
        "{} answers are remembered already; take some back",
        Remembered::MAX_GRANTS
    )]
    TooMany,
}

impl Policy {
    /// Remembers that a person allowed `call` and everything like it, as far as the policy lets that be remembered.
    /// Returns the number of the answer.
    ///
    /// # Errors
    ///
    /// A [`GrantError`] if the call does not ask, the policy does not let so much be remembered, `scope` does not cover the
    /// call itself, or there are too many.
    pub fn remember(
        &self,
        remembered: &mut Remembered,
        decision: &Decision,
        call: &Call<'_>,
        scope: GrantScope,
        at: Timestamp,
        by: Option<String>,
    ) -> Result<u32, GrantError> {
        let Verdict::Ask { remember, .. } = self.judge(decision, call) else {
            return Err(GrantError::NotAsked);
        };
        if needs(&scope) > remember {
            return Err(GrantError::NotAllowed);
        }
        let id = remembered.next_id();
        let mut after = remembered.clone();
        let is_added = after.add(Grant {
            id,
            tool: call.tool.name.clone(),
            definition: definition_of(call.tool, call.root),
            scope,
            at,
            by,
            policy_hash: self.hash(),
            code: None,
        });
        if !is_added {
            return Err(GrantError::TooMany);
        }
        // What is remembered has to answer this very question, or nobody was asked about it.
        if self.judge(decision, &call.with_remembered(&after)) != Verdict::Allow {
            return Err(GrantError::OtherCall);
        }
        *remembered = after;
        Ok(id)
    }

    /// Tells whether a remembered answer counts for calls of a tool at a root: whether it was given under this policy, for the
    /// tool as it is defined, and at this root.
    #[must_use]
    pub fn grant_counts(&self, grant: &Grant, tool: &ToolSpec, root: Option<&str>) -> bool {
        grant.tool == tool.name
            && grant.policy_hash == self.hash()
            && grant.definition == definition_of(tool, root)
    }

    /// Returns what a person may be offered to remember about a call, the narrowest first; nothing where nothing may be, where
    /// the session can remember no more, or where the call's own result would make its like ask again.
    #[must_use]
    pub fn grant_choices(&self, decision: &Decision, call: &Call<'_>) -> Vec<GrantScope> {
        let Verdict::Ask { remember, .. } = self.judge(decision, call) else {
            return Vec::new();
        };
        if call.remembered.is_some_and(Remembered::is_full) {
            return Vec::new();
        }
        let facts = Facts::new(call.arguments, call.root);
        let mut scopes = vec![GrantScope::Arguments {
            hash: call.arguments.hash(),
        }];
        if let Some([only]) = facts.parts() {
            let asked = facts.access();
            if let Some(pattern) = rememberable(only)
                && !asked.is_unclear
            {
                let access = asked.items.clone();
                let scope = GrantScope::Command { pattern, access };
                if covers_part(&scope, only, &facts) {
                    scopes.push(scope);
                }
            }
        }
        let hosts = facts.hosts(None);
        if let ([host], false) = (hosts.items.as_slice(), hosts.is_unclear)
            && facts.parts().is_none()
        {
            let pattern = host.clone();
            scopes.push(GrantScope::Host { pattern });
        }
        scopes.extend(path_pattern(&facts).map(|pattern| GrantScope::Path { pattern }));
        scopes.push(GrantScope::Tool);
        scopes.retain(|scope| needs(scope) <= remember);
        scopes
    }
}

/// Returns a pattern for what a call leads to: the files beneath one folder, or at the root the single file; none where a
/// command or an address says more of the call than its paths do.
pub(crate) fn path_pattern(facts: &Facts<'_>) -> Option<String> {
    let (paths, hosts) = (facts.paths(None), facts.hosts(None));
    let is_about_files = facts.parts().is_none() && hosts.items.is_empty() && !hosts.is_unclear;
    if !is_about_files || paths.is_unclear {
        return None;
    }
    folder_of(&paths.items).or_else(|| match paths.items.as_slice() {
        [PathTarget::Inside(path)] => is_plain(path).then(|| path.clone()),
        _ => None,
    })
}

/// Tells whether a path means itself in a pattern, and nothing else.
fn is_plain(path: &str) -> bool {
    !path.contains(['*', '?', '[', ']', '{', '}', '!', '\\'])
}

/// Returns a pattern for the files beneath the folder that all paths lead into; none for the root.
fn folder_of(paths: &[PathTarget]) -> Option<String> {
    let mut shared: Option<Vec<&str>> = None;
    for path in paths {
        let PathTarget::Inside(path) = path else {
            return None;
        };
        let mut folders: Vec<&str> = path.split('/').collect();
        folders.pop();
        shared = Some(match shared {
            None => folders,
            Some(before) => {
                let both = before.into_iter().zip(folders);
                both.take_while(|(one, other)| one == other)
                    .map(|(one, _)| one)
                    .collect()
            }
        });
    }
    let folder = shared.filter(|folders| !folders.is_empty())?.join("/");
    // A name that means something in a pattern would stand for other folders, too.
    is_plain(&folder).then(|| format!("{folder}/**"))
}

/// Returns the hash of a tool's definition, all of it, since one that has changed is another tool; and of the root, if there is
/// one: the same words are about other files there.
pub(crate) fn definition_of(tool: &ToolSpec, root: Option<&str>) -> ContentHash {
    // A definition is texts, numbers and flags: encoding it cannot fail.
    let definition = JsonText::encode(tool).map_or(ContentHash::EMPTY, |text| text.hash());
    match root {
        Some(root) => definition.chain(ContentHash::of(root.as_bytes())),
        None => definition,
    }
}

/// How much has to be rememberable for this.
pub(crate) fn needs(scope: &GrantScope) -> Remember {
    match scope {
        GrantScope::Tool => Remember::Tool,
        GrantScope::Host { pattern } if names_one_host(pattern) => Remember::Hosts,
        _ => Remember::Arguments,
    }
}

/// Tells whether a pattern of hosts stands for a single one.
fn names_one_host(pattern: &str) -> bool {
    !pattern.contains(['*', '?', '[', '{'])
}

/// Returns how much of an answer holds whatever strangers wrote into the conversation: that a tool which only reads may read
/// from a host that is named. What could be told to somebody by such a call can be told to that host alone.
pub(crate) fn kept_after_untrusted(tool: &ToolSpec, facts: &Facts<'_>) -> Remember {
    let hosts = facts.hosts(None);
    let only_reads = tool.class == ToolClass::ReadOnly && !tool.annotations.destructive;
    match hosts.items.is_empty() || hosts.is_unclear || !only_reads {
        true => Remember::Never,
        false => Remember::Hosts,
    }
}

/// Tells whether it covers one part of a command.
pub(crate) fn covers_part(scope: &GrantScope, part: &Part, facts: &Facts<'_>) -> bool {
    let GrantScope::Command { pattern, access } = scope else {
        return false;
    };
    let asked = facts.access();
    let is_listed = !asked.is_unclear && asked.items.iter().all(|asked| access.contains(asked));
    is_listed
        && facts.runs_at_root()
        && CommandPattern::parse(pattern).is_ok_and(|pattern| {
            let mut folders = facts.command_folders();
            folders.all(|folder| pattern.covers(part, folder) == Fit::Yes)
        })
}

/// Tells whether it covers a whole call.
pub(crate) fn covers(scope: &GrantScope, call: &Call<'_>, facts: &Facts<'_>) -> bool {
    match scope {
        GrantScope::Tool => true,
        GrantScope::Arguments { hash } => *hash == call.arguments.hash(),
        // Beside a command, an address and a path say nothing of what runs.
        GrantScope::Host { .. } | GrantScope::Path { .. } if facts.parts().is_some() => false,
        GrantScope::Host { pattern } => {
            let hosts = facts.hosts(None);
            let Ok(pattern) = HostPattern::parse(pattern) else {
                return false;
            };
            !hosts.items.is_empty()
                && !hosts.is_unclear
                && hosts.items.iter().all(|host| pattern.matches(host))
        }
        GrantScope::Path { pattern } => {
            let paths = facts.paths(None);
            let Ok(glob) = path_glob(pattern, Permission::Allow) else {
                return false;
            };
            let glob = glob.compile_matcher();
            let fits =
                |led: &PathTarget| matches!(led, PathTarget::Inside(path) if glob.is_match(path));
            !paths.items.is_empty() && !paths.is_unclear && paths.items.iter().all(fits)
        }
        // Commands are covered part by part, and what is not known covers nothing.
        _ => false,
    }
}
