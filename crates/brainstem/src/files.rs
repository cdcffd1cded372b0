//! Finds out which tools work on files, from what their calls name.

use std::collections::BTreeMap;

use neuraxis_core::{ToolKind, ToolSpec};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::request::Call;
use crate::rules::{COMMANDS, Facts, Names, PATCHES, PATHS, PathTarget};

/// Returns whether a tool works on files of the machine that runs it, that is, whether its calls name paths, patches or
/// commands in arguments that rules inspect. A tool that the caller runs does not.
#[must_use]
pub fn works_on_files(tool: &ToolSpec) -> bool {
    #[derive(Deserialize)]
    struct Schema {
        #[serde(default)]
        properties: BTreeMap<String, IgnoredAny>,
    }
    if tool.kind == ToolKind::Client {
        return false;
    }
    // A schema with other `properties` was refused when the tool was added.
    let schema = tool.parameters.decode::<Schema>();
    let named = [
        Names::Usual(&PATHS),
        Names::Usual(&PATCHES),
        Names::Usual(&COMMANDS),
    ];
    let is_named = |key: &String| named.iter().any(|names| names.contain(key));
    schema.is_ok_and(|schema| schema.properties.keys().any(is_named))
}

/// Returns the files and folders below the root that a call names in its paths and patches, relative to the root. Empty
/// if the call names a command, because the command describes the call better.
#[must_use]
pub fn files_named(call: &Call<'_>) -> Vec<String> {
    let facts = Facts::new(call.arguments, call.root);
    if facts.parts().is_some() {
        return Vec::new();
    }
    let paths = facts.paths(None);
    let inside = paths.items.iter().filter_map(|path| match path {
        PathTarget::Inside(path) => Some(path.clone()),
        PathTarget::Outside | PathTarget::Unclear => None,
    });
    inside.collect()
}

#[cfg(test)]
mod tests {
    use neuraxis_core::JsonText;

    use super::*;

    fn tool(schema: &str) -> ToolSpec {
        ToolSpec::new("t".parse().unwrap(), "").parameters(JsonText::from_text(schema))
    }

    #[test]
    fn a_tool_with_path_patch_or_command_arguments_works_on_files() {
        for name in ["path", "cwd", "patch", "command", "filePath"] {
            let schema = format!(r#"{{"type":"object","properties":{{"{name}":true}}}}"#);
            assert!(works_on_files(&tool(&schema)), "{name}");
            let client = tool(&schema).kind(ToolKind::Client);
            assert!(!works_on_files(&client), "{name}");
        }
        for schema in [r#"{"properties":{"url":true}}"#, "{}", "true"] {
            assert!(!works_on_files(&tool(schema)), "{schema}");
        }
    }

    #[test]
    fn files_named_by_a_call_are_reported_relative_to_its_root() {
        let tool = tool("{}");
        let named = |arguments: &str| {
            let arguments = JsonText::from_text(arguments);
            files_named(&Call::new(&tool, &arguments).with_root("/project"))
        };
        assert_eq!(named(r#"{"path":"./a/../b.txt"}"#), ["b.txt"]);
        assert_eq!(named(r#"{"path":"/project/b.txt"}"#), ["b.txt"]);
        let patch = r#"{"patch":"*** Begin Patch\n*** Delete File: c.txt\n*** End Patch\n"}"#;
        assert_eq!(named(patch), ["c.txt"]);
        for none in [r#"{"path":"../b.txt"}"#, r#"{"command":"ls","cwd":"a"}"#] {
            assert!(named(none).is_empty(), "{none}");
        }
    }
}
