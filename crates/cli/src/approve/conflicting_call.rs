//! Calls without a result that may run before the one being asked about. Their effect on its files is not part of what
//! is shown for it.

use std::path::Path;
use std::sync::Arc;

use neuraxis::brainstem::{Call, files_named};
use neuraxis::core::{AskApproval, JsonText, Record, RecordBody, ToolClass, ToolSpec};

use crate::call::CallLog;

/// A call that may run before the one being asked about and change one of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConflictingCall {
    /// Its tool.
    pub(super) tool: String,
    /// The file.
    pub(super) file: String,
}

impl ConflictingCall {
    /// Searches a run's records for such a call.
    pub(crate) fn find<'a>(
        ask: &AskApproval,
        records: &[Arc<Record>],
        project: &Path,
        spec_of: impl Fn(&str) -> Option<&'a ToolSpec>,
    ) -> Option<Self> {
        // A model may name files by their real paths.
        let real = project.canonicalize();
        let root = real.as_deref().unwrap_or(project).to_string_lossy();
        let files = |tool: &str, arguments: &JsonText| {
            let spec = spec_of(tool).filter(|spec| spec.class != ToolClass::ReadOnly);
            spec.map_or_else(Vec::new, |spec| {
                files_named(&Call::new(spec, arguments).with_root(&root))
            })
        };
        let own = files(&ask.name, &ask.arguments);
        if own.is_empty() {
            return None;
        }
        let mut calls = CallLog::default();
        for record in records {
            calls.add(record);
            if let RecordBody::ToolResult(result) = &record.body {
                calls.close(&result.tool_call_id);
            }
        }
        calls.before(ask.agent, &ask.tool_call_id).find_map(|call| {
            let arguments = JsonText::from_text(call.arguments.as_str());
            let mut theirs = files(&call.name, &arguments).into_iter();
            let file = theirs.find(|file| own.contains(file))?;
            let tool = call.name.clone();
            Some(Self { tool, file })
        })
    }
}

#[cfg(test)]
mod tests {
    use neuraxis::core::{AgentId, CallIndex, ContentIndex, ToolCallId};
    use neuraxis_testkit::{RunLog, reply};

    use super::super::tests::asking;
    use super::*;

    const B: &str = r#"{"path":"b.txt","content":"1"}"#;

    #[test]
    fn an_earlier_call_that_changes_the_same_file_is_found() {
        let patch = r#"{"patch":"--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+1\n"}"#;
        let again = r#"{"path":"./a.txt","content":"2"}"#;
        let calls = [
            ("write_file", B),
            ("apply_patch", patch),
            ("write_file", again),
        ];
        let mut ask = asking("write_file", again);
        let run = ask.effect_id.run;
        let mut log = RunLog::new(run, "main".parse().unwrap());
        let records = [log.started("Hello?"), log.replied(reply::calls(calls))];
        let specs = ["write_file", "apply_patch"]
            .map(|name| ToolSpec::new(name.parse().unwrap(), "").class(ToolClass::Idempotent));
        let spec_of = |name: &str| specs.iter().find(|spec| spec.name.as_str() == name);
        let mut conflict = |index: u32| {
            ask.tool_call_id =
                ToolCallId::new(run, AgentId::ROOT, ContentIndex(0), CallIndex(index));
            ConflictingCall::find(&ask, &records, Path::new("/"), spec_of)
        };
        let patched = ConflictingCall {
            tool: "apply_patch".to_owned(),
            file: "a.txt".to_owned(),
        };
        assert_eq!(conflict(2), Some(patched));
        // A later call runs after it, so it does not matter here.
        assert_eq!(conflict(1), None);
    }

    #[cfg(unix)]
    #[test]
    fn the_same_file_is_recognized_by_its_real_path_in_a_symlinked_project() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let (project, link) = (real.join("project"), real.join("link"));
        std::fs::create_dir(&project).unwrap();
        std::os::unix::fs::symlink(&project, &link).unwrap();
        let by_real_path = serde_json::json!({ "path": project.join("b.txt"), "content": "2" });
        let by_real_path = by_real_path.to_string();
        let mut ask = asking("write_file", B);
        let run = ask.effect_id.run;
        let mut log = RunLog::new(run, "main".parse().unwrap());
        let calls = [("write_file", by_real_path.as_str()), ("write_file", B)];
        let records = [log.started("Hello?"), log.replied(reply::calls(calls))];
        let spec = ToolSpec::new("write_file".parse().unwrap(), "").class(ToolClass::Idempotent);
        ask.tool_call_id = ToolCallId::new(run, AgentId::ROOT, ContentIndex(0), CallIndex(1));
        let found = ConflictingCall::find(&ask, &records, &link, |_| Some(&spec));
        assert_eq!(found.map(|it| it.file).as_deref(), Some("b.txt"));
    }
}
