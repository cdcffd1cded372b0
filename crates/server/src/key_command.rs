//! `neuraxis-server keys`: makes, lists and revokes the keys of clients. A server that runs notices within a second.

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

use self::checks::{expiry, known, line};

const CREATE_EXAMPLES: &str = "\
The key is printed on standard output, once: only its hash is kept.

Examples:
  neuraxis-server keys create --owner ada
  neuraxis-server keys create --owner ci --expires 30d --requests-per-minute 60
  neuraxis-server keys create --owner ops --scope admin --name 'on call'";

/// What is done with the keys of clients.
#[derive(Debug, Clone, Subcommand)]
#[non_exhaustive]
pub enum KeyCommand {
    /// Make a key and print it
    Create(Box<CreateKey>),
    /// List the keys there are, without what is secret
    List {
        /// As JSON, for programs
        #[arg(long)]
        json: bool,
    },
    /// Revoke keys for good; what they began goes on
    Revoke {
        /// Their ids, as `list` shows them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
}

/// What a new key is to allow.
#[derive(Debug, Clone, Args)]
#[command(after_help = CREATE_EXAMPLES)]
#[non_exhaustive]
pub struct CreateKey {
    /// Whose it is: sessions made with it belong to this owner, and keys of one owner see the same sessions
    #[arg(long)]
    pub owner: String,

    /// What it is for
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,

    /// What it lets its holder do: turns, read, approve (with read, so that what waits is seen), metrics (the figures at /metrics
    /// alone), or admin, which is all of that, for all owners but turns and messages in their sessions
    #[arg(
        long,
        value_name = "SCOPES",
        value_delimiter = ',',
        default_value = "turns,read"
    )]
    pub scope: Vec<Scope>,

    /// When it expires: after a time such as 30d or 12h, or when a day such as 2030-01-31 begins (UTC); never if left out
    #[arg(long, value_name = "TIME")]
    pub expires: Option<String>,

    /// The freest mode it may choose
    #[arg(long, value_name = "MODE")]
    pub max_mode: Option<String>,

    /// The modes it may choose; all that the server allows if left out
    #[arg(long, value_name = "MODES", value_delimiter = ',')]
    pub modes: Option<Vec<String>>,

    /// The channels it may use; all if left out
    #[arg(long, value_name = "CHANNELS", value_delimiter = ',')]
    pub channels: Option<Vec<String>>,

    /// The agents that may answer; all if left out
    #[arg(long, value_name = "AGENTS", value_delimiter = ',')]
    pub agents: Option<Vec<String>>,

    /// The plan that limits its requests, in place of server.plan
    #[arg(long)]
    pub plan: Option<String>,

    /// How many requests a minute a server takes with it
    #[arg(long, value_name = "N")]
    pub requests_per_minute: Option<NonZeroU32>,

    /// How many turns of its owner a server has at work at a time, in place of server.max_runs_per_owner
    #[arg(long, value_name = "N")]
    pub max_runs: Option<NonZeroU32>,
}

