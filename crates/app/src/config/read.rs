//! Finds and reads the sources of configuration.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use neuraxis_brainstem::PolicyConfig;
use neuraxis_core::utf8_text;
use toml::Table;

use super::Layers;
use super::error::ConfigError;
use super::found::{self, FoundFile, is_absent};
use super::key::as_key;
use super::layer::{Layer, TextSource};
use super::models::Providers;
use super::origin::Origin;
use super::sources::{FlagValue, Sources};
use crate::environment::Environment;
use crate::names::shown;
use crate::private_file::{Links, open_regular};
use crate::trust::Trust;

/// The name of the file, in the working directory and in the user's configuration folder.
pub(crate) const FILE_NAME: &str = "neuraxis.toml";

/// The prefix of variables that set keys.
const PREFIX: &str = "NEURAXIS_";

/// The variable with this prefix that sets no key: it configures logging.
const LOG_VARIABLE: &str = "NEURAXIS_LOG";

/// Separates the names of nested keys in the name of a variable.
const SEPARATOR: &str = "__";

/// The tables that accept any name, in every section.
const OPEN_TABLES: [&str; 4] = ["env", "headers", "headers_env", "query"];

/// The protocols of a Kubernetes Service, as they appear in names of variables and in addresses.
const PROTOCOLS: [(&str, &str); 3] = [("TCP", "tcp://"), ("UDP", "udp://"), ("SCTP", "sctp://")];

/// The maximum size of a file in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The precedence of variables. Files have lower ranks: there are at most two.
pub(super) const RANK_OF_VARIABLES: usize = 2;

/// The precedence of flags.
const RANK_OF_FLAGS: usize = 3;

/// The policy that ships with the program.
static BUILT_IN: LazyLock<Table> = LazyLock::new(|| {
    #[expect(
        clippy::expect_used,
        reason = "the text ships with the policy, whose tests read it"
    )]
    toml::from_str(PolicyConfig::built_in_text()).expect("the built-in policy is readable")
});

/// The sources, read.
pub(super) struct LoadedSources {
    /// The sources, the weakest first.
    pub(super) layers: Layers,
    /// Which provider each role has.
    pub(super) providers: Providers,
    /// The files that were read.
    pub(super) files: Vec<PathBuf>,
    /// The file that was found in the working directory.
    pub(super) found: Option<FoundFile>,
    /// The content of that file, if it is untrusted: it is not among the sources yet.
    pub(super) untrusted: Option<Layer>,
}

/// The files, read.
#[derive(Default)]
struct Files {
    layers: Vec<Layer>,
    read: Vec<PathBuf>,
    found: Option<FoundFile>,
    untrusted: Option<Layer>,
}

/// Reads all sources.
pub(super) fn read_all(
    environment: &Environment,
    sources: &Sources,
) -> Result<LoadedSources, ConfigError> {
    let Files {
        mut layers,
        read: files,
        found,
        untrusted,
    } = match sources.file() {
        Some(file) => match named_file(environment, file) {
            Err(ConfigError::Read { source, .. })
                if sources.may_lack_file() && source.kind() == io::ErrorKind::NotFound =>
            {
                Files::default()
            }
            files => files?,
        },
        None => usual_files(environment, sources)?,
    };
    let mut texts = Vec::new();
    for (name, value) in environment.variables() {
        texts.extend(variable(name, value, &layers)?);
    }
    texts.extend(sources.flags().iter().map(flag));
    let providers = providers(&layers, &texts);
    for layer in &layers {
        layer.check_models(&providers)?;
    }
    for text in &texts {
        let layer = Layer::of_text(text, &providers);
        layers.push(layer.map_err(|error| with_separator(text, error, &providers))?);
    }
    for layer in &mut layers {
        layer.drop_superseded(&providers);
    }
    Ok(LoadedSources {
        layers: Layers(layers),
        providers,
        files,
        found,
        untrusted,
    })
}

