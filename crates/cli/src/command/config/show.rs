//! `neuraxis config show`: what is in force, and from where.

use clap::Args;

use crate::error::CommandError;
use crate::output::Output;
use crate::setup::Setup;

const EXAMPLES: &str = "\
Examples:
  neuraxis config show
  neuraxis config show | grep -v '# default'
  NEURAXIS_MODES__MODERATE__MAX_TURNS=5 neuraxis config show";

/// Print every value in force, and where it comes from
///
/// Each line is TOML: a key, its value, and after the # the file and line, the variable or the flag that sets it.
/// Secrets are hidden. What no file of the working directory may set is commented out.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Show {}

impl Show {
    pub(crate) fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let config = setup.config()?;
        let files: Vec<String> = config
            .files()
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        let mut text = match files.as_slice() {
            [] => "# no file was found\n".to_owned(),
            files => format!("# read: {}\n", files.join(", ")),
        };
        if config.models().is_empty() {
            text.push_str("# no [models.*]: a model server on this machine answers, and without one, rules do\n");
        }
        for setting in config.settings() {
            let mark = if setting.may_stand_anywhere() {
                ""
            } else {
                "# "
            };
            let (key, value, origin) = (setting.key, setting.value, setting.origin);
            text.push_str(&format!("{mark}{key} = {value}  # {origin}\n"));
        }
        Output::new().text(&text)?;
        Ok(())
    }
}
