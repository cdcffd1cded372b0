//! Shell completion: commands, options and current values, such as session ids. The shell runs this program for each
//! completion and passes the request in an environment variable.

use std::ffi::{OsStr, OsString};

use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use clap_complete::engine::CompletionCandidate;
use clap_complete::env::{CompleteEnv, Shells};
use neuraxis::RunStatus;
use neuraxis::engine::Sessions;
use neuraxis::ports::{RunFilter, RunSummary, SessionFilter};
use neuraxis_app::{Config, OpenStore, Prompts, tool_specs};

use crate::arguments::{Arguments, ConfigurationArguments};
use crate::harmless::one_line;
use crate::question::ASK;
use crate::setup::{Loaded, Setup, with_store};

/// The environment variable that carries the shell's request.
const VARIABLE: &str = "_NEURAXIS_COMPLETE";

/// The function that bash calls instead of the generated one. Words that are quoted, such as a file name with a space
/// in it, are completed without their quoting and quoted again. Bash splits words at `:` and `=` and replaces only the
/// part after them; such words are completed as a whole and proposed without the part before.
const QUOTING: &str = r#"
_neuraxis_complete() {
    local line=$COMP_LINE words=() before= prefix= word index
    for index in "${!COMP_WORDS[@]}"; do
        word=${COMP_WORDS[index]}
        if [[ $line != [[:space:]]* && ( $word == [=:]* || $before == *[=:] ) ]]; then
            prefix+=$before
            words[${#words[@]} - 1]+=$word
        else
            prefix=
            words+=("$word")
        fi
        [[ $index -ge $COMP_CWORD ]] && break
        line=${line#*"$word"} before=$word
    done
    [[ $word == [=:]* ]] && prefix+=$word
    prefix=${prefix//\\/}
    local COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1))
    _clap_complete_neuraxis "$1" "$prefix${2//\\/}" "$3"
    COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    for word in "${COMPREPLY[@]}"; do
        if [[ $word == *[^[:alnum:]~/._:=@%+,-]* ]]; then
            compopt -o filenames 2> /dev/null
            break
        fi
    done
}
"#;

/// What zsh does first: zsh would quote the `~` of a proposal, which would then not name a file.
const HOME: &str = r"    if [[ ${words[CURRENT]} == \~* ]]; then
        _files
        return
    fi
";

/// The maximum number of sessions or runs to propose.
const MAX_IDS: usize = 20;

/// How many of the newest runs are searched for waiting ones.
const MAX_LOOKED_AT: usize = 10_000;

/// Answers a shell's completion request, and then ends the program.
pub(crate) fn answer() {
    CompleteEnv::with_factory(understood)
        .var(VARIABLE)
        .complete();
}

/// Returns the command line to complete. Without a command, the options of `ask` are accepted. They are proposed from
/// the second word on, or once an option is typed: a single word may be the name of a command.
fn understood() -> Command {
    let command = Arguments::command();
    // The program's name comes first.
    let words = std::env::args_os().skip_while(|word| word != "--").skip(2);
    let words: Vec<OsString> = words.collect();
    let is_option = |word: &OsString| word.to_string_lossy().starts_with('-');
    if words.len() < 2 && !words.iter().any(is_option) {
        return command;
    }
    let ask = command.find_subcommand(ASK);
    let options: Vec<Arg> = ask.map_or_else(Vec::new, |ask| ask.get_arguments().cloned().collect());
    command.args(options)
}

/// Returns the script with which a shell registers its completion.
pub(crate) fn registration(shell: Shell) -> Option<Vec<u8>> {
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string())?;
    let mut script = Vec::new();
    let name = "neuraxis";
    completer
        .write_registration(VARIABLE, name, name, name, &mut script)
        .ok()?;
    let script = String::from_utf8(script).ok()?;
    let script = match shell {
        Shell::Bash => {
            script.replace("-F _clap_complete_neuraxis ", "-F _neuraxis_complete ") + QUOTING
        }
        Shell::Zsh => script.replacen("() {\n", &format!("() {{\n{HOME}"), 1),
        _ => script,
    };
    Some(script.into_bytes())
}

/// Proposes modes.
pub(crate) fn modes() -> Vec<CompletionCandidate> {
    of_config(|config| names(config.policy().modes()))
}

/// Proposes channels.
pub(crate) fn channels() -> Vec<CompletionCandidate> {
    of_config(|config| names(config.policy().channels()))
}

/// Proposes agents.
pub(crate) fn agents() -> Vec<CompletionCandidate> {
    of_config(|config| names(config.policy().agents()))
}

/// Proposes the user's saved prompts.
pub(crate) fn prompts() -> Vec<CompletionCandidate> {
    let Some(loaded) = loaded() else {
        return Vec::new();
    };
    let prompts = Prompts::read(&loaded.config, &loaded.environment);
    let list = prompts.list();
    list.map(|(name, about)| candidate(name, Some(&about)))
        .collect()
}

/// Proposes plans.
pub(crate) fn plans() -> Vec<CompletionCandidate> {
    of_config(|config| names(config.policy().config().plans.keys()))
}

/// Proposes the configured MCP servers.
pub(crate) fn mcp_servers() -> Vec<CompletionCandidate> {
    of_config(|config| names(config.mcp().servers.keys()))
}

/// Proposes the built-in tools. MCP servers are not started to list theirs.
pub(crate) fn tools() -> Vec<CompletionCandidate> {
    let Some(loaded) = loaded() else {
        return Vec::new();
    };
    let specs = tool_specs(&loaded.config, &loaded.environment).unwrap_or_default();
    let names = specs.iter().map(|spec| spec.name.as_str());
    names.map(CompletionCandidate::new).collect()
}

/// Proposes the roles that have a model, and their models.
pub(crate) fn models() -> Vec<CompletionCandidate> {
    of_config(|config| {
        let is_model = |key: &str| key.starts_with("models.") && key.ends_with(".model");
        let settings = config.settings().into_iter();
        let models = settings.filter(|setting| is_model(&setting.key));
        let models = models.map(|setting| setting.value.trim_matches('"').to_owned());
        let roles = names(config.models().keys()).into_iter();
        roles
            .chain(models)
            .filter(|name| !name.is_empty())
            .collect()
    })
}

/// Proposes the newest sessions whose ids begin with the typed text.
pub(crate) fn sessions(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else {
        return Vec::new();
    };
    let filter = SessionFilter::default().beginning_with(typed);
    let found = of_store(async |sessions| {
        let mut each = sessions.each(filter.limited_to(MAX_IDS));
        let mut found = Vec::new();
        while found.len() < MAX_IDS
            && let Ok(Some(session)) = each.next().await
        {
            let runs = sessions.runs(&session.id).await.ok().flatten();
            let began = runs.and_then(|runs| runs.first()?.text.clone());
            let about = session.title.or(began);
            found.push(candidate(session.id.as_str(), about.as_deref()));
        }
        found
    });
    beginning_with(typed, found)
}

/// Proposes the newest runs whose ids begin with the typed text.
pub(crate) fn runs(typed: &OsStr) -> Vec<CompletionCandidate> {
    runs_of(typed, MAX_IDS, |_| true)
}

/// Like [`runs`], but only those that wait for a decision, among as many as can be searched while a shell waits.
pub(crate) fn waiting_runs(typed: &OsStr) -> Vec<CompletionCandidate> {
    runs_of(typed, MAX_LOOKED_AT, |run| run.status == RunStatus::Waiting)
}

fn runs_of(
    typed: &OsStr,
    most: usize,
    is_meant: impl Fn(&RunSummary) -> bool,
) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else {
        return Vec::new();
    };
    let Some(filter) = RunFilter::beginning_with(typed) else {
        return Vec::new();
    };
    let found = of_store(async |sessions| {
        let page = most.min(RunFilter::MAX_LIMIT);
        let mut each = sessions.each_run(filter.limited_to(page));
        let (mut found, mut seen) = (Vec::new(), 0);
        while found.len() < MAX_IDS
            && seen < most
            && let Ok(Some(run)) = each.next().await
        {
            seen += 1;
            if is_meant(&run) {
                found.push(candidate(&run.run_id.to_string(), run.text.as_deref()));
            }
        }
        found
    });
    beginning_with(typed, found)
}

