//! The process that reads documents: how it is started, and what it does.

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

use super::{ConvertError, Kind, Order, Readable, convert};

/// The argument by which a process learns that it is the helper.
const CONVERT: &str = "--neuraxis-web=convert";

/// How many documents are read at the same time: each may take a core and much memory.
static PLACES: Semaphore = Semaphore::const_new(4);

static HELPER: OnceLock<PathBuf> = OnceLock::new();

/// The stack of whoever reads: parsers of trees call themselves.
const STACK_BYTES: usize = 64 << 20;

/// The most bytes of an answer.
const MAX_ANSWER: u64 = 64 << 20;

/// The most memory that the helper may take beyond what it begins with, in bytes: fifty times the longest document.
#[cfg(unix)]
const MAX_MEMORY: u64 = 512 << 20;

/// Does the work of the process that reads documents and returns its exit code, if this process was started as that.
///
/// Pages and PDFs are read by the program itself, started a second time, so that no document can crash it, keep it busy or take
/// all its memory. So `main` has to call this before anything else and to return the exit code if there is one. In a program
/// that does not, pages are read on a thread, and PDFs not at all.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// fn main() -> ExitCode {
///     if let Some(code) = neuraxis_web::run_convert_helper() {
///         return code;
///     }
///     // What the program is for.
///     ExitCode::SUCCESS
/// }
/// ```
pub fn run_convert_helper() -> Option<ExitCode> {
    if env::args_os().nth(1).as_deref() == Some(OsStr::new(CONVERT)) {
        return Some(serve());
    }
    let program = if cfg!(target_os = "linux") {
        // This program, whatever became of its file.
        Some(PathBuf::from("/proc/self/exe"))
    } else {
        env::current_exe().ok()
    };
    if let Some(program) = program {
        let _named_before = HELPER.set(program);
    }
    None
}

/// Names another program that reads documents, for a program whose `main` cannot call [`run_convert_helper`], such as a test:
/// one that does nothing but call it, as `neuraxis-convert` of this crate. The first call counts.
pub fn use_convert_helper(program: impl Into<PathBuf>) {
    let _named_before = HELPER.set(program.into());
}

/// What the helper answers: what it read, or why that cannot be read.
type Answer = Result<Readable, String>;

/// Reads a document apart from everything else, within a time.
///
/// # Cancel safety
///
/// Dropping the future ends the process that reads.
pub(crate) async fn convert_apart(
    order: Order,
    bytes: Vec<u8>,
    within: Duration,
) -> Result<Readable, ConvertError> {
    let kind = order.kind;
    // Who waits for a place does not use up its own time: those that are there end in time.
    let place = PLACES
        .acquire()
        .await
        .map_err(|_| ConvertError::Crashed { kind: kind.name() })?;
    let answer = match (kind, HELPER.get()) {
        (Kind::Text, _) => {
            return convert(&order, &bytes).map_err(|why| ConvertError::Unreadable { why });
        }
        (_, Some(program)) => timeout(within, in_process(program.clone(), &order, &bytes)).await,
        (Kind::Pdf, None) => return Err(ConvertError::NoHelper),
        (Kind::Html, None) => timeout(within, on_thread(place, order, bytes)).await,
    };
    match answer {
        Err(_) => Err(ConvertError::Timeout { within }),
        Ok(Err(failed)) => Err(failed),
        Ok(Ok(Some(answer))) => answer.map_err(|why| ConvertError::Unreadable { why }),
        Ok(Ok(None)) => Err(ConvertError::Crashed { kind: kind.name() }),
    }
}

/// Lets the helper read. Returns nothing if it crashed.
async fn in_process(
    program: PathBuf,
    order: &Order,
    bytes: &[u8],
) -> Result<Option<Answer>, ConvertError> {
    let mut command = Command::new(program);
    command.arg(CONVERT).env_clear().kill_on_drop(true);
    // The allocator of our programs would set a gigabyte aside at once, which the limit of memory could not tell from use.
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
    let mut head = serde_json::to_vec(order).unwrap_or_default();
    head.push(b'\n');
    // One that crashes while it is being told is noticed by its missing answer.
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

/// Reads on a thread, which keeps its place until it has ended, however long nobody waits for it any more.
async fn on_thread(
    place: SemaphorePermit<'static>,
    order: Order,
    bytes: Vec<u8>,
) -> Result<Option<Answer>, ConvertError> {
    let (send, receive) = oneshot::channel();
    let work = move || {
        let _kept = place;
        let _nobody_waits = send.send(convert(&order, &bytes));
    };
    let thread = thread::Builder::new().name("neuraxis-convert".to_owned());
    let started = thread.stack_size(STACK_BYTES).spawn(work);
    started.map_err(|error| ConvertError::NotStarted {
        why: error.to_string(),
    })?;
    // A thread that panics drops what it would have answered with.
    Ok(receive.await.ok())
}

/// Reads what comes in and answers. Whatever goes wrong shows by there being no answer.
fn serve() -> ExitCode {
    let mut input = Vec::new();
    if io::stdin().lock().read_to_end(&mut input).is_err() {
        return ExitCode::FAILURE;
    }
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let (Some(head), Some(bytes)) = (parts.next(), parts.next()) else {
        return ExitCode::FAILURE;
    };
    let Ok(order) = serde_json::from_slice::<Order>(head) else {
        return ExitCode::FAILURE;
    };
    limit(&order);
    let answered = thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK_BYTES);
        let work = || serde_json::to_vec(&convert(&order, bytes)).ok();
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

/// Bounds what this process may take, also when nobody is left to end it.
#[cfg(unix)]
fn limit(order: &Order) {
    use rustix::process::{Resource, Rlimit, setrlimit};

    let most = |most: u64| Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    // What an allocator set aside before counts, too, be it used or not.
    let memory = set_aside().saturating_add(MAX_MEMORY);
    // Where a system does not know one of them, the others hold, and the time that whoever started this waits.
    let _unknown = setrlimit(Resource::Data, most(memory));
    let _unknown = setrlimit(Resource::Cpu, most(order.seconds.max(1)));
    let _unknown = setrlimit(Resource::Core, most(0));
}

/// Returns how many bytes of memory this process has set aside for its data, where the system tells.
#[cfg(unix)]
fn set_aside() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let data = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kilobytes = data.and_then(|data| data.trim().trim_end_matches(" kB").parse().ok());
    kilobytes.map_or(0, |kilobytes: u64| kilobytes.saturating_mul(1_024))
}

#[cfg(not(unix))]
fn limit(_order: &Order) {}
