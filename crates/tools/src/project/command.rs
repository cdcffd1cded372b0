//! The tool `run_command`: a command line that `sh` runs in the project's folder.
//!
//! The kernel keeps the command there ([`crate::sandbox`]); without a sandbox nothing is run, unless commands may run
//! unconfined ([`unconfined`]). A command gets no secrets from its environment ([`environment`]), no input, and a time
//! limit. In the sandbox, everything it started ends with it, even if this program is killed. It can read what the user
//! can read, and with `access` reach the network or write to `.git`: the policy decides whether it runs at all.

mod environment;
mod output;
mod repository;
mod running;
mod unconfined;

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{Access, ToolAnnotations, ToolClass, whole_millis};
use neuraxis_ports::{Tool, ToolContext, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};

use self::output::{Collected, LiveOutput};
use self::running::{Confinement, Running};
use super::failure::{FileError, shown};
use super::root::{Located, ProjectRoot};
use super::walk::{is_false, is_zero};
use crate::blocking::{self, Cancelled};
use crate::commands::{CommandAvailability, Commands};
use crate::function::{DefinitionError, FunctionTool};
use crate::sandbox::{Aftermath, Ended, sandbox_features};
use crate::summary::{MAX_QUOTED_CHARS, one_line};

pub use environment::COMMAND_ENVIRONMENT;

/// The maximum length of a command line, in bytes: the part that the policy examines.
const COMMAND_MAX_BYTES: usize = 8 << 10;
/// The default time limit of a command.
const COMMAND_DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest time limit that a call can set.
const COMMAND_MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// How much longer a call may take than its command: to start it, to end it, and to read the remaining output.
const MARGIN: Duration = Duration::from_secs(10);

/// How long to wait for output once all processes have ended. It has arrived by then, unless a process escaped.
const DRAIN: Duration = Duration::from_secs(1);

const DESCRIPTION: &str = "Runs a command line with `sh` in the project folder, such as a build, a test or `git diff`, \
    and returns its exit code and output. There is no input and no terminal: use non-interactive options. The command \
    can write only inside the project and in $TMPDIR, but not to `.git` or `neuraxis.toml`. It has no network except \
    its own 127.0.0.1, and no Unix sockets. If it needs more, request it with `access`: \"network\" to download \
    packages, \"git\" to commit. Caches below the home folder cannot be written: to download, set CARGO_HOME, \
    GOMODCACHE or npm_config_cache to a folder in the project. Everything the command starts ends with it, so nothing \
    keeps running in the background. Use the file tools to read, search and write files.";

const CLOSED_FOLDERS: &str = " The command cannot create, rename or remove anything directly in these folders, because \
    they contain this program's own files: ";

/// Added to the summary if git reports that it removed a file without replacing it.
const FILE_IS_GONE: &str = " Git has removed the file whose filter failed: commit nothing until the user has restored \
                            it, for example with `git checkout -- FILE`.";

const GAPS: &str = " The kernel of this machine does not support the complete sandbox: ";

const UNCONFINED: &str = "Runs a command line with `sh` in the project folder, such as a build, a test or `git diff`, \
    and returns its exit code and output. There is no input and no terminal: use non-interactive options. Nothing \
    confines the command on this machine: it can do whatever the user can, so run nothing that writes outside the \
    project, and leave nothing running. `access` must therefore name everything: [\"network\", \"git\"]. Use the file \
    tools to read, search and write files.";

/// Creates the tool, whose commands get these variables in addition to the usual ones. Returns `None` if no commands
/// may run on this machine.
pub(super) fn tool(
    root: Arc<ProjectRoot>,
    commands: Commands,
    variables: &[String],
) -> Result<Option<Arc<dyn Tool>>, DefinitionError> {
    const NAME: &str = "run_command";
    let annotations = ToolAnnotations::default().destructive().open_world();
    let confined = annotations.confined();
    let timeout = COMMAND_MAX_TIMEOUT + MARGIN;
    let class = ToolClass::Irreversible;
    let variables: Arc<[String]> = variables.into();
    Ok(match commands.availability() {
        CommandAvailability::Refused { .. } => None,
        CommandAvailability::Sandboxed => {
            let tool = FunctionTool::new(
                NAME,
                description(&root),
                move |arguments: Arguments, ctx| {
                    let (root, variables) = (Arc::clone(&root), Arc::clone(&variables));
                    run(root, arguments, Confinement::Sandbox, variables, ctx)
                },
            )?;
            let tool = tool.class(class).annotations(confined);
            Some(tool.timeout(timeout).build())
        }
        CommandAvailability::Unconfined { .. } => {
            let tool = FunctionTool::new(
                NAME,
                UNCONFINED,
                move |arguments: UnconfinedArguments, ctx| {
                    let (root, variables) = (Arc::clone(&root), Arc::clone(&variables));
                    run(root, arguments.into(), Confinement::None, variables, ctx)
                },
            )?;
            let tool = tool.class(class).annotations(annotations);
            Some(tool.timeout(timeout).build())
        }
    })
}

