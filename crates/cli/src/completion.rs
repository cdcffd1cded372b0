//! What a shell completes: commands and options, and the values there are just now, such as ids of sessions. The shell asks
//! this program each time, in a variable of its own.

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

/// The variable in which a shell asks.
const VARIABLE: &str = "_NEURAXIS_COMPLETE";

/// What bash calls in place of the function that it is given: a name that it would read as something else, such as one of a file
/// with a space in it, is taken without its quoting, and completed with it. Bash splits words at `:` and `=`, and puts what is
/// proposed in the place of what stands behind: they are asked about as a whole, and proposed without what stands before.
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

/// What zsh does first: it would quote the `~` of what is proposed, which would name no file then.
const HOME: &str = r"    if [[ ${words[CURRENT]} == \~* ]]; then
        _files
        return
    fi
";

/// How many sessions or runs are proposed.
const MAX_IDS: usize = 20;

/// How many of the newest runs are looked at for those that wait.
const MAX_LOOKED_AT: usize = 10_000;

/// Answers a shell that asks, and ends the program then.
pub(crate) fn answer() {
    CompleteEnv::with_factory(understood)
        .var(VARIABLE)
        .complete();
}

/// Returns what is understood on the command line: without a command, it takes the options of the one that answers a question. They
/// are proposed once it is not the name of a command that is typed.
fn understood() -> Command {
    let command = Arguments::command();
    // The name of this program stands first.
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

/// Returns what a shell has to read so that it asks.
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

/// The modes there are.
pub(crate) fn modes() -> Vec<CompletionCandidate> {
    of_config(|config| names(config.policy().modes()))
}

/// The channels there are.
pub(crate) fn channels() -> Vec<CompletionCandidate> {
    of_config(|config| names(config.policy().channels()))
}

/// The agents there are.
pub(crate) fn agents() -> Vec<CompletionCandidate> {
    of_config(|config| names(config.policy().agents()))
}

/// The prompts that the user keeps.
pub(crate) fn prompts() -> Vec<CompletionCandidate> {
    let Some(loaded) = loaded() else {
        return Vec::new();
    };
    let prompts = Prompts::read(&loaded.config, &loaded.environment);
    let list = prompts.list();
    list.map(|(name, about)| candidate(name, Some(&about)))
        .collect()
}

/// The plans there are.
pub(crate) fn plans() -> Vec<CompletionCandidate> {
    of_config(|config| names(config.policy().config().plans.keys()))
}

/// The MCP servers that are configured.
pub(crate) fn mcp_servers() -> Vec<CompletionCandidate> {
    of_config(|config| names(config.mcp().servers.keys()))
}

/// The tools of this program: no MCP server is started to be asked for its own.
pub(crate) fn tools() -> Vec<CompletionCandidate> {
    let Some(loaded) = loaded() else {
        return Vec::new();
    };
    let specs = tool_specs(&loaded.config, &loaded.environment).unwrap_or_default();
    let names = specs.iter().map(|spec| spec.name.as_str());
    names.map(CompletionCandidate::new).collect()
}

/// The roles that have a model, and their models.
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

/// The newest sessions of which the ids begin with what is typed.
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
            let about = runs.and_then(|runs| runs.first()?.text.clone());
            found.push(candidate(session.id.as_str(), about.as_deref()));
        }
        found
    });
    beginning_with(typed, found)
}

/// The newest runs of which the ids begin with what is typed.
pub(crate) fn runs(typed: &OsStr) -> Vec<CompletionCandidate> {
    runs_of(typed, MAX_IDS, |_| true)
}

/// As [`runs`], those that wait for somebody, among so many as a shell may wait for.
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

/// Leaves out what a shell would put in the place of what is typed: a store may take the beginning of an id less exactly.
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

/// Nothing is proposed where the configuration cannot be read: the command itself says why.
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
        // Nothing is said of what is ignored: it would stand in the line that is being typed.
        match OpenStore::open_to_look(&loaded.config, &loaded.environment).await {
            Ok(open) => with_store(open, values).await,
            Err(_) => Vec::new(),
        }
    })
}
