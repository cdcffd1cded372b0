//! The queue of lines for standard error, written by a separate thread: a slow or missing reader delays neither a
//! request nor the end of the process.
//!
//! Not for what is logged, nor for the format of a line.

use std::io::{self, Write};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;

use neuraxis_app::without_secrets;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::shutdown::SHUTDOWN;

/// The maximum number of queued lines. Lines beyond that are lost, and counted.
const MAX_LINES: usize = 8_192;

/// Returns the queue for standard error, and a guard to drop as the process ends.
pub(crate) fn of_standard_error() -> (NonBlocking, LogEnd) {
    queue(io::stderr(), MAX_LINES)
}

/// Writes a text, with secrets removed, to standard error, if it can be written in time.
pub fn write_in_time(text: &str) {
    let text = without_secrets(text).into_owned();
    in_time(move || {
        // If this fails, the exit code still reports the error.
        let _ = io::stderr().write_all(text.as_bytes());
    });
}

/// Writes the queued lines on drop, if that can be done in time.
#[derive(Debug)]
#[must_use]
pub(crate) struct LogEnd(Option<WorkerGuard>);

impl Drop for LogEnd {
    fn drop(&mut self) {
        if let Some(guard) = self.0.take() {
            // If the queue stays full, this prints a complaint to standard output, which may block too.
            in_time(move || drop(guard));
        }
    }
}

fn queue(target: impl Write + Send + 'static, max_lines: usize) -> (NonBlocking, LogEnd) {
    let lost = Arc::new(OnceLock::new());
    let log = CleanLog {
        target,
        max_lines,
        lost: Arc::clone(&lost),
        reported: 0,
    };
    let builder = NonBlockingBuilder::default().thread_name("log");
    let builder = builder.lossy(true).buffered_lines_limit(max_lines);
    let (queue, guard) = builder.finish(log);
    lost.get_or_init(|| queue.error_counter());
    (queue, LogEnd(Some(guard)))
}

/// Runs work that may never finish, and waits for it briefly.
fn in_time(work: impl FnOnce() + Send + 'static) {
    let (running, finished) = mpsc::channel::<()>();
    // If no thread can be created, this is dropped immediately, as it is when the work finishes.
    let _ = thread::Builder::new().spawn(move || {
        work();
        drop(running);
    });
    let _ = finished.recv_timeout(SHUTDOWN.log);
}

/// Writes lines with secrets removed, each as a whole.
#[derive(Debug)]
struct CleanLog<W> {
    target: W,
    max_lines: usize,
    /// How many lines were lost since the process started.
    lost: Arc<OnceLock<ErrorCounter>>,
    /// How many of them were reported.
    reported: usize,
}

impl<W: Write> CleanLog<W> {
    /// Reports how many lines were lost, if at least this many have not been reported yet.
    fn report_lost(&mut self, least: usize) -> io::Result<()> {
        let lost = self.lost.get().map_or(0, ErrorCounter::dropped_lines);
        let unreported = lost.saturating_sub(self.reported);
        if unreported < least {
            return Ok(());
        }
        let mut line = String::new();
        // Without the time, the line is still useful.
        let _ = SystemTime.format_time(&mut Writer::new(&mut line));
        line += &format!(
            "  WARN neuraxis_server: log lines were lost because standard error was not read in time lost={unreported}\n"
        );
        self.target.write_all(line.as_bytes())?;
        self.reported = lost;
        Ok(())
    }
}

impl<W: Write> Write for CleanLog<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // If lines arrive faster than they are read, the queue is never empty.
        self.report_lost(self.max_lines)?;
        let text = String::from_utf8_lossy(line);
        self.target.write_all(without_secrets(&text).as_bytes())?;
        Ok(line.len())
    }

    /// Called whenever the queue is empty.
    fn flush(&mut self) -> io::Result<()> {
        self.report_lost(1)?;
        self.target.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that blocks until it is released.
    struct Stalled {
        gate: mpsc::Receiver<()>,
        taken: mpsc::Sender<String>,
    }

    impl Write for Stalled {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            // Returns once the other end is dropped.
            let _ = self.gate.recv();
            let text = String::from_utf8_lossy(line).into_owned();
            self.taken.send(text).map_err(io::Error::other)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stalled_log_writer_loses_and_counts_lines_without_blocking() {
        let (open, gate) = mpsc::channel();
        let (taken, lines) = mpsc::channel();
        let (mut log, end) = queue(Stalled { gate, taken }, 2);
        for number in 0..10 {
            log.write_all(format!("line {number}\n").as_bytes())
                .unwrap();
        }
        drop(open);
        drop((log, end));
        let lines: Vec<String> = lines.iter().collect();
        let (written, reports): (Vec<_>, Vec<_>) =
            lines.iter().partition(|line| line.starts_with("line "));
        let lost = reports.iter().map(|line| {
            let (_, lost) = line.trim_end().rsplit_once(" lost=").unwrap();
            lost.parse::<usize>().unwrap()
        });
        // Whether the first line was dequeued before the third arrived depends on the threads.
        assert!((2..=3).contains(&written.len()), "{lines:?}");
        assert_eq!(written.len() + lost.sum::<usize>(), 10, "{lines:?}");
        assert_eq!(written[0], "line 0\n");
    }

    #[test]
    fn work_that_never_ends_is_waited_for_only_briefly() {
        let (never, wait) = mpsc::channel::<()>();
        in_time(move || {
            let _ = wait.recv();
        });
        drop(never);
    }
}
