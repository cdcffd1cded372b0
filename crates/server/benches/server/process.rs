//! The processes that take part, and their resource usage.

use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};

/// What a process prints once it listens.
const LISTENING: &str = "listening on ";

/// Processor clock ticks per second, as Linux reports them to programs.
const TICKS: u64 = 100;

/// The size of a memory page in bytes.
const PAGE: u64 = 4_096;

/// Listens on a free port, and prints it.
pub(crate) async fn announce() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{LISTENING}http://{}", listener.local_addr().unwrap());
    listener
}

/// A process that takes part. It is killed on drop.
pub(crate) struct Measured {
    child: Child,
    pub(crate) url: String,
    _folder: TempDir,
}

/// A process's resource usage so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) processor: Duration,
    pub(crate) bytes: u64,
    /// Descriptors that are currently open.
    pub(crate) descriptors: usize,
}

impl Measured {
    /// Starts a model server.
    pub(crate) async fn upstream(seconds: u64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["upstream", &seconds.to_string()]);
        Self::start(command).await
    }

    /// Starts the reference server.
    pub(crate) async fn pass_through(upstream: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["pass-through", upstream]);
        Self::start(command).await
    }

    /// Starts our server, which keeps sessions in this store.
    pub(crate) async fn server(upstream: &str, store: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_neuraxis-server"));
        command.args(["--listen", "127.0.0.1:0"]).envs([
            ("NEURAXIS_MODELS__REASONING__PROVIDER", "openai"),
            ("NEURAXIS_MODELS__REASONING__API", "chat"),
            ("NEURAXIS_MODELS__REASONING__MODEL", "m"),
            (
                "NEURAXIS_MODELS__REASONING__BASE_URL",
                &format!("{upstream}/v1"),
            ),
            ("OPENAI_API_KEY", "none"),
            ("NEURAXIS_STORE__URL", store),
            ("NEURAXIS_SERVER__MAX_RUNS", "100000"),
            // Rounds may last longer than the default limit on a run.
            ("NEURAXIS_MODES__MODERATE__DEADLINE", "1h"),
            ("NEURAXIS_LOG", "error"),
        ]);
        Self::start(command).await
    }

    async fn start(mut command: Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        command
            .current_dir(&folder)
            .env_remove("NEURAXIS_BENCH_STREAMS")
            .env_remove("NEURAXIS_BENCH_SECONDS")
            .env_remove("NEURAXIS_BENCH_TURNS")
            .env_remove("NEURAXIS_BENCH_APIS")
            .env_remove("NEURAXIS_BENCH_SOAK")
            .env("HOME", folder.path())
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next_line().await.unwrap().unwrap_or_default();
        let url = line.strip_prefix(LISTENING);
        let url = url.unwrap_or_else(|| panic!("it did not start: {line:?}"));
        Self {
            child,
            url: url.to_owned(),
            _folder: folder,
        }
    }

    /// Returns its resource usage so far.
    pub(crate) fn used(&self) -> Used {
        let id = self.child.id().unwrap();
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{id}/{name}")).unwrap();
        let stat = read("stat");
        // The program name may contain anything, but ends at the last parenthesis.
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let ticks = |field: usize| fields[field].parse::<u64>().unwrap();
        let processor = Duration::from_millis((ticks(11) + ticks(12)) * 1_000 / TICKS);
        let pages = read("statm");
        let pages: u64 = pages.split_whitespace().nth(1).unwrap().parse().unwrap();
        let open = std::fs::read_dir(format!("/proc/{id}/fd")).unwrap();
        Used {
            processor,
            bytes: pages * PAGE,
            descriptors: open.count(),
        }
    }
}
