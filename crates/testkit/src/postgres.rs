//! A real Postgres server with its own empty cluster.
#![expect(
    clippy::expect_used,
    reason = "a test fails if its server does not start"
)]

use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::FreePort;

/// How long the server may take to start; it takes less than a second.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The pause between two checks whether it is ready.
const PAUSE: Duration = Duration::from_millis(20);

/// A running Postgres server. When this is dropped, it ends and its data is deleted.
///
/// Tests that use it are `#[ignore]`d, because it is not installed everywhere: `cargo xtask test` provides it, sets the
/// variables and runs them. The cluster is a copy of a prepared one. Commits wait for the disk, which is the default.
#[derive(Debug)]
pub struct Postgres {
    process: Option<Child>,
    data: PathBuf,
    port: FreePort,
}

impl Postgres {
    /// Starts a server on a free port and waits until it answers.
    pub fn start() -> Self {
        let template = variable("TEST_NEURAXIS_POSTGRES_TEMPLATE");
        let port = FreePort::take();
        let name = format!("neuraxis-postgres-{}-{port}", std::process::id());
        let data = std::env::temp_dir().join(name);
        // Keeps the owner: the server refuses to run as root, and on data of another user.
        let copied = Command::new("cp")
            .args(["--archive", "--no-target-directory"])
            .arg(&template)
            .arg(&data)
            .status();
        assert!(
            copied.expect("cp can be started").success(),
            "the cluster cannot be copied"
        );
        let mut server = Self {
            process: None,
            data,
            port,
        };
        server.run();
        assert!(server.is_ready_in_time(), "postgres does not start");
        server
    }

    /// Returns the URL of its only database, for a user with all rights.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Kills the server like a power failure, except that everything the disk has is kept.
    pub fn crash(&mut self) {
        // A stopped process would not receive the signal.
        self.go_on();
        if let Some(mut process) = self.process.take() {
            // SIGQUIT is the immediate shutdown: without a checkpoint, so the next start must recover.
            let id = process.id().to_string();
            let sent = Command::new("kill").args(["-QUIT", &id]).status();
            assert!(sent.expect("kill can be started").success());
            let _ = process.wait();
        }
    }

    /// Stops all of its processes at any point of their work: connections stay open, but nothing answers.
    pub fn stall(&self) {
        self.signal("-STOP");
    }

    /// Continues them after [`stall`](Self::stall).
    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let Some(process) = &self.process else { return };
        let id = process.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.expect("the kernel lists its processes");
        let sent = Command::new("kill")
            .arg(signal)
            .arg(id.to_string())
            .args(children.split_whitespace())
            .status();
        // A child process may have ended in the meantime.
        let _ = sent.expect("kill can be started");
    }

    /// Restarts the server on the same port.
    pub fn restart(&mut self) {
        self.run();
        assert!(self.is_ready_in_time(), "postgres does not start again");
    }

    fn run(&mut self) {
        let program = variable("TEST_NEURAXIS_POSTGRES").join("postgres");
        let mut command = as_owner_of(&self.data, &program);
        command
            .arg("-D")
            .arg(&self.data)
            .args(["-p", &self.port.to_string(), "-h", "127.0.0.1", "-k", ""])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.process = Some(command.spawn().expect("postgres can be started"));
    }

    fn is_ready_in_time(&mut self) -> bool {
        let started = Instant::now();
        while started.elapsed() < START_TIMEOUT {
            if self.answers() {
                return true;
            }
            let ended = |process: &mut Child| process.try_wait().ok().flatten().is_some();
            if self.process.as_mut().is_none_or(ended) {
                return false;
            }
            thread::sleep(PAUSE);
        }
        false
    }

    /// Returns `true` once the server has written `ready` into this file, which it does when it accepts connections.
    fn answers(&self) -> bool {
        let state = std::fs::read_to_string(self.data.join("postmaster.pid"));
        let is_ready = state.is_ok_and(|state| {
            let last = state.lines().nth(7);
            last.is_some_and(|last| last.trim() == "ready")
        });
        is_ready && TcpStream::connect((Ipv4Addr::LOCALHOST, self.port.number())).is_ok()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.crash();
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

/// Prepares a program to run as the owner of a folder, and to end with this thread in any case.
fn as_owner_of(folder: &Path, program: &Path) -> Command {
    let metadata = std::fs::metadata(folder).expect("the data are there");
    let (user, group) = (metadata.uid().to_string(), metadata.gid().to_string());
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    if std::fs::metadata("/proc/self").is_ok_and(|it| it.uid() == 0) {
        command.args(["--reuid", &user, "--regid", &group, "--clear-groups"]);
    }
    command.arg("--").arg(program);
    command
}

fn variable(name: &str) -> PathBuf {
    std::env::var_os(name)
        .expect("cargo xtask test sets the variables")
        .into()
}
