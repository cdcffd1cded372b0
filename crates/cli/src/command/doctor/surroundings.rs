//! Checks of this machine: configuration, store, project folder, tools, terminal.

use std::fs;
use std::io::{self, IsTerminal};

use neuraxis::core::log::describe::counted;
use neuraxis::core::with_causes;
use neuraxis::engine::{Approving, tool_warnings};
use neuraxis::ports::StoreError;
use neuraxis::tools::{NoSandbox, SandboxFeature, SandboxFeatures, is_protected, sandbox_features};
use neuraxis_app::{
    ApprovalKeyError, ApprovalKeyPlace, BuildError, Choice, CommandsHere, Config, Contents,
    Environment, FoundFile, McpServerSection, OpenError, OpenStore, PassedOver, Trust,
    approval_key_place, commands_here, nowhere_to_keep, tool_specs, usual_key_variables,
};

use super::check::{Check, Outcome};
use crate::error::CommandError;
use crate::invocation;

const SANDBOX: &str = "sandbox";

/// Checks everything except the models.
pub(super) async fn all(config: &Config, environment: &Environment) -> Vec<Check> {
    let mut checks = vec![files(config, environment)];
    checks.extend(config.found().map(trust));
    checks.push(store(config, environment).await);
    checks.push(approvals(config, environment));
    checks.push(project(config));
    checks.extend(tools(config, environment));
    checks.extend(prices(config));
    checks.extend(mcp_servers(config, environment));
    checks.extend(sandbox(config));
    checks.push(terminal());
    checks
}

/// Reports missing prices, and prices whose provider does not exist.
fn prices(config: &Config) -> Vec<Check> {
    let notices = config.price_notices().into_iter();
    let check = |notice| Check::here("prices", Outcome::Warning, notice);
    notices.map(check).collect()
}

/// Reports the MCP servers, without starting them.
fn mcp_servers(config: &Config, environment: &Environment) -> Vec<Check> {
    let check = |outcome, detail: String| Check::here("MCP servers", outcome, detail);
    let servers = &config.mcp().servers;
    if servers.is_empty() {
        let detail = "none is configured (`neuraxis mcp add` adds one)";
        return vec![check(Outcome::Ok, detail.to_owned())];
    }
    let of = |(name, section): (&String, &McpServerSection)| {
        if !section.enabled {
            return check(Outcome::Skipped, format!("{name} is not enabled"));
        }
        let fault = match section.resolved(name, environment) {
            Ok(server) => server.check_program().err().map(|fault| fault.to_string()),
            Err(fault) => Some(fault.to_string()),
        };
        match fault {
            None => check(
                Outcome::Ok,
                format!("{name}; `neuraxis mcp test {name}` tries it"),
            ),
            Some(fault) => {
                let at = config.mcp_origin(name);
                check(Outcome::Failed, format!("{name} is not started: {fault}"))
                    .fix(format!("see {at}"))
            }
        }
    };
    servers.iter().map(of).collect()
}

/// Reports a configuration that cannot be read.
pub(super) fn broken_configuration(error: &CommandError) -> Check {
    Check::here("files", Outcome::Failed, error.in_one_line())
        .fix("`neuraxis config init --config new.toml` writes a file that explains every key")
}

/// Reports why these models serve.
pub(super) fn choice(choice: &Choice) -> Check {
    let (outcome, detail) = match choice {
        Choice::Configured => (Outcome::Ok, "configured".to_owned()),
        Choice::Offline { .. } => (Outcome::Warning, choice.notice().unwrap_or_default()),
        _ => (Outcome::Ok, choice.notice().unwrap_or_default()),
    };
    let check = Check::here("models", outcome, detail);
    match choice {
        Choice::Configured => check,
        Choice::Offline { .. } => check.fix(format!(
            "export {}, start a llama-server, Ollama or LM Studio, or run `neuraxis setup`; `neuraxis help models` says more",
            usual_key_variables().join(" or ")
        )),
        _ => check.fix("`neuraxis setup` writes it down as [models.reasoning]: other keys can be set there then"),
    }
}

/// Reports a program at the usual address of a model server that cannot be used.
pub(super) fn passed_over(server: &PassedOver) -> Check {
    Check::here("models", Outcome::Warning, server.to_string())
}

