//! The program, started on a free port in a separate folder. It is killed with the test.

use std::fs;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use super::Client;

/// A running server.
pub(crate) struct Program {
    child: Child,
    url: String,
    folder: TempDir,
    // Kept open, so that the program may write to it.
    stdout: BufReader<ChildStdout>,
}

/// Creates a command that starts the program in a folder, with no environment that the test did not set. A
/// `neuraxis.toml` that exists there is passed by name; one that is written later is only discovered.
pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_neuraxis-server"));
    if folder.join("neuraxis.toml").exists() {
        command.args(["--config", "neuraxis.toml"]);
    }
    command
        .current_dir(folder)
        .env_clear()
        .env("HOME", folder)
        // It is also the home folder, which is not a project unless configured as one.
        .env("NEURAXIS_TOOLS__ROOT", folder)
        .env("PATH", "/usr/bin:/bin")
        .env("NEURAXIS_MODELS__REASONING__PROVIDER", "offline")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Creates a folder with a configuration.
pub(crate) fn folder_with(configuration: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("neuraxis.toml"), configuration).unwrap();
    folder
}

/// Creates a key in a folder using the program itself, as its operator would.
pub(crate) async fn make_key(folder: &Path, arguments: &[&str]) -> String {
    let mut command = command(folder);
    command.args(["keys", "create"]).args(arguments);
    let output = command.output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let key = String::from_utf8(output.stdout).unwrap();
    assert!(!said.contains(key.trim()), "it is shown once");
    key.trim().to_owned()
}

/// Creates keys of one owner, each with its restrictions.
pub(crate) async fn make_keys_of_ada(folder: &Path, narrower: &[&[&str]]) -> Vec<String> {
    let mut keys = Vec::new();
    for narrower in narrower {
        let arguments = [&["--owner", "ada"], *narrower].concat();
        keys.push(make_key(folder, &arguments).await);
    }
    keys
}

/// Returns the id of a key, which is not secret.
pub(crate) fn id_of(key: &str) -> &str {
    key.split('_').nth(1).unwrap()
}

/// Returns whether the log-writing thread of a process is active. Once it is not, everything logged is in the file.
#[cfg(target_os = "linux")]
fn writes_log(process: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let mut threads = threads.into_iter().flatten().flatten();
    threads.any(|thread| {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        let is_at_it = status.contains("State:\tR") || status.contains("State:\tD");
        status.starts_with("Name:\tlog\n") && is_at_it
    })
}

impl Program {
    /// Starts it with the offline model.
    pub(crate) async fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), |_| {}).await
    }

    /// Starts it in a prepared folder, with a test's changes to the command.
    pub(crate) async fn start_in(folder: TempDir, more: impl FnOnce(&mut Command)) -> Self {
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut command = command(folder.path());
        command
            .args(["--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(log);
        more(&mut command);
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).await.unwrap();
        let url = line.trim_end().strip_prefix("listening on ");
        let log = || fs::read_to_string(folder.path().join("log"));
        let url = url.unwrap_or_else(|| panic!("the server did not start: {:?}", log()));
        Self {
            child,
            url: url.to_owned(),
            folder,
            stdout,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the address in the form of the header `Host`.
    pub(crate) fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns everything it has logged.
    pub(crate) fn log(&self) -> String {
        #[cfg(target_os = "linux")]
        while self.child.id().is_some_and(writes_log) {
            std::thread::yield_now();
        }
        // Other platforms offer no way to tell.
        #[cfg(not(target_os = "linux"))]
        std::thread::sleep(std::time::Duration::from_millis(200));
        fs::read_to_string(self.folder().join("log")).unwrap()
    }

    /// Returns the id of its process.
    #[cfg(target_os = "linux")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id().expect("the server still runs")
    }

    #[cfg(unix)]
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let id = self.child.id().expect("the server still runs");
        let id = rustix::process::Pid::from_raw(id.try_into().unwrap()).unwrap();
        rustix::process::kill_process(id, signal).unwrap();
    }

    pub(crate) async fn exit(&mut self) -> ExitStatus {
        self.child.wait().await.unwrap()
    }

    /// Returns what it printed after announcing its address, once it has ended.
    #[cfg(unix)]
    pub(crate) async fn rest_of_stdout(&mut self) -> String {
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).await.unwrap();
        text
    }

    /// Stops it as an operator would, and returns its folder.
    #[cfg(unix)]
    pub(crate) async fn stopped(mut self) -> TempDir {
        self.signal(rustix::process::Signal::TERM);
        assert!(self.exit().await.success());
        self.folder
    }
}
