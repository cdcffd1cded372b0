//! `neuraxis-server keys`: creates, lists and revokes the keys of clients. A running server notices within a second.

mod checks;

use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use neuraxis::core::jiff::Timestamp;
use neuraxis::core::{AgentName, PlanName};
use neuraxis::engine::SystemClock;
use neuraxis::ports::Clock as _;
use neuraxis::{Channel, Mode, Policy};
use neuraxis_app::{Config, Environment, Scope, ServerKey, ServerKeyFile, ServerKeysError};
use serde_json::Value;

use self::checks::{count, expiry, known, line, visible};

/// The maximum length in bytes of an unknown id that is repeated: ids have 12, whole keys many more.
const MAX_REPEATED_BYTES: usize = 16;

const CREATE_EXAMPLES: &str = "\
The key is printed on standard output once; only its hash is stored.

Examples:
  neuraxis-server keys create --owner ada
  neuraxis-server keys create --owner ci --expires 30d --requests-per-minute 60
  neuraxis-server keys create --owner ops --scope admin --name 'on call'";

/// A command on the keys of clients.
#[derive(Debug, Clone, Subcommand)]
#[non_exhaustive]
pub enum KeyCommand {
    /// Create a key and print it
    Create(Box<CreateKey>),
    /// List the keys, without their secrets
    List {
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Revoke keys permanently; runs they started continue
    Revoke {
        /// The ids of the keys, as shown by `list`
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}

/// What a new key allows.
#[derive(Debug, Clone, Args)]
#[command(after_help = CREATE_EXAMPLES)]
#[non_exhaustive]
pub struct CreateKey {
    /// The owner: sessions created with the key belong to this owner, and all keys of one owner see the same sessions
    #[arg(long)]
    pub owner: String,

    /// What the key is for
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,

    /// What the key allows, separated by commas: turns, read, approve (with read, to see what waits), metrics (only the
    /// metrics at /metrics), or admin, which is all of these, for all owners, except turns and messages in their
    /// sessions
    #[arg(
        long,
        value_name = "SCOPES",
        value_delimiter = ',',
        default_value = "turns,read"
    )]
    pub scope: Vec<Scope>,

    /// When the key expires: after a duration such as 30d, 2w or 12h, or at the start of a day such as 2030-01-31
    /// (UTC); never by default
    #[arg(long, value_name = "TIME")]
    pub expires: Option<String>,

    /// The freest mode that the key may choose
    #[arg(long, value_name = "MODE")]
    pub max_mode: Option<String>,

    /// The modes that the key may choose, separated by commas; by default, all that the server allows
    #[arg(long, value_name = "MODES", value_delimiter = ',')]
    pub modes: Option<Vec<String>>,

    /// The channels that the key may use, separated by commas; all by default
    #[arg(long, value_name = "CHANNELS", value_delimiter = ',')]
    pub channels: Option<Vec<String>>,

    /// The agents that may answer, separated by commas; all by default
    #[arg(long, value_name = "AGENTS", value_delimiter = ',')]
    pub agents: Option<Vec<String>>,

    /// The plan that limits the key's requests, instead of server.plan
    #[arg(long)]
    pub plan: Option<String>,

    /// The maximum number of requests per minute with this key
    #[arg(long, value_name = "N", value_parser = count)]
    pub requests_per_minute: Option<NonZeroU32>,

    /// The maximum number of the owner's turns in progress at the same time, instead of server.max_runs_per_owner
    #[arg(long, value_name = "N", value_parser = count)]
    pub max_runs: Option<NonZeroU32>,
}