/// Determines the providers, which decide what other keys are possible.
fn providers(files: &[Layer], texts: &[TextSource]) -> Providers {
    let texts: Vec<_> = texts.iter().map(TextSource::ranked_table).collect();
    let files = files.iter().map(Layer::ranked_table);
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

fn named_file(environment: &Environment, path: &Path) -> Result<Files, ConfigError> {
    let working_dir = environment.working_dir();
    let shown = relative(path, working_dir);
    let text = read(&working_dir.join(path)).map_err(|fault| fault.of(path))?;
    Ok(Files {
        layers: vec![Layer::of_file(shown.clone(), 0, &text)?],
        read: vec![shown],
        ..Files::default()
    })
}

/// Reads the user's own file, and that of the working directory.
fn usual_files(environment: &Environment, sources: &Sources) -> Result<Files, ConfigError> {
    let mut files = Files::default();
    let working_dir = environment.working_dir();
    if let Some(folder) = environment.config_dir() {
        let path = folder.join(FILE_NAME);
        let shown = relative(&path, working_dir);
        // Do not block on a pipe where a file is expected. A file that the user names may be of any kind.
        let opened = open_regular(&path, Links::Followed).map_err(ReadFailure::Failed);
        match opened.and_then(text_of) {
            Err(ReadFailure::Failed(error)) if is_absent(&error) => {}
            Err(fault) => return Err(fault.of(&shown)),
            Ok(text) => {
                files.layers.push(Layer::of_file(shown.clone(), 0, &text)?);
                files.read.push(shown);
            }
        }
        // If the working directory is the configuration folder, there is one file, not two.
        if is_same_folder(folder, working_dir) {
            return Ok(files);
        }
    }
    let Some((mut found, text)) = found::read_found_file(environment) else {
        return Ok(files);
    };
    let (path, rank) = (found.path().to_owned(), files.layers.len());
    if found.trust() == Trust::Trusted && sources.trusts_found() {
        files
            .layers
            .push(Layer::of_file(path.clone(), rank, &text)?.found());
    } else {
        match Layer::unchecked(path.clone(), rank, &text) {
            Ok(layer) => files.untrusted = Some(layer.found()),
            Err(error) => found.add_fault(error.to_string()),
        }
    }
    match found.fault() {
        None => files.read.push(path),
        // Its restrictions applied so far, and must not end because of a slip in a later change.
        Some(fault) if found.trust() == Trust::Changed && sources.trusts_found() => {
            let fault = fault.to_owned();
            return Err(ConfigError::BrokenSinceTrusted { path, fault });
        }
        Some(_) => {}
    }
    files.found = Some(found);
    Ok(files)
}

fn is_same_folder(one: &Path, other: &Path) -> bool {
    let real = |folder: &Path| folder.canonicalize().ok();
    one == other || real(one).is_some_and(|one| real(other) == Some(one))
}

fn variable(
    name: &OsStr,
    value: &OsStr,
    files: &[Layer],
) -> Result<Option<TextSource>, ConfigError> {
    // A name that is not Unicode does not matter unless it has our prefix.
    let name = name.to_string_lossy();
    if name == LOG_VARIABLE || is_of_a_service(&name, value) {
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
        key: key_of_variable(path, files),
        text: value.to_owned(),
    }))
}

/// Adds the variable that was most likely meant to the error, if one sets no key, but would set one with [`SEPARATOR`]
/// instead of one or two of its single underscores.
fn with_separator(text: &TextSource, error: ConfigError, providers: &Providers) -> ConfigError {
    let Origin::Variable(name) = &text.source else {
        return error;
    };
    let is_unknown = matches!(&error, ConfigError::Key { fault, .. } if fault.is_unknown_key());
    let Some(path) = name.strip_prefix(PREFIX).filter(|_| is_unknown) else {
        return error;
    };
    let once = separated(path);
    let twice = once.iter().flat_map(|path| separated(path));
    let twice: Vec<String> = twice.collect();
    let mut paths = once.iter().chain(&twice);
    let meant = paths.find(|path| {
        let text = TextSource {
            source: text.source.clone(),
            rank: text.rank,
            key: key_of_variable(path, &[]),
            text: text.text.clone(),
        };
        match Layer::of_text(&text, providers) {
            Ok(_) => true,
            Err(ConfigError::Key { fault, .. }) => fault.is_about_value(),
            Err(_) => false,
        }
    });
    match meant {
        Some(path) => ConfigError::NoSeparator {
            name: name.clone(),
            meant: format!("{PREFIX}{path}"),
        },
        None => error,
    }
}

/// Returns variants of a path, each with [`SEPARATOR`] instead of one of its single underscores. Skips underscores
/// after a table that accepts any name, where every variant is possible: `HEADERS_ENVS` more likely means
/// `HEADERS_ENV`.
fn separated(path: &str) -> Vec<String> {
    let is_open = |table: &str| {
        OPEN_TABLES
            .iter()
            .any(|open| open.eq_ignore_ascii_case(table))
    };
    let parts = path.match_indices('_').filter_map(|(at, _)| {
        let (before, after) = (path.get(..at)?, path.get(at.checked_add(1)?..)?);
        let is_single = !before.is_empty() && !before.ends_with('_') && !after.starts_with('_');
        let table = before.rsplit(SEPARATOR).next().unwrap_or_default();
        (is_single && !is_open(table)).then(|| format!("{before}{SEPARATOR}{after}"))
    });
    parts.collect()
}

/// Returns the path of the key that a variable sets. The name of a variable is usually in upper case. If a file has
/// exactly one name that differs only in case, that name is meant, unless a built-in name also matches. The part after
/// the `env` of an MCP server is the name of a variable of that program: its case is kept, and it may contain
/// [`SEPARATOR`].
fn key_of_variable(path: &str, files: &[Layer]) -> String {
    let tables = files.iter().map(|file| file.ranked_table().1);
    let mut tables: Vec<&Table> = tables.chain([&*BUILT_IN]).collect();
    let mut names: Vec<String> = Vec::new();
    let mut rest = Some(path);
    while let Some(path) = rest {
        let is_of_program = is_env_of_mcp(&names);
        let (part, below) = match path.split_once(SEPARATOR) {
            Some((part, below)) if !is_of_program => (part, Some(below)),
            _ => (path, None),
        };
        rest = below;
        let given = match is_of_program {
            true => part.to_owned(),
            false => part.to_lowercase(),
        };
        let meant = only_alike(part, &tables);
        let name = meant.map_or(given.as_str(), String::as_str);
        tables = tables
            .into_iter()
            .filter_map(|table| table.get(name)?.as_table())
            .collect();
        names.push(meant.map_or_else(|| given.clone(), |name| as_key(name)));
    }
    names.join(".")
}

