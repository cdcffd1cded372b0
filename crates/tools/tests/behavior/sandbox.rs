//! What a sandboxed command can and cannot reach: every way out that was ever found, and what builds and tests need
//! nevertheless.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use neuraxis_ports::Progress;
use neuraxis_tools::{SandboxFeature, sandbox_features};
use serde_json::{Value, json};

use crate::support::{Project, RecordedOutput, call, context};

async fn run_with(project: &Project, access: &[&str], command: &str) -> Value {
    let arguments = if access.is_empty() {
        json!({ "command": command })
    } else {
        json!({ "command": command, "access": access })
    };
    project.call("run_command", arguments).await
}

async fn run(project: &Project, command: &str) -> Value {
    run_with(project, &[], command).await
}

/// Runs a Python program.
async fn python(project: &Project, program: &str) -> Value {
    project.write("program.py", program);
    run(project, "python3 program.py").await
}

async fn succeeds(project: &Project, access: &[&str], command: &str) -> String {
    let ran = run_with(project, access, command).await;
    assert_eq!(
        ran.get("exit_code"),
        Some(&json!(0)),
        "{command} gave {ran}"
    );
    let stdout = ran.get("stdout").and_then(Value::as_str);
    stdout.unwrap_or_default().to_owned()
}

async fn fails(project: &Project, access: &[&str], command: &str) {
    let ran = run_with(project, access, command).await;
    assert_ne!(
        ran.get("exit_code"),
        Some(&json!(0)),
        "{command} gave {ran}"
    );
}

/// Returns whether this machine supports a part of the sandbox and has a program; otherwise prints what is skipped.
#[expect(clippy::print_stdout, reason = "a test says why it did nothing")]
fn has(feature: SandboxFeature, program: &str) -> bool {
    let _project = Project::new();
    let features = sandbox_features().unwrap();
    let there = Command::new(program).arg("--version").output().is_ok();
    if !features.has(feature) || !there {
        println!("skipped: there is no {feature} or no {program}: {features:?}");
    }
    features.has(feature) && there
}

/// Returns a project with a repository of one commit.
fn repository() -> Project {
    let project = Project::with(&[("a.txt", "one\n"), ("sub/b.txt", "two\n")]);
    git(&project, &["init", "-q", "-b", "main"]);
    git(&project, &["config", "user.name", "N"]);
    git(&project, &["config", "user.email", "n@example.org"]);
    git(&project, &["add", "."]);
    git(&project, &["commit", "-qm", "first"]);
    project
}

fn git(project: &Project, arguments: &[&str]) {
    let mut git = Command::new("git");
    git.arg("-C").arg(project.path("")).args(arguments);
    assert!(git.status().unwrap().success(), "git {arguments:?}");
}

#[tokio::test]
async fn a_command_has_no_terminal_and_can_open_only_its_own() {
    if !has(SandboxFeature::Files, "python3") {
        return;
    }
    let project = Project::new();
    fails(&project, &[], "echo x > /dev/tty").await;
    assert_eq!(succeeds(&project, &[], "ls /dev/pts").await, "ptmx\n");
    let own = python(
        &project,
        "import os, pty, fcntl, termios\n\
         ours, theirs = pty.openpty()\n\
         os.write(theirs, b'x')\n\
         assert os.read(ours, 1) == b'x'\n\
         os.setsid() if os.getpid() != os.getsid(0) else None\n\
         fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)\n\
         try:\n    fcntl.ioctl(theirs, termios.TIOCSTI, b'y')\nexcept PermissionError: print('no typing')\n",
    )
    .await;
    assert_eq!(own["stdout"], "no typing\n", "{own}");
}

