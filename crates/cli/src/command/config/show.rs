//! `neuraxis config show`: prints the effective configuration and where it comes from.

use clap::Args;
use neuraxis_app::Config;

use crate::error::CommandError;
use crate::harmless::one_line;
use crate::output::Output;
use crate::setup::Setup;
use crate::unknown::unknown;

const EXAMPLES: &str = "\
Examples:
  neuraxis config show
  neuraxis config show models store.url
  neuraxis config show | grep -v '# default'
  NEURAXIS_MODES__MODERATE__MAX_TURNS=5 neuraxis config show";

/// Print every effective value and where it comes from
///
/// Each line is TOML: a key, its value, and after the # the file and line, the variable or the flag that sets it.
/// Secrets are hidden. Settings of an untrusted neuraxis.toml are ignored and listed in comments at the top.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {
    /// Only these keys and those below them, such as models or modes.moderate
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
}

impl Show {
    pub(crate) fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let config = setup.load()?.config;
        let files: Vec<String> = config
            .files()
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        let mut text = match files.as_slice() {
            [] => "# no file found\n".to_owned(),
            files => format!("# read: {}\n", files.join(", ")),
        };
        if config.models().is_empty() {
            text.push_str("# no [models.*]: the first of these that is available answers: a key that [discovery] \
                           looks for, a model server on\n# this machine, rules (`neuraxis models` shows which)\n");
        }
        text.push_str(&ignored(&config));
        let is_wanted = |key: &str| {
            let below = |wanted: &String| {
                let rest = key.strip_prefix(wanted.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            self.keys.is_empty() || self.keys.iter().any(below)
        };
        if !self.keys.is_empty() {
            text.clear();
        }
        let settings = config.settings();
        let mut settings = settings
            .into_iter()
            .filter(|it| is_wanted(&it.key))
            .peekable();
        if settings.peek().is_none() {
            return Err(unknown_key(&self.keys.join(", "), &config));
        }
        for setting in settings {
            let (key, value, origin) = (setting.key, setting.value, setting.origin);
            text.push_str(&format!("{key} = {value}  # {origin}\n"));
        }
        Output::new().text(&text)?;
        Ok(())
    }
}

/// Returns the error for a key that no setting has or begins with.
fn unknown_key(key: &str, config: &Config) -> CommandError {
    let settings = config.settings();
    let whole = settings.iter().map(|setting| setting.key.as_str());
    let sections = whole.clone().filter_map(|key| Some(key.split_once('.')?.0));
    unknown(
        "key",
        key,
        sections.chain(whole),
        "`neuraxis config show` lists all keys",
    )
}

/// Lists which settings in the file of the working directory are ignored.
fn ignored(config: &Config) -> String {
    let Some(found) = config.found() else {
        return String::new();
    };
    let mut text = String::new();
    if let Some(notice) = found.notice() {
        text.push_str(&format!("# {}\n", one_line(&notice)));
    }
    for change in found.changes() {
        let (key, value) = (one_line(&change.key), one_line(&change.value));
        text.push_str(&format!("# ignored: {key} = {value}\n"));
    }
    text
}
