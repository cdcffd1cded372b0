//! Restores the names of the offered tools in calls.

use std::collections::VecDeque;
use std::sync::Arc;

use neuraxis_core::{LlmError, ReplyDelta, ToolName, ToolSpec};
use neuraxis_wire::reply::ReplyFilter;

/// The tools that were offered to a server that changes the spelling of their names: LM Studio gives the model names in
/// lower case with underscores (<https://lmstudio.ai/docs/developer/api-changelog>, 0.3.23), and does not document that
/// it converts them back in the model's calls.
#[derive(Debug, Default)]
pub(crate) struct OfferedNames(Arc<[ToolSpec]>);

impl OfferedNames {
    pub(crate) const fn new(tools: Arc<[ToolSpec]>) -> Self {
        Self(tools)
    }

    /// Returns the intended name, if the given name is not a tool's and matches exactly one tool when spelling is
    /// ignored.
    fn restored(&self, name: &str) -> Option<&ToolName> {
        if self.0.iter().any(|tool| tool.name.as_str() == name) {
            return None;
        }
        let is_like = |tool: &&ToolSpec| letters(tool.name.as_str()).eq(letters(name));
        let mut alike = self.0.iter().filter(is_like);
        match (alike.next(), alike.next()) {
            (Some(tool), None) => Some(&tool.name),
            _ => None,
        }
    }
}

impl ReplyFilter for OfferedNames {
    fn push(
        &mut self,
        mut delta: ReplyDelta,
        out: &mut VecDeque<ReplyDelta>,
    ) -> Result<(), LlmError> {
        if let ReplyDelta::ToolCall {
            name: Some(name), ..
        } = &mut delta
            && let Some(restored) = self.restored(name)
        {
            *name = restored.shared();
        }
        out.push_back(delta);
        Ok(())
    }
}

/// Returns the characters of a name that remain when spelling is ignored.
fn letters(name: &str) -> impl Iterator<Item = char> {
    name.chars()
        .filter(|letter| letter.is_alphanumeric())
        .map(|letter| letter.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use neuraxis_testkit::spec;

    use super::*;

    #[test]
    fn a_tool_name_is_restored_only_if_it_is_unambiguous() {
        let tools = ["getWeather", "files__read-File", "a_b", "aB", "look"];
        let offered = OfferedNames::new(tools.map(|name| spec(name).build()).into());
        for (written, expected) in [
            ("get_weather", "getWeather"),
            ("files_read_file", "files__read-File"),
            ("look", "look"),
            ("a_b", "a_b"),
            ("A_B", "A_B"),
            ("nothing_like_it", "nothing_like_it"),
        ] {
            let name = offered.restored(written).map_or(written, ToolName::as_str);
            assert_eq!(name, expected);
        }
    }
}