#[tokio::test]
async fn a_command_cannot_connect_to_unix_sockets() {
    if !has(SandboxFeature::SystemCalls, "python3") {
        return;
    }
    let project = Project::new();
    let _outside = UnixListener::bind(project.path("../socket")).unwrap();
    let _inside = UnixListener::bind(project.path("socket")).unwrap();
    let name = format!("neuraxis-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract = UnixListener::bind_addr(&address).unwrap();
    let tried = python(
        &project,
        &format!(
            "import socket\n\
             for address in ['../socket', 'socket', '\\0{name}']:\n\
             \x20   for kind in [socket.SOCK_STREAM, socket.SOCK_DGRAM]:\n\
             \x20       try:\n\
             \x20           socket.socket(socket.AF_UNIX, kind).connect(address)\n\
             \x20           print('reached', address)\n\
             \x20       except PermissionError: print('no')\n\
             try: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n\
             except PermissionError: print('no')\n\
             for family in [socket.AF_PACKET, socket.AF_VSOCK, socket.AF_ALG]:\n\
             \x20   try: socket.socket(family, socket.SOCK_RAW)\n\
             \x20   except PermissionError: print('no')\n\
             a, b = socket.socketpair()\n\
             a.send(b'a pair is well')\n\
             print(b.recv(99).decode())\n"
        ),
    )
    .await;
    assert_eq!(
        tried["stdout"],
        format!("{}a pair is well\n", "no\n".repeat(10)),
        "{tried}"
    );
}

#[tokio::test]
async fn a_command_cannot_modify_files_outside_the_project() {
    if !has(SandboxFeature::Files, "python3") {
        return;
    }
    let project = Project::new();
    let outside = project.path("../outside.txt");
    fs::set_permissions(&outside, Permissions::from_mode(0o640)).unwrap();
    symlink("../outside.txt", project.path("link")).unwrap();
    let before = fs::metadata(&outside).unwrap();
    let tried = python(
        &project,
        "import os\n\
         o = '../outside.txt'\n\
         tries = [lambda: os.chmod(o, 0o777), lambda: os.chmod('link', 0o4777), lambda: os.chown(o, 1, 1),\n\
         \x20   lambda: os.utime(o, (1, 1)), lambda: os.setxattr(o, 'user.x', b'y'), lambda: os.truncate(o, 0),\n\
         \x20   lambda: os.open(o, os.O_RDONLY | os.O_TRUNC), lambda: os.fchmod(os.open(o, os.O_RDONLY), 0o777),\n\
         \x20   lambda: os.chmod('/etc/hostname', 0o777), lambda: os.chmod('..', 0o777), lambda: os.chmod('/proc/1/root' + os.path.abspath(o), 0o777)]\n\
         for number, one in enumerate(tries):\n\
         \x20   try:\n\
         \x20       one()\n\
         \x20       print('did', number)\n\
         \x20   except OSError: pass\n",
    )
    .await;
    assert_eq!(
        (&tried["stdout"], &tried["stderr"]),
        (&json!(""), &json!(""))
    );
    let after = fs::metadata(&outside).unwrap();
    let seen = |of: &fs::Metadata| (of.mode(), of.uid(), of.len(), of.mtime(), of.ctime_nsec());
    assert_eq!(seen(&before), seen(&after));
}

#[tokio::test]
async fn a_command_has_its_own_shared_memory() {
    if !has(SandboxFeature::SharedMemory, "python3") {
        return;
    }
    let project = Project::new();
    let name = format!("neuraxis-test-{}", std::process::id());
    fails(&project, &[], "ls /dev/shm/* 2>/dev/null").await;
    succeeds(&project, &[], &format!("echo x > /dev/shm/{name}")).await;
    assert!(!fs::exists(format!("/dev/shm/{name}")).unwrap());
    let segments = || {
        fs::read_to_string("/proc/sysvipc/shm")
            .unwrap()
            .lines()
            .count()
    };
    let before = segments();
    let made = python(
        &project,
        "import ctypes\nprint(ctypes.CDLL(None).shmget(4711, 4096, 0o1666) >= 0)\n",
    )
    .await;
    assert_eq!((&made["stdout"], segments()), (&json!("True\n"), before));
    let works = "import multiprocessing\nlock = multiprocessing.Lock()\nwith lock: print('locked')\n\
                 with multiprocessing.Pool(2) as pool: print(sum(pool.map(abs, [-1, -2])))\n";
    let works = python(&project, works).await;
    assert_eq!(works["stdout"], "locked\n3\n", "{works}");
}

#[tokio::test]
async fn a_command_cannot_create_namespaces_mounts_or_io_rings() {
    if !has(SandboxFeature::SystemCalls, "python3") {
        return;
    }
    let project = Project::new();
    for command in [
        "unshare -Ur true",
        "unshare -m true",
        "mount -t tmpfs x .",
        "umount -l .",
        "mount -o remount,bind,rw /",
        "chroot . true",
        "nsenter -t 1 -m true",
    ] {
        fails(&project, &[], command).await;
    }
    let calls = python(
        &project,
        "import ctypes, os, platform\n\
         call = ctypes.CDLL(None, use_errno=True).syscall\n\
         def tried(*arguments):\n\
         \x20   ctypes.set_errno(0)\n\
         \x20   call(*arguments)\n\
         \x20   return os.strerror(ctypes.get_errno())\n\
         print(tried(425, 1, 0))\n\
         print(tried(435, 0, 0))\n\
         if platform.machine() == 'x86_64':\n\
         \x20   print(tried(56, 0x10000000 | 17, 0, 0, 0, 0))\n\
         \x20   print(tried(304, 0, 0, 0))\n",
    )
    .await;
    let calls = calls["stdout"].as_str().unwrap();
    let expected = "Function not implemented\nFunction not implemented\nOperation not permitted\nOperation not permitted\n";
    assert!(expected.starts_with(calls) && !calls.is_empty(), "{calls}");
    // The remaining privileges of the superuser: opening files.
    let left = succeeds(&project, &[], "grep CapPrm /proc/self/status").await;
    assert!(
        ["0000000000000006", "0000000000000000"]
            .contains(&left.trim_start_matches("CapPrm:").trim()),
        "{left}"
    );
}

#[tokio::test]
async fn a_command_sees_only_its_own_processes() {
    if !has(SandboxFeature::Processes, "ps") {
        return;
    }
    let project = Project::new();
    let seen = succeeds(&project, &[], "ls /proc | grep -c '^[0-9]'").await;
    let seen: u32 = seen.trim().parse().unwrap();
    assert!(seen < 8, "{seen} processes were seen");
    let ours = format!("test ! -e /proc/{}", std::process::id());
    succeeds(&project, &[], &ours).await;
}

#[tokio::test]
async fn without_network_access_a_command_has_only_its_own_loopback() {
    if !has(SandboxFeature::Network, "python3") {
        return;
    }
    let project = Project::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    project.write(
        "reach.py",
        format!("import socket\nsocket.create_connection(('127.0.0.1', {port}), 5)\n"),
    );
    let closed = run(&project, "python3 reach.py").await;
    assert_ne!(closed["exit_code"], 0, "{closed}");
    assert_eq!(closed["without_access"], json!(["network", "git"]));
    succeeds(&project, &["network"], "python3 reach.py").await;
    let own = "import socket\n\
               server = socket.create_server(('127.0.0.1', 0))\n\
               client = socket.create_connection(server.getsockname())\n\
               server.accept()[0].send(b'well')\n\
               print(client.recv(9).decode())\n\
               socket.create_server(('::1', 0), family=socket.AF_INET6)\n";
    let own = python(&project, own).await;
    assert_eq!(own["stdout"], "well\n", "{own}");
}

#[tokio::test]
async fn without_git_access_a_repository_is_read_only() {
    if !has(SandboxFeature::Files, "git") {
        return;
    }
    let project = repository();
    project.write("neuraxis.toml", "# ours\n");
    project.write("sub/neuraxis.toml", "# theirs\n");
    project.write("vendor/lib/.git/config", "[core]\n");
    project.write("linked/.git", "gitdir: ../.git\n");
    project.write("a.txt", "changed\n");
    for command in [
        "echo x > .git/hooks/pre-commit",
        "git config core.hooksPath x",
        "git config --file .git/config core.fsmonitor x",
        "chmod 777 .git/config",
        "mv .git moved",
        "rm -rf .git",
        "git commit -qam x",
        "git log -1 --format=x --output=.git/config",
        "echo x >> neuraxis.toml",
        "sed -i s/ours/x/ neuraxis.toml",
        "rm neuraxis.toml",
        "mv a.txt neuraxis.toml",
        "git log -1 --format=x --output=neuraxis.toml",
        "echo x > sub/neuraxis.toml",
        "echo x > vendor/lib/.git/config",
        "mkdir vendor/lib/.git/hooks",
        "rm linked/.git",
        "mv linked elsewhere",
        "mv vendor elsewhere",
        "echo gitdir: /tmp > linked/.git",
    ] {
        fails(&project, &[], command).await;
    }
    assert_eq!(
        fs::read_to_string(project.path("neuraxis.toml")).unwrap(),
        "# ours\n"
    );
    let seen = succeeds(
        &project,
        &[],
        "git status --short && git log --oneline | wc -l && git diff --stat",
    )
    .await;
    assert!(
        seen.starts_with(" M a.txt\n") && seen.contains("\n1\n a.txt | 2 +-"),
        "{seen}"
    );
    succeeds(
        &project,
        &[],
        "touch new && mkdir -p target/debug && mv new target && rm -r target",
    )
    .await;
}

#[tokio::test]
async fn with_git_access_a_repository_is_writable_except_hooks_and_configuration() {
    if !has(SandboxFeature::Files, "git") {
        return;
    }
    let project = repository();
    fs::remove_dir_all(project.path(".git/hooks")).unwrap();
    project.write(".git/modules/sub/HEAD", "ref: refs/heads/main\n");
    project.write(".git/modules/sub/config", "[core]\n");
    project.write("a.txt", "changed\n");
    let commit =
        "git add . && git commit -qm second && git switch -qc other && git log --oneline | wc -l";
    assert_eq!(succeeds(&project, &["git"], commit).await, "2\n");
    for command in [
        "git config core.hooksPath x",
        "echo x >> .git/config",
        "mv .git/config .git/other",
        "mv .git moved",
        "mv .git/modules .git/moved",
        "echo x > .git/modules/sub/config",
    ] {
        fails(&project, &["git"], command).await;
    }
    fails(&project, &["git"], "echo x > .git/hooks/pre-commit").await;
    fails(&project, &["git"], "echo x > .git/config.worktree").await;
    // What does not exist and must not be created cannot be closed; it is removed afterwards.
    succeeds(&project, &["git"], "mkdir e && echo ../e > .git/commondir").await;
    for path in [".git/hooks", ".git/commondir"] {
        assert!(!project.path(path).exists(), "{path} is there");
    }
    git(&project, &["status", "--short"]);
}

#[tokio::test]
async fn files_named_by_a_git_configuration_are_as_protected_as_hooks() {
    if !has(SandboxFeature::Files, "git") {
        return;
    }
    let project = repository();
    git(&project, &["config", "core.hooksPath", ".husky/_"]);
    git(&project, &["config", "include.path", "../shared/git"]);
    project.write(".husky/pre-commit", "npm test\n");
    project.write(".husky/_/h", "# husky\n");
    project.write("shared/git", "[alias]\n");
    project.write("nested/.git/HEAD", "ref: refs/heads/main\n");
    project.write("nested/.git/config", "[core]\n\thooksPath = dev/hooks\n");
    project.write("nested/dev/hooks/pre-push", "true\n");
    for command in [
        "echo x >> .husky/_/h",
        "echo x > .husky/_/pre-push",
        "echo x > .husky/pre-commit",
        "rm .husky/pre-commit",
        "mv .husky moved",
        "echo x >> shared/git",
        "mv shared moved",
        "chmod +x nested/dev/hooks/pre-push",
        "mv nested/dev moved",
    ] {
        fails(&project, &[], command).await;
    }
    // Everyday work continues.
    let works = "cat .husky/pre-commit && git status --short && echo x > shared/other && mkdir nested/new && echo x > a.txt";
    succeeds(&project, &[], works).await;
    let commit = "git add . ':!nested' && git commit -qm second && git switch -qc other";
    succeeds(&project, &["git"], commit).await;
}

#[tokio::test]
async fn with_git_access_a_checkout_is_complete_and_changes_to_named_files_are_reported() {
    if !has(SandboxFeature::Files, "git") {
        return;
    }
    let project = repository();
    project.write(".githooks/pre-commit", "npm test\n");
    project.write(".gitignore", "/own\n");
    git(&project, &["add", "."]);
    git(&project, &["commit", "-qm", "hooks"]);
    git(&project, &["switch", "-qc", "other"]);
    project.write(".githooks/pre-commit", "npm run lint\n");
    project.write("a.txt", "other\n");
    git(&project, &["commit", "-qam", "other hooks"]);
    git(&project, &["switch", "-q", "main"]);
    project.write(".git/shared", "[alias]\n");
    project.write("own", "[alias]\n");
    for (key, value) in [
        ("core.hooksPath", ".githooks"),
        ("include.path", "shared"),
        ("include.path", "../own"),
    ] {
        git(&project, &["config", "--add", key, value]);
    }
    for (command, changed) in [
        ("git status", None),
        (
            "git checkout -q other && test -z \"$(git status --porcelain)\"",
            Some(".githooks/pre-commit"),
        ),
        (
            "chmod +x .githooks/pre-commit",
            Some(".githooks/pre-commit"),
        ),
        ("git log -1", None),
        (
            "cp own new && touch -r own new && mv new own && echo x > .githooks/pre-push",
            Some(".githooks/pre-push, own"),
        ),
        (
            "ln -s ../dev .githooks/post-merge",
            Some(".githooks/post-merge"),
        ),
        ("echo true > dev", Some(".githooks/post-merge")),
        ("echo x > a.txt", None),
    ] {
        let ran = run_with(&project, &["git"], command).await;
        assert_eq!(
            ran.get("exit_code"),
            Some(&json!(0)),
            "{command} gave {ran}"
        );
        let summary = ran.get("summary").and_then(Value::as_str).unwrap();
        let said = changed.map(|names| format!(" While it ran, {names} changed, "));
        let is_said = said.map_or(!summary.contains(" changed, "), |said| {
            summary.contains(&said)
        });
        assert!(is_said, "{command} gave {summary}");
        let listed = ran.get("changed_for_git").and_then(Value::as_array);
        let listed: Vec<&str> = listed
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(
            listed.join(", "),
            changed.unwrap_or_default(),
            "{command} gave {ran}"
        );
    }
    // What belongs to git stays closed.
    fails(&project, &["git"], "echo x >> .git/shared").await;
    fails(&project, &["git"], "echo x >> .git/config").await;
}

#[tokio::test]
async fn a_symlink_named_by_a_git_configuration_is_renamed_if_it_leads_elsewhere() {
    if !has(SandboxFeature::Files, "git") {
        return;
    }
    let project = repository();
    project.write("tools/hooks/pre-commit", "true\n");
    project.write("evil/hooks/pre-commit", "true\n");
    for (link, target, named, command) in [
        (
            ".githooks",
            "tools/hooks",
            ".githooks",
            "rm .githooks && ln -s evil/hooks .githooks",
        ),
        ("way", "tools", "way/hooks", "rm way && ln -s evil way"),
        ("to", "tools", "to/hooks", "rm to && mkdir -p to/hooks"),
        (
            "ahead",
            "later",
            "ahead",
            "mkdir later && echo x > later/pre-push",
        ),
    ] {
        symlink(target, project.path(link)).unwrap();
        git(&project, &["config", "core.hooksPath", named]);
        let harmless = run(&project, "git status --short && echo x > new").await;
        assert_eq!(harmless.get("set_aside"), None, "{link}: {harmless}");
        let ran = run(&project, command).await;
        assert_eq!(ran.get("set_aside"), Some(&json!([link])), "{ran}");
        assert!(!project.path(link).exists(), "{link} is there");
        let summary = ran.get("summary").and_then(Value::as_str).unwrap();
        assert!(summary.contains("only the user may create"), "{summary}");
    }
}

#[tokio::test]
async fn missing_files_named_by_a_git_configuration_block_no_command_and_cannot_be_created() {
    if !has(SandboxFeature::Files, "git") {
        return;
    }
    let project = repository();
    git(&project, &["config", "core.hooksPath", ".githooks"]);
    git(&project, &["config", "include.path", "../local"]);
    succeeds(&project, &[], "git status --short && echo x > new").await;
    let ran = run(&project, "mkdir .githooks && echo x > .githooks/pre-commit").await;
    assert_eq!(ran.get("set_aside"), Some(&json!([".githooks"])), "{ran}");
    let ran = run(&project, "echo '[x]' > local").await;
    assert_eq!(ran.get("set_aside"), Some(&json!(["local"])), "{ran}");
    assert!(!project.path(".githooks").exists() && !project.path("local").exists());
    git(&project, &["config", "core.hooksPath", "dev/hooks"]);
    let ran = run(&project, "mkdir -p a/hooks && ln -s \"$PWD/a\" dev").await;
    assert_eq!(ran.get("set_aside"), Some(&json!(["dev"])), "{ran}");
    assert!(!project.path("dev/hooks").exists());
    git(&project, &["status", "--short"]);
}

#[tokio::test]
async fn programs_configured_by_a_repository_are_not_run_by_git() {
    if !has(SandboxFeature::Files, "git") {
        return;
    }
    let project = repository();
    let bring = |key: &str| git(&project, &["config", key, "touch PWNED; false"]);
    bring("core.fsmonitor");
    project.write("hooks/post-checkout", "#!/bin/sh\ntouch PWNED\n");
    fs::set_permissions(
        project.path("hooks/post-checkout"),
        Permissions::from_mode(0o755),
    )
    .unwrap();
    git(&project, &["config", "core.hooksPath", "hooks"]);
    let bare = project.path("sub/bare");
    let made = Command::new("git")
        .args(["init", "-q", "--bare"])
        .arg(&bare)
        .status();
    assert!(made.unwrap().success());
    let set = ["config", "core.fsmonitor", "touch PWNED; false"];
    let set = Command::new("git").arg("-C").arg(&bare).args(set).status();
    assert!(set.unwrap().success());
    for key in [
        "filter.x.clean",
        "filter.x.smudge",
        "diff.x.textconv",
        "diff.y.command",
        "diff.external",
        "merge.x.driver",
        "core.sshCommand",
        "remote.up.uploadpack",
    ] {
        bring(key);
    }
    git(&project, &["config", "remote.up.url", "."]);
    git(&project, &["config", "gpg.format", "ssh"]);
    // Run without a shell.
    let key = ["config", "gpg.ssh.defaultKeyCommand", "touch PWNED"];
    git(&project, &key);
    git(&project, &["config", "filter.x.required", "true"]);
    project.write(
        ".gitattributes",
        "*.txt filter=x diff=x merge=x\n*.md diff=y\n",
    );
    project.write("a.txt", "changed for git\n");
    let looked = "git status && git diff && git log -p -1";
    let seen = succeeds(&project, &[], looked).await;
    assert!(seen.contains("+changed for git"), "{seen}");
    run_with(
        &project,
        &["git"],
        "git add . && git commit -qm x; git checkout -b x; git fetch up; git commit -S --allow-empty -m y",
    )
    .await;
    let inside =
        json!({ "command": "git status; git --work-tree=. status; true", "cwd": "sub/bare" });
    let ran = project.call("run_command", inside).await;
    for place in ["PWNED", "sub/PWNED", "sub/bare/PWNED"] {
        assert!(!project.path(place).exists(), "{place}: {ran}");
    }
}

#[tokio::test]
async fn skipped_repository_hooks_are_reported_if_the_repository_is_writable() {
    if !has(SandboxFeature::Files, "git") {
        return;
    }
    let project = repository();
    let commit = "git commit --allow-empty -qm x";
    let ran = run_with(&project, &["git"], commit).await;
    assert_eq!(ran.get("repository_runs_no"), None, "{ran}");
    project.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n");
    let hook = project.path(".git/hooks/pre-commit");
    fs::set_permissions(hook, Permissions::from_mode(0o755)).unwrap();
    let ran = run_with(&project, &["git"], commit).await;
    assert_eq!(
        (&ran["exit_code"], &ran["repository_runs_no"]),
        (&json!(0), &json!("hooks")),
        "{ran}"
    );
    let summary = ran["summary"].as_str().unwrap();
    assert!(
        summary.ends_with(" The repository's hooks do not run in commands."),
        "{ran}"
    );
    let ran = run(&project, "git status").await;
    assert_eq!(ran.get("repository_runs_no"), None, "{ran}");
}

#[tokio::test]
async fn a_file_that_a_required_filter_would_encrypt_is_not_committed_unencrypted() {
    if !has(SandboxFeature::Files, "git") {
        return;
    }
    let project = repository();
    for (key, value) in [("clean", "tr a-z A-Z"), ("required", "true")] {
        git(&project, &["config", &format!("filter.x.{key}"), value]);
    }
    project.write(".gitattributes", "*.key filter=x\n");
    project.write("b.key", "secret\n");
    fails(&project, &["git"], "git add -A && git commit -qm second").await;
    let looked = "git status --short && git log --oneline | wc -l";
    let seen = succeeds(&project, &["git"], looked).await;
    assert_eq!(seen, "?? .gitattributes\n?? b.key\n1\n");
    git(&project, &["add", "-A"]);
    project.write("b.key", "changed\n");
    // If nothing can be written, git reads the file as it is.
    let seen = succeeds(&project, &[], "git diff b.key").await;
    assert!(seen.contains("-SECRET\n+changed"), "{seen}");
    // A file that git removes because it cannot be decrypted must not be committed as deleted.
    git(&project, &["config", "filter.x.smudge", "tr A-Z a-z"]);
    git(&project, &["commit", "-qm", "third"]);
    let ran = run_with(&project, &["git"], "git checkout -- b.key").await;
    assert!(!project.path("b.key").exists(), "{ran}");
    let summary = ran["summary"].as_str().unwrap();
    assert!(summary.contains("Git has removed the file"), "{ran}");
}

#[tokio::test]
async fn programs_configured_by_submodules_are_not_run_by_git() {
    if !has(SandboxFeature::Files, "git") {
        return;
    }
    let project = repository();
    // The inner one first: each is recorded in the one around it.
    for folder in ["mod/deep", "mod"] {
        project.write(&format!("{folder}/x.txt"), "one\n");
        project.write(
            &format!("{folder}/.gitattributes"),
            "*.txt filter=x diff=x\n",
        );
        git(&project, &["init", "-q", folder]);
        for (key, value) in [("user.name", "N"), ("user.email", "n@example.org")] {
            git(&project, &["-C", folder, "config", key, value]);
        }
        git(&project, &["-C", folder, "add", "."]);
        git(&project, &["-C", folder, "commit", "-qm", "first"]);
    }
    git(&project, &["add", "mod"]);
    git(&project, &["commit", "-qm", "second"]);
    for folder in ["mod/deep", "mod"] {
        for key in ["filter.x.clean", "diff.x.command"] {
            let set = ["-C", folder, "config", key, "touch PWNED; false"];
            git(&project, &set);
        }
    }
    git(&project, &["config", "diff.submodule", "diff"]);
    for file in ["mod/x.txt", "mod/deep/x.txt"] {
        // The same length as before, so that git must read it.
        project.write(file, "two\n");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let opened = fs::File::options().write(true).open(project.path(file));
        opened.unwrap().set_modified(time).unwrap();
    }
    let looked = "git status --short && git diff && git log -p -1 && cd sub && git status --short";
    let seen = succeeds(&project, &[], looked).await;
    assert!(seen.contains(" m mod"), "{seen}");
    for place in ["PWNED", "mod/PWNED", "mod/deep/PWNED"] {
        assert!(!project.path(place).exists(), "{place}: {seen}");
    }
}

#[tokio::test]
async fn the_temporary_folder_is_private_and_deleted_after_the_command() {
    let project = Project::new();
    let place = "stat -c %a \"$TMPDIR\"; echo \"$TMPDIR\" > place; mkdir -p \"$TMPDIR/a/b\"; chmod 0 \"$TMPDIR/a\"; mktemp";
    let told = succeeds(&project, &[], place).await;
    assert!(told.starts_with("700\n"), "{told}");
    let place = fs::read_to_string(project.path("place")).unwrap();
    assert!(!fs::exists(place.trim()).unwrap(), "{place}");
}

#[tokio::test]
async fn the_exit_code_or_signal_of_a_command_is_returned_exactly() {
    let project = Project::new();
    for (command, key, value) in [
        ("exit 137", "exit_code", 137),
        ("exit 255", "exit_code", 255),
        ("kill -TERM $$", "signal", 15),
        ("kill -SEGV $$", "signal", 11),
        ("kill -KILL $$", "signal", 9),
    ] {
        let ran = run(&project, command).await;
        assert_eq!(ran[key], value, "{command}: {ran}");
    }
    // The first process of a namespace cannot be killed from within.
    let ran = run(&project, "kill -9 1; kill -9 -1; echo here").await;
    assert!(ran["signal"] == 9 || ran["stdout"] == "here\n", "{ran}");
}

#[tokio::test]
async fn the_superuser_can_work_on_a_project_of_another_user() {
    let project = Project::with(&[("a.txt", "x")]);
    for path in ["", "a.txt"] {
        if std::os::unix::fs::chown(project.path(path), Some(65534), Some(65534)).is_err() {
            println!("skipped: this is not the superuser");
            return;
        }
        let mode = if path.is_empty() { 0o700 } else { 0o600 };
        fs::set_permissions(project.path(path), Permissions::from_mode(mode)).unwrap();
    }
    let told = succeeds(&project, &[], "echo y >> a.txt && cat a.txt && touch new").await;
    assert_eq!(told, "xy\n");
}

#[tokio::test]
async fn common_development_programs_run() {
    let project = repository();
    for program in ["cargo", "python3", "node", "gcc", "make"] {
        if Command::new(program)
            .arg("--version")
            .output()
            .is_ok_and(|ran| ran.status.success())
        {
            succeeds(&project, &[], &format!("{program} --version")).await;
        }
    }
    succeeds(&project, &[], "seq 100000 | sort -n | tail -1 | grep 100000 > out && mktemp && cat out && echo x | tee /dev/null").await;
}

#[tokio::test]
async fn a_large_number_of_files_does_not_hide_a_repository() {
    let project = repository();
    let crowd = "mkdir n && cd n && seq 1 12000 | sed 's/^/f/' | xargs touch; cd .. && seq 1 12000 | sed 's/^/f/' | xargs touch";
    succeeds(&project, &[], crowd).await;
    fails(&project, &[], "echo x >> .git/config").await;
    fails(&project, &[], "mv .git moved").await;
}

#[tokio::test]
async fn a_repository_created_without_git_access_is_renamed() {
    let project = repository();
    let made = "mkdir -p sub && cd sub && git init -q . && echo '[x]' > ../e.toml && echo '[x]' > neuraxis.toml";
    let ran = run(&project, made).await;
    let aside = ran.get("set_aside").and_then(Value::as_array).unwrap();
    assert_eq!(aside.len(), 2, "{ran}");
    for (path, is_there) in [
        ("sub/.git", false),
        ("sub/neuraxis.toml", false),
        ("sub/.git.set-aside/HEAD", true),
        ("e.toml", true),
        (".git/HEAD", true),
    ] {
        assert_eq!(project.path(path).exists(), is_there, "{path}: {ran}");
    }
    succeeds(&project, &["git"], "git init -q other").await;
    assert!(project.path("other/.git/HEAD").exists());
}

#[tokio::test]
async fn a_folder_that_a_command_turns_into_a_bare_repository_is_disabled_as_one() {
    let project = repository();
    let made = "mkdir -p docs/refs sub/x && git init -q --bare docs/b && echo 'ref: refs/heads/main' | tee docs/HEAD sub/HEAD > sub/x/HEAD && echo ../../docs > sub/x/commondir && mkdir docs/objects";
    let ran = run(&project, made).await;
    assert_eq!(ran.get("exit_code"), Some(&json!(0)), "{ran}");
    for (path, is_there) in [
        ("docs/HEAD", false),
        ("docs/HEAD.set-aside", true),
        ("docs/objects", true),
        ("docs/b/HEAD", false),
        ("docs/b/config", true),
        ("sub/x/HEAD", false),
        ("sub/HEAD", true),
    ] {
        assert_eq!(project.path(path).exists(), is_there, "{path}: {ran}");
    }
    let aside = ran.get("set_aside").and_then(Value::as_array).unwrap();
    assert_eq!(aside.len(), 3, "{ran}");
    succeeds(&project, &["git"], "git init -q --bare other").await;
    succeeds(&project, &[], "echo x > other/description").await;
    assert!(project.path("other/HEAD").exists());
}

#[tokio::test]
async fn renamed_repositories_are_reported_on_timeout_and_cancellation() {
    let project = repository();
    let slow = json!({ "command": "mkdir sub/.git && sleep 1000", "timeout_seconds": 1 });
    let ran = project.call("run_command", slow).await;
    assert_eq!(ran.get("timed_out"), Some(&json!(true)), "{ran}");
    assert_eq!(ran.get("set_aside"), Some(&json!(["sub/.git"])), "{ran}");
    let summary = ran.get("summary").and_then(Value::as_str).unwrap();
    assert!(
        summary.contains(" While it ran, sub/.git appeared, "),
        "{summary}"
    );

    let output = Arc::new(RecordedOutput::default());
    let mut ctx = context();
    ctx.progress = Progress::to(Arc::clone(&output) as _);
    let token = ctx.cancellation.clone();
    let command = json!({ "command": "mkdir -p new/.git && echo made && sleep 1000" });
    let running = call(project.tool("run_command"), command, ctx);
    let cancelling = async {
        output.shows("made").await;
        token.cancel();
    };
    let (cancelled, ()) = tokio::join!(running, cancelling);
    let message = cancelled.unwrap_err().message;
    assert!(message.starts_with("cancelled: "), "{message}");
    assert!(
        message.contains(" While it ran, new/.git appeared, "),
        "{message}"
    );
    for path in ["sub/.git", "new/.git"] {
        assert!(!project.path(path).exists(), "{path}");
        assert!(project.path(format!("{path}.set-aside")).exists(), "{path}");
    }
}

#[tokio::test]
async fn a_repository_in_a_read_only_folder_is_renamed_too() {
    let project = repository();
    let ran = run(&project, "mkdir -p sub/.git && chmod 555 sub").await;
    assert_eq!(ran.get("set_aside"), Some(&json!(["sub/.git"])), "{ran}");
    assert!(project.path("sub/.git.set-aside").exists(), "{ran}");
}

#[tokio::test]
async fn a_command_can_open_only_harmless_devices() {
    let project = Project::new();
    succeeds(
        &project,
        &[],
        "head -c1 /dev/zero; head -c1 /dev/urandom > x; echo y > /dev/null",
    )
    .await;
    for device in ["/dev/console", "/dev/tty1", "/dev/ttyS0", "/dev/kmsg"] {
        if fs::metadata(device).is_ok() {
            fails(&project, &[], &format!("head -c0 {device}")).await;
        }
    }
}
