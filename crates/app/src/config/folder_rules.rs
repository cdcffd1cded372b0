//! The rules that the user allowed for the folder of the tools by answering a question. Every hand-written source
//! overrides them.

use toml::Table;

use super::Layers;
use super::error::{ConfigError, Fault};
use super::layer::Layer;
use super::sources::Sources;
use crate::environment::Environment;
use crate::names::shown;
use crate::trust::FolderRules;

/// The only section that such a file may have.
const SECTION: &str = "rules";

/// The result of looking for such rules.
#[derive(Debug, Default)]
pub(super) struct StoredFolderRules {
    /// Where they are kept; `None` if none can be kept, or they do not apply.
    pub(super) rules: Option<FolderRules>,
    /// Whether any rules were read.
    pub(super) are_read: bool,
    /// A notice for the user.
    pub(super) notice: Option<String>,
}

impl Layers {
    /// Adds the rules for the folder of the tools, if they apply.
    pub(super) fn add_folder_rules(
        &mut self,
        environment: &Environment,
        sources: &Sources,
    ) -> Result<StoredFolderRules, ConfigError> {
        if !sources.uses_folder_rules() {
            return Ok(StoredFolderRules::default());
        }
        let root = self.project_root(environment, &self.sections()?.tools);
        if self.too_wide_root(environment, &root).is_some() {
            return Ok(StoredFolderRules::default());
        }
        let Some(rules) = FolderRules::of(&root, environment) else {
            return Ok(StoredFolderRules::default());
        };
        let mut stored = StoredFolderRules::default();
        match rules.text() {
            Ok(None) => {}
            Ok(Some(text)) => {
                let layer = Layer::of_file(rules.file().to_owned(), 0, &text)?;
                only_rules(&layer, layer.ranked_table().1)?;
                self.0.insert(0, layer);
                stored.are_read = true;
            }
            Err(error) => {
                let (folder, why) = (root.display(), error.in_full());
                stored.notice = Some(format!("what you allowed in {folder} is ignored: {why}"));
            }
        }
        stored.rules = Some(rules);
        Ok(stored)
    }
}

fn only_rules(layer: &Layer, table: &Table) -> Result<(), ConfigError> {
    let mut others = table.keys().filter(|name| *name != SECTION);
    match others.next() {
        None => Ok(()),
        Some(other) => Err(ConfigError::Key {
            at: layer.origin(other),
            fault: Box::new(Fault::UnknownKey {
                given: shown(other),
                table: String::new(),
                known: vec![SECTION],
            }),
        }),
    }
}
