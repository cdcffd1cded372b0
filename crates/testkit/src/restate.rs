//! A real Restate server with its own folder.
#![expect(
    clippy::expect_used,
    reason = "a test fails if its server does not start"
)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::FreePort;

/// How long the server may take to start; it takes less than a second.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The pause between two checks whether it is ready.
const PAUSE: Duration = Duration::from_millis(50);

/// A running Restate server. When this is dropped, it ends and its data is deleted.
///
/// Tests that use it are `#[ignore]`d, because it is not installed everywhere: `cargo xtask test` provides it, sets the
/// variable and runs them. It sends no telemetry.
#[derive(Debug)]
pub struct Restate {
    process: Option<Child>,
    folder: PathBuf,
    ingress: FreePort,
    admin: FreePort,
    nodes: FreePort,
}

impl Restate {
    /// Starts a server on free ports and waits until it answers.
    pub fn start() -> Self {
        let [ingress, admin, nodes] = std::array::from_fn(|_| FreePort::take());
        let name = format!("neuraxis-restate-{}-{ingress}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder can be created");
        let mut server = Self {
            process: None,
            folder,
            ingress,
            admin,
            nodes,
        };
        server.run();
        server
    }

    /// Returns the URL for calls.
    #[must_use]
    pub fn ingress(&self) -> String {
        format!("http://127.0.0.1:{}", self.ingress)
    }

    /// Returns the URL at which workers register.
    #[must_use]
    pub fn admin(&self) -> String {
        format!("http://127.0.0.1:{}", self.admin)
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Stops the process with SIGSTOP, so it does nothing at all.
    ///
    /// # Panics
    ///
    /// Panics if the process is not running.
    pub fn stall(&self) {
        self.signal("-STOP");
    }

    /// Continues the stopped process.
    ///
    /// # Panics
    ///
    /// Panics if the process is not running.
    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let process = self.process.as_ref().expect("it is alive");
        // The wrapper replaces itself with the server's program, so this is the server's process id.
        let id = process.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.expect("kill can be started").success());
    }

    /// Restarts the server on the same ports and with the same data.
    pub fn restart(&mut self) {
        self.run();
    }

    fn run(&mut self) {
        let config = format!(
            "base-dir = {:?}\nnode-name = \"one\"\ndisable-telemetry = true\ndefault-num-partitions = 2\n\
             rocksdb-total-memory-size = \"64MB\"\nbind-address = \"127.0.0.1:{}\"\n\
             [worker.invoker]\nhttp2-keep-alive-interval = \"1s\"\nhttp2-keep-alive-timeout = \"1s\"\n\
             [admin]\nbind-address = \"127.0.0.1:{}\"\n[ingress]\nbind-address = \"127.0.0.1:{}\"\n",
            self.folder.join("data"),
            self.nodes,
            self.admin,
            self.ingress
        );
        let file = self.folder.join("restate.toml");
        std::fs::write(&file, config).expect("its configuration can be written");
        let log = std::fs::File::create(self.folder.join("log")).expect("its log can be written");
        let program = std::env::var_os("TEST_NEURAXIS_RESTATE");
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program.expect("cargo xtask test sets the variable"))
            .arg("--config-file")
            .arg(file)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(Stdio::null());
        self.process = Some(command.spawn().expect("restate-server can be started"));
        let began = Instant::now();
        while !is_healthy(&self.admin, "/health") || !is_healthy(&self.ingress, "/restate/health") {
            let log = || std::fs::read_to_string(self.folder.join("log"));
            assert!(began.elapsed() < START_TIMEOUT, "{:?}", log());
            thread::sleep(PAUSE);
        }
    }
}

impl Drop for Restate {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns `true` if a server answers successfully at a path.
fn is_healthy(port: &FreePort, path: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port.number())) else {
        return false;
    };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let mut answer = [0; 12];
    let sent = stream.write_all(request.as_bytes());
    sent.and_then(|()| stream.read_exact(&mut answer)).is_ok() && answer.ends_with(b" 200")
}
