//! Changes the section of a server or a model in a file, and leaves everything else in it unchanged, including
//! comments.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use neuraxis::core::utf8_text;
use neuraxis_app::{Environment, FileLock};
use toml_edit::{DocumentMut, Item, Table};

use crate::destination::{Destination, Readers};
use crate::error::CommandError;
use crate::setup::Setup;

/// The byte order mark with which some editors begin a UTF-8 file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A configuration file being changed, by one process at a time.
pub(in crate::command) struct Edited {
    path: PathBuf,
    document: DocumentMut,
    /// Whether the file begins with [`BYTE_ORDER_MARK`].
    is_marked: bool,
    /// The file's line ending, since a parsed document does not keep it.
    line_end: &'static str,
    _lock: Option<FileLock>,
}

impl Edited {
    /// Opens the user's own file, or the one given by --config. A missing file starts empty. Other commands wait until
    /// it is saved.
    pub(in crate::command) fn open(
        setup: &Setup,
        environment: &Environment,
    ) -> Result<Self, CommandError> {
        let path = match (setup.file(), environment.config_dir()) {
            (Some(file), _) => environment.working_dir().join(file),
            (None, Some(folder)) => folder.join("neuraxis.toml"),
            (None, None) => {
                let error = anyhow!("no folder for your configuration was found");
                return Err(CommandError::usage(error).hint("use --config FILE to name a file"));
            }
        };
        let lock = lock(environment)?;
        let text = match fs::read(&path) {
            Ok(bytes) => utf8_text(bytes).map_err(|error| {
                let error = anyhow!(error).context(format!("cannot read {}", path.display()));
                CommandError::configuration(error).hint("save it as UTF-8")
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                let error = anyhow!(error).context(format!("cannot read {}", path.display()));
                return Err(CommandError::configuration(error));
            }
        };
        Self::of(path, &text, lock)
    }

    fn of(path: PathBuf, text: &str, lock: Option<FileLock>) -> Result<Self, CommandError> {
        let unmarked = text.strip_prefix(BYTE_ORDER_MARK);
        let is_marked = unmarked.is_some();
        let text = unmarked.unwrap_or(text);
        // The content may be a secret: only its position is reported.
        let document = text.parse::<DocumentMut>().map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
            let error = anyhow!(
                "{}:{line}: this is not TOML: {}",
                path.display(),
                error.message()
            );
            CommandError::configuration(error)
        })?;
        let line_end = match text.contains("\r\n") {
            true => "\r\n",
            false => "\n",
        };
        Ok(Self {
            path,
            document,
            is_marked,
            line_end,
            _lock: lock,
        })
    }

    pub(in crate::command) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds the section of a server. Returns `false` if there already is one of this name.
    pub(super) fn add(&mut self, name: &str, section: Table) -> anyhow::Result<bool> {
        let servers = self.servers()?;
        if servers.contains_key(name) {
            return Ok(false);
        }
        servers.insert(name, Item::Table(section));
        Ok(true)
    }

    /// Adds the section of a role's model. Returns `false` if there already is one for this role.
    pub(in crate::command) fn add_model(
        &mut self,
        role: &str,
        section: Table,
    ) -> anyhow::Result<bool> {
        let models = table(&mut self.document, "models")
            .ok_or_else(|| anyhow!("`models` is written on one line; add the section by hand"))?;
        if models.contains_key(role) {
            return Ok(false);
        }
        models.insert(role, Item::Table(section));
        Ok(true)
    }

    /// Returns whether there is a section for a role's model.
    pub(in crate::command) fn has_model(&self, role: &str) -> bool {
        let models = self.document.get("models");
        models.and_then(|models| models.get(role)).is_some()
    }

    /// Removes the section of a server. Returns `false` if there is none of this name.
    pub(super) fn remove(&mut self, name: &str) -> anyhow::Result<bool> {
        Ok(self.servers()?.remove(name).is_some())
    }

    fn servers(&mut self) -> anyhow::Result<&mut Table> {
        let on_one_line = |item: &'static str| {
            move || anyhow!("`{item}` is written on one line; change it by hand")
        };
        let mcp = table(&mut self.document, "mcp").ok_or_else(on_one_line("mcp"))?;
        table(mcp, "servers").ok_or_else(on_one_line("mcp.servers"))
    }

    /// Returns the new content of the file.
    pub(super) fn text(&self) -> String {
        let lines = self.document.to_string().replace("\r\n", "\n");
        let text = lines.replace('\n', self.line_end);
        match self.is_marked {
            true => format!("{BYTE_ORDER_MARK}{text}"),
            false => text,
        }
    }

    /// Replaces the file as a whole or not at all. Follows links, and keeps the file's permissions.
    pub(in crate::command) fn save(&self) -> anyhow::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let written = fs::create_dir_all(folder)
            .and_then(|()| Destination::of(&self.path))
            .and_then(|file| file.write(&self.text(), Readers::Owner));
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Prevents other commands from changing configuration files. The lock is in the data folder, since nothing may be left
/// next to a file that may be part of a project. `None` if that folder is not writable.
fn lock(environment: &Environment) -> Result<Option<FileLock>, CommandError> {
    let folder = environment.data_dir();
    let folder = folder.filter(|_| !environment.is_data_read_only());
    let lock = folder.map(|folder| FileLock::of(&folder.join("neuraxis.toml")));
    lock.transpose().map_err(CommandError::failed)
}

/// Returns a table within another, creating it if it does not exist. `None` if it is an inline table.
fn table<'a>(within: &'a mut Table, name: &str) -> Option<&'a mut Table> {
    let implicit = || {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    };
    let item = within.entry(name).or_insert_with(implicit);
    item.as_table_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_endings_and_a_byte_order_mark_are_preserved() {
        let before = "# mine\n[mcp.servers.one]\ncommand = \"one\" # first\n";
        let after = format!("{before}\n[mcp.servers.two]\ncommand = \"two\"\n");
        let windows = |text: &str| format!("\u{feff}{}", text.replace('\n', "\r\n"));
        for (before, after) in [
            (before.to_owned(), after.clone()),
            (windows(before), windows(&after)),
        ] {
            let mut edited = Edited::of(PathBuf::from("neuraxis.toml"), &before, None).unwrap();
            assert_eq!(edited.text(), before);
            let mut section = Table::new();
            section.insert("command", toml_edit::value("two"));
            assert!(edited.add("two", section).unwrap());
            assert_eq!(edited.text(), after);
        }
    }
}
