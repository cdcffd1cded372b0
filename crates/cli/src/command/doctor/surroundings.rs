//! Checks of this machine: configuration, store, project folder, tools, terminal.

use std::fs;
use std::io::{self, IsTerminal};

use neuraxis::core::log::describe::counted;
use neuraxis::core::with_causes;
use neuraxis::engine::{Approving, tool_warnings};
use neuraxis::ports::StoreError;
use neuraxis::tools::{NoSandbox, SandboxFeature, SandboxFeatures, is_protected, sandbox_features};
use neuraxis_app::{
    ApprovalKeyError, ApprovalKeyPlace, BuildError, Choice, CommandAvailability, Config, Contents,
    Environment, FoundFile, McpServerSection, OpenError, OpenStore, SkippedServer, Trust,
    approval_key_place, command_availability, folder_warnings, no_store_warning, tool_specs,
    usual_key_variables,
};

use super::check::{Check, Outcome};
use crate::error::{CommandError, KEYS_EXPLAINED};
use crate::glyphs::Glyphs;
use crate::invocation;

const SANDBOX: &str = "sandbox";

/// Checks everything except the models.
pub(super) async fn all(config: &Config, environment: &Environment) -> Vec<Check> {
    let mut checks = vec![files(config, environment)];
    let ignored = folder_warnings(environment).into_iter();
    checks.extend(ignored.map(|notice| Check::here("files", Outcome::Warning, notice)));
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
            None => {
                let detail = format!("{name}; test it with `neuraxis mcp test {name}`");
                check(Outcome::Ok, invocation::again(&detail).into_owned())
            }
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
    let fix = error.first_hint().unwrap_or(KEYS_EXPLAINED);
    Check::here("files", Outcome::Failed, error.in_one_line()).fix(fix)
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
            "export {}, start a llama-server, Ollama or LM Studio, or run `neuraxis setup`; see `neuraxis help models`",
            usual_key_variables()
        )),
        _ => check.fix("`neuraxis setup` saves it as [models.reasoning], where you can set other keys"),
    }
}

/// Reports a program at the usual address of a model server that cannot be used.
pub(super) fn skipped(server: &SkippedServer) -> Check {
    Check::here("models", Outcome::Warning, server.to_string())
}

fn files(config: &Config, environment: &Environment) -> Check {
    let files = config.files().iter();
    let files: Vec<String> = files.map(|file| file.display().to_string()).collect();
    if !files.is_empty() {
        return Check::here("files", Outcome::Ok, files.join(", "));
    }
    let (here, joint) = match config.found() {
        // What is wrong with it is shown in the next check.
        Some(found) => (
            format!("./{} is ignored", found.path().display()),
            ", and there is none in",
        ),
        None => ("no neuraxis.toml here".to_owned(), " or in"),
    };
    let user = environment.config_dir();
    let user = user.map(|folder| format!("{joint} {}", folder.display()));
    let user = user.unwrap_or_default();
    let detail = format!("{here}{user}: using the defaults");
    Check::here("files", Outcome::Ok, detail)
}

/// Reports how far the file of the working directory is trusted.
fn trust(found: &FoundFile) -> Check {
    let check = |outcome, detail: String| Check::here("trust", outcome, detail);
    let path = found.path().display();
    match (found.notice(), found.fault()) {
        (Some(notice), Some(_)) => check(Outcome::Warning, notice).fix("fix or remove it"),
        (Some(notice), None) => check(Outcome::Warning, notice).fix(
            "see what it would change with `neuraxis trust show`; to accept that, run `neuraxis trust add`",
        ),
        (None, _) if found.trust() == Trust::Trusted => {
            check(Outcome::Ok, format!("you trusted ./{path} as it is now"))
        }
        (None, _) => check(
            Outcome::Ok,
            format!("./{path} is not trusted, but sets nothing that needs trust"),
        ),
    }
}

