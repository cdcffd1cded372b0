//! Holds up a run of the program at a chosen point: in the tool `system_health`, which runs `journalctl` to find
//! errors. The `journalctl` it finds here prints nothing until the test opens the gate.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::Program;

/// A gate in front of a server's tool. The tool itself waits at most three seconds.
pub(crate) struct Gate {
    arrivals: pipe::Receiver,
    passes: pipe::Sender,
}

/// A turn that waits at the gate.
pub(crate) fn waiting_turn() -> Value {
    json!({"message": "system_health {\"sections\": [\"errors\"]}", "channel": "system_health"})
}

/// Starts the program with a gate.
pub(crate) async fn gated_program() -> (Program, Gate) {
    gated_program_with(&[]).await
}

/// Like [`gated_program`], with additional environment variables.
pub(crate) async fn gated_program_with(variables: &[(&str, &str)]) -> (Program, Gate) {
    let folder = tempfile::tempdir().unwrap();
    let gate = Gate::build(folder.path());
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let program = Program::start_in(folder, |command| {
        command.env("PATH", path).envs(variables.iter().copied());
    });
    (program.await, gate)
}

impl Gate {
    fn build(folder: &Path) -> Self {
        let [arrivals, passes, script] =
            ["arrivals", "passes", "journalctl"].map(|name| folder.join(name));
        let made = Command::new("mkfifo").args([&arrivals, &passes]).status();
        assert!(made.unwrap().success());
        let (arrived, passed) = (arrivals.display(), passes.display());
        let text =
            format!("#!/bin/sh\necho >'{arrived}'\nread -r line <'{passed}'\necho \"$line\"\n");
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        // Opened for reading and writing, so that neither side waits for the other to open it.
        let mut both = pipe::OpenOptions::new();
        let both = both.read_write(true);
        Self {
            arrivals: both.open_receiver(&arrivals).unwrap(),
            passes: both.open_sender(&passes).unwrap(),
        }
    }

    /// Waits until a run has reached the gate.
    pub(crate) async fn reached(&mut self) {
        self.arrivals.read_u8().await.unwrap();
    }

    /// Lets one run pass, now or when it arrives.
    pub(crate) async fn open(&mut self) {
        self.passes.write_all(b"the gate was open\n").await.unwrap();
    }
}
