//! The sandbox on machines that support less of it than this one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use neuraxis_core::Access;
use neuraxis_ports::ToolError;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

use super::helper::{CommandRequest, start_with, use_sandbox_helper};
use super::{Aftermath, Ended, SandboxFeature};

/// Sets the helper, which is built with the tests. Returns whether it exists.
fn has_helper() -> bool {
    let tests = std::env::current_exe().unwrap();
    let helper = tests.ancestors().nth(2).unwrap().join("neuraxis-sandbox");
    let is_there = helper.exists();
    if !is_there {
        println!("skipped: {} is not there", helper.display());
    }
    use_sandbox_helper(helper);
    is_there
}

fn project() -> TempDir {
    let project = tempfile::tempdir().unwrap();
    for folder in [".git/hooks", "src"] {
        fs::create_dir_all(project.path().join(folder)).unwrap();
    }
    fs::write(project.path().join("neuraxis.toml"), "# ours\n").unwrap();
    fs::write(project.path().join("src/a.txt"), "a\n").unwrap();
    project
}

/// Runs a command with some parts of the sandbox; returns how it ended and its output.
async fn run(
    project: &Path,
    features: &[SandboxFeature],
    access: &[Access],
    command: &str,
) -> Result<(Ended, String), ToolError> {
    let dir = Dir::open_ambient_dir(project, ambient_authority()).unwrap();
    let request = CommandRequest {
        command,
        environment: vec![("PATH".into(), std::env::var_os("PATH").unwrap_or_default())],
        project: &dir,
        folder: (PathBuf::new(), &dir),
        access: BTreeSet::from_iter(access.iter().copied()),
        unreadable: Vec::new(),
        unreachable: Vec::new(),
        read_only: vec!["neuraxis.toml".into()],
    };
    let mut running = start_with(BTreeSet::from_iter(features.iter().copied()), request)?;
    let (mut stdout, mut stderr) = running.output().unwrap();
    let mut text = String::new();
    stdout.read_to_string(&mut text).await.unwrap();
    stderr.read_to_string(&mut text).await.unwrap();
    Ok((running.wait().await?, text))
}

fn code(code: i32) -> Ended {
    Ended {
        exit_code: Some(code),
        signal: None,
        aftermath: Aftermath::default(),
        left_running: false,
    }
}

#[tokio::test]
async fn with_landlock_alone_commands_write_in_the_project_except_protected_files() {
    if !has_helper() {
        return;
    }
    let project = project();
    let works =
        "echo b >> src/a.txt && touch src/new \"$TMPDIR/x\" && cat src/a.txt neuraxis.toml; exit 7";
    let (ended, text) = run(project.path(), &[], &[], works).await.unwrap();
    assert_eq!((ended, text.as_str()), (code(7), "a\nb\n# ours\n"));
    for command in [
        "echo x >> neuraxis.toml",
        "rm neuraxis.toml",
        "mv src/a.txt neuraxis.toml",
        "echo x > .git/hooks/pre-commit",
        "mv .git moved",
        "echo x > ../outside",
        "echo x > /dev/tty",
        "python3 -c 'import pty; pty.openpty()'",
        "echo x > /dev/shm/neuraxis-test",
    ] {
        let (ended, text) = run(project.path(), &[], &[], command).await.unwrap();
        assert_ne!(ended, code(0), "{command}: {text}");
    }
    let refused = run(project.path(), &[], &[Access::Git], "true")
        .await
        .unwrap_err();
    assert!(
        refused
            .message
            .contains("access to git needs a mount namespace"),
        "{}",
        refused.message
    );
}

#[tokio::test]
async fn without_a_pid_namespace_all_descendants_are_still_ended() {
    if !has_helper() {
        return;
    }
    let project = project();
    let time = format!("1000.7{}", std::process::id());
    let command = format!(
        "env -i setsid sleep {time} >/dev/null 2>&1 & setsid sh -c '(sleep {time} & sleep {time} &) ; exit' >/dev/null 2>&1; kill -TERM $$"
    );
    let (ended, _) = run(project.path(), &[], &[], &command).await.unwrap();
    assert_eq!(
        (ended.exit_code, ended.signal, ended.left_running),
        (None, Some(15), true)
    );
    let is_there = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let mut lines = processes.filter_map(|one| fs::read(one.path().join("cmdline")).ok());
        lines.any(|line| String::from_utf8_lossy(&line).contains(&time))
    };
    let deadline = Instant::now() + Duration::from_secs(3);
    while is_there() {
        assert!(Instant::now() < deadline, "a process is still there");
    }
}

#[tokio::test]
async fn without_a_network_namespace_sockets_are_denied_without_network_access() {
    if !has_helper() {
        return;
    }
    let project = project();
    let seccomp = [SandboxFeature::SystemCalls];
    fs::write(
        project.path().join("src/try.py"),
        "import ctypes, socket\n\
         for family in [socket.AF_INET, socket.AF_INET6, socket.AF_UNIX]:\n\
         \x20   try: socket.socket(family)\n\
         \x20   except PermissionError: print('no')\n\
         print(ctypes.CDLL(None).shmget(4712, 4096, 0o1666))\n",
    )
    .unwrap();
    let tried = "command -v python3 >/dev/null || exit 9; python3 src/try.py";
    let (ended, text) = run(project.path(), &seccomp, &[], tried).await.unwrap();
    if ended != code(9) {
        assert_eq!(text, "no\nno\nno\n-1\n");
    }
}