async fn store(config: &Config, environment: &Environment) -> Check {
    match OpenStore::open_without_upgrade(config, environment).await {
        Ok(store) => {
            let checked = store.check().await;
            store.close().await;
            match checked {
                Ok(contents) => {
                    let detail = contents_of(config, contents);
                    let nowhere = no_store_warning(config, environment);
                    match (nowhere, has_room(config, contents)) {
                        (Some(nowhere), _) => Check::here("store", Outcome::Warning, nowhere),
                        (None, true) => Check::here("store", Outcome::Ok, detail),
                        (None, false) => Check::here("store", Outcome::Warning, detail).fix(
                            "raise the Postgres server's max_connections or the CONNECTION LIMIT of the role or \
                             database, or lower store.max_connections (store.live = false saves one more)",
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
                false => ", run as the owner of the schema,",
            };
            Check::here("store", Outcome::Warning, older.to_string()).fix(format!(
                "take a backup and stop all programs of older versions that use it; then a server or any command \
                 except `neuraxis doctor`{as_whom} upgrades it"
            ))
        }
        Err(error) => {
            let fix = match &error {
                BuildError::StoreFolder { .. } => {
                    "create the folder, or name another file".to_owned()
                }
                BuildError::Database { source, .. } => fix_of_database(config, source),
                BuildError::DatabaseBusy { source, .. } => match source {
                    OpenError::Full { .. } if config.store().url().starts_with("sqlite:") => {
                        "free some disk space: 32 KiB are enough to read the stored data".to_owned()
                    }
                    OpenError::Full { .. } => "free some disk space".to_owned(),
                    _ => "try again once the other process has released it".to_owned(),
                },
                _ => {
                    invocation::again("`neuraxis config show` shows where it was set").into_owned()
                }
            };
            failed("store", error).fix(fix)
        }
    }
}

/// Reports each available part of the sandbox, or what happens to commands without it.
fn sandbox(config: &Config) -> Vec<Check> {
    let warning = |detail: String| Check::here(SANDBOX, Outcome::Warning, detail);
    match (sandbox_features(), command_availability(config)) {
        (Ok(features), _) => sandbox_features_found(features),
        (Err(why), CommandAvailability::Unconfined { .. }) => vec![
            warning(format!(
                "there is none, and commands run without it (tools.commands), as you and with all your permissions: \
                 {why}"
            ))
            .fix("to run no commands, remove tools.commands"),
        ],
        (Err(why), _) => {
            let fix = if matches!(why, NoSandbox::Missing(_)) {
                "use a Linux kernel with Landlock (5.13 or newer; 6.2 without namespaces), or do without commands, or \
                 set tools.commands = \"unconfined\" to run them as you and with all your permissions"
            } else {
                "fix what the message names, or do without commands"
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
    let present = SandboxFeature::ALL.into_iter();
    let present = present.filter(|feature| features.has(*feature));
    let present: String = present.map(|feature| format!(", {feature}")).collect();
    let landlock = format!("Landlock {}{present}", features.landlock);
    let missing = features.missing.iter().map(|(feature, why)| {
        let detail = format!("no {feature} ({why}): {}", feature.without());
        Check::here(SANDBOX, Outcome::Warning, detail).fix(match feature {
            SandboxFeature::SystemCalls => "run it on x86_64 or aarch64, with a kernel that has seccomp filters",
            _ => "let users create namespaces (sysctl user.max_user_namespaces; on Ubuntu also kernel.apparmor_restrict_unprivileged_userns=0); RestrictNamespaces= can forbid them in a systemd unit, and the seccomp profile in a container",
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
                    ", {} of {} connections in use; a process with this configuration uses up to {}",
                    connections.in_use,
                    connections.most,
                    connections_of(config)
                )
            });
            let connections = connections.unwrap_or_default();
            // Whether a text was altered is not checked here.
            let intact = match url.contains("sqlite:") {
                true => "file intact",
                false => "intact",
            };
            format!("{url}: {intact}, {sessions}, {runs}{connections}")
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
    connections.is_none_or(|server| server.in_use + connections_of(config) <= server.most)
}

fn fix_of_database(config: &Config, error: &OpenError) -> String {
    match error {
        OpenError::Store(error) => fix_of_store(config, error),
        OpenError::Newer { .. } => {
            "use the newer version of neuraxis that wrote it, or choose another location".to_owned()
        }
        OpenError::Foreign { .. } => {
            "name another file or database: this one belongs to another program".to_owned()
        }
        OpenError::File { .. } => {
            "create the folder and give yourself write access, or set store.url to another location"
                .to_owned()
        }
        OpenError::Unsafe(_) => {
            "if it belongs to another user, run this as that user or change its owner (chown); otherwise do what the \
             error says"
                .to_owned()
        }
        OpenError::Parameter { .. } => {
            "correct it in store.url (see `neuraxis help storage`), or remove it".to_owned()
        }
        OpenError::Encoding { .. } => {
            "set store.url to a database with the encoding UTF8; it can be on the same server"
                .to_owned()
        }
        _ => "set store.url to another location".to_owned(),
    }
}

fn fix_of_store(config: &Config, error: &StoreError) -> String {
    let is_file = config.store().url().starts_with("sqlite:");
    let fix = match error {
        StoreError::Damaged(_) if is_file => {
            "in this order: stop all programs that use it; copy it to another disk, with its -wal, which holds the latest \
             data; check whether its disk is full or failing; run `neuraxis sessions export --all --output FILE`, which \
             leaves out what cannot be read; move it away with its -wal and -shm; run `neuraxis sessions import FILE`. If \
             nothing can be exported, restore a backup instead (see `neuraxis help storage`)"
        }
        StoreError::Damaged(_) => {
            "in this order: stop all programs that use it; check its server's log and disk; run `neuraxis sessions export \
             --all --output FILE`, which leaves out what cannot be read; set store.url to a new database; run `neuraxis \
             sessions import FILE`. If nothing can be exported, restore a backup instead (see `neuraxis help storage`)"
        }
        StoreError::Unavailable(_) | StoreError::ReadOnly(_) | StoreError::Full(_) if is_file => {
            "check whether the disk is full or read-only, the file belongs to another user, another program has locked \
             it, or this process may open too few files (`ulimit -n`)"
        }
        StoreError::ReadOnly(_) => {
            "set store.url to the primary: this server accepts no writes, because it is a standby or has \
             default_transaction_read_only on"
        }
        StoreError::Full(_) => "free some disk space on the Postgres server",
        StoreError::Unavailable(_) => {
            "check that the server is running and reachable, has connections left, and has the database and user that \
             store.url names; for certificate checks, see `neuraxis help storage`"
        }
        StoreError::Refused(_) if is_file => {
            "do what the error says and delete nothing: the -wal may hold all stored data"
        }
        StoreError::Refused(_) => {
            "give its user the rights that `neuraxis help storage` lists, or check that all its tables exist"
        }
        _ => "set store.url to another location",
    };
    invocation::again(fix).into_owned()
}

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
            format!("the key will be created in {}", file.display())
        }
        _ => "the key lasts only as long as the process".to_owned(),
    };
    Check::here("approvals", Outcome::Ok, detail)
}

/// Returns how to fix a key that the configuration names.
fn fix_of_named_key(error: &ApprovalKeyError) -> String {
    match error {
        ApprovalKeyError::Exposed { path } => {
            format!("run `chmod 600 {}` as its owner", path.display())
        }
        _ => "create a key (see `neuraxis help storage`), or name its file in store.approval_key_file"
            .to_owned(),
    }
}

/// Returns how to fix the key in the user's data folder.
fn fix_of_own_key(error: &ApprovalKeyError) -> String {
    match error {
        ApprovalKeyError::Exposed { path } => {
            format!("run `chmod 600 {}` as its owner", path.display())
        }
        ApprovalKeyError::NoKey { .. } => {
            "remove it: a new one is created, and you are asked again about what you allowed before"
                .to_owned()
        }
        _ => "give yourself read access to it and write access to its folder, or name another file in \
              store.approval_key_file"
            .to_owned(),
    }
}

fn project(config: &Config) -> Check {
    let root = config.project_root();
    if !config.offers_project_tools() {
        let detail = format!(
            "{}: too broad, so the file and command tools are off",
            root.display()
        );
        return Check::here("project", Outcome::Warning, detail).fix(format!(
            "change to a project folder, or choose this one with --set tools.root={}",
            invocation::quoted(&root.display().to_string())
        ));
    }
    if root.canonicalize().is_ok_and(|real| is_protected(&real)) {
        let detail = format!("{}: writing there is not allowed", root.display());
        return Check::here("project", Outcome::Failed, detail)
            .fix("set tools.root to a project folder, or change to one");
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
            .fix("`neuraxis policy explain --tool NAME` shows what happens to its calls")
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
    let ascii = match Glyphs::here() {
        Glyphs::Unicode => "",
        Glyphs::Ascii => {
            "; signs are drawn in ASCII, since its locale (LC_ALL, LC_CTYPE or LANG) is not UTF-8 or TERM is dumb"
        }
    };
    let detail = format!("standard output is {output}, standard error is {progress}{ascii}");
    Check::here("terminal", Outcome::Ok, detail)
}

pub(super) fn failed(name: &'static str, error: impl Into<anyhow::Error>) -> Check {
    let error = error.into();
    Check::here(name, Outcome::Failed, with_causes(&*error))
}