fn files(config: &Config, environment: &Environment) -> Check {
    let files = config.files().iter();
    let files: Vec<String> = files.map(|file| file.display().to_string()).collect();
    if !files.is_empty() {
        return Check::here("files", Outcome::Ok, files.join(", "));
    }
    let user = environment.config_dir();
    let user = user.map(|folder| format!(", nor in {}", folder.display()));
    let user = user.unwrap_or_default();
    let here = match config.found() {
        // What is wrong with it is shown in the next check.
        Some(found) => format!("nothing of ./{}", found.path().display()),
        None => "no neuraxis.toml here".to_owned(),
    };
    let detail = format!("{here}{user}: the defaults are in force");
    Check::here("files", Outcome::Ok, detail)
}

/// Reports how far the file of the working directory is trusted.
fn trust(found: &FoundFile) -> Check {
    let check = |outcome, detail: String| Check::here("trust", outcome, detail);
    let path = found.path().display();
    match (found.notice(), found.fault()) {
        (Some(notice), Some(fault)) => {
            check(Outcome::Warning, format!("{notice}: {fault}")).fix("mend or remove it")
        }
        (Some(notice), None) => check(Outcome::Warning, notice).fix(
            "read what it would change with `neuraxis trust show`; if you want that, `neuraxis trust add`",
        ),
        (None, _) if found.trust() == Trust::Trusted => {
            check(Outcome::Ok, format!("you trusted this ./{path}"))
        }
        (None, _) => check(
            Outcome::Ok,
            format!("nobody trusted ./{path}, and it says nothing that needs trust"),
        ),
    }
}

async fn store(config: &Config, environment: &Environment) -> Check {
    match OpenStore::open_to_look(config, environment).await {
        Ok(store) => {
            let checked = store.check().await;
            store.close().await;
            match checked {
                Ok(contents) => {
                    let detail = contents_of(config, contents);
                    let nowhere = nowhere_to_keep(config, environment);
                    match (nowhere, has_room(config, contents)) {
                        (Some(nowhere), _) => Check::here("store", Outcome::Warning, nowhere),
                        (None, true) => Check::here("store", Outcome::Ok, detail),
                        (None, false) => Check::here("store", Outcome::Warning, detail).fix(
                            "raise max_connections of the Postgres server, or the CONNECTION LIMIT of the role or the database, or make \
                             store.max_connections smaller (store.live = false saves one more)",
                        ),
                    }
                }
                Err(error) => {
                    let fix = fix_of_store(config, &error);
                    failed("store", error).fix(fix)
                }
            }
        }
        Err(BuildError::Database {
            source: older @ OpenError::Older { .. },
            ..
        }) => {
            let as_whom = match config.store().url().starts_with("sqlite:") {
                true => "",
                false => ", as the owner of the schema,",
            };
            Check::here("store", Outcome::Warning, older.to_string()).fix(format!(
                "take a backup and end the programs of older versions that use it; then a server or any command but \
                 `neuraxis doctor`{as_whom} brings it up to date"
            ))
        }
        Err(error) => {
            let fix = match &error {
                BuildError::StoreFolder { .. } => {
                    "make the folder, or name another file".to_owned()
                }
                BuildError::Database { source, .. } => fix_of_database(config, source),
                BuildError::DatabaseBusy { source, .. } => match source {
                    OpenError::Full { .. } if config.store().url().starts_with("sqlite:") => {
                        "make room on the disk: 32 KiB are enough to read what is kept".to_owned()
                    }
                    OpenError::Full { .. } => "make room on the disk".to_owned(),
                    _ => "try again once the other process has let go of it".to_owned(),
                },
                _ => invocation::again("`neuraxis config show` says where it was set").into_owned(),
            };
            failed("store", error).fix(fix)
        }
    }
}

/// Reports each available part of the sandbox, or what happens to commands without it.
fn sandbox(config: &Config) -> Vec<Check> {
    let warning = |detail: String| Check::here(SANDBOX, Outcome::Warning, detail);
    match (sandbox_features(), commands_here(config)) {
        (Ok(features), _) => sandbox_features_found(features),
        (Err(why), CommandsHere::Unconfined { .. }) => vec![
            warning(format!(
                "there is none, and commands run without it (tools.commands), as you and with all that you can do: {why}"
            ))
            .fix("to have none run, leave tools.commands out"),
        ],
        (Err(why), _) => {
            let fix = if matches!(why, NoSandbox::Missing(_)) {
                "use a Linux kernel with Landlock (5.13 or newer; 6.2 without namespaces), or go on without commands, or set \
                 tools.commands = \"unconfined\" to run them as you and with all that you can do"
            } else {
                "mend what is said there, or go on without commands"
            };
            vec![
                warning(format!(
                    "commands cannot be confined, so the tool run_command is not offered: {why}"
                ))
                .fix(fix),
            ]
        }
    }
}