fn description(root: &ProjectRoot) -> String {
    let program_files = root.program_files();
    let closed = program_files.closed_folders();
    let closed: Vec<String> = closed.into_iter().map(shown).collect();
    let mut description = DESCRIPTION.to_owned();
    if !closed.is_empty() {
        description.push_str(CLOSED_FOLDERS);
        description.push_str(&closed.join(", "));
        description.push('.');
    }
    let gaps = sandbox_features().map(|features| features.gaps().collect::<Vec<_>>());
    let gaps = gaps.unwrap_or_default().join("; ");
    if !gaps.is_empty() {
        description.push_str(GAPS);
        description.push_str(&gaps);
        description.push('.');
    }
    description
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The command line for `sh -c`. At most 8 KiB.
    command: String,
    /// The folder to run it in, relative to the project root. Default: the root.
    cwd: Option<String>,
    /// The number of seconds after which the command is ended. Default 120, maximum 600.
    timeout_seconds: Option<NonZeroU64>,
    /// Additional access that the command needs. Default: none. Request only what this command cannot do without.
    #[schemars(with = "Option<Vec<AccessSchema>>")]
    access: Option<BTreeSet<Access>>,
}

/// The arguments if nothing confines commands: the rule or the user that judges a call sees what the command can reach.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UnconfinedArguments {
    /// The command line for `sh -c`. At most 8 KiB.
    command: String,
    /// The folder to run it in, relative to the project root. Default: the root.
    cwd: Option<String>,
    /// The number of seconds after which the command is ended. Default 120, maximum 600.
    timeout_seconds: Option<NonZeroU64>,
    /// What the command can access, which is everything: `["network", "git"]`.
    #[schemars(with = "BTreeSet<AccessSchema>", length(min = 2))]
    access: BTreeSet<Access>,
}

impl From<UnconfinedArguments> for Arguments {
    fn from(arguments: UnconfinedArguments) -> Self {
        Self {
            command: arguments.command,
            cwd: arguments.cwd,
            timeout_seconds: arguments.timeout_seconds,
            access: Some(arguments.access),
        }
    }
}

// The names are those of [`Access`]. The doc comments are part of the schema that models read.
/// Access that a command can request.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(dead_code, reason = "only its schema is used")]
enum AccessSchema {
    /// Access to the network of this machine.
    Network,
    /// Writing to `.git`, as `git commit` does, but not to its hooks and configuration.
    Git,
}

#[derive(Debug, Serialize)]
struct CommandResult {
    /// Missing if the command was ended by a signal or because its time was up.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(skip_serializing_if = "is_false")]
    timed_out: bool,
    stdout: String,
    stderr: String,
    /// The number of bytes that are missing from the middle of the output.
    #[serde(skip_serializing_if = "is_zero")]
    bytes_left_out: u64,
    duration_ms: u64,
    /// Whether something that the command had started was still running, and was ended with it.
    #[serde(skip_serializing_if = "is_false")]
    left_running: bool,
    /// Repositories and the like that appeared while the command ran without access to git: they were renamed, with
    /// `.set-aside` appended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    set_aside: Vec<String>,
    /// Files that changed while the command ran and that the user's git reads or runs, because a repository's
    /// configuration names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed_for_git: Vec<String>,
    /// The access that the command could have requested, if it failed and lack of access may be the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    without_access: Vec<Access>,
    /// The repository of the command's folder, if no command can write it and the command failed, possibly because of
    /// that.
    #[serde(skip_serializing_if = "Option::is_none")]
    repository_outside: Option<String>,
    /// The kinds of programs in the folder's repository that git does not run in commands, if the command could write
    /// to the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    repository_runs_no: Option<&'static str>,
    summary: String,
}