/// Why nothing was done with keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyCommandError {
    /// What the key is to allow makes no sense.
    #[error("{option}: {reason}")]
    Wrong {
        /// The option.
        option: &'static str,
        /// What is wrong with it, and what would be right.
        reason: String,
    },
    /// There is no place for keys.
    #[error("there is no data folder to keep keys in: name a file as [server] keys")]
    NoPlace,
    /// No key was made yet.
    #[error("there are no keys yet: {} was never made", path.display())]
    NoKeys {
        /// The file that would hold them.
        path: PathBuf,
    },
    /// The file of keys cannot be used.
    #[error(transparent)]
    File(#[from] ServerKeysError),
    /// Whoever read the list is gone.
    #[error("nobody reads the list of keys any more")]
    Unread,
    /// There is no randomness, or nobody takes what is printed.
    #[error("the key cannot be made or printed")]
    System(#[from] io::Error),
}

/// Does what is to be done with keys.
pub(crate) fn run(
    command: &KeyCommand,
    config: &Config,
    environment: &Environment,
) -> Result<(), KeyCommandError> {
    let file = ServerKeyFile::of(config, environment).ok_or(KeyCommandError::NoPlace)?;
    let now = SystemClock.now();
    match command {
        KeyCommand::Create(create) => {
            // Looked at before: the mount that it is in may be away.
            let is_missing = config.server().keys.is_some() && !file.path().exists();
            make(create, &file, config.policy(), now)?;
            match is_missing {
                true => tell(&format!(
                    "{} was not there, and holds this key alone: if it held others, no server takes them now until it has them back",
                    file.path().display()
                )),
                false => Ok(()),
            }
        }
        KeyCommand::List { json } => {
            // Of a file that somebody named and that is away nobody knows which it holds.
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
            // One that somebody named may be in a mount that is away.
            if config.server().keys.is_none() && !file.was_made() {
                let path = file.path().to_owned();
                return Err(KeyCommandError::NoKeys { path });
            }
            revoke(&file, ids, now)
        }
    }
}

/// Revokes keys. One that there is not keeps none of the others from it, and is not repeated: it may be a whole key.
fn revoke(file: &ServerKeyFile, ids: &[String], now: Timestamp) -> Result<(), KeyCommandError> {
    let mut missing = None;
    for (at, id) in ids.iter().enumerate() {
        let before = match file.revoke(id, now) {
            Err(error @ ServerKeysError::NoSuchKey) => {
                if ids.len() > 1 {
                    tell(&format!(
                        "of these ids, number {} is that of no key",
                        at + 1
                    ))?;
                }
                missing = Some(error);
                continue;
            }
            before => before?,
        };
        tell(&match before.revoked_at {
            Some(at) => format!("the key {id} was revoked at {at:.0} before"),
            None => format!("the key {id} of {} is revoked", before.owner.escape_debug()),
        })?;
    }
    missing.map_or(Ok(()), |error| Err(error.into()))
}

fn make(
    create: &CreateKey,
    file: &ServerKeyFile,
    policy: &Policy,
    now: Timestamp,
) -> Result<(), KeyCommandError> {
    let (key, text) = create.key(policy, now)?;
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let until = key.expires_at.map(|at| format!(" until {at:.0}"));
    let said = format!(
        "the key {} of {}, for {}{}; this is the only time it is shown",
        key.id,
        key.owner,
        scopes.join(", "),
        until.unwrap_or_default()
    );
    file.add(key)?;
    writeln!(io::stdout(), "{text}")?;
    tell(&said)
}

fn tell(said: &str) -> Result<(), KeyCommandError> {
    Ok(writeln!(io::stderr(), "{said}")?)
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
    let dated = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), |at| format!("{at:.0}"));
    let states: Vec<String> = keys.iter().map(|key| state_of(key, now)).collect();
    // With the time of one that is revoked it is wider.
    let width = states.iter().map(String::len).max().unwrap_or_default();
    let width = width.max(7);
    writeln!(
        out,
        "{:<12}  {:<16}  {:<20}  {:<20}  {:<20}  {:<width$}  {:<12}  NAME",
        "ID", "OWNER", "SCOPES", "MADE", "EXPIRES", "STATE", "PLAN"
    )?;
    for (key, state) in keys.iter().zip(&states) {
        let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
        let plan = key.plan.as_ref().map_or("-", PlanName::as_str);
        let line = format!(
            "{:<12}  {:<16}  {:<20}  {:<20}  {:<20}  {:<width$}  {:<12}  {}",
            key.id.escape_debug().to_string(),
            key.owner.escape_debug().to_string(),
            scopes.join(","),
            dated(Some(key.created_at)),
            dated(key.expires_at),
            state,
            plan.escape_debug().to_string(),
            key.name.as_deref().unwrap_or_default().escape_debug()
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Says whether a key is taken, and since when one is not that was revoked.
fn state_of(key: &ServerKey, now: Timestamp) -> String {
    let state = key.refused_at(now).unwrap_or("good");
    match key.revoked_at {
        Some(at) => format!("{state} {at:.0}"),
        None => state.to_owned(),
    }
}

/// A key for programs: all but its hash, of which nobody has any use.
fn in_json(key: &ServerKey) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(key)?;
    if let Some(fields) = value.as_object_mut() {
        fields.remove("hash");
    }
    Ok(value)
}
