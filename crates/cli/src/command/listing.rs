//! What commands that list something have in common: for people, or as a JSON array.

use clap::ValueEnum;
use serde_json::Value;

use crate::error::CommandError;
use crate::output::Output;

/// The form of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Text,
    /// A JSON array
    Json,
}

impl Format {
    /// Prints a list: the texts one after the other, or the values as an array.
    pub(super) fn print<T>(
        self,
        items: impl Iterator<Item = T>,
        in_text: impl Fn(T) -> String,
        in_json: impl Fn(T) -> Value,
    ) -> Result<(), CommandError> {
        let text = match self {
            Self::Text => items.map(in_text).collect(),
            Self::Json => {
                let list: Value = items.map(in_json).collect();
                format!("{list:#}\n")
            }
        };
        Ok(Output::new().text(&text)?)
    }
}
