//! "Allow for this session": users' answers that are remembered, listed and revoked.

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{
    ContentHash, Decision, Grant, GrantScope, Grants, JsonText, Remember, ToolClass, ToolSpec,
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
    /// The call does not ask, so there is nothing to remember.
    #[error("the call does not need approval")]
    NotAsked,
    /// The policy does not allow this much to be remembered.
    #[error("the policy does not allow remembering this much")]
    NotAllowed,
    /// The scope does not cover the call that was asked about.
    #[error("the answer does not cover the call that needs approval")]
    OtherCall,
    /// The session already remembers too many answers.
    #[error(
        "the session already remembers {} answers; revoke some",
        Grants::MAX_GRANTS
    )]
    TooMany,
}

impl Policy {
    /// Remembers that a user allowed `call` and everything that `scope` covers, as far as the policy permits. Returns
    /// the number of the answer.
    ///
    /// # Errors
    ///
    /// A [`GrantError`] if the call does not ask, the policy does not permit remembering this much, `scope` does not
    /// cover the call itself, or the session already remembers too many answers.
    pub fn remember(
        &self,
        remembered: &mut Grants,
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
        // The remembered answer must settle this very question; otherwise the user was not asked about it.
        if self.judge(decision, &call.with_remembered(&after)) != Verdict::Allow {
            return Err(GrantError::OtherCall);
        }
        *remembered = after;
        Ok(id)
    }

    /// Returns whether a remembered answer applies to calls of a tool at a root. It applies if it was given under this
    /// policy, for the tool's current definition, and at this root.
    #[must_use]
    pub fn grant_applies(&self, grant: &Grant, tool: &ToolSpec, root: Option<&str>) -> bool {
        grant.tool == tool.name
            && grant.policy_hash == self.hash()
            && grant.definition == definition_of(tool, root)
    }

    /// Returns the scopes that a user may be offered to remember about a call, the narrowest first. Empty if nothing
    /// may be remembered, if the session can remember no more, or if the call's own result would make similar calls ask
    /// again.
    #[must_use]
    pub fn grant_choices(&self, decision: &Decision, call: &Call<'_>) -> Vec<GrantScope> {
        let Verdict::Ask { remember, .. } = self.judge(decision, call) else {
            return Vec::new();
        };
        if call.remembered.is_some_and(Grants::is_full) {
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

/// Returns a pattern for the paths of a call: the files below one folder, or a single file if it is at the root. `None`
/// if a command or an address describes the call better than its paths do.
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

/// Returns whether a path, used as a pattern, matches only itself.
fn is_plain(path: &str) -> bool {
    !path.contains(['*', '?', '[', ']', '{', '}', '!', '\\'])
}

/// Returns a pattern for the files below the folder that contains all the paths; `None` for the root.
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
    // A name with special characters of patterns would match other folders, too.
    is_plain(&folder).then(|| format!("{folder}/**"))
}

/// Returns the hash of a tool's whole definition, since a tool whose definition has changed is a different tool, and of
/// the root, if any: the same arguments mean different files there.
pub(crate) fn definition_of(tool: &ToolSpec, root: Option<&str>) -> ContentHash {
    // A definition consists of strings, numbers and flags, so encoding it cannot fail.
    let definition = JsonText::encode(tool).map_or(ContentHash::EMPTY, |text| text.hash());
    match root {
        Some(root) => definition.chain(ContentHash::of(root.as_bytes())),
        None => definition,
    }
}

/// Returns how much must be rememberable for this scope.
pub(crate) fn needs(scope: &GrantScope) -> Remember {
    match scope {
        GrantScope::Tool => Remember::Tool,
        GrantScope::Host { pattern } if names_one_host(pattern) => Remember::Hosts,
        _ => Remember::Arguments,
    }
}

/// Returns whether a host pattern matches a single host.
fn names_one_host(pattern: &str) -> bool {
    !pattern.contains(['*', '?', '[', '{'])
}

/// Returns how much of an answer still applies whatever third parties wrote into the conversation: a tool that only
/// reads may read from a named host. Such a call can leak data only to that host.
pub(crate) fn kept_after_untrusted(tool: &ToolSpec, facts: &Facts<'_>) -> Remember {
    let hosts = facts.hosts(None);
    let only_reads = tool.class == ToolClass::ReadOnly && !tool.annotations.destructive;
    match hosts.items.is_empty() || hosts.is_unclear || !only_reads {
        true => Remember::Never,
        false => Remember::Hosts,
    }
}

/// Returns whether a scope covers one part of a command.
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

/// Returns whether a scope covers a whole call.
pub(crate) fn covers(scope: &GrantScope, call: &Call<'_>, facts: &Facts<'_>) -> bool {
    match scope {
        GrantScope::Tool => true,
        GrantScope::Arguments { hash } => *hash == call.arguments.hash(),
        // If the call has a command, its addresses and paths say nothing about what runs.
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
            let fits = |target: &PathTarget| matches!(target, PathTarget::Inside(path) if glob.is_match(path));
            !paths.items.is_empty() && !paths.is_unclear && paths.items.iter().all(fits)
        }
        // Commands are covered part by part, and an unknown scope covers nothing.
        _ => false,
    }
}