fn sandbox_features_found(features: &SandboxFeatures) -> Vec<Check> {
    let there = SandboxFeature::ALL.into_iter();
    let there = there.filter(|feature| features.has(*feature));
    let there: String = there.map(|feature| format!(", {feature}")).collect();
    let landlock = format!("Landlock {}{there}", features.landlock);
    let missing = features.missing.iter().map(|(feature, why)| {
        let detail = format!("no {feature} ({why}): {}", feature.without());
        Check::here(SANDBOX, Outcome::Warning, detail).fix(match feature {
            SandboxFeature::SystemCalls => "run it on x86_64 or aarch64, with a kernel that has seccomp filters",
            _ => "let users make namespaces (sysctl user.max_user_namespaces; on Ubuntu also kernel.apparmor_restrict_unprivileged_userns=0); in a unit of systemd RestrictNamespaces= forbids them, in a container its seccomp profile",
        })
    });
    let mut checks = vec![Check::here(SANDBOX, Outcome::Ok, landlock)];
    checks.extend(missing);
    checks
}

/// Describes where the store is, without secrets, and how much it contains.
fn contents_of(config: &Config, contents: Option<Contents>) -> String {
    let mut settings = config.settings().into_iter();
    let url = settings.find(|setting| setting.key == "store.url");
    let url = url.map(|setting| setting.value).unwrap_or_default();
    match contents {
        Some(contents) => {
            let sessions = counted(contents.sessions, "session");
            let runs = counted(contents.runs, "run");
            let connections = contents.connections.map(|connections| {
                format!(
                    ", {} of {} connections in use; a process with this configuration takes up to {}",
                    connections.in_use,
                    connections.most,
                    connections_of(config)
                )
            });
            let connections = connections.unwrap_or_default();
            format!("{url}: whole, {sessions}, {runs}{connections}")
        }
        None => url,
    }
}

/// Returns the maximum number of connections of a process: those for reading, one for writing, one for removing
/// sessions if there are any to remove, and one for passing on live text.
fn connections_of(config: &Config) -> u64 {
    let store = config.store();
    u64::from(store.max_connections.max(1)) + 2 + u64::from(store.live)
}

/// Returns whether the store's server has connections left for one more process.
fn has_room(config: &Config, contents: Option<Contents>) -> bool {
    let connections = contents.and_then(|contents| contents.connections);
    connections.is_none_or(|there| there.in_use + connections_of(config) <= there.most)
}

fn fix_of_database(config: &Config, error: &OpenError) -> String {
    match error {
        OpenError::Store(error) => fix_of_store(config, error).to_owned(),
        OpenError::Newer { .. } => {
            "use the newer version of neuraxis that wrote it, or name another place".to_owned()
        }
        OpenError::Foreign { .. } => {
            "name another file or database: this one belongs to another program".to_owned()
        }
        OpenError::File { .. } => {
            "make the folder and let yourself write there, or name another place in store.url"
                .to_owned()
        }
        OpenError::Unsafe(_) => {
            "where it is another user's, run this as that user, or give it to yours (chown); otherwise do what the error says"
                .to_owned()
        }
        OpenError::Parameter { .. } => {
            "write it in store.url as the guide on storage says, or leave it out".to_owned()
        }
        OpenError::Encoding { .. } => {
            "name a database with the encoding UTF8 in store.url; it may be on the same server"
                .to_owned()
        }
        _ => "name another place in store.url".to_owned(),
    }
}

fn fix_of_store(config: &Config, error: &StoreError) -> &'static str {
    match error {
        StoreError::Damaged(_) => {
            "end all programs that use it, copy it before anything else, a file with its -wal, which holds the last of it, and see \
             whether the disk is full or fails; `neuraxis sessions export --all` saves what can be read. Then move it away with its \
             -wal and -shm: a new one is made, and `neuraxis sessions import` takes what was exported"
        }
        StoreError::Unavailable(_) if config.store().url().starts_with("sqlite:") => {
            "see whether the disk is full or read-only, the file belongs to somebody else or another program has it locked"
        }
        StoreError::Unavailable(why) if why.contains(READ_ONLY) => {
            "name the primary in store.url: this server takes no writes, as a standby does, or has default_transaction_read_only on"
        }
        StoreError::Unavailable(why) if why.contains(DISK_FULL) => {
            "make room on the disk of the Postgres server"
        }
        StoreError::Unavailable(_) => {
            "see whether the server is up and can be reached, has connections left, and has the database and the user that \
             store.url names; where it checks certificates, the guide on storage says how"
        }
        StoreError::Refused(_) if config.store().url().starts_with("sqlite:") => {
            "do what is said there and delete nothing: the -wal may hold all that was kept"
        }
        StoreError::Refused(_) => {
            "give its user the rights that the guide on storage names, or look whether its tables are all there"
        }
        _ => "name another place in store.url",
    }
}

