//! The forms of agents' answers, `[agents.NAME.answer]`: reads and checks schemas from the named files, so that an
//! error is reported with its location before an engine is built.

use std::path::Path;

use neuraxis_brainstem::{AnswerConfig, PolicyConfig};
use neuraxis_core::JsonText;
use neuraxis_engine::AnswerSchema;

use super::error::ConfigError;
use super::{Layers, read};
use crate::environment::Environment;

/// Replaces each schema file that an agent names with its content, and checks all schemas.
///
/// # Errors
///
/// A [`ConfigError`] that names the key, if the file cannot be read or the schema cannot be used.
pub(super) fn inline_schemas(
    policy: &mut PolicyConfig,
    layers: &Layers,
    environment: &Environment,
) -> Result<(), ConfigError> {
    for (name, agent) in &mut policy.agents {
        let at = format!("agents.{name}.answer");
        let from = match agent.answer.file {
            Some(_) => format!("{at}.file"),
            None => format!("{at}.schema"),
        };
        read_file(&mut agent.answer, &from, layers, environment)?;
        if let Some(schema) = &agent.answer.schema {
            let checked = AnswerSchema::from_json(schema.as_str());
            let checked = checked.and_then(|it| match &agent.answer.name {
                Some(name) => it.named(name),
                None => Ok(it),
            });
            checked.map_err(|fault| layers.invalid_at(&from, fault.to_string()))?;
        }
    }
    Ok(())
}

fn read_file(
    answer: &mut AnswerConfig,
    key: &str,
    layers: &Layers,
    environment: &Environment,
) -> Result<(), ConfigError> {
    let Some(file) = answer.file.take() else {
        return Ok(());
    };
    if answer.schema.is_some() {
        let why = "a schema is given as well; remove one of the two".to_owned();
        return Err(layers.invalid_at(key, why));
    }
    let path = layers.resolved(environment, key, Path::new(&file));
    answer.schema = Some(JsonText::from_text(read::whole(&path)?));
    Ok(())
}
