//! Finds and reads the sources of configuration.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::Layers;
use super::error::ConfigError;
use super::layer::{Layer, TextSource};
use super::models::Providers;
use super::origin::Origin;
use super::project;
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

/// How strong variables are. Files are weaker: there are two at the most.
const RANK_OF_VARIABLES: usize = 2;

/// How strong flags are.
const RANK_OF_FLAGS: usize = 3;

/// What the sources say.
pub(super) struct Reading {
    /// The sources, the weakest first.
    pub(super) layers: Layers,
    /// Which provider each role has.
    pub(super) providers: Providers,
    /// The files that were found.
    pub(super) files: Vec<PathBuf>,
}

/// Reads all sources.
pub(super) fn read_all(
    environment: &Environment,
    sources: &Sources,
) -> Result<Reading, ConfigError> {
    let (mut layers, files) = files(environment, sources.file())?;
    let mut texts = Vec::new();
    for (name, value) in environment.variables() {
        texts.extend(variable(name, value)?);
    }
    texts.extend(sources.flags().iter().map(flag));
    let providers = providers(&layers, &texts);
    for layer in &layers {
        layer.check_models(&providers)?;
    }
    for text in &texts {
        layers.push(Layer::of_text(text, &providers)?);
    }
    for layer in &mut layers {
        layer.drop_superseded(&providers);
    }
    Ok(Reading {
        layers: Layers(layers),
        providers,
        files,
    })
}

/// Finds out who the providers are, which decides what else may be said.
fn providers(files: &[Layer], texts: &[TextSource]) -> Providers {
    let texts: Vec<_> = texts.iter().map(TextSource::said).collect();
    let files = files.iter().map(Layer::said);
    Providers::of(files.chain(texts.iter().map(|(rank, table)| (*rank, table))))
}

fn flag(FlagValue { flag, key, value }: &FlagValue) -> TextSource {
    TextSource {
        source: Origin::Flag(flag.clone()),
        rank: RANK_OF_FLAGS,
        key: key.clone(),
        text: value.clone(),
    }
}

fn files(
    environment: &Environment,
    only: Option<&Path>,
) -> Result<(Vec<Layer>, Vec<PathBuf>), ConfigError> {
    let working_dir = environment.working_dir();
    if let Some(path) = only {
        let shown = relative(path, working_dir);
        let text = read(&working_dir.join(path)).map_err(|fault| fault.of(path))?;
        return Ok((vec![Layer::of_file(shown.clone(), 0, &text)?], vec![shown]));
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
            Ok(text) => {
                let mut layer = Layer::of_file(shown.clone(), files.len(), &text)?;
                if environment.config_dir() != Some(folder) {
                    layer = layer.found();
                    project::check(&layer)?;
                }
                layers.push(layer);
            }
        }
        files.push(shown);
    }
    Ok((layers, files))
}

fn variable(name: &OsStr, value: &OsStr) -> Result<Option<TextSource>, ConfigError> {
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
    Ok(Some(TextSource {
        source: Origin::Variable(shown(&name)),
        rank: RANK_OF_VARIABLES,
        key: path.to_lowercase().replace(SEPARATOR, "."),
        text: value.to_owned(),
    }))
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
