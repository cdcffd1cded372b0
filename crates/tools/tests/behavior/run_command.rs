//! `run_command` runs command lines in the project, confined, within limits, and without leaving anything behind.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use neuraxis_core::JsonText;
use neuraxis_ports::{Progress, ToolContext};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::limits::{COMMAND_MAX_BYTES, COMMAND_MAX_OUTPUT_BYTES};
use crate::support::{Project, RecordedOutput, call, context};

async fn run(project: &Project, command: &str) -> Value {
    project
        .call("run_command", json!({ "command": command }))
        .await
}

/// Returns a context that shows the command's output.
fn watched() -> (ToolContext, Arc<RecordedOutput>) {
    let output = Arc::new(RecordedOutput::default());
    let mut ctx = context();
    ctx.progress = Progress::to(Arc::clone(&output) as _);
    (ctx, output)
}

/// Returns a duration for `sleep` that no other process of this machine uses, by which the process is recognized.
fn own_time() -> String {
    static TIMES: AtomicU64 = AtomicU64::new(0);
    let number = TIMES.fetch_add(1, Ordering::Relaxed);
    format!("1000.{}{number:03}", std::process::id())
}

/// Waits until no process has this in its arguments. The process ids that a command sees differ from those outside.
async fn assert_gone(time: &str) {
    let is_there = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let mut lines =
            processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
        lines.any(|line| String::from_utf8_lossy(&line).contains(time))
    };
    let deadline = Instant::now() + Duration::from_secs(3);
    while is_there() {
        assert!(Instant::now() < deadline, "a process is still there");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn processes_that_a_command_leaves_running_are_stopped_and_reported() {
    let project = Project::new();
    let told = "Processes that it had started were still running and were stopped.";
    for (command, is_told) in [
        (format!("sleep {} & echo up", own_time()), true),
        (format!("(setsid sleep {} &) ; echo up", own_time()), true),
        ("sleep 0.01 & wait; seq 9 | sort".to_owned(), false),
    ] {
        let ran = run(&project, &command).await;
        assert_eq!(ran["exit_code"], 0, "{ran}");
        let summary = ran["summary"].as_str().unwrap();
        assert_eq!(summary.ends_with(told), is_told, "{summary}");
        assert_eq!(ran["left_running"] == true, is_told, "{ran}");
    }
}

#[tokio::test]
async fn a_command_runs_in_the_project_and_returns_its_exit_code_and_outputs() {
    let project = Project::with(&[("a.txt", "inside")]);
    let mut ran = run(&project, "cat a.txt; echo oops >&2; exit 3").await;
    ran["duration_ms"].take();
    let summary = ran["summary"].take();
    assert_eq!(
        ran,
        json!({
            "exit_code": 3, "stdout": "inside", "stderr": "oops\n", "duration_ms": null,
            "without_access": ["network", "git"], "summary": null
        })
    );
    let summary = summary.as_str().unwrap();
    assert!(
        summary.starts_with("`cat a.txt; echo oops >&2; exit 3` ended with exit code 3 after "),
        "{summary}"
    );
    let piped = run(&project, "printf 'b\\na\\n' | sort && echo done").await;
    assert_eq!(piped["stdout"], "a\nb\ndone\n");
    assert_eq!(run(&project, "kill -9 $$").await["signal"], 9);
    let nothing = run(&project, "grep outside a.txt").await;
    assert_eq!(
        (nothing["exit_code"].as_i64(), &nothing["without_access"]),
        (Some(1), &Value::Null)
    );
    let unreachable = run(&project, "(echo unreachable >&2; exit 1) 2>&1").await;
    assert_eq!(unreachable["stderr"], "");
    assert_eq!(unreachable["without_access"], json!(["network", "git"]));
}

#[tokio::test]
async fn an_outside_repository_is_reported_and_no_useless_access_is_suggested() {
    // As in a linked working tree, whose repository is elsewhere.
    let project = Project::with(&[(".git", "gitdir: /usr\n"), ("other/.git/HEAD", "")]);
    let told = "The git repository of this folder, /usr, is outside the project";
    let both = json!(["network", "git"]);
    for (command, is_told, proposed) in [
        (": git commit; exit 3", true, &json!(["network"])),
        ("exit 3", false, &both),
        ("cd other; : git commit; exit 3", true, &json!(["network"])),
    ] {
        let ran = run(&project, command).await;
        assert_eq!(&ran["without_access"], proposed, "{ran}");
        let summary = ran["summary"].as_str().unwrap();
        assert_eq!(summary.contains(told), is_told, "{summary}");
        assert_eq!(ran["repository_outside"] == "/usr", is_told, "{ran}");
    }
    let inside = json!({ "command": ": git commit; exit 3", "cwd": "other" });
    let ran = project.call("run_command", inside).await;
    assert_eq!(ran["without_access"], both);
}

#[tokio::test]
async fn only_folders_in_the_project_may_be_the_working_directory() {
    let project = Project::with(&[("sub/a.txt", "")]);
    let inside = json!({ "command": "ls; pwd", "cwd": "sub" });
    let ran = project.call("run_command", inside).await;
    let sub = project.path("sub").canonicalize().unwrap();
    assert_eq!(ran["stdout"], format!("a.txt\n{}\n", sub.display()));
    for (cwd, expected) in [
        ("..", "outside_root: "),
        ("/", "outside_root: "),
        ("sub/a.txt", "not_a_folder: "),
        ("missing", "not_found: "),
    ] {
        let message = project
            .fail("run_command", json!({ "command": "ls", "cwd": cwd }))
            .await;
        assert!(message.starts_with(expected), "{cwd}: {message}");
    }
}

#[tokio::test]
async fn a_command_can_write_only_in_the_project_and_its_temporary_folder() {
    let project = Project::with(&[("a.txt", "x")]);
    let ran = run(
        &project,
        "echo y > a.txt; mkdir b; mv a.txt b; echo t > \"$TMPDIR/t\" && cat \"$TMPDIR/t\"; echo \"$TMPDIR\" > place; \
         echo n > /dev/null",
    )
    .await;
    assert_eq!(
        (ran["exit_code"].as_i64(), ran["stdout"].as_str()),
        (Some(0), Some("t\n")),
        "{ran}"
    );
    assert_eq!(fs::read_to_string(project.path("b/a.txt")).unwrap(), "y\n");
    assert!(
        !Path::new(fs::read_to_string(project.path("place")).unwrap().trim()).exists(),
        "the temporary folder was left behind"
    );
    for command in [
        "echo x > ../outside.txt",
        "echo x > ../new.txt",
        "rm ../outside.txt",
        "mv ../outside.txt .",
        "ln -s .. up && echo x > up/outside.txt",
        "mkdir ../new",
        "touch /tmp/neuraxis-escape",
        "chmod 600 /etc/hostname",
        "echo x >> /etc/hostname",
    ] {
        let ran = run(&project, command).await;
        assert_ne!(ran["exit_code"], 0, "{command} gave {ran}");
    }
    let outside = fs::read_to_string(project.path("../outside.txt")).unwrap();
    assert_eq!(outside, "SECRET outside\n");
    assert!(!project.path("../new").exists() && !project.path("../new.txt").exists());
}

#[tokio::test]
async fn a_command_sees_neither_the_environment_nor_the_memory_of_the_program() {
    let project = Project::new();
    let names = run(&project, "env | cut -d= -f1 | sort").await;
    let allowed = [
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
        "TERM",
        "NO_COLOR",
        "PAGER",
        "GIT_PAGER",
        "GIT_TERMINAL_PROMPT",
        "DEBIAN_FRONTEND",
        "TMPDIR",
        "XDG_CACHE_HOME",
        "GIT_EDITOR",
        "GIT_OPTIONAL_LOCKS",
        "GIT_CONFIG_COUNT",
        "HUSKY",
    ];
    for name in names["stdout"].as_str().unwrap().lines() {
        let handed_on =
            neuraxis_tools::COMMAND_ENVIRONMENT.contains(&name) || name.starts_with("LC_");
        let git = name.starts_with("GIT_CONFIG_KEY_") || name.starts_with("GIT_CONFIG_VALUE_");
        assert!(
            handed_on || git || allowed.contains(&name),
            "{name} was handed on"
        );
    }
    let us = std::process::id();
    let looked = run(&project, &format!("cat /proc/{us}/environ")).await;
    assert_ne!(looked["exit_code"], 0, "{looked}");
    assert_eq!(looked["stdout"], "");
    // Signal 0 only checks whether a signal could be sent. Kernels before 6.12 allow it.
    let signal = run(&project, &format!("kill -0 {us}")).await;
    assert!(signal["exit_code"].is_i64());
}

#[tokio::test]
async fn a_command_receives_only_the_configured_variables() {
    let project = Project::naming(&["CARGO_MANIFEST_DIR".to_owned()]);
    let shown = run(&project, "echo $CARGO_MANIFEST_DIR; echo $CARGO_PKG_NAME").await;
    let expected = concat!(env!("CARGO_MANIFEST_DIR"), "\n\n");
    assert_eq!(shown["stdout"], expected);
}

#[tokio::test]
async fn a_command_has_no_input_and_cannot_gain_privileges() {
    let project = Project::new();
    assert_eq!(run(&project, "cat; echo end").await["stdout"], "end\n");
    let status = run(&project, "grep NoNewPrivs /proc/self/status").await;
    assert_eq!(status["stdout"], "NoNewPrivs:\t1\n");
}

#[tokio::test]
async fn an_empty_or_invalid_command_is_refused() {
    let project = Project::new();
    for (command, expected) in [
        ("", "invalid_command: the command is empty"),
        (" \n", "invalid_command: the command is empty"),
        (
            "a\0b",
            "invalid_command: the command contains a NUL character",
        ),
    ] {
        let message = project
            .fail("run_command", json!({ "command": command }))
            .await;
        assert_eq!(message, expected);
    }
    let long = "x".repeat(COMMAND_MAX_BYTES + 1);
    let message = project
        .fail("run_command", json!({ "command": long }))
        .await;
    assert!(message.contains("more than 8192 bytes"), "{message}");
    assert_eq!(
        run(&project, "no_such_program_here").await["exit_code"],
        127
    );
    assert_ne!(run(&project, "if then").await["exit_code"], 0);
}

#[tokio::test]
async fn only_the_beginning_and_end_of_excessive_output_are_returned() {
    let project = Project::new();
    let ran = run(
        &project,
        "echo first; head -c 50000000 /dev/zero | tr '\\0' 'x'; echo; echo last",
    )
    .await;
    let text = ran["stdout"].as_str().unwrap();
    assert!(text.starts_with("first\nxxx") && text.ends_with("x\nlast\n"));
    assert!(
        text.len() < COMMAND_MAX_OUTPUT_BYTES + 100,
        "{}",
        text.len()
    );
    assert_eq!(
        ran["bytes_left_out"],
        50_000_012 - COMMAND_MAX_OUTPUT_BYTES as u64
    );
}

#[tokio::test]
async fn output_is_shown_while_the_command_runs() {
    let project = Project::new();
    let (ctx, output) = watched();
    let command =
        json!({ "command": "echo early; while [ ! -e go ]; do sleep 0.01; done; echo late" });
    let running = call(project.tool("run_command"), command, ctx);
    let seen = async {
        output.shows("early").await;
        assert!(!output.text().contains("late"));
        fs::write(project.path("go"), "").unwrap();
    };
    let (ran, ()) = tokio::join!(running, seen);
    assert_eq!(ran.unwrap()["stdout"], "early\nlate\n");
}

#[tokio::test]
async fn a_timed_out_command_ends_with_all_its_children_and_its_output_is_returned() {
    let project = Project::new();
    let time = own_time();
    let slow = json!({
        "command": format!("trap '' TERM INT HUP; echo begun; sleep {time} & (trap '' TERM; sleep {time})"),
        "timeout_seconds": 1,
    });
    let ran = timeout(Duration::from_secs(20), project.call("run_command", slow))
        .await
        .unwrap();
    assert_eq!(
        (ran["timed_out"].as_bool(), ran["stdout"].as_str()),
        (Some(true), Some("begun\n")),
        "{ran}"
    );
    assert_eq!(ran["exit_code"], Value::Null);
    assert!(
        ran["summary"]
            .as_str()
            .unwrap()
            .contains("was stopped because it timed out after 1.")
    );
    assert_gone(&time).await;
}

#[tokio::test]
async fn background_processes_and_those_in_other_sessions_are_ended_too() {
    let project = Project::new();
    let started = Instant::now();
    let time = own_time();
    let command = format!(
        "sleep {time} & setsid sh -c 'echo x > stray; trap \"\" TERM; sleep {time}; sleep {time}' & \
         setsid sh -c '(sleep {time} & echo x > daemon) & exit'; env -i setsid sh -c 'echo x > bare; sleep {time}' & \
         while [ ! -s stray ] || [ ! -s daemon ] || [ ! -s bare ]; do sleep 0.01; done; echo done"
    );
    let ran = run(&project, &command).await;
    assert_eq!(
        (ran["exit_code"].as_i64(), ran["stdout"].as_str()),
        (Some(0), Some("done\n")),
        "{ran}"
    );
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "a held pipe held up the call"
    );
    assert_gone(&time).await;
}

