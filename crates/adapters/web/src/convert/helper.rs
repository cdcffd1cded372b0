//! The process that reads documents: how it is started, and its work.

use std::env;
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::time::timeout;

use super::{ConvertError, ConvertRequest, Kind, Readable, convert};

/// The argument that tells a process that it is the helper.
const CONVERT: &str = "--neuraxis-web=convert";

/// Permits for reading documents at the same time: each may use a core and much memory.
static PLACES: Semaphore = Semaphore::const_new(4);

static HELPER: OnceLock<PathBuf> = OnceLock::new();

/// The stack size of the reading thread: tree parsers are recursive.
const STACK_BYTES: usize = 64 << 20;

/// The maximum size of an answer, in bytes.
const MAX_ANSWER: u64 = 64 << 20;

/// The maximum memory that the helper may use beyond its memory at the start, in bytes: fifty times the longest
/// document.
#[cfg(unix)]
const MAX_MEMORY: u64 = 512 << 20;

/// Runs the document reader and returns its exit code if this process was started for that.
///
/// Pages and PDFs are read by a second instance of the program, so no document can crash the program, keep it busy or
/// exhaust its memory. For this, `main` must call this function before anything else, and return the exit code if there
/// is one. In a program that does not, pages are read on a thread, and PDFs are not read at all.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     if let Some(code) = neuraxis_web::run_convert_helper() {
///         return code;
///     }
///     // The program's actual work.
///     ExitCode::SUCCESS
/// }
/// ```
pub fn run_convert_helper() -> Option<ExitCode> {
    if env::args_os().nth(1).as_deref() == Some(OsStr::new(CONVERT)) {
        return Some(serve());
    }
    let program = if cfg!(target_os = "linux") {
        // This program, even if its file was moved or replaced.
        Some(PathBuf::from("/proc/self/exe"))
    } else {
        env::current_exe().ok()
    };
    if let Some(program) = program {
        let _named_before = HELPER.set(program);
    }
    None
}

/// Sets another program for reading documents, for programs whose `main` cannot call [`run_convert_helper`], such as
/// tests. That program should do nothing but call it, like `neuraxis-convert` of this crate. Only the first call has an
/// effect.
pub fn use_convert_helper(program: impl Into<PathBuf>) {
    let _named_before = HELPER.set(program.into());
}

/// The helper's answer: the text, or why the document cannot be read.
type Answer = Result<Readable, String>;

/// Reads a document in isolation, within a time limit.
///
/// # Cancel safety
///
/// Dropping the future kills the reading process.
pub(crate) async fn convert_apart(
    request: ConvertRequest,
    bytes: Vec<u8>,
    within: Duration,
) -> Result<Readable, ConvertError> {
    let kind = request.kind;
    // Waiting for a permit does not count toward the limit: the current readers all end in time.
    let place = PLACES
        .acquire()
        .await
        .map_err(|_| ConvertError::Crashed { kind: kind.name() })?;
    let answer = match (kind, HELPER.get()) {
        (Kind::Text, _) => {
            return convert(&request, &bytes).map_err(|why| ConvertError::Unreadable { why });
        }
        (_, Some(program)) => timeout(within, in_process(program.clone(), &request, &bytes)).await,
        (Kind::Pdf, None) => return Err(ConvertError::NoHelper),
        (Kind::Html, None) => timeout(within, on_thread(place, request, bytes)).await,
    };
    match answer {
        Err(_) => Err(ConvertError::Timeout { within }),
        Ok(Err(failed)) => Err(failed),
        Ok(Ok(Some(answer))) => answer.map_err(|why| ConvertError::Unreadable { why }),
        Ok(Ok(None)) => Err(ConvertError::Crashed { kind: kind.name() }),
    }
}

/// Reads a document in the helper. Returns `None` if the helper crashed.
async fn in_process(
    program: PathBuf,
    request: &ConvertRequest,
    bytes: &[u8],
) -> Result<Option<Answer>, ConvertError> {
    let mut command = Command::new(program);
    command.arg(CONVERT).env_clear().kill_on_drop(true);
    // The allocator would otherwise reserve a gigabyte at the start, which the memory limit could not tell from use.
    command.env("MIMALLOC_ARENA_EAGER_COMMIT", "0");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if cfg!(unix) {
        command.current_dir("/");
    }
    let started = command.spawn();
    let mut child = started.map_err(|error| ConvertError::NotStarted {
        why: error.to_string(),
    })?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Ok(None);
    };
    let mut head = serde_json::to_vec(request).unwrap_or_default();
    head.push(b'\n');
    // A crash during the transfer shows in the missing answer.
    let _told: io::Result<()> = async {
        input.write_all(&head).await?;
        input.write_all(bytes).await?;
        input.shutdown().await
    }
    .await;
    drop(input);
    let mut answer = Vec::new();
    let _read = output.take(MAX_ANSWER).read_to_end(&mut answer).await;
    let _ended = child.wait().await;
    Ok(serde_json::from_slice(&answer).ok())
}

/// Reads a document on a thread. The thread keeps its permit until it ends, even if its result is no longer awaited.
async fn on_thread(
    place: SemaphorePermit<'static>,
    request: ConvertRequest,
    bytes: Vec<u8>,
) -> Result<Option<Answer>, ConvertError> {
    let (send, receive) = oneshot::channel();
    let work = move || {
        let _kept = place;
        let _nobody_waits = send.send(convert(&request, &bytes));
    };
    let thread = thread::Builder::new().name("neuraxis-convert".to_owned());
    let started = thread.stack_size(STACK_BYTES).spawn(work);
    started.map_err(|error| ConvertError::NotStarted {
        why: error.to_string(),
    })?;
    // A thread that panics drops its sender.
    Ok(receive.await.ok())
}

/// Reads the input and answers. Any failure shows as a missing answer.
fn serve() -> ExitCode {
    let mut input = Vec::new();
    if io::stdin().lock().read_to_end(&mut input).is_err() {
        return ExitCode::FAILURE;
    }
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let (Some(head), Some(bytes)) = (parts.next(), parts.next()) else {
        return ExitCode::FAILURE;
    };
    let Ok(request) = serde_json::from_slice::<ConvertRequest>(head) else {
        return ExitCode::FAILURE;
    };
    limit(&request);
    let answered = thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        let work = || serde_json::to_vec(&convert(&request, bytes)).ok();
        let thread = thread.spawn_scoped(scope, work).ok()?;
        thread.join().ok().flatten()
    });
    let written = answered.map(|answer| io::stdout().lock().write_all(&answer));
    if matches!(written, Some(Ok(()))) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Limits what this process may use, even if no parent remains to kill it.
#[cfg(unix)]
fn limit(request: &ConvertRequest) {
    use rustix::process::{Resource, Rlimit, setrlimit};

    let most = |most: u64| Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    // Memory that the allocator reserved before counts as well, whether it is used or not.
    let memory = set_aside().saturating_add(MAX_MEMORY);
    // If the system does not support one of these limits, the others still apply, and so does the parent's time limit.
    let _unknown = setrlimit(Resource::Data, most(memory));
    let _unknown = setrlimit(Resource::Cpu, most(request.seconds.max(1)));
    let _unknown = setrlimit(Resource::Core, most(0));
}

/// Returns how many bytes of data memory this process has reserved, if the system reports it.
#[cfg(unix)]
fn set_aside() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let data = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kilobytes = data.and_then(|data| data.trim().trim_end_matches(" kB").parse().ok());
    kilobytes.map_or(0, |kilobytes: u64| kilobytes.saturating_mul(1_024))
}

#[cfg(not(unix))]
fn limit(_request: &ConvertRequest) {}
