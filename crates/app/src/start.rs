//! Starts the asynchronous runtime of a program, on a machine that may lack what it needs.
//!
//! The runtime panics, and may then wait forever, if the operating system refuses it a thread or a file. So what it
//! needs is tried first, and what still fails ends the process with the same message.

use std::io::{self, Write as _};
use std::panic::{self, PanicHookInfo};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{process, thread};

use neuraxis_core::jiff::Timestamp;
use tokio::runtime::{Builder, Runtime};

/// How many threads a program needs besides its workers: for the database, files, names of hosts, and the log.
const OTHER_THREADS: usize = 6;

/// How many pipes are opened to find out whether there are files left: two files each, together a few more than the
/// runtime itself opens.
const PIPES: usize = 4;

/// The first second of the year 9999. Times end with that year, and a program adds durations to the current one.
const LATEST_SECOND: i64 = 253_370_764_800;

/// Why a program cannot start on this machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The clock shows a time that cannot be right and cannot be stored.
    #[error("cannot start: this machine's clock says {shown}; set it to the current time")]
    Clock {
        /// The time that it shows.
        shown: String,
    },
    /// The operating system does not let the program start the threads that it needs.
    #[error(
        "cannot start {count} threads; raise the limit of processes (`ulimit -u`; for a container, `--pids-limit`)"
    )]
    Threads {
        /// How many threads are needed.
        count: usize,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The operating system does not let the program open the files that it needs.
    #[error("cannot start: too many open files; raise their limit (`ulimit -n`)")]
    Files(#[source] io::Error),
    /// The operating system refuses something else.
    #[error("cannot start")]
    System(#[source] io::Error),
}

/// Starts the runtime of a program, with this many worker threads, or one per processor. A write to a file beyond the
/// limit on the size of files is an error from then on, and no longer ends the process without a message.
///
/// If the runtime panics while it is built, this prints why and ends the process with exit code 1: its own cleanup
/// would wait forever for workers that have started.
///
/// # Errors
///
/// A [`StartError`] that names what this machine lacks.
pub fn start_runtime(workers: Option<usize>) -> Result<Runtime, StartError> {
    check_clock(SystemTime::now())?;
    let count = workers.or_else(|| thread::available_parallelism().ok().map(usize::from));
    check_threads(count.unwrap_or(1).saturating_add(OTHER_THREADS))?;
    check_files()?;
    let mut builder = Builder::new_multi_thread();
    if let Some(workers) = workers {
        builder.worker_threads(workers);
    }
    let hook = panic::take_hook();
    panic::set_hook(Box::new(end_process));
    let built = builder.enable_all().build();
    panic::set_hook(hook);
    let runtime = built.map_err(StartError::System)?;
    report_file_size_limit(&runtime).map_err(StartError::System)?;
    Ok(runtime)
}

/// Fails if times cannot be stored, or calculated with, at this time.
fn check_clock(now: SystemTime) -> Result<(), StartError> {
    let second = match now.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        // Rounded down, so that a fraction of a second before 1970 is also negative.
        Err(before) => {
            let seconds = i64::try_from(before.duration().as_secs());
            -seconds.unwrap_or(i64::MAX - 1) - 1
        }
    };
    if (0..LATEST_SECOND).contains(&second) {
        return Ok(());
    }
    let shown = Timestamp::from_second(second).map(|time| time.to_string());
    Err(StartError::Clock {
        shown: shown.unwrap_or_else(|_| format!("{second} seconds since 1970")),
    })
}

/// Fails if this many threads cannot run at the same time.
fn check_threads(count: usize) -> Result<(), StartError> {
    let gate = Mutex::new(());
    thread::scope(|scope| {
        // The threads wait until all have started, or one has not.
        let _closed = gate.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..count {
            let started = thread::Builder::new().spawn_scoped(scope, || drop(gate.lock()));
            started.map_err(|source| StartError::Threads { count, source })?;
        }
        Ok(())
    })
}

/// Fails if no more files can be opened.
fn check_files() -> Result<(), StartError> {
    let pipes: io::Result<Vec<_>> = (0..PIPES).map(|_| io::pipe()).collect();
    pipes.map(drop).map_err(StartError::Files)
}

/// Prints why the runtime panicked, and ends the process.
fn end_process(panicked: &PanicHookInfo<'_>) {
    let payload = panicked.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("the runtime cannot be built");
    // If standard error cannot be written, the exit code still remains.
    let _ = writeln!(
        io::stderr(),
        "error: cannot start: {text}; raise the limits of processes and open files (`ulimit -u`, `ulimit -n`; for a \
         container, `--pids-limit`)"
    );
    process::exit(1);
}

/// Makes a write beyond the limit on the size of files fail, instead of ending the process. This handles the signal
/// rather than ignoring it: a program started from here begins with the default, as it expects.
#[cfg(unix)]
fn report_file_size_limit(runtime: &Runtime) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};

    let _entered = runtime.enter();
    // The handler remains when this receiver is dropped.
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

#[cfg(not(unix))]
fn report_file_size_limit(_runtime: &Runtime) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_that_cannot_be_right_is_named_with_its_time() {
        let second = |second: u64| UNIX_EPOCH + Duration::from_secs(second);
        for right in [
            second(0),
            second(1_800_000_000),
            second(LATEST_SECOND as u64 - 1),
        ] {
            check_clock(right).unwrap();
        }
        for (wrong, expected) in [
            (
                UNIX_EPOCH - Duration::from_secs(86_400),
                "1969-12-30T23:59:59Z",
            ),
            (
                UNIX_EPOCH - Duration::from_millis(1),
                "1969-12-31T23:59:59Z",
            ),
            (second(LATEST_SECOND as u64), "9999-01-01T00:00:00Z"),
            (second(1 << 40), "1099511627776 seconds"),
        ] {
            let error = check_clock(wrong).unwrap_err().to_string();
            let expected = format!("this machine's clock says {expected}");
            assert!(error.contains(&expected), "{error}");
        }
    }

    #[test]
    fn a_runtime_starts_where_nothing_is_missing() {
        let runtime = start_runtime(Some(2)).unwrap();
        assert_eq!(runtime.block_on(async { 2 + 2 }), 4);
    }
}