#[tokio::test]
async fn a_cancelled_or_dropped_call_ends_its_command() {
    let project = Project::new();
    let time = own_time();
    let command = json!({ "command": format!("sleep {time} & env -i setsid sleep {time} & echo begun; wait") });
    let (ctx, output) = watched();
    let token = ctx.cancellation.clone();
    let running = call(project.tool("run_command"), command.clone(), ctx);
    let cancelling = async {
        output.shows("begun").await;
        token.cancel();
    };
    let (cancelled, ()) = tokio::join!(running, cancelling);
    assert!(cancelled.unwrap_err().message.starts_with("cancelled: "));
    assert_gone(&time).await;

    let (ctx, output) = watched();
    let arguments = JsonText::from_text(command.to_string());
    let running = project.tool("run_command").call(arguments, ctx);
    tokio::select! {
        _ = running => panic!("it ended by itself"),
        () = output.shows("begun") => {}
    }
    assert_gone(&time).await;
}

#[tokio::test]
async fn a_command_that_waits_for_its_children_does_not_wait_for_those_of_the_program() {
    let project = Project::new();
    let waits = json!({ "command": "sleep 0.01 & wait; echo done", "timeout_seconds": 20 });
    assert_eq!(project.call("run_command", waits).await["stdout"], "done\n");
}
