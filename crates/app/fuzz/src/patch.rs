//! Patches: a patch is applied completely or not at all, never outside the project, and never where a rule about paths
//! denies it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::str;
use std::sync::{Arc, OnceLock};

use neuraxis_brainstem::{Call, Policy, PolicyConfig, Request};
use neuraxis_core::uuid::Uuid;
use neuraxis_core::{AgentId, Channel, EffectId, JsonText, Mode, RunId, ToolCallId, Turn, Verdict};
use neuraxis_ports::{Tool, ToolContext, TurnContext};
use neuraxis_tools::project_files;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

/// A policy that lets patches change everything except the files of one folder.
const POLICY: &str = r#"
[modes.exploratory.tools]
idempotent = "allow"
irreversible = "allow"
destructive = "allow"
[rules.kept]
answer = "deny"
tools = ["apply_patch"]
paths = ["kept", "kept/**"]
"#;

const POEM: &str = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n";

/// Applies a patch to a project of three files.
pub fn patch(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let around = tempfile::tempdir().unwrap();
    let project = around.path().join("project");
    for file in ["a.txt", "kept/b.txt", "sub/c.txt"] {
        let path = project.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, POEM).unwrap();
    }
    fs::write(around.path().join("outside.txt"), POEM).unwrap();
    let before = files(around.path());

    let tools = project_files(&project).unwrap();
    let mut tools = tools.iter();
    let tool = tools
        .find(|tool| tool.spec().name.as_str() == "apply_patch")
        .unwrap();
    let arguments = serde_json::json!({ "patch": text });
    let arguments = JsonText::from_text(arguments.to_string());
    let is_denied = is_denied(tool, &arguments);
    let result = runtime().block_on(tool.call(arguments, context()));

    let after = files(around.path());
    let changed = before.iter().filter(|file| !after.contains_key(file.0));
    let changed = changed.chain(
        after
            .iter()
            .filter(|(path, text)| before.get(*path) != Some(text)),
    );
    let changed: Vec<&str> = changed.map(|(path, _)| path.as_str()).collect();
    let is_outside = |path: &&str| !path.starts_with("project/");
    assert!(!changed.iter().any(is_outside), "{changed:?}");
    match result {
        Err(_) => assert!(changed.is_empty(), "it failed, and changed {changed:?}"),
        // In a series of mails, a message may be between the files.
        Ok(_) if text.contains("\nFrom ") => {}
        Ok(output) => {
            let applied: Value = output.value.decode().unwrap();
            let files = applied["files"].as_array().unwrap().iter();
            let added: u64 = files
                .map(|file| file["added_lines"].as_u64().unwrap())
                .sum();
            let asked = lines_to_add(text) as u64;
            assert!(added >= asked, "of {asked} lines it added {added}");
        }
    }
    if !is_denied {
        let is_kept = |path: &&str| *path == "project/kept" || path.starts_with("project/kept/");
        assert!(!changed.iter().any(is_kept), "nobody denied {changed:?}");
    }
}

/// Counts the lines after the first file header that can only be added lines.
fn lines_to_add(patch: &str) -> usize {
    let begins_v4a = |line: &str| line.trim_end() == "*** Begin Patch";
    let is_v4a = patch.lines().any(begins_v4a);
    let is_git = patch.lines().any(|line| line.starts_with("diff --git "));
    let begins = |line: &str| {
        if is_v4a {
            begins_v4a(line)
        } else if is_git {
            line.starts_with("diff --git ")
        } else {
            line.starts_with("--- ") || line.starts_with("+++ ")
        }
    };
    let lines = patch.lines().skip_while(|line| !begins(line));
    let added = lines.filter(|line| line.starts_with('+') && !line.starts_with("+++ "));
    added.count()
}

fn is_denied(tool: &Arc<dyn Tool>, arguments: &JsonText) -> bool {
    static POLICY_READ: OnceLock<Policy> = OnceLock::new();
    let policy = POLICY_READ
        .get_or_init(|| Policy::layered(PolicyConfig::from_toml(POLICY).unwrap()).unwrap());
    let channel = Channel::new("code_task");
    let tools = [tool.spec().clone()];
    let request = Request::new(&Mode::EXPLORATORY, &channel, "Go.").with_tools(&tools);
    let decision = policy.evaluate_request(&request).unwrap();
    let verdict = policy.judge(&decision, &Call::new(tool.spec(), arguments));
    matches!(verdict, Verdict::Deny { .. })
}

fn context() -> ToolContext {
    let run = RunId(Uuid::nil());
    let turn = TurnContext::new(run, None, AgentId::ROOT, Turn(1));
    let effect = EffectId { run, number: 1 };
    ToolContext::new(turn, ToolCallId::from_text("call_1"), effect)
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Builder::new_current_thread().build().unwrap())
}

/// Returns the text of each file below a folder, by its path.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap();
                let name = name.to_string_lossy().into_owned();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}
