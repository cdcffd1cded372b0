//! The program's own files, which no tool may access, whether they exist yet or not.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use neuraxis_tools::ProgramFiles;

use super::{Config, read};
use crate::approval_key;
use crate::environment::Environment;
use crate::server_keys::ServerKeyFile;

/// The suffixes that SQLite adds to the name of a database for its files.
const DATABASE_FILES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

impl Config {
    /// Adds the program's own files to `known`: those that contain keys, those of the store, its log and its archive,
    /// those of the configuration, and everything else that the program keeps for the user.
    pub(crate) fn own_files(&self, environment: &Environment, known: ProgramFiles) -> ProgramFiles {
        let keys = self.key_files(environment).into_iter();
        let stored = self.kept_files(environment).into_iter();
        let files = stored.fold(keys.fold(known, ProgramFiles::secret), ProgramFiles::store);
        let history = environment.chat_history().into_iter();
        let governing = self.governing_files(environment).into_iter();
        governing.fold(
            history.fold(files, ProgramFiles::secret),
            ProgramFiles::configuration,
        )
    }

    fn key_files(&self, environment: &Environment) -> Vec<PathBuf> {
        let here = environment.working_dir();
        let models = self.models.values();
        let models = models.filter_map(|model| model.api_key_file.as_ref());
        let servers = self.mcp.servers.values();
        let servers = servers.filter_map(|server| server.token_file.as_ref());
        let named = models.chain(servers);
        let mut files: Vec<PathBuf> = named.map(|file| here.join(file)).collect();
        files.extend(approval_key::file(self, environment));
        files.extend(self.server.tls.as_ref().map(|tls| here.join(&tls.key)));
        files.extend(ServerKeyFile::of(self, environment).map(|file| file.path().to_owned()));
        files.extend(self.store.key_files(environment));
        files
    }

    fn kept_files(&self, environment: &Environment) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let database = self.store.database();
        if let Some(file) = database.file() {
            // SQLite keeps a database's files next to the file itself, not next to a symlink to it.
            let real = file.canonicalize().ok();
            for file in std::iter::once(file).chain(real) {
                files.extend(DATABASE_FILES.map(|ending| with_ending(&file, ending)));
            }
        }
        let archive = self.store.archive.as_ref();
        files.extend(archive.map(|archive| environment.working_dir().join(archive)));
        files.extend(database.log.map(|log| log.folder));
        if let Some(lines) = &self.telemetry.json_lines {
            files.push(lines.path.clone());
            let older = (1..=lines.files).map(|number| format!(".{number}"));
            files.extend(older.map(|ending| with_ending(&lines.path, &ending)));
        }
        files.extend(environment.data_dir().map(Path::to_owned));
        files
    }

    fn governing_files(&self, environment: &Environment) -> Vec<PathBuf> {
        let here = environment.working_dir();
        let models = self.models.values();
        let named = models.filter_map(|model| model.provider.file());
        let mut files: Vec<PathBuf> = named.map(|file| here.join(file)).collect();
        files.extend(self.price_list.file().map(Path::to_owned));
        let places = environment.config_dir().into_iter().chain([here]);
        files.extend(places.map(|folder| folder.join(read::FILE_NAME)));
        files.extend(self.files.iter().map(|file| here.join(file)));
        files
    }
}

fn with_ending(file: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(ending);
    PathBuf::from(name)
}
