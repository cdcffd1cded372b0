//! Asks the journal of systemd.

use std::ffi::OsStr;
use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::time::timeout;

use super::ERROR_LOG_MAX_LINES;

/// How long the journal may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The most bytes that are taken from the journal's output.
const MAX_OUTPUT_BYTES: u64 = 1024 * 1024;

/// Returns the latest errors, a line each.
pub(super) async fn read(program: &OsStr) -> Result<String, String> {
    match timeout(TIMEOUT, ask(program)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            Err("there is no journalctl".to_owned())
        }
        Ok(Err(error)) => Err(format!("journalctl failed: {error}")),
        // Dropping the question has killed the program.
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
        // It needs none of our variables, some of which are secrets.
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
    // Without a journal it says so here, and is content with itself.
    if stderr.contains("No journal files were") {
        return Ok(Err("there is no journal".to_owned()));
    }
    let entries = stdout.lines().filter(|line| !line.starts_with("-- "));
    Ok(Ok(entries.collect::<Vec<_>>().join("\n")))
}

/// Reads a pipe to its end but keeps only so much of it; what does not fit would block the program otherwise.
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
