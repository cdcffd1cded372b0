//! Messages of MCP servers: whatever a program writes, one line per answer, its connection is established or fails
//! within the time limit, and what is kept of it is bounded.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_mcp::{McpServer, McpServerConfig, MemoryPins, StdioConfig, Transport};
use neuraxis_ports::{Secret, ToolSource};

/// A program that answers each line it reads with the next line of a file, and ends with the file.
const ANSWERING: &str = "exec 3< frames; while IFS= read -r line; do IFS= read -r out <&3 || exit; printf '%s\\n' \"$out\"; done";

/// A secret of the program, which it may write.
const KEY: &str = "k-canary-123";

/// Starts a program that writes this input.
pub fn frames(input: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("frames"), input).unwrap();
    let mut program = StdioConfig::new("/bin/sh", ["-c", ANSWERING]);
    program.cwd = Some(folder.path().to_owned());
    program.env.insert("KEY".to_owned(), Secret::new(KEY));
    let mut config = McpServerConfig::new("s", Transport::Stdio(program));
    config.start_timeout = Duration::from_secs(2);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = McpServer::start(config, Arc::new(MemoryPins::default())).unwrap();
        let ready = tokio::time::timeout(Duration::from_secs(10), server.ready()).await;
        let why = ready.unwrap().err().unwrap_or_default();
        let (tools, report, notices) = (server.tools(), server.report(), server.take_notices());
        let names: BTreeSet<String> = tools.iter().map(|it| it.spec().name.to_string()).collect();
        assert!(names.len() == tools.len() && tools.len() <= 1_000);
        assert!(
            names.iter().all(|name| name.starts_with("s__")),
            "{names:?}"
        );
        assert!(notices.len() <= 20);
        let said = format!(
            "{why} {notices:?} {:?} {:?}",
            report.unused_tools, report.program
        );
        assert!(said.len() < 100_000 && !said.contains(KEY), "{said}");
        server.shutdown().await;
    });
}
