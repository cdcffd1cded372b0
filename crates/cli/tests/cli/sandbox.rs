//! What a command of `tools call` leaves behind, and its access to the terminal and the user's data.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rexpect::session::spawn_command;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::machine::Machine;

/// Processes that try to escape in every possible way.
const GETS_AWAY: &str = "echo \"$TMPDIR\" > place; sleep TIME & setsid sleep TIME & env -i setsid sleep TIME & \
    setsid sh -c '(trap \"\" TERM INT HUP; sleep TIME; true) & exit'; \
    python3 -c 'import os\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0: os.execvp(\"sleep\", [\"sleep\", \"TIME\"])' 2>&1; \
    mv place begun; wait; sleep TIME";

fn call(machine: &Machine, command: &str) -> Command {
    let arguments = json!({ "command": command }).to_string();
    machine.command(["tools", "call", "run_command", &arguments])
}

fn is_sleeping(time: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|one| fs::read(one.path().join("cmdline")).ok());
    let asleep = format!("sleep\0{time}\0");
    lines.any(|line| line == asleep.as_bytes())
}

fn wait_until(what: &str, seconds: u64, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {seconds} s: {what}");
        std::thread::yield_now();
    }
}

/// Starts a command that spawns such processes, and returns once it did, with the path of its temporary files.
fn spread(machine: &Machine, time: &str) -> (Child, String) {
    let mut program = call(machine, &GETS_AWAY.replace("TIME", time));
    let program = program
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the command began", 30, || machine.path("begun").exists());
    wait_until("it sleeps", 30, || is_sleeping(time));
    let place = fs::read_to_string(machine.path("begun")).unwrap();
    (program, place.trim().to_owned())
}

#[test]
fn no_process_or_folder_of_a_command_remains_after_any_signal() {
    for (number, signal) in [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL]
        .into_iter()
        .enumerate()
    {
        let machine = Machine::new();
        let time = format!("1000.{}{number}", std::process::id());
        let (mut program, place) = spread(&machine, &time);
        assert!(Path::new(&place).exists());
        kill_process(Pid::from_child(&program), signal).unwrap();
        program.wait().unwrap();
        wait_until(&format!("all is gone after {signal:?}"), 3, || {
            !is_sleeping(&time) && !Path::new(&place).exists()
        });
    }
}

#[test]
fn a_command_cannot_write_or_type_into_the_terminal_of_the_user() {
    let machine = Machine::new();
    fs::write(
        machine.path("type.py"),
        "import fcntl, os, termios\n\
         for path in ['/dev/tty', '/dev/pts/0', '/dev/pts/1', '/dev/pts/2', '/dev/pts/3']:\n\
         \x20   try:\n\
         \x20       terminal = open(path, 'rb+', buffering=0)\n\
         \x20       terminal.write(b'painted-over')\n\
         \x20       for letter in b'touch typed\\n': fcntl.ioctl(terminal, termios.TIOCSTI, bytes([letter]))\n\
         \x20   except OSError as error: print('no', error.errno)\n",
    )
    .unwrap();
    let mut command = call(
        &machine,
        "setsid python3 type.py; python3 type.py; touch done",
    );
    command.stdin(Stdio::inherit());
    let mut person = spawn_command(command, Some(60_000)).unwrap();
    let seen = person.exp_eof().unwrap();
    assert!(machine.path("done").exists(), "{seen}");
    assert!(
        seen.contains("no ") && !seen.replace("\\\"", "").contains("painted-over"),
        "{seen}"
    );
    assert!(!seen.contains("touch typed\r\n"), "{seen}");
}

#[test]
fn a_command_inherits_no_open_file_descriptor() {
    let machine = Machine::new();
    let secret = machine.path("../secret");
    fs::write(&secret, "hunter2").unwrap();
    let arguments =
        json!({ "command": "ls /proc/self/fd | wc -l; cat <&9; echo x >&9" }).to_string();
    let script = format!(
        "exec 9<>{}; exec \"$0\" tools call run_command '{arguments}'",
        secret.display()
    );
    let done = machine.shell(&script).output().unwrap();
    let result: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_ne!(result["exit_code"], 0, "{result}");
    assert!(!result.to_string().contains("hunter2"), "{result}");
    assert_eq!(fs::read_to_string(&secret).unwrap(), "hunter2");
}

#[test]
fn programs_in_the_project_do_not_replace_system_programs() {
    let machine = Machine::new();
    for name in ["git", "ls"] {
        fs::write(machine.path(name), "#!/bin/sh\ntouch PWNED\n").unwrap();
        fs::set_permissions(machine.path(name), Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!(".::{}:", std::env::var("PATH").unwrap());
    let done = call(&machine, "git --version; ls; neuraxis --version")
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(done.status.success());
    assert!(!machine.path("PWNED").exists());
}

#[test]
fn an_unprivileged_user_gets_the_same_sandbox() {
    let machine = Machine::new();
    let is_root = rustix::process::geteuid().is_root();
    if !is_root || Command::new("setpriv").arg("--version").output().is_err() {
        println!("skipped: this is not the superuser, or there is no setpriv");
        return;
    }
    let top = machine.path("..");
    let owned = Command::new("chown")
        .args(["-R", "65534:65534"])
        .arg(&top)
        .status();
    assert!(owned.unwrap().success());
    let outside = machine.path("../outside");
    File::create(&outside).unwrap();
    let owned = Command::new("chown")
        .arg("65534:65534")
        .arg(&outside)
        .status();
    assert!(owned.unwrap().success());
    let command = "id -u; echo x > in; chmod 777 ../outside || echo kept; ls /proc | grep -c '^[0-9]*$'; \
        python3 -c 'import socket; socket.create_server((\"127.0.0.1\", 0)); print(\"local\")'; grep CapEff /proc/self/status";
    let call = call(&machine, command);
    let mut nobody = Command::new("setpriv");
    nobody
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(call.get_program())
        .args(call.get_args());
    for (name, value) in call.get_envs() {
        match value {
            Some(value) => nobody.env(name, value),
            None => nobody.env_remove(name),
        };
    }
    let done = nobody
        .current_dir(machine.path(""))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let result: Value = serde_json::from_slice(&done.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&done.stderr)));
    let told = result["stdout"].as_str().unwrap();
    if fs::read_to_string("/proc/sys/user/max_user_namespaces").is_ok_and(|most| most.trim() == "0")
    {
        println!("skipped: users get no namespaces here");
        return;
    }
    assert!(
        told.starts_with("65534\nkept\n") && told.contains("local\n"),
        "{result}"
    );
    assert!(told.contains("CapEff:\t0000000000000000"), "{result}");
    assert_eq!(
        fs::metadata(&outside).unwrap().permissions().mode() & 0o777,
        0o644
    );
}
