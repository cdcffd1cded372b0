//! Cases in a TOML file: a `[[case]]` for each, `[defaults]` for what they share, and `[judge]`.

mod fault;
mod table;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use neuraxis_core::utf8_text;
use serde::Deserialize;
use toml::Spanned;

use crate::case::{Case, Source};
use crate::judge::Judge;

pub use fault::FileFault;
pub(crate) use table::CaseTable;

/// The maximum size of a file in bytes: far more than anyone writes by hand, and small enough to read in one go.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// A file of cases.
///
/// ```
/// use neuraxis_evals::EvalFile;
///
/// let file = EvalFile::from_toml(r#"
///     [[case]]
///     name = "sum"
///     message = "What is 17 * 23?"
///     check = [{ contains = "391" }, { tool_called = "calculate" }, { max_turns = 3 }]
/// "#)?;
/// assert_eq!(file.cases[0].checks.len(), 3);
/// let wrong = EvalFile::from_toml("[[case]]\nname = 'sum'\nmesage = 'What?'").unwrap_err();
/// assert!(wrong.to_string().starts_with("line 3: unknown field `mesage`"), "{wrong}");
/// # Ok::<(), neuraxis_evals::FileFault>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EvalFile {
    /// The cases, in the order of the file.
    pub cases: Vec<Case>,
    /// The judge, for the cases that need one.
    pub judge: Judge,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    #[serde(default)]
    defaults: Option<Spanned<CaseTable>>,
    #[serde(default)]
    judge: Judge,
    #[serde(default)]
    case: Vec<Spanned<CaseTable>>,
}

impl EvalFile {
    /// Reads a file. Paths in its cases, such as those of schemas and recordings, are relative to the file's folder.
    ///
    /// # Errors
    ///
    /// A [`FileFault`] that names the line.
    pub fn read(path: &Path) -> Result<Self, FileFault> {
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(FileFault::Io)?;
        // Reading one byte more than allowed detects a file that is too large, even one that does not report its size.
        let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(FileFault::Io)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(FileFault::TooLarge { most: MAX_BYTES });
        }
        let text = utf8_text(bytes).map_err(FileFault::NotText)?;
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        Self::of(&text, Some(folder))
    }

    /// Parses cases from a string. The only files they may name are recordings and logs, and their paths are used as
    /// written.
    ///
    /// # Errors
    ///
    /// A [`FileFault`] that names the line.
    pub fn from_toml(text: &str) -> Result<Self, FileFault> {
        Self::of(text, None)
    }

    fn of(text: &str, folder: Option<&Path>) -> Result<Self, FileFault> {
        let tables: Tables =
            toml::from_str(text).map_err(|error| FileFault::syntax(text, &error))?;
        let line = |span: std::ops::Range<usize>| fault::line_of(text, span.start);
        let defaults = match tables.defaults {
            Some(table) => {
                let at = line(table.span());
                let table = table.into_inner();
                table.refuse_as_defaults().map_err(|fault| fault.at(at))?;
                table
            }
            None => CaseTable::default(),
        };
        let mut names = BTreeSet::new();
        let mut cases = Vec::with_capacity(tables.case.len());
        for table in tables.case {
            let at = line(table.span());
            let table = table.into_inner();
            let case = table.case(&defaults, folder, line);
            let mut case = case.map_err(|fault| fault.or_at(at))?;
            case.line = Some(at);
            if !names.insert(case.name.clone()) {
                return Err(table::Fault::new(format!(
                    "there are two cases named {:?}",
                    case.name
                ))
                .at(at));
            }
            cases.push(case);
        }
        if cases.is_empty() {
            return Err(FileFault::Empty);
        }
        Ok(Self {
            cases,
            judge: tables.judge,
        })
    }

    /// Returns the recordings that answer instead of models, each once and sorted by name.
    #[must_use]
    pub fn cassettes(&self) -> BTreeSet<PathBuf> {
        let cassettes = self.cases.iter().filter_map(|case| match &case.source {
            Source::Cassette(file) => Some(file.clone()),
            _ => None,
        });
        cassettes.collect()
    }
}

#[cfg(test)]
mod tests;
