//! Finds and reads the sources of configuration.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::Layers;
use super::error::ConfigError;
use super::layer::Layer;
use super::origin::Origin;
use super::sources::{FlagValue, Sources};
use crate::environment::Environment;
use crate::names::shown;

/// The name of the file, in the working directory and in the user's configuration folder.
pub(crate) const FILE_NAME: &str = "neuraxis.toml";

/// What the names of variables that set keys begin with.
const PREFIX: &str = "NEURAXIS_";

/// The variable with our prefix that sets no key: it says what is logged.
const LOG_VARIABLE: &str = "NEURAXIS_LOG";

/// What separates the names of nested keys in the name of a variable.
const SEPARATOR: &str = "__";

/// The most bytes of a file.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Reads all sources, the weakest first; with the files that were found.
pub(super) fn layers(
    environment: &Environment,
    sources: &Sources,
) -> Result<(Layers, Vec<PathBuf>), ConfigError> {
    let (mut layers, files) = files(environment, sources.file())?;
    for (name, value) in environment.variables() {
        layers.extend(variable(name, value)?);
    }
    for FlagValue { flag, key, value } in sources.flags() {
        layers.push(Layer::of_text(&Origin::Flag(flag.clone()), key, value)?);
    }
    Ok((Layers(layers), files))
}

fn files(
    environment: &Environment,
    only: Option<&Path>,
) -> Result<(Vec<Layer>, Vec<PathBuf>), ConfigError> {
    let working_dir = environment.working_dir();
    if let Some(path) = only {
        let shown = relative(path, working_dir);
        let text = read(&working_dir.join(path)).map_err(|fault| fault.of(path))?;
        return Ok((vec![Layer::of_file(shown.clone(), &text)?], vec![shown]));
    }
    let (mut layers, mut files) = (Vec::new(), Vec::new());
    for folder in environment.config_dir().into_iter().chain([working_dir]) {
        let path = folder.join(FILE_NAME);
        let shown = relative(&path, working_dir);
        match read(&path) {
            Err(Unread::Failed(error)) if is_absent(&error) => continue,
            Err(fault) => return Err(fault.of(&shown)),
            // Whoever works in the configuration folder itself has one file, not two.
            Ok(_) if files.contains(&shown) => continue,
            Ok(text) => layers.push(Layer::of_file(shown.clone(), &text)?),
        }
        files.push(shown);
    }
    Ok((layers, files))
}

fn variable(name: &OsStr, value: &OsStr) -> Result<Option<Layer>, ConfigError> {
    // A name that is not Unicode does not matter unless it claims to be ours.
    let name = name.to_string_lossy();
    if name == LOG_VARIABLE {
        return Ok(None);
    }
    let Some(path) = name.strip_prefix(PREFIX) else {
        return Ok(None);
    };
    let Some(value) = value.to_str() else {
        return Err(ConfigError::NotUnicode { name: shown(&name) });
    };
    let key = path.to_lowercase().replace(SEPARATOR, ".");
    Layer::of_text(&Origin::Variable(shown(&name)), &key, value).map(Some)
}

/// Why a file was not read.
enum Unread {
    Failed(io::Error),
    TooLarge,
}

impl Unread {
    fn of(self, path: &Path) -> ConfigError {
        let path = path.to_owned();
        match self {
            Self::Failed(source) => ConfigError::Read { path, source },
            Self::TooLarge => ConfigError::TooLarge {
                path,
                most: MAX_FILE_BYTES,
            },
        }
    }
}

fn read(path: &Path) -> Result<String, Unread> {
    let file = File::open(path).map_err(Unread::Failed)?;
    let mut bytes = Vec::new();
    let mut bounded = file.take(MAX_FILE_BYTES + 1);
    bounded.read_to_end(&mut bytes).map_err(Unread::Failed)?;
    if bounded.limit() == 0 {
        return Err(Unread::TooLarge);
    }
    let not_text = |error| Unread::Failed(io::Error::new(io::ErrorKind::InvalidData, error));
    String::from_utf8(bytes).map_err(not_text)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Returns a path as it is shown: relative where it stands in the working directory.
fn relative(path: &Path, working_dir: &Path) -> PathBuf {
    path.strip_prefix(working_dir).unwrap_or(path).to_owned()
}
