//! The output of a command: shown while it runs, and kept up to a limit.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use neuraxis_ports::Progress;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The maximum number of bytes that are returned of each of a command's two outputs: a part of the beginning, and the
/// end. Both fit into what the engine keeps of a result; the engine decides how much of it a model reads.
const COMMAND_MAX_OUTPUT_BYTES: usize = (4 << 20) - (1 << 10);
/// The maximum number of bytes that are shown while a command runs.
const COMMAND_MAX_LIVE_BYTES: usize = 1 << 20;

const HEAD: usize = COMMAND_MAX_OUTPUT_BYTES / 4;
const TAIL: usize = COMMAND_MAX_OUTPUT_BYTES - HEAD;
const CHUNK: usize = 8 << 10;

/// Shows output while the command runs.
#[derive(Debug)]
pub(super) struct LiveOutput<'a> {
    progress: &'a Progress,
    shown: AtomicUsize,
}

impl<'a> LiveOutput<'a> {
    pub(super) const fn to(progress: &'a Progress) -> Self {
        Self {
            progress,
            shown: AtomicUsize::new(0),
        }
    }

    fn show(&self, text: &str) {
        let before = self.shown.fetch_add(text.len(), Ordering::Relaxed);
        if before < COMMAND_MAX_LIVE_BYTES {
            self.progress.output(text);
            if before + text.len() >= COMMAND_MAX_LIVE_BYTES {
                self.progress.output("\n[the rest is not shown]\n");
            }
        }
    }
}

/// The beginning and the end of an output.
#[derive(Debug, Default)]
pub(super) struct Collected {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Collected {
    /// Reads until the output ends. A pipe that fails is treated as ended.
    pub(super) async fn read(&mut self, mut from: impl AsyncRead + Unpin, live: &LiveOutput<'_>) {
        let mut chunk = vec![0; CHUNK];
        // The first bytes of a character whose last bytes have not arrived.
        let mut pending = Vec::new();
        while let Ok(length @ 1..) = from.read(&mut chunk).await {
            let bytes = chunk.get(..length).unwrap_or_default();
            self.push(bytes);
            pending.extend_from_slice(bytes);
            let whole = whole_characters(&pending);
            let rest = pending.split_off(whole);
            live.show(&String::from_utf8_lossy(&pending));
            pending = rest;
        }
        if !pending.is_empty() {
            live.show(&String::from_utf8_lossy(&pending));
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = HEAD - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let too_many = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..too_many);
    }

    /// Returns how many bytes were not kept.
    pub(super) fn left_out(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// Returns what was kept. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub(super) fn into_text(self) -> String {
        let left_out = self.left_out();
        let tail: Vec<u8> = self.tail.into();
        if left_out == 0 {
            let whole = [self.head, tail].concat();
            return String::from_utf8_lossy(&whole).into_owned();
        }
        format!(
            "{}\n[{left_out} bytes left out]\n{}",
            String::from_utf8_lossy(&self.head),
            String::from_utf8_lossy(&tail)
        )
    }
}

/// Returns how many of the bytes are complete characters or invalid.
fn whole_characters(bytes: &[u8]) -> usize {
    let mut checked = 0;
    loop {
        let rest = bytes.get(checked..).unwrap_or_default();
        match std::str::from_utf8(rest) {
            Ok(_) => return bytes.len(),
            Err(error) => match error.error_len() {
                Some(wrong) => checked += error.valid_up_to() + wrong,
                None => return checked + error.valid_up_to(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use neuraxis_core::ProgressSteps;
    use neuraxis_ports::ProgressSink;

    use super::*;

    #[derive(Debug, Default)]
    struct ShownOutput(Mutex<Vec<String>>);

    impl ProgressSink for ShownOutput {
        fn progress(&self, _name: &str, _icon: Option<&str>, _steps: Option<ProgressSteps>) {}

        fn output(&self, text: &str) {
            self.0.lock().unwrap().push(text.to_owned());
        }
    }

    async fn read(chunks: &[&[u8]]) -> (Collected, Vec<String>) {
        let shown = Arc::new(ShownOutput::default());
        let progress = Progress::to(Arc::clone(&shown) as Arc<dyn ProgressSink>);
        let live = LiveOutput::to(&progress);
        let mut collected = Collected::default();
        let mut output = tokio_chunks(chunks);
        collected.read(&mut output, &live).await;
        let shown = shown.0.lock().unwrap().clone();
        (collected, shown)
    }

    fn tokio_chunks(chunks: &[&[u8]]) -> impl AsyncRead + Unpin {
        let mut all: Box<dyn AsyncRead + Unpin> = Box::new(tokio::io::empty());
        for chunk in chunks {
            all = Box::new(all.chain(std::io::Cursor::new(chunk.to_vec())));
        }
        all
    }

    #[tokio::test]
    async fn output_within_the_limit_is_complete() {
        let whole = vec![b'x'; COMMAND_MAX_OUTPUT_BYTES];
        let (collected, _) = read(&[&whole]).await;
        assert_eq!(
            (collected.left_out(), collected.into_text().len()),
            (0, whole.len())
        );
    }

    #[tokio::test]
    async fn only_the_beginning_and_end_of_excessive_output_are_stored() {
        let middle = vec![b'x'; 8 << 20];
        let (collected, _) = read(&[b"first", &middle, b"last"]).await;
        let left_out = collected.left_out();
        assert_eq!(left_out, (8 << 20) + 9 - COMMAND_MAX_OUTPUT_BYTES as u64);
        let text = collected.into_text();
        assert!(text.starts_with("first") && text.ends_with("last"));
        assert!(text.contains(&format!("\n[{left_out} bytes left out]\n")));
        assert!(text.len() < COMMAND_MAX_OUTPUT_BYTES + 100);
    }

    #[tokio::test]
    async fn a_character_split_across_reads_is_shown_whole_and_invalid_bytes_are_replaced() {
        let (collected, shown) = read(&[b"a\xc3", b"\xa9b\xff", b"c\xe2\x82"]).await;
        assert_eq!(shown, ["a", "éb\u{fffd}", "c", "\u{fffd}"]);
        assert_eq!(collected.into_text(), "aéb\u{fffd}c\u{fffd}");
    }

    #[tokio::test]
    async fn live_output_is_bounded() {
        let flood = vec![b'x'; 3 * COMMAND_MAX_LIVE_BYTES];
        let (_, shown) = read(&[&flood]).await;
        let bytes: usize = shown.iter().map(String::len).sum();
        assert!(bytes < COMMAND_MAX_LIVE_BYTES + CHUNK + 100, "{bytes}");
        assert_eq!(shown.last().unwrap(), "\n[the rest is not shown]\n");
    }
}
