//! What is on this machine: configuration, store, project folder, terminal.

use std::fs;
use std::io::{self, IsTerminal};

use neuraxis_app::{BuildError, Choice, Config, Environment, OpenStore};

use super::check::{Check, Outcome};
use crate::error::CommandError;

const SUBJECT: &str = "this machine";

/// Looks at everything but the models.
pub(super) async fn all(config: &Config, environment: &Environment) -> Vec<Check> {
    vec![
        files(config, environment),
        store(config).await,
        project(config),
        terminal(),
    ]
}

/// Tells of a configuration that cannot be read.
pub(super) fn broken_configuration(error: &CommandError) -> Check {
    Check::new(SUBJECT, "files", Outcome::Failed, error.in_one_line())
        .fix("`neuraxis config init --config new.toml` writes a file that explains every key")
}

/// Tells why these models serve.
pub(super) fn choice(choice: &Choice) -> Check {
    let (outcome, detail) = match choice {
        Choice::Configured => (Outcome::Ok, "configured".to_owned()),
        Choice::Offline => (Outcome::Warning, choice.notice().unwrap_or_default()),
        _ => (Outcome::Ok, choice.notice().unwrap_or_default()),
    };
    let check = Check::new(SUBJECT, "models", outcome, detail);
    match outcome {
        Outcome::Warning => check.fix(
            "export OPENAI_API_KEY or DEEPSEEK_API_KEY, start a llama-server, or set [models.reasoning]; docs/models.md \
             says how",
        ),
        _ => check,
    }
}

fn files(config: &Config, environment: &Environment) -> Check {
    let files = config.files().iter();
    let files: Vec<String> = files.map(|file| file.display().to_string()).collect();
    if !files.is_empty() {
        return Check::new(SUBJECT, "files", Outcome::Ok, files.join(", "));
    }
    let user = environment.config_dir();
    let user = user.map(|folder| format!(", nor in {}", folder.display()));
    let user = user.unwrap_or_default();
    let detail = format!("no neuraxis.toml here{user}: the defaults are in force");
    Check::new(SUBJECT, "files", Outcome::Ok, detail)
}

async fn store(config: &Config) -> Check {
    match OpenStore::open(config).await {
        Ok(store) => {
            store.close().await;
            let setting = config.settings().into_iter();
            let mut url = setting.filter(|setting| setting.key == "store.url");
            let url = url.next().map(|setting| setting.value).unwrap_or_default();
            Check::new(SUBJECT, "store", Outcome::Ok, url)
        }
        Err(error) => failed("store", &error).fix("`neuraxis config show` says where it was set"),
    }
}

fn project(config: &Config) -> Check {
    let root = config.project_root();
    match fs::read_dir(root) {
        Ok(_) => Check::new(SUBJECT, "project", Outcome::Ok, root.display().to_string()),
        Err(error) => {
            let detail = format!("{}: {error}", root.display());
            Check::new(SUBJECT, "project", Outcome::Failed, detail)
                .fix("set tools.root to a folder that you can read")
        }
    }
}

fn terminal() -> Check {
    let word = |is_terminal: bool| {
        if is_terminal {
            "a terminal"
        } else {
            "no terminal"
        }
    };
    let output = word(io::stdout().is_terminal());
    let progress = word(io::stderr().is_terminal());
    let detail = format!("standard output is {output}, standard error is {progress}");
    Check::new(SUBJECT, "terminal", Outcome::Ok, detail)
}

fn failed(name: &'static str, error: &BuildError) -> Check {
    Check::new(SUBJECT, name, Outcome::Failed, error.to_string())
}
