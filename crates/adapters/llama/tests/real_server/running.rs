//! A llama-server of a test's own.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use neuraxis_llama::{LlamaClient, LlamaConfig};

/// How long the server may take to start; it takes half a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// A llama-server with the scripted model. It ends when it is dropped.
pub(crate) struct Running {
    process: Child,
    port: u16,
}

impl Running {
    /// Starts a server with more arguments, and waits until it can answer.
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let mut last = None;
        // Somebody else may take the free port first.
        for _ in 0..3 {
            let server = Self::spawn(arguments);
            match server.client().wait_until_ready(PATIENCE).await {
                Ok(()) => return server,
                Err(error) => last = Some(error),
            }
        }
        unreachable!("llama-server does not start: {last:?}");
    }

    fn spawn(arguments: &[&str]) -> Self {
        let variable = |name| std::env::var(name).expect("cargo xtask test sets the variables");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let process = Command::new(variable("TEST_NEURAXIS_LLAMA_SERVER"))
            .env("LD_LIBRARY_PATH", variable("TEST_NEURAXIS_LLAMA_LIBS"))
            .args(["-m", &variable("TEST_NEURAXIS_GGUF"), "--jinja"])
            .args(["--host", "127.0.0.1", "--port", &port.to_string()])
            .args(["-c", "65536", "-np", "2", "-t", "1"])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("llama-server can be started");
        Self { process, port }
    }

    pub(crate) fn config(&self) -> LlamaConfig {
        LlamaConfig::new(format!("http://127.0.0.1:{}", self.port))
    }

    pub(crate) fn client(&self) -> LlamaClient {
        LlamaClient::new(self.config()).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
