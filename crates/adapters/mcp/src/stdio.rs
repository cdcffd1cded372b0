//! Starts a server as a program, and ends it.
//!
//! The program gets only its configured environment variables. Its standard error goes to the log. However this process
//! ends, the program ends as well: its input is closed, and if it does not react, it is killed with everything it
//! started.

mod discovery;
mod lines;
mod program;
mod stderr_tail;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{ChildStderr, Command};

use crate::config::StdioConfig;
use crate::error::{ConnectError, MAX_MESSAGE_CHARS};
use crate::notices::Notices;
use crate::text::one_line;
pub(crate) use discovery::DiscoveryLate;
pub(crate) use lines::Lines;
use program::Signal;
pub(crate) use stderr_tail::StderrTail;

/// How long a server may take to exit once its input is closed, and again once it has been asked to.
const GRACE: Duration = Duration::from_secs(2);

/// The maximum number of standard error lines that are logged per start of a server.
const MAX_LINES: u32 = 1_000;

/// The maximum number of bytes that are kept of such a line: large enough that secrets in it stay whole.
const MAX_LINE: usize = 64 * 1024;

/// A started server process.
#[derive(Debug)]
pub(crate) struct Process {
    program: program::Program,
    notices: Notices,
    stderr_tail: StderrTail,
    /// Dropped last.
    _parent: program::Parent,
}

impl Process {
    /// Starts a server.
    pub(crate) async fn start(
        config: &StdioConfig,
        notices: &Notices,
    ) -> Result<(Self, Lines), ConnectError> {
        let command = command(config)?;
        let failed = |source| ConnectError::Start {
            command: config.command.clone(),
            source,
        };
        let (mut program, parent) = program::start(command).await.map_err(failed)?;
        let piped = || failed(io::Error::other("its input and output are missing"));
        let stdin = program.child.stdin.take().ok_or_else(piped)?;
        let stdout = program.child.stdout.take().ok_or_else(piped)?;
        let mut stderr_tail = StderrTail::default();
        if let Some(stderr) = program.child.stderr.take() {
            stderr_tail = StderrTail::of_program();
            tokio::spawn(log(notices.clone(), stderr, stderr_tail.clone()));
        }
        let process = Self {
            program,
            notices: notices.clone(),
            stderr_tail,
            _parent: parent,
        };
        let lines = Lines::new(notices.clone(), stdout, stdin);
        Ok((process, lines))
    }

    pub(crate) fn stderr_tail(&self) -> StderrTail {
        self.stderr_tail.clone()
    }

    /// Stops the process after its input was closed: waits, then asks it to exit, and finally kills it.
    pub(crate) async fn stop(mut self) {
        let mut ends = self.ends().await;
        if !ends {
            self.program.signal(Signal::Term);
            ends = self.ends().await;
        }
        if !ends {
            tracing::warn!(server = %self.notices.server, "it does not end when asked to: it is killed");
        }
        // Child processes may still exist in the process group whose id was the server's.
        self.program.signal(Signal::Kill);
        // Reaps the process, since nothing else may wait for it.
        let _ = self.program.child.wait().await;
    }

    async fn ends(&mut self) -> bool {
        matches!(
            tokio::time::timeout(GRACE, self.program.child.wait()).await,
            Ok(Ok(_))
        )
    }
}

/// Checks the server's working directory, and finds its program.
pub(crate) fn find_program(config: &StdioConfig) -> Result<PathBuf, ConnectError> {
    if let Some(folder) = &config.cwd {
        check_folder(folder).map_err(|source| ConnectError::Start {
            command: config.command.clone(),
            source,
        })?;
    }
    let path = config.env.get("PATH").map(neuraxis_ports::Secret::expose);
    program::find(&config.command, path, config.cwd.as_deref()).ok_or_else(|| {
        ConnectError::NoProgram {
            command: config.command.clone(),
            path: path
                .filter(|_| !program::names_folder(&config.command))
                .map(str::to_owned),
        }
    })
}

fn command(config: &StdioConfig) -> Result<Command, ConnectError> {
    let mut command = program::dying_with_us(&find_program(config)?);
    command
        .args(&config.args)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    for (name, value) in &config.env {
        command.env(name, value.expose());
    }
    if let Some(folder) = &config.cwd {
        command.current_dir(folder);
    }
    // Its child processes are killed with it, and Ctrl-C at the terminal does not reach it.
    #[cfg(unix)]
    command.process_group(0);
    Ok(command)
}

/// Rejects a working directory in which a program cannot be started: the system's error would be the same as for a
/// missing program.
fn check_folder(folder: &Path) -> io::Result<()> {
    let found = std::fs::metadata(folder).and_then(|found| match found.is_dir() {
        true => Ok(()),
        false => Err(io::ErrorKind::NotADirectory.into()),
    });
    found.map_err(|why| {
        let why = format!("its folder {} (cwd): {why}", folder.display());
        io::Error::other(why)
    })
}

/// Logs a server's standard error line by line. Excess output is read and dropped, so that the server never blocks.
async fn log(notices: Notices, stderr: ChildStderr, stderr_tail: StderrTail) {
    let Notices {
        server, secrets, ..
    } = &notices;
    let mut stderr = BufReader::new(stderr);
    let mut lines = 0_u32;
    while let Some(line) = next_line(&mut stderr).await {
        // Redact before cutting: a secret that is cut in two is no longer found.
        let line = secrets.text(&String::from_utf8_lossy(&line));
        let line = one_line(&line, MAX_MESSAGE_CHARS);
        if line.trim().is_empty() {
            continue;
        }
        lines = lines.saturating_add(1);
        match lines.cmp(&MAX_LINES) {
            std::cmp::Ordering::Less => tracing::info!(%server, "{line}"),
            std::cmp::Ordering::Equal => {
                tracing::warn!(%server, "it writes too much to its standard error: the rest is dropped");
            }
            std::cmp::Ordering::Greater => {}
        }
        stderr_tail.add(line);
    }
    stderr_tail.end();
}

/// Reads a line, of which a limited part is kept. Returns `None` at the end of the stream.
async fn next_line(read: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        match read.read_u8().await {
            Ok(b'\n') => return Some(line),
            Ok(byte) if line.len() < MAX_LINE => line.push(byte),
            Ok(_) => {}
            Err(_) if line.is_empty() => return None,
            Err(_) => return Some(line),
        }
    }
}