/// Removes proposals that do not begin with the typed text: a store may match the beginning of an id less strictly.
fn beginning_with(typed: &str, mut found: Vec<CompletionCandidate>) -> Vec<CompletionCandidate> {
    let goes_on = |id: &OsStr| id.to_str().is_some_and(|id| id.starts_with(typed));
    found.retain(|candidate| goes_on(candidate.get_value()));
    found
}

fn candidate(id: &str, about: Option<&str>) -> CompletionCandidate {
    let about = about.map(|about| one_line(about).into());
    CompletionCandidate::new(id).help(about)
}

fn names<T: ToString>(all: impl Iterator<Item = T>) -> Vec<String> {
    all.map(|name| name.to_string()).collect()
}

/// Returns `None` if the configuration cannot be read, so nothing is proposed: the command itself reports why.
fn loaded() -> Option<Loaded> {
    let arguments = ConfigurationArguments {
        config: None,
        settings: Vec::new(),
    };
    Setup::new(arguments).load().ok()
}

fn of_config(values: impl FnOnce(&Config) -> Vec<String>) -> Vec<CompletionCandidate> {
    let values = loaded().map(|loaded| values(&loaded.config));
    let values = values.unwrap_or_default().into_iter();
    values.map(CompletionCandidate::new).collect()
}

fn of_store(
    values: impl AsyncFnOnce(&Sessions) -> Vec<CompletionCandidate>,
) -> Vec<CompletionCandidate> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let (Some(loaded), Ok(runtime)) = (loaded(), runtime) else {
        return Vec::new();
    };
    runtime.block_on(async {
        // Notices about ignored settings are not shown: they would appear in the line being typed.
        match OpenStore::open_without_upgrade(&loaded.config, &loaded.environment).await {
            Ok(open) => with_store(open, values).await,
            Err(_) => Vec::new(),
        }
    })
}
