//! The environment variables of a command.

use std::env;
use std::ffi::{OsStr, OsString};

use neuraxis_core::TraceContext;

/// The variables that commands inherit if they are set. No others are inherited unless they are
/// [named](crate::project_files_without), since any variable may hold a secret. A `*` at the end matches any text.
pub const COMMAND_ENVIRONMENT: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
];

/// Settings that keep commands from using colors, prompting, and paging.
const SET: [(&str, &str); 9] = [
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "true"),
    // Inspecting a repository does not write to it.
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_CONFIG_COUNT", GIT_CONFIGURATION_COUNT),
    ("DEBIAN_FRONTEND", "noninteractive"),
];

/// Settings that override a repository's: git runs nothing that a repository supplies, asks for no password, and starts
/// no background maintenance, which would be killed with the command.
const GIT_CONFIGURATION: [(&str, &str); 7] = [
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.askPass", ""),
    ("credential.helper", ""),
    ("protocol.ext.allow", "never"),
    ("safe.bareRepository", "explicit"),
    ("maintenance.auto", "false"),
];
const GIT_CONFIGURATION_COUNT: &str = "7";

/// Variables that commands also inherit if there is no sandbox: those for temporary files, and those that Windows
/// programs need.
const UNCONFINED: &[&str] = &[
    "TMPDIR",
    "TEMP",
    "TMP",
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "PATHEXT",
    "COMSPEC",
    "USERPROFILE",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMDATA",
    "PROGRAMFILES",
];

/// Returns the environment of an unconfined command, built from this program's environment and the named variables.
pub(super) fn unconfined_environment(
    ours: impl Iterator<Item = (OsString, OsString)>,
    named: &[String],
) -> Vec<(OsString, OsString)> {
    let (more, others): (Vec<_>, Vec<_>) = ours.partition(|(name, _)| {
        let name = name.to_str();
        name.is_some_and(|name| UNCONFINED.iter().any(|known| is_name(name, known)))
    });
    let mut handed_on = environment(others.into_iter(), named);
    handed_on.extend(more);
    handed_on
}

/// Returns the environment of a sandboxed command, built from this program's environment and the named variables. The
/// helper adds the variables for temporary files.
pub(super) fn environment(
    ours: impl Iterator<Item = (OsString, OsString)>,
    named: &[String],
) -> Vec<(OsString, OsString)> {
    let set = SET.map(|(name, value)| (name.into(), value.into()));
    let git = GIT_CONFIGURATION.iter().enumerate();
    let git = git.flat_map(|(number, (key, value))| {
        [("KEY", key), ("VALUE", value)]
            .map(|(part, text)| (format!("GIT_CONFIG_{part}_{number}").into(), text.into()))
    });
    let is_given = |name: &str| is_handed_on(name) || is_named(name, named);
    ours.filter(|(name, _)| name.to_str().is_some_and(is_given))
        .map(|(name, value)| match name.to_str() {
            Some(path) if is_name(path, "PATH") => (name, absolute_only(&value)),
            _ => (name, value),
        })
        .chain(set)
        .chain(git)
        .collect()
}

/// Returns the variables that name the command's trace, in the form that tracing programs read.
pub(super) fn of_trace(trace: &TraceContext) -> impl Iterator<Item = (OsString, OsString)> + use<> {
    let parent = ("TRACEPARENT".into(), trace.to_string().into());
    let state = trace.state.as_ref();
    let state = state.map(|state| ("TRACESTATE".into(), state.into()));
    std::iter::once(parent).chain(state)
}

/// Removes relative folders from a search path, since they depend on the command's folder: a project must not supply
/// its own `git`.
fn absolute_only(path: &OsStr) -> OsString {
    let absolute = env::split_paths(path).filter(|folder| folder.is_absolute());
    // The split parts contain no separators.
    env::join_paths(absolute).unwrap_or_default()
}

fn is_handed_on(name: &str) -> bool {
    COMMAND_ENVIRONMENT
        .iter()
        .any(|known| match known.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => is_name(name, known),
        })
}

