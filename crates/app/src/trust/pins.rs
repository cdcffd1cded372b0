//! The accepted definitions of tools of MCP servers, in a file next to that of the trusted folders.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use neuraxis_core::ContentHash;
use neuraxis_mcp::{Accepted, Pins};
use serde::{Deserialize, Serialize};

use super::file;
use super::{Environment, TrustError};

/// The name of the file in the user's data folder.
const FILE_NAME: &str = "mcp-tools.toml";

/// The maximum number of remembered servers, if the file has room for their tools. Beyond that, the oldest entries are
/// forgotten.
const MAX_SERVERS: usize = 200;

/// The stored accepted definitions. Each change rereads them and writes them immediately, and no other change in this
/// or another process can happen in between.
#[derive(Debug)]
pub struct PinFile {
    file: PathBuf,
}

/// The whole file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pinned {
    #[serde(default)]
    servers: Vec<PinnedServer>,
}

/// The accepted definitions of one server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PinnedServer {
    name: String,
    /// Identifies the program or address that had this name.
    identity: ContentHash,
    #[serde(default)]
    tools: BTreeMap<String, ContentHash>,
}

impl PinFile {
    /// Returns the file of the user.
    ///
    /// # Errors
    ///
    /// [`TrustError::NoDataFolder`] for a user without a data folder, where nothing can be remembered.
    pub fn of(environment: &Environment) -> Result<Self, TrustError> {
        let folder = environment.data_dir().ok_or(TrustError::NoDataFolder)?;
        Ok(Self {
            file: folder.join(FILE_NAME),
        })
    }

    /// Returns its path. The file need not exist.
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
        let _lock = file::FileLock::of(&self.file)?;
        let mut pinned = self.read()?;
        change(&mut pinned);
        let too_many = pinned.servers.len().saturating_sub(MAX_SERVERS);
        pinned.servers.drain(..too_many);
        loop {
            let text = toml::to_string(&pinned).map_err(|_| self.damaged())?;
            // A larger file could not be read again.
            if text.len() as u64 <= file::MAX_BYTES || pinned.servers.len() <= 1 {
                return file::write(&self.file, &text);
            }
            pinned.servers.remove(0);
        }
    }

    fn damaged(&self) -> TrustError {
        TrustError::Damaged {
            file: self.file.clone(),
        }
    }
}

impl Pins for PinFile {
    fn accepted(&self, server: &str, identity: ContentHash) -> Result<Option<Accepted>, String> {
        let pinned = self.read().map_err(|error| error.in_full())?;
        let mut servers = pinned.servers.into_iter();
        let found = servers.find(|it| it.name == server && it.identity == identity);
        Ok(found.map(|it| it.tools))
    }

    fn accept(&self, server: &str, identity: ContentHash, tools: Accepted) -> Result<(), String> {
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
        changed.map_err(|error| error.in_full())
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
    fn accepted_tools_are_read_back_for_their_server_only() {
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
    fn concurrent_acceptances_are_all_stored() {
        let folder = tempfile::tempdir().unwrap();
        let hash = ContentHash::of(b"1");
        let names: Vec<String> = (0..24).map(|number| format!("shop-{number}")).collect();
        std::thread::scope(|scope| {
            for name in &names {
                // Like separate processes, these only have the file in common.
                let file = pins(folder.path());
                scope.spawn(move || {
                    let tools = Accepted::from([(name.clone(), hash)]);
                    file.accept(name, hash, tools).unwrap();
                });
            }
        });
        let file = pins(folder.path());
        for name in &names {
            let tools = file.accepted(name, hash).unwrap();
            assert_eq!(tools, Some(Accepted::from([(name.clone(), hash)])));
        }
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let mut left: Vec<_> = entries.map(|it| it.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".mcp-tools.toml.lock", "mcp-tools.toml"]);
    }

    #[test]
    fn the_file_never_exceeds_its_readable_size() {
        let folder = tempfile::tempdir().unwrap();
        let file = pins(folder.path());
        let hash = ContentHash::of(b"1");
        let tools = Accepted::from([("t".repeat(100 * 1024), hash)]);
        for number in 0..12 {
            let name = format!("shop-{number}");
            file.accept(&name, hash, tools.clone()).unwrap();
        }
        assert_eq!(file.accepted("shop-0", hash), Ok(None));
        assert_eq!(file.accepted("shop-11", hash), Ok(Some(tools)));
    }

    #[test]
    fn an_unreadable_file_is_an_error_and_not_a_first_use() {
        let folder = tempfile::tempdir().unwrap();
        let file = pins(folder.path());
        file::write(file.file(), "servers = 1").unwrap();
        let why = file.accepted("shop", ContentHash::of(b"1")).unwrap_err();
        assert!(why.contains("mcp-tools.toml"), "{why}");
        let refused = file.accept("shop", ContentHash::of(b"1"), Accepted::new());
        refused.unwrap_err();
    }
}