/// The code that Postgres reports in read-only transactions, and when its disk is full
/// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
const READ_ONLY: &str = "(code 25006)";
const DISK_FULL: &str = "(code 53100)";

/// Reports where the key is that makes approvals valid. Creates none.
fn approvals(config: &Config, environment: &Environment) -> Check {
    let place = match approval_key_place(config, environment) {
        Ok(place) => place,
        Err(error) => {
            let fix = match config.store().approval_key_file {
                Some(_) => fix_of_named_key(&error),
                None => fix_of_own_key(&error),
            };
            return failed("approvals", error).fix(fix);
        }
    };
    let detail = match place {
        ApprovalKeyPlace::File(file) => format!("the key is in {}, and private", file.display()),
        ApprovalKeyPlace::ToBeMade(file) => {
            format!("the key will be made in {}", file.display())
        }
        _ => "the key ends with the process".to_owned(),
    };
    Check::here("approvals", Outcome::Ok, detail)
}

/// Returns how to fix a key that the configuration names.
fn fix_of_named_key(error: &ApprovalKeyError) -> String {
    match error {
        ApprovalKeyError::Exposed { path } => {
            format!("`chmod 600 {}`, as its owner", path.display())
        }
        _ => "make a key as `neuraxis help storage` says, or name its file in store.approval_key_file"
            .to_owned(),
    }
}

/// Returns how to fix the key in the user's data folder.
fn fix_of_own_key(error: &ApprovalKeyError) -> String {
    match error {
        ApprovalKeyError::Exposed { path } => {
            format!("`chmod 600 {}`, as its owner", path.display())
        }
        ApprovalKeyError::NoKey { .. } => {
            "remove it: a new one is made, and what was allowed before is asked about again"
                .to_owned()
        }
        _ => "let yourself read it and write in its folder, or name another file in \
              store.approval_key_file"
            .to_owned(),
    }
}

fn project(config: &Config) -> Check {
    let root = config.project_root();
    if !config.offers_project_tools() {
        let detail = format!("{}: too wide, no tools are offered there", root.display());
        return Check::here("project", Outcome::Warning, detail).fix(format!(
            "change to the folder of a project, or name this one with --set tools.root={}",
            invocation::quoted(&root.display().to_string())
        ));
    }
    if root.canonicalize().is_ok_and(|real| is_protected(&real)) {
        let detail = format!("{}: nothing may be written there", root.display());
        return Check::here("project", Outcome::Failed, detail)
            .fix("set tools.root to the folder of a project, or change to one");
    }
    match fs::read_dir(root) {
        Ok(_) => Check::here("project", Outcome::Ok, root.display().to_string()),
        Err(error) => {
            let detail = format!("{}: {error}", root.display());
            Check::here("project", Outcome::Failed, detail)
                .fix("set tools.root to a folder that you can read")
        }
    }
}

/// Warns of tools that can run in no request. At a terminal the user can approve them.
fn tools(config: &Config, environment: &Environment) -> Vec<Check> {
    // Problems with their folders have a check of their own.
    let Ok(tools) = tool_specs(config, environment) else {
        return Vec::new();
    };
    let warnings = tool_warnings(config.policy(), &tools, Approving::Somebody).into_iter();
    let checks = warnings.map(|warning| {
        Check::here("refused", Outcome::Warning, warning.to_string())
            .fix("`neuraxis policy explain --tool NAME` says what becomes of its calls")
    });
    checks.collect()
}

fn terminal() -> Check {
    let word = |is_terminal: bool| {
        if is_terminal {
            "a terminal"
        } else {
            "not a terminal"
        }
    };
    let output = word(io::stdout().is_terminal());
    let progress = word(io::stderr().is_terminal());
    let detail = format!("standard output is {output}, standard error is {progress}");
    Check::here("terminal", Outcome::Ok, detail)
}

pub(super) fn failed(name: &'static str, error: impl Into<anyhow::Error>) -> Check {
    let error = error.into();
    Check::here(name, Outcome::Failed, with_causes(&*error))
}