/// Why a command on keys failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyCommandError {
    /// An option of the new key is invalid.
    #[error("{option}: {reason}")]
    Wrong {
        /// The option.
        option: &'static str,
        /// What is wrong with it, and what would be valid.
        reason: String,
    },
    /// No location for the file of keys exists.
    #[error("no data folder for keys; set `[server] keys` to a file")]
    NoPlace,
    /// No key has been created yet.
    #[error("no keys have been created yet: {} does not exist", path.display())]
    NoKeys {
        /// The file that would hold them.
        path: PathBuf,
    },
    /// The file of keys cannot be used.
    #[error(transparent)]
    File(#[from] ServerKeysError),
    /// The reader of the list closed the output.
    #[error("the output was closed before all keys were listed")]
    Unread,
    /// No random bytes are available, or the output could not be written.
    #[error("cannot create or print the key")]
    System(#[from] io::Error),
}

/// Runs a command on keys.
pub(crate) fn run(
    command: &KeyCommand,
    config: &Config,
    environment: &Environment,
) -> Result<(), KeyCommandError> {
    let file = ServerKeyFile::of(config, environment).ok_or(KeyCommandError::NoPlace)?;
    let now = SystemClock.now();
    match command {
        KeyCommand::Create(create) => {
            // Checked before writing: the file's mount may be unavailable.
            let is_missing = config.server().keys.is_some() && !file.path().exists();
            create_key(create, &file, config.policy(), now)?;
            match is_missing {
                true => print_note(&format!(
                    "{} did not exist and now contains only this key; if it held other keys, servers reject them \
                     until they are restored",
                    file.path().display()
                )),
                false => Ok(()),
            }
        }
        KeyCommand::List { json } => {
            // If the configured file is missing, its keys are unknown rather than none.
            let keys = match &config.server().keys {
                Some(_) => file.read_present(),
                None => file.read(),
            };
            list(&keys?, *json, now).map_err(|error| match error {
                KeyCommandError::System(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    KeyCommandError::Unread
                }
                error => error,
            })
        }
        KeyCommand::Revoke { ids } => {
            // A configured file may be in an unavailable mount.
            if config.server().keys.is_none() && !file.has_existed() {
                let path = file.path().to_owned();
                return Err(KeyCommandError::NoKeys { path });
            }
            revoke(&file, ids, now)
        }
    }
}

/// Revokes keys. An unknown id does not prevent the others from being revoked. It is repeated only if it is too short
/// for a whole key.
fn revoke(file: &ServerKeyFile, ids: &[String], now: Timestamp) -> Result<(), KeyCommandError> {
    let mut missing = None;
    for (at, id) in ids.iter().enumerate() {
        let before = match file.revoke(id, now) {
            Err(error @ ServerKeysError::NoSuchKey) => {
                match id.len() <= MAX_REPEATED_BYTES {
                    true => print_note(&format!("there is no key {}", visible(id)))?,
                    false => print_note(&format!(
                        "number {} of the given ids does not exist",
                        at + 1
                    ))?,
                }
                missing = Some(error);
                continue;
            }
            before => before?,
        };
        print_note(&match before.revoked_at {
            Some(at) => format!("the key {id} was already revoked at {at:.0}"),
            None => format!("revoked the key {id} of {}", visible(&before.owner)),
        })?;
    }
    missing.map_or(Ok(()), |error| Err(error.into()))
}

fn create_key(
    create: &CreateKey,
    file: &ServerKeyFile,
    policy: &Policy,
    now: Timestamp,
) -> Result<(), KeyCommandError> {
    let (key, text) = create.key(policy, now)?;
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let until = key.expires_at.map(|at| format!(" until {at:.0}"));
    let note = format!(
        "created the key {} of {}, for {}{}; it is shown only this once",
        key.id,
        key.owner,
        scopes.join(", "),
        until.unwrap_or_default()
    );
    file.add(key)?;
    writeln!(io::stdout(), "{text}")?;
    print_note(&note)
}

fn print_note(note: &str) -> Result<(), KeyCommandError> {
    Ok(writeln!(io::stderr(), "{note}")?)
}

impl CreateKey {
    fn key(&self, policy: &Policy, now: Timestamp) -> Result<(ServerKey, String), KeyCommandError> {
        line("--owner", &self.owner)?;
        if let Some(name) = &self.name {
            line("--name", name)?;
        }
        let (mut key, text) = ServerKey::make(&self.owner, self.scope.iter().copied(), now)?;
        key.name.clone_from(&self.name);
        let expires = self.expires.as_deref();
        key.expires_at = expires.map(|text| expiry(text, now)).transpose()?;
        let modes: Vec<&str> = policy.modes().map(Mode::as_str).collect();
        let channels: Vec<&str> = policy.channels().map(Channel::as_str).collect();
        let agents: Vec<&str> = policy.agents().map(AgentName::as_str).collect();
        let plans: Vec<&str> = policy.plans().map(PlanName::as_str).collect();
        let most = self.max_mode.iter();
        known("--max-mode", most, &modes)?;
        known("--modes", self.modes.iter().flatten(), &modes)?;
        known("--channels", self.channels.iter().flatten(), &channels)?;
        known("--agents", self.agents.iter().flatten(), &agents)?;
        known("--plan", self.plan.iter(), &plans)?;
        key.max_mode = self.max_mode.clone().map(Mode::new);
        key.modes = all(self.modes.as_ref(), Mode::new);
        key.channels = all(self.channels.as_ref(), Channel::new);
        key.agents = all(self.agents.as_ref(), AgentName::new);
        key.plan = self.plan.clone().map(PlanName::new);
        key.requests_per_minute = self.requests_per_minute;
        key.max_runs = self.max_runs;
        Ok((key, text))
    }
}

fn all<T>(named: Option<&Vec<String>>, make: impl Fn(String) -> T) -> Option<Vec<T>> {
    Some(named?.iter().cloned().map(make).collect())
}

fn list(keys: &[ServerKey], as_json: bool, now: Timestamp) -> Result<(), KeyCommandError> {
    let mut out = io::stdout().lock();
    if as_json {
        let shown = keys.iter().map(in_json).collect::<Result<Vec<_>, _>>();
        let shown = serde_json::to_string_pretty(&shown.map_err(io::Error::from)?);
        writeln!(out, "{}", shown.map_err(io::Error::from)?)?;
        return Ok(());
    }
    out.write_all(table(keys, now).as_bytes())?;
    Ok(())
}

/// The headings of the columns, and whether a column without values is left out.
const COLUMNS: [(&str, bool); 8] = [
    ("ID", false),
    ("OWNER", false),
    ("SCOPES", false),
    ("CREATED", false),
    ("EXPIRES", true),
    ("STATE", false),
    ("PLAN", true),
    ("NAME", true),
];

/// What a column shows for a key without a value.
const NO_VALUE: &str = "-";

/// Lists keys in columns that are as wide as their values, and without those that no key has a value for, so that a line
/// fits into most terminals.
fn table(keys: &[ServerKey], now: Timestamp) -> String {
    let dated = |at: Timestamp| format!("{at:.0}");
    let rows = keys.iter().map(|key| {
        let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
        let plan = key.plan.as_ref().map_or(NO_VALUE, PlanName::as_str);
        let name = key.name.as_deref().unwrap_or(NO_VALUE);
        [
            visible(&key.id),
            visible(&key.owner),
            scopes.join(","),
            dated(key.created_at),
            key.expires_at.map_or_else(|| NO_VALUE.to_owned(), dated),
            state_of(key, now),
            visible(plan),
            visible(name),
        ]
    });
    let rows: Vec<[String; COLUMNS.len()]> = rows.collect();
    let mut lines = vec![String::new(); rows.len() + 1];
    for (place, (heading, may_be_missing)) in COLUMNS.into_iter().enumerate() {
        let cells: Vec<&str> = rows
            .iter()
            .filter_map(|row| row.get(place))
            .map(String::as_str)
            .collect();
        if may_be_missing && cells.iter().all(|cell| *cell == NO_VALUE) {
            continue;
        }
        let cells = std::iter::once(heading).chain(cells);
        let width = cells.clone().map(|cell| cell.chars().count()).max();
        let width = width.unwrap_or_default() + 2;
        for (line, cell) in lines.iter_mut().zip(cells) {
            line.push_str(&format!("{cell:<width$}"));
        }
    }
    lines
        .iter()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// Describes whether a key is accepted, and for a revoked one since when it is not.
fn state_of(key: &ServerKey, now: Timestamp) -> String {
    let state = key.refused_at(now).unwrap_or("valid");
    match key.revoked_at {
        Some(at) => format!("{state} {at:.0}"),
        None => state.to_owned(),
    }
}

/// A key as JSON for programs, without its hash, which is of no use to them.
fn in_json(key: &ServerKey) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(key)?;
    if let Some(fields) = value.as_object_mut() {
        fields.remove("hash");
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_values_and_those_without_any_are_left_out() {
        let now = "2026-05-01T12:00:00Z".parse().unwrap();
        let (mut key, _) = ServerKey::make("ada", [Scope::Turns, Scope::Read], now).unwrap();
        let listed = table(std::slice::from_ref(&key), now);
        assert_eq!(
            listed.lines().next(),
            Some("ID            OWNER  SCOPES      CREATED               STATE")
        );
        key.name = Some("laptop".to_owned());
        key.owner = "a-team-with-a-long-name".to_owned();
        let listed = table(&[key], now);
        let ends = |line: Option<&str>| line.is_some_and(|line| line.ends_with("  laptop"));
        assert!(ends(listed.lines().nth(1)), "{listed}");
        let column = |line: &str, text: &str| line.find(text);
        let (heading, row) = listed.split_once('\n').unwrap();
        assert_eq!(column(heading, "STATE"), column(row, "valid"), "{listed}");
    }
}