/// How a command ended.
#[derive(Debug)]
enum Ending {
    Exited(Ended),
    TimedOut { aftermath: Aftermath },
}

async fn run(
    root: Arc<ProjectRoot>,
    arguments: Arguments,
    confinement: Confinement,
    variables: Arc<[String]>,
    ctx: ToolContext,
) -> Result<CommandResult, ToolError> {
    check(&arguments.command)?;
    let limit = arguments
        .timeout_seconds
        .map_or(COMMAND_DEFAULT_TIMEOUT, |limit| {
            Duration::from_secs(limit.get())
        })
        .min(COMMAND_MAX_TIMEOUT);
    let (command, cwd) = (arguments.command.clone(), arguments.cwd);
    let requested = arguments.access.unwrap_or_default();
    let access = requested.clone();
    let trace = ctx.trace.clone();
    // If nothing confines commands, all of them have access to git.
    let may_use_git = confinement == Confinement::Sandbox || command.contains("git");
    let writes_git = may_use_git && requested.contains(&Access::Git);
    let started = Instant::now();
    let (running, outside, runs_no) = blocking::run(&ctx, move |_| {
        let folder = match root.locate(cwd.as_deref().unwrap_or_default())? {
            Located::Folder(folder) => folder,
            Located::File(file) => {
                return Err(FileError::NotFolder {
                    path: shown(&file.path),
                }
                .into());
            }
        };
        let outside = match confinement {
            Confinement::Sandbox => repository::outside(root.path(), &folder.path),
            Confinement::None => None,
        };
        let runs_no = match outside {
            None if writes_git => repository::not_run(confinement, root.path(), &folder.path),
            _ => None,
        };
        let trace = trace.as_ref();
        let running = confinement.start(&command, &root, &folder, access, trace, &variables);
        running.map(|running| (running, outside, runs_no))
    })
    .await?;
    let (ending, stdout, stderr) = watch(running, limit, &ctx).await?;
    let duration = started.elapsed();
    let mut ran = report(&arguments.command, ending, stdout, stderr, duration);
    ran.repository_runs_no = runs_no;
    if let Some(what) = runs_no {
        let sentence = format!(" The repository's {what} do not run in commands.");
        ran.summary.push_str(&sentence);
    }
    // Like `grep` when it finds nothing. A command that met a restriction says so on either output, as with `2>&1`.
    let says_nothing = ran.stdout.is_empty() && ran.stderr.is_empty();
    let is_an_answer = ran.exit_code == Some(1) && says_nothing;
    if ran.exit_code != Some(0) && !is_an_answer {
        let all = Access::ALL.into_iter();
        ran.without_access = all.filter(|access| !requested.contains(access)).collect();
        // Git removes a file before its filter writes the replacement.
        let mut lines = ran.stdout.lines().chain(ran.stderr.lines());
        if lines.any(|line| line.contains(": smudge filter ") && line.ends_with(" failed")) {
            ran.summary.push_str(FILE_IS_GONE);
        }
        let is_about_git = requested.contains(&Access::Git) || arguments.command.contains("git");
        if let Some(repository) = outside.filter(|_| is_about_git) {
            // The user should not be asked for access that would not help.
            ran.without_access.retain(|access| *access != Access::Git);
            let repository = one_line(&repository.display().to_string(), MAX_QUOTED_CHARS);
            ran.summary.push_str(&out_of_reach(&repository));
            ran.repository_outside = Some(repository);
        }
    }
    Ok(ran)
}

fn check(command: &str) -> Result<(), ToolError> {
    if command.trim().is_empty() {
        return Err(ToolError::permanent(
            "invalid_command: the command is empty",
        ));
    }
    if command.len() > COMMAND_MAX_BYTES {
        return Err(ToolError::permanent(format!(
            "invalid_command: the command has more than {COMMAND_MAX_BYTES} bytes; write a script with write_file and run it"
        )));
    }
    if command.contains('\0') {
        return Err(ToolError::permanent(
            "invalid_command: the command contains a NUL character",
        ));
    }
    Ok(())
}

