//! Properties of all tools of this crate.

use std::sync::Arc;

use neuraxis_core::ToolClass;
use neuraxis_core::jiff::Timestamp;
use neuraxis_ports::Tool;
use neuraxis_tools::{ProjectError, built_in, project_files};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{FixedClock, accepts, schema};

fn all(root: &TempDir) -> Vec<Arc<dyn Tool>> {
    #[cfg(target_os = "linux")]
    neuraxis_tools::use_sandbox_helper(env!("CARGO_BIN_EXE_neuraxis-sandbox"));
    let mut tools = built_in(Arc::new(FixedClock(Timestamp::UNIX_EPOCH))).unwrap();
    tools.extend(project_files(root.path()).unwrap());
    tools
}

#[test]
fn the_built_in_tools_have_their_documented_names() {
    let root = TempDir::new().unwrap();
    let tools = all(&root);
    let names: Vec<_> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    let on_linux: &[&str] = if cfg!(target_os = "linux") {
        &["run_command"]
    } else {
        &[]
    };
    assert_eq!(
        names,
        [
            "current_time",
            "calculate",
            "ask_user",
            "update_plan",
            "system_health",
            "list_files",
            "read_file",
            "search_files",
            "write_file",
            "apply_patch",
        ]
        .iter()
        .chain(on_linux)
        .copied()
        .collect::<Vec<_>>()
    );
}

#[test]
fn every_tool_declares_what_it_may_change() {
    let root = TempDir::new().unwrap();
    for tool in all(&root) {
        let spec = tool.spec();
        let (class, destructive, open_world) = match spec.name.as_str() {
            "write_file" => (ToolClass::Idempotent, false, false),
            "apply_patch" => (ToolClass::Irreversible, false, false),
            "run_command" => (ToolClass::Irreversible, true, true),
            _ => (ToolClass::ReadOnly, false, false),
        };
        let told = (
            spec.class,
            spec.annotations.destructive,
            spec.annotations.open_world,
        );
        assert_eq!(told, (class, destructive, open_world), "{}", spec.name);
    }
}

#[test]
fn every_tool_refuses_unknown_arguments() {
    let root = TempDir::new().unwrap();
    for tool in all(&root) {
        assert_eq!(
            schema(tool.as_ref())["additionalProperties"],
            false,
            "{}",
            tool.spec().name
        );
        assert!(!accepts(
            tool.as_ref(),
            &json!({ "path": ".", "pattern": "x", "nonsense": 1 })
        ));
    }
}

#[test]
fn every_argument_has_a_description_and_optional_ones_accept_null() {
    let root = TempDir::new().unwrap();
    for tool in all(&root) {
        let schema = schema(tool.as_ref());
        let required: Vec<_> = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .collect();
        for (name, argument) in schema["properties"].as_object().unwrap() {
            assert!(
                argument["description"].is_string(),
                "{}: {name}",
                tool.spec().name
            );
            let mut arguments = json!({});
            for required in &required {
                let required = required.as_str().unwrap();
                let is_list = schema["properties"][required]["type"] == "array";
                arguments[required] = if is_list { json!([]) } else { json!("x") };
            }
            if !required.iter().any(|required| *required == name) {
                arguments[name] = json!(null);
            }
            assert!(
                accepts(tool.as_ref(), &arguments),
                "{}: {name}",
                tool.spec().name
            );
        }
    }
}

#[test]
fn a_missing_project_folder_or_a_file_is_an_error_that_names_it() {
    let root = TempDir::new().unwrap();
    let missing = root.path().join("missing");
    let error = project_files(&missing).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot open the project folder {}", missing.display())
    );
    let file = root.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(
        matches!(project_files(&file).unwrap_err(), ProjectError::Root { path, .. } if path == file)
    );
}

#[test]
fn a_protected_folder_is_refused_as_project_by_any_path() {
    let top = TempDir::new().unwrap();
    let hooks = top.path().join(".git/hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    for folder in [top.path().join(".git"), hooks.clone()] {
        let error = project_files(&folder).unwrap_err();
        let named = matches!(&error, ProjectError::Protected { path } if *path == folder);
        assert!(named, "{error}");
        assert!(error.to_string().contains(".git, neuraxis.toml"), "{error}");
    }
    // The project folder itself, by a path that leads through it.
    assert!(project_files(hooks.join("../..")).is_ok());
    #[cfg(unix)]
    {
        let link = top.path().join("link");
        std::os::unix::fs::symlink(&hooks, &link).unwrap();
        assert!(project_files(&link).is_err());
    }
}