/// Returns whether names lead to the `env` of an MCP server.
fn is_env_of_mcp(names: &[String]) -> bool {
    match names {
        [mcp, servers, _, env] => mcp == "mcp" && servers == "servers" && env == "env",
        _ => false,
    }
}

/// Returns the name in the tables that equals the given one except for case, if there is exactly one.
fn only_alike<'a>(given: &str, tables: &[&'a Table]) -> Option<&'a String> {
    let names = tables.iter().flat_map(|table| table.keys());
    let alike = names.filter(|name| name.to_lowercase() == given.to_lowercase());
    let mut alike = BTreeSet::from_iter(alike).into_iter();
    let name = alike.next()?;
    alike.next().is_none().then_some(name)
}

/// Returns whether Kubernetes creates such a variable: each pod receives some for every nearby Service, which may be
/// named after Neuraxis. Variables for nested keys contain a double underscore.
fn is_of_a_service(name: &str, value: &OsStr) -> bool {
    let is_address = || {
        let value = value.to_string_lossy();
        PROTOCOLS
            .iter()
            .any(|(_, scheme)| value.starts_with(scheme))
    };
    !name.contains(SEPARATOR)
        && (name.ends_with("_SERVICE_HOST")
            || name.ends_with("_SERVICE_PORT")
            || name.contains("_SERVICE_PORT_")
            || name.ends_with("_PORT") && is_address()
            || is_of_a_port(name))
}

/// Returns whether a name has the form `…_PORT_80_TCP` or `…_PORT_80_TCP_ADDR`.
fn is_of_a_port(name: &str) -> bool {
    let mut ends = ["_PROTO", "_PORT", "_ADDR"].into_iter();
    let port = ends.find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let Some((port, protocol)) = port.rsplit_once('_') else {
        return false;
    };
    let Some((service, number)) = port.rsplit_once('_') else {
        return false;
    };
    service.ends_with("_PORT")
        && number.parse::<u16>().is_ok()
        && PROTOCOLS.iter().any(|(known, _)| *known == protocol)
}

/// Why a file was not read.
enum ReadFailure {
    Failed(io::Error),
    TooLarge,
}

impl ReadFailure {
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

/// Reads a file that the configuration names and that has the same size limit.
pub(super) fn whole(path: &Path) -> Result<String, ConfigError> {
    read(path).map_err(|unread| unread.of(path))
}

fn read(path: &Path) -> Result<String, ReadFailure> {
    text_of(File::open(path).map_err(ReadFailure::Failed)?)
}

fn text_of(file: File) -> Result<String, ReadFailure> {
    let mut bytes = Vec::new();
    let mut bounded = file.take(MAX_FILE_BYTES + 1);
    bounded
        .read_to_end(&mut bytes)
        .map_err(ReadFailure::Failed)?;
    if bounded.limit() == 0 {
        return Err(ReadFailure::TooLarge);
    }
    let not_text = |error| ReadFailure::Failed(io::Error::new(io::ErrorKind::InvalidData, error));
    utf8_text(bytes).map_err(not_text)
}

/// Returns a path for display: relative if it is inside the working directory. At the root of the file system, every
/// path would be.
fn relative(path: &Path, working_dir: &Path) -> PathBuf {
    let below = path.strip_prefix(working_dir);
    let below = below.ok().filter(|_| working_dir.parent().is_some());
    below.unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_named_pipe_as_the_user_file_is_an_error_and_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join(FILE_NAME);
        let made = std::process::Command::new("mkfifo").arg(pipe).status();
        assert!(made.unwrap().success());
        let environment = Environment::new(std::env::temp_dir()).with_config_dir(folder.path());
        let read = read_all(&environment, &Sources::default());
        assert!(matches!(read, Err(ConfigError::Read { .. })));
    }

    #[test]
    fn a_path_is_shown_relative_to_the_working_directory_unless_that_is_the_root() {
        let shown = |path, working_dir| relative(Path::new(path), Path::new(working_dir));
        assert_eq!(
            shown("/srv/team/neuraxis.toml", "/srv/team"),
            Path::new("neuraxis.toml")
        );
        assert_eq!(
            shown("/etc/neuraxis.toml", "/srv/team"),
            Path::new("/etc/neuraxis.toml")
        );
        assert_eq!(
            shown("/srv/neuraxis.toml", "/"),
            Path::new("/srv/neuraxis.toml")
        );
    }
}
