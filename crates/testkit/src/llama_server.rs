//! A real llama-server with the scripted model of `cargo xtask test`.
#![expect(
    clippy::expect_used,
    reason = "a test fails if its server does not start"
)]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long the server may take to start; it takes less than a second.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The pause between two checks whether it is ready.
const PAUSE: Duration = Duration::from_millis(50);

/// A running llama-server. It ends when this is dropped.
///
/// Tests that use it are `#[ignore]`d, because it is not installed everywhere: `cargo xtask test` provides it, sets the
/// variables and runs them.
#[derive(Debug)]
pub struct LlamaServer {
    process: Child,
    port: u16,
}

impl LlamaServer {
    /// Starts a server on a free port and waits until it can answer.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with additional arguments.
    #[must_use]
    pub fn start_with(arguments: &[&str]) -> Self {
        // Another process may take the free port first.
        let started = (0..3).find_map(|_| Self::spawn(arguments).ready());
        started.expect("llama-server starts")
    }

    /// Returns its address.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn spawn(arguments: &[&str]) -> Self {
        let variable = |name| std::env::var(name).expect("cargo xtask test sets the variables");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = free.local_addr().expect("it has an address").port();
        drop(free);
        let process = Command::new(variable("TEST_NEURAXIS_LLAMA_SERVER"))
            .env("LD_LIBRARY_PATH", variable("TEST_NEURAXIS_LLAMA_LIBS"))
            .args(["-m", &variable("TEST_NEURAXIS_GGUF"), "--jinja"])
            // Otherwise its name would be the path of its file, which differs from machine to machine.
            .args(["--alias", "scripted.gguf"])
            .args(["--host", "127.0.0.1", "--port", &port.to_string()])
            .args(["--device", "none", "-c", "65536", "-np", "2", "-t", "1"])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("llama-server can be started");
        Self { process, port }
    }

    fn ready(self) -> Option<Self> {
        let started = Instant::now();
        while started.elapsed() < START_TIMEOUT {
            if self.is_healthy().unwrap_or_default() {
                return Some(self);
            }
            thread::sleep(PAUSE);
        }
        None
    }

    fn is_healthy(&self) -> std::io::Result<bool> {
        let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        connection.set_read_timeout(Some(Duration::from_secs(5)))?;
        connection
            .write_all(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer.starts_with("HTTP/1.1 200"))
    }
}

impl Drop for LlamaServer {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
