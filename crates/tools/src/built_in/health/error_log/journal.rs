//! Queries the systemd journal.

use std::ffi::OsStr;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

use super::ERROR_LOG_MAX_LINES;

/// The time limit for the journal.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The maximum number of bytes that are kept of the journal's output.
const MAX_OUTPUT_BYTES: u64 = 1024 * 1024;

/// Returns the latest errors, one per line.
pub(super) async fn read(program: &OsStr) -> Result<String, String> {
    match timeout(TIMEOUT, ask(program)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            Err("there is no journalctl".to_owned())
        }
        Ok(Err(error)) => Err(format!("journalctl failed: {error}")),
        // Dropping the future has killed the program.
        Err(_) => Err(format!(
            "journalctl took longer than {} seconds",
            TIMEOUT.as_secs()
        )),
    }
}

async fn ask(program: &OsStr) -> io::Result<Result<String, String>> {
    let lines = format!("--lines={ERROR_LOG_MAX_LINES}");
    let mut child = Command::new(program)
        .args(["--priority=err", &lines, "--output=short-iso", "--no-pager"])
        // It needs none of this process's variables, some of which are secret.
        .env_clear()
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = tokio::try_join!(bounded(stdout), bounded(stderr))?;
    let status = child.wait().await?;
    if !status.success() {
        return Ok(Err(format!("journalctl failed ({status})")));
    }
    // Without a journal, the program says so here and still exits successfully.
    if stderr.contains("No journal files were") {
        return Ok(Err("there is no journal".to_owned()));
    }
    let entries = stdout.lines().filter(|line| !line.starts_with("-- "));
    Ok(Ok(entries.collect::<Vec<_>>().join("\n")))
}

/// Reads a pipe to its end but keeps a limited part: if the rest were not read, the program would block.
async fn bounded(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        (&mut pipe)
            .take(MAX_OUTPUT_BYTES)
            .read_to_end(&mut bytes)
            .await?;
        tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await?;
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