/// Reads the command's output until it ends, its time is up or the call is cancelled. After that, none of its processes
/// is running.
async fn watch(
    mut running: Running,
    limit: Duration,
    ctx: &ToolContext,
) -> Result<(Ending, Collected, Collected), ToolError> {
    let Some((stdout, stderr)) = running.output() else {
        return Err(ToolError::new("the command's output cannot be read"));
    };
    let live = LiveOutput::to(&ctx.progress);
    let (mut out, mut err) = (Collected::default(), Collected::default());
    let ending = {
        let reading = async { tokio::join!(out.read(stdout, &live), err.read(stderr, &live)) };
        let mut reading = std::pin::pin!(reading);
        let mut has_all = false;
        let exit = async {
            let mut exit = std::pin::pin!(running.wait());
            loop {
                tokio::select! {
                    status = &mut exit => return status,
                    _ = &mut reading, if !has_all => has_all = true,
                }
            }
        };
        let exit = ctx.cancellation.run_until_cancelled(timeout(limit, exit));
        let ending = match exit.await {
            None => {
                let aftermath = running.end().await;
                return Err(cancelled(&aftermath));
            }
            Some(Err(_)) => Ending::TimedOut {
                aftermath: running.end().await,
            },
            Some(Ok(ended)) => Ending::Exited(ended?),
        };
        if !has_all {
            // The rest of the output in the pipes. If it does not end in time, what has been read is used.
            let _ended = timeout(DRAIN, reading).await;
        }
        ending
    };
    Ok((ending, out, err))
}

fn cancelled(aftermath: &Aftermath) -> ToolError {
    match about(aftermath) {
        nothing if nothing.is_empty() => Cancelled.into(),
        sentences => ToolError::temporary(format!("{Cancelled}.{sentences}")),
    }
}

/// Returns sentences about what was set aside or changed; empty if there is nothing to report.
fn about(aftermath: &Aftermath) -> String {
    let sentence = |paths: &[String], what: &str| {
        let names = one_line(&paths.join(", "), MAX_QUOTED_CHARS);
        match paths.is_empty() {
            true => String::new(),
            false => format!(" While it ran, {names} {what}"),
        }
    };
    [
        sentence(
            &aftermath.set_aside,
            "appeared, which requires access to git: renamed with the suffix `.set-aside`.",
        ),
        sentence(
            &aftermath.named,
            "appeared or now leads elsewhere, which the user's git would read or run and only the user may create: \
             renamed with the suffix `.set-aside`.",
        ),
        sentence(
            &aftermath.changed,
            "changed, which the user's git reads or runs because its configuration names it: tell the user.",
        ),
    ]
    .concat()
}

/// Returns a sentence about a repository outside the project.
fn out_of_reach(repository: &str) -> String {
    format!(
        " The git repository of this folder, {repository}, is outside the project: no command can write to it, whatever \
         access it has. Leave that to the user."
    )
}

fn report(
    command: &str,
    ending: Ending,
    stdout: Collected,
    stderr: Collected,
    duration: Duration,
) -> CommandResult {
    let left_running = matches!(&ending, Ending::Exited(ended) if ended.left_running);
    let (exit_code, signal, aftermath, timed_out) = match ending {
        Ending::Exited(ended) => (ended.exit_code, ended.signal, ended.aftermath, false),
        Ending::TimedOut { aftermath } => (None, None, aftermath, true),
    };
    let how = match (exit_code, signal) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "was stopped because it timed out".to_owned(),
    };
    let command = one_line(command, MAX_QUOTED_CHARS);
    let mut summary = format!("`{command}` {how} after {:.1} s.", duration.as_secs_f64());
    if left_running {
        summary.push_str(" Processes that it had started were still running and were stopped.");
    }
    summary.push_str(&about(&aftermath));
    CommandResult {
        summary,
        set_aside: aftermath.renamed(),
        changed_for_git: aftermath.changed,
        exit_code,
        signal,
        timed_out,
        left_running,
        bytes_left_out: stdout.left_out() + stderr.left_out(),
        stdout: stdout.into_text(),
        stderr: stderr.into_text(),
        duration_ms: whole_millis(duration),
        without_access: Vec::new(),
        repository_outside: None,
        repository_runs_no: None,
    }
}
