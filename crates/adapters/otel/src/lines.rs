//! A JSON Lines file that is written by a separate thread: adding a line never waits for the disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::config::Redact;
use crate::export::Delivery;
use crate::rotating::{Rotating, Rotation};

/// The maximum number of bytes of waiting lines; further lines are dropped and counted.
const MAX_WAITING: usize = 16 << 20;

/// Appends lines to a file. Clones share it. A line is dropped and counted if too much is waiting or the disk rejects
/// it.
#[derive(Debug, Clone)]
pub struct JsonLines(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    queue: Sender<Message>,
    tally: Arc<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    waiting: AtomicUsize,
    written: AtomicU64,
    dropped: AtomicU64,
    error: Mutex<Option<String>>,
}

enum Message {
    Line(String),
    /// Write what is waiting, and report when done.
    Flush(Sender<()>),
}

impl JsonLines {
    /// Opens a file for appending. If it is missing, creates it, readable only for its owner.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn open(path: &Path, rotation: Rotation, redact: Redact) -> io::Result<Self> {
        let file = Rotating::open(path, rotation)?;
        let (queue, lines) = channel();
        let tally = Arc::new(Tally::default());
        let writer = Writer {
            file,
            redact,
            tally: Arc::clone(&tally),
        };
        std::thread::Builder::new()
            .name("neuraxis-traces".to_owned())
            .spawn(move || writer.run(&lines))?;
        Ok(Self(Arc::new(Shared {
            path: path.to_owned(),
            queue,
            tally,
        })))
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Adds a line, given without its line ending. Never blocks.
    pub fn add(&self, line: String) {
        let tally = &self.0.tally;
        let bytes = line.len();
        let waiting = tally.waiting.fetch_add(bytes, Ordering::Relaxed);
        if waiting.saturating_add(bytes) > MAX_WAITING
            || self.0.queue.send(Message::Line(line)).is_err()
        {
            tally.waiting.fetch_sub(bytes, Ordering::Relaxed);
            tally.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how many lines were written and dropped so far.
    #[must_use]
    pub fn delivery(&self) -> Delivery {
        let tally = &self.0.tally;
        let error = tally.error.lock().unwrap_or_else(PoisonError::into_inner);
        Delivery {
            delivered: tally.written.load(Ordering::Relaxed),
            dropped: tally.dropped.load(Ordering::Relaxed),
            error: error.clone(),
        }
    }

    /// Waits until the added lines are written, but at most that long. Blocks the thread.
    pub fn flush(&self, within: Duration) -> Delivery {
        let (done, is_done) = channel();
        if self.0.queue.send(Message::Flush(done)).is_ok() {
            // Lines that were not written in time may still be written.
            let _ = is_done.recv_timeout(within);
        }
        self.delivery()
    }
}

struct Writer {
    file: Rotating,
    redact: Redact,
    tally: Arc<Tally>,
}

impl Writer {
    fn run(mut self, lines: &Receiver<Message>) {
        let mut buffer = String::new();
        let mut count = 0;
        loop {
            // Lines that arrived together are written together.
            let next = match buffer.is_empty() {
                true => lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => lines.recv_timeout(Duration::ZERO),
            };
            match next {
                Ok(Message::Line(line)) => {
                    self.tally.waiting.fetch_sub(line.len(), Ordering::Relaxed);
                    buffer.push_str(&self.redact.text(&line));
                    buffer.push('\n');
                    count += 1;
                    if buffer.len() >= 1 << 16 {
                        self.write(&mut buffer, &mut count);
                    }
                }
                Ok(Message::Flush(done)) => {
                    self.write(&mut buffer, &mut count);
                    // The caller may have stopped waiting.
                    let _ = done.send(());
                }
                Err(RecvTimeoutError::Timeout) => self.write(&mut buffer, &mut count),
                Err(RecvTimeoutError::Disconnected) => {
                    self.write(&mut buffer, &mut count);
                    return;
                }
            }
        }
    }

    fn write(&mut self, buffer: &mut String, count: &mut u64) {
        let tally = &self.tally;
        let appended = self.file.append(buffer.as_bytes());
        let unrotated = self.file.take_rotation_error();
        let counted = match &appended {
            Ok(()) => &tally.written,
            Err(_) => &tally.dropped,
        };
        counted.fetch_add(*count, Ordering::Relaxed);
        let refused = appended.err().map(|error| error.to_string());
        let too_long = unrotated.map(|error| format!("cannot start a new file: {error}"));
        if let Some(error) = refused.or(too_long) {
            let mut last = tally.error.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some(error);
        }
        buffer.clear();
        *count = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn lines_are_written_in_order_and_without_secrets() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traces.jsonl");
        let redact = Redact::new(|text| Some(text.replace("canary", "[redacted]")));
        let lines = JsonLines::open(&path, Rotation::default(), redact).unwrap();
        for number in 0..1_000 {
            lines.add(format!(r#"{{"n":{number},"key":"canary"}}"#));
        }
        let delivery = lines.flush(PATIENCE);
        assert_eq!((delivery.delivered, delivery.dropped), (1_000, 0));
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains("canary"));
        let last = r#"{"n":999,"key":"[redacted]"}"#;
        assert_eq!(text.lines().last(), Some(last));
        assert_eq!(text.lines().count(), 1_000);
    }

    #[test]
    fn lines_are_still_written_if_rotation_fails_and_the_error_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traces.jsonl");
        fs::create_dir(folder.path().join("traces.jsonl.1")).unwrap();
        let rotation = Rotation {
            max_bytes: 4,
            files: 1,
        };
        let lines = JsonLines::open(&path, rotation, Redact::default()).unwrap();
        for written in 1..=3 {
            lines.add("{}".to_owned());
            let delivery = lines.flush(PATIENCE);
            assert_eq!((delivery.delivered, delivery.dropped), (written, 0));
        }
        let told = lines.delivery().error.unwrap();
        assert!(told.starts_with("cannot start a new file: "), "{told}");
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_readable_only_by_its_owner() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traces.jsonl");
        let _lines = JsonLines::open(&path, Rotation::default(), Redact::default()).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn lines_refused_by_a_full_disk_are_counted_as_dropped() {
        let lines = JsonLines::open(
            Path::new("/dev/full"),
            Rotation::default(),
            Redact::default(),
        )
        .unwrap();
        lines.add("{}".to_owned());
        let delivery = lines.flush(PATIENCE);
        assert_eq!((delivery.delivered, delivery.dropped), (0, 1));
        assert!(delivery.error.unwrap().contains("space"));
    }
}