/// Returns whether a variable was named, and is not one that commands are always given.
fn is_named(name: &str, named: &[String]) -> bool {
    let is_told = SET.iter().any(|(told, _)| is_name(name, told)) || name.starts_with("GIT_CONFIG");
    !is_told && named.iter().any(|known| is_name(name, known))
}

/// Returns whether a variable has a name; case is ignored on Windows.
fn is_name(variable: &str, name: &str) -> bool {
    variable == name || cfg!(windows) && variable.eq_ignore_ascii_case(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_harmless_variables_are_passed_on() {
        let ours = [
            ("PATH", ".:/bin::relative:/usr/bin:"),
            ("LC_ALL", "C"),
            ("OPENAI_API_KEY", "secret"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("LD_PRELOAD", "/evil.so"),
            ("PATHS", "secret"),
            ("path", "secret"),
        ];
        let ours = ours.map(|(name, value)| (name.into(), value.into()));
        let made = environment(ours.into_iter(), &[]);
        let made: Vec<_> = made
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        assert_eq!(
            made,
            [
                "PATH=/bin:/usr/bin",
                "LC_ALL=C",
                "TERM=dumb",
                "NO_COLOR=1",
                "PAGER=cat",
                "GIT_PAGER=cat",
                "GIT_TERMINAL_PROMPT=0",
                "GIT_EDITOR=true",
                "GIT_OPTIONAL_LOCKS=0",
                "GIT_CONFIG_COUNT=7",
                "DEBIAN_FRONTEND=noninteractive",
                "GIT_CONFIG_KEY_0=core.fsmonitor",
                "GIT_CONFIG_VALUE_0=false",
                "GIT_CONFIG_KEY_1=core.hooksPath",
                "GIT_CONFIG_VALUE_1=/dev/null",
                "GIT_CONFIG_KEY_2=core.askPass",
                "GIT_CONFIG_VALUE_2=",
                "GIT_CONFIG_KEY_3=credential.helper",
                "GIT_CONFIG_VALUE_3=",
                "GIT_CONFIG_KEY_4=protocol.ext.allow",
                "GIT_CONFIG_VALUE_4=never",
                "GIT_CONFIG_KEY_5=safe.bareRepository",
                "GIT_CONFIG_VALUE_5=explicit",
                "GIT_CONFIG_KEY_6=maintenance.auto",
                "GIT_CONFIG_VALUE_6=false",
            ]
        );
    }

    #[test]
    fn configured_variables_are_passed_on_except_those_that_are_always_set() {
        let ours = [
            ("HTTPS_PROXY", "http://proxy:3128"),
            ("https_proxy", "other"),
            ("TERM", "xterm"),
            ("GIT_CONFIG_COUNT", "0"),
            ("GIT_CONFIG_PARAMETERS", "'core.fsmonitor=./x'"),
        ];
        let variable = |(name, value): (&str, &str)| (OsString::from(name), OsString::from(value));
        let ours: Vec<(OsString, OsString)> = ours.into_iter().map(variable).collect();
        let named = [
            "HTTPS_PROXY",
            "TERM",
            "GIT_CONFIG_COUNT",
            "GIT_CONFIG_PARAMETERS",
        ];
        let named = named.map(str::to_owned);
        let usual = environment(std::iter::empty(), &[]);
        for made in [
            environment(ours.clone().into_iter(), &named),
            unconfined_environment(ours.clone().into_iter(), &named),
        ] {
            assert_eq!(made.first(), ours.first());
            assert_eq!(made.get(1..), Some(usual.as_slice()));
        }
    }

    #[test]
    fn a_command_receives_the_trace_it_belongs_to() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let trace: TraceContext = parent.parse().unwrap();
        let told =
            |trace: &TraceContext| -> Vec<(OsString, OsString)> { of_trace(trace).collect() };
        let parent = ("TRACEPARENT".into(), parent.into());
        assert_eq!(told(&trace), std::slice::from_ref(&parent));
        let trace = trace.with_state(Some("vendor=1".to_owned()));
        let state = ("TRACESTATE".into(), "vendor=1".into());
        assert_eq!(told(&trace), [parent, state]);
    }
}
