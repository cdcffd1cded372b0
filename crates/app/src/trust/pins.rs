//! Which definitions of the tools of MCP servers were accepted, in a file beside that of the trusted folders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use neuraxis_core::ContentHash;
use neuraxis_mcp::{Accepted, Pins};
use serde::{Deserialize, Serialize};

use super::file;
use super::{Environment, TrustError};

/// The name of the file in the user's data folder.
const FILE_NAME: &str = "mcp-tools.toml";

/// How many servers are remembered. Beyond that the oldest answers are forgotten.
const MAX_SERVERS: usize = 200;

/// The accepted definitions, as they are kept. Each change reads them anew and writes them at once.
#[derive(Debug)]
pub struct PinFile {
    file: PathBuf,
    /// Held while the file is read and written: several servers start at once.
    writing: Mutex<()>,
}

/// The whole file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pinned {
    #[serde(default)]
    servers: Vec<PinnedServer>,
}

/// What was accepted of one server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PinnedServer {
    name: String,
    /// Which program or address had that name.
    identity: ContentHash,
    #[serde(default)]
    tools: BTreeMap<String, ContentHash>,
}

impl PinFile {
    /// Returns the file of the user.
    ///
    /// # Errors
    ///
    /// [`TrustError::NoDataFolder`], for a user without one: nothing can be remembered then.
    pub fn of(environment: &Environment) -> Result<Self, TrustError> {
        let folder = environment.data_dir().ok_or(TrustError::NoDataFolder)?;
        Ok(Self {
            file: folder.join(FILE_NAME),
            writing: Mutex::default(),
        })
    }

    /// Returns where it is. It need not be there.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    fn read(&self) -> Result<Pinned, TrustError> {
        let Some(text) = file::read(&self.file)? else {
            return Ok(Pinned::default());
        };
        toml::from_str(&text).map_err(|_| self.damaged())
    }

    fn change(&self, change: impl FnOnce(&mut Pinned)) -> Result<(), TrustError> {
        let mut pinned = self.read()?;
        change(&mut pinned);
        let too_many = pinned.servers.len().saturating_sub(MAX_SERVERS);
        pinned.servers.drain(..too_many);
        let text = toml::to_string(&pinned).map_err(|_| self.damaged())?;
        file::write(&self.file, &text)
    }

    fn damaged(&self) -> TrustError {
        TrustError::Damaged {
            file: self.file.clone(),
        }
    }
}

/// Says why a file cannot be used, with what the operating system said.
fn in_full(error: &TrustError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl Pins for PinFile {
    fn accepted(&self, server: &str, identity: ContentHash) -> Result<Option<Accepted>, String> {
        let pinned = self.read().map_err(|error| in_full(&error))?;
        let mut servers = pinned.servers.into_iter();
        let found = servers.find(|it| it.name == server && it.identity == identity);
        Ok(found.map(|it| it.tools))
    }

    fn accept(&self, server: &str, identity: ContentHash, tools: Accepted) -> Result<(), String> {
        let _writing = self
            .writing
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let changed = self.change(|pinned| {
            pinned
                .servers
                .retain(|it| it.name != server || it.identity != identity);
            pinned.servers.push(PinnedServer {
                name: server.to_owned(),
                identity,
                tools,
            });
        });
        changed.map_err(|error| in_full(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pins(folder: &Path) -> PinFile {
        let environment = Environment::new("/").with_data_dir(folder);
        PinFile::of(&environment).unwrap()
    }

    #[test]
    fn what_was_accepted_is_read_back_for_this_server_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (ContentHash::of(b"1"), ContentHash::of(b"2"));
        let tools = |hash| Accepted::from([("dotted.name".to_owned(), hash)]);
        let file = pins(folder.path());
        assert_eq!(file.accepted("shop", one), Ok(None));
        file.accept("shop", one, tools(one)).unwrap();
        file.accept("shop", two, Accepted::new()).unwrap();
        file.accept("shop", one, tools(two)).unwrap();
        let again = pins(folder.path());
        assert_eq!(again.accepted("shop", one), Ok(Some(tools(two))));
        assert_eq!(again.accepted("shop", two), Ok(Some(Accepted::new())));
        assert_eq!(again.accepted("mall", one), Ok(None));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error_and_no_first_use() {
        let folder = tempfile::tempdir().unwrap();
        let file = pins(folder.path());
        file::write(file.file(), "servers = 1").unwrap();
        let why = file.accepted("shop", ContentHash::of(b"1")).unwrap_err();
        assert!(why.contains("mcp-tools.toml"), "{why}");
        let refused = file.accept("shop", ContentHash::of(b"1"), Accepted::new());
        refused.unwrap_err();
    }
}
