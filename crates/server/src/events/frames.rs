//! Encoded events. If several clients listen to one run, each event is encoded once.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use axum::body::Bytes;
use neuraxis::Event;
use neuraxis::core::RunId;

use super::write_event;

/// The maximum number of encoded events kept per run: listeners that keep up are at most this far apart.
const MAX_KEPT: usize = 64;

/// The maximum number of encoded bytes kept per run.
const MAX_KEPT_BYTES: usize = 256 * 1024;

/// The encoded events of all runs that have listeners.
#[derive(Debug, Default)]
pub(super) struct SharedFrames {
    runs: Mutex<HashMap<RunId, Weak<RunFrames>>>,
}

/// The encoded events of one run, latest last.
#[derive(Debug, Default)]
struct RunFrames(Mutex<FrameCache>);

#[derive(Debug, Default)]
struct FrameCache {
    frames: VecDeque<(Event, Bytes)>,
    bytes: usize,
}

/// One listener's reference to the encoded events of its run.
#[derive(Debug)]
pub(super) struct Frames {
    run: RunId,
    shared: Arc<SharedFrames>,
    frames: Arc<RunFrames>,
}

impl SharedFrames {
    /// Returns a reference to the encoded events of a run.
    pub(super) fn of_run(shared: &Arc<Self>, run: RunId) -> Frames {
        let mut runs = shared.lock();
        let known = runs.get(&run).and_then(Weak::upgrade);
        let frames = known.unwrap_or_else(|| {
            let new = Arc::<RunFrames>::default();
            runs.insert(run, Arc::downgrade(&new));
            new
        });
        drop(runs);
        let shared = Arc::clone(shared);
        Frames {
            run,
            shared,
            frames,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, Weak<RunFrames>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Frames {
    /// Writes an encoded event. It is encoded now unless another listener of the run has just done so.
    pub(super) fn write(&self, event: Event, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        // A single listener need not store anything.
        if Arc::strong_count(&self.frames) == 1 {
            return encode(&event, out);
        }
        let kept = &self.frames.0;
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut latest_first = kept.frames.iter().rev();
        if let Some((_, frame)) = latest_first.find(|(other, _)| is_same(other, &event)) {
            out.extend_from_slice(frame);
            return Ok(());
        }
        let mut frame = Vec::new();
        encode(&event, &mut frame)?;
        out.extend_from_slice(&frame);
        kept.push(event, frame.into());
        Ok(())
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        let mut runs = self.shared.lock();
        // No listener can join while the lock is held.
        if Arc::strong_count(&self.frames) == 1 {
            runs.remove(&self.run);
        }
    }
}

impl FrameCache {
    fn push(&mut self, event: Event, frame: Bytes) {
        if frame.len() > MAX_KEPT_BYTES {
            return;
        }
        self.bytes += frame.len();
        self.frames.push_back((event, frame));
        while self.frames.len() > MAX_KEPT || self.bytes > MAX_KEPT_BYTES {
            let oldest = self.frames.pop_front();
            self.bytes -= oldest.map_or(0, |(_, frame)| frame.len());
        }
    }
}

/// Returns whether two events are the same. Records are compared by their address in memory: a store may keep less of a
/// record than its listeners receive.
fn is_same(event: &Event, other: &Event) -> bool {
    match (event, other) {
        (Event::Record(record), Event::Record(other)) => Arc::ptr_eq(record, other),
        (Event::Live(live), Event::Live(other)) => live == other,
        _ => false,
    }
}

/// Encodes an event, with its id if it is a record.
fn encode(event: &Event, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    let length = out.len();
    let written = write(event, out);
    if written.is_err() {
        out.truncate(length);
    }
    written
}

fn write(event: &Event, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    use io::Write as _;

    let kind = match event {
        Event::Record(record) => {
            writeln!(out, "id: {}", record.seq).map_err(serde_json::Error::io)?;
            record.body.kind()
        }
        Event::Live(live) => live.body.kind(),
    };
    write_event(out, Some(kind), event)
}

#[cfg(test)]
mod tests {
    use neuraxis::core::uuid::Uuid;

    use super::super::stream::tests::delta;
    use super::*;

    fn written(frames: &Frames, event: &Event) -> String {
        let mut out = Vec::new();
        frames.write(event.clone(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn kept(frames: &Frames) -> usize {
        frames.frames.0.lock().unwrap().frames.len()
    }

    #[test]
    fn listeners_of_one_run_share_encoded_frames_and_those_of_others_do_not() {
        let shared = Arc::<SharedFrames>::default();
        let [run, other] = [1, 2].map(|id| RunId(Uuid::from_u128(id)));
        let [one, two] = [run, run].map(|run| SharedFrames::of_run(&shared, run));
        let alone = SharedFrames::of_run(&shared, other);
        let event = delta(0, "a\nb");
        let first = written(&one, &event);
        assert!(first.starts_with("event: text_delta\ndata: {"), "{first}");
        assert!(first.ends_with("}\n\n") && first.lines().count() == 3);
        assert_eq!(written(&two, &event), first);
        assert_eq!(kept(&one), 1, "encoded once");
        assert_eq!(written(&alone, &event), first);
        assert_eq!(kept(&alone), 0);
        drop((one, two, alone));
        assert!(shared.lock().is_empty());
    }

    #[test]
    fn stored_encoded_frames_are_bounded() {
        let shared = Arc::<SharedFrames>::default();
        let run = RunId(Uuid::nil());
        let [one, _two] = [run, run].map(|run| SharedFrames::of_run(&shared, run));
        let large = "x".repeat(MAX_KEPT_BYTES / 8);
        for offset in 0..200 {
            written(&one, &delta(offset, &large));
        }
        assert!(kept(&one) < 8);
        for offset in 0..200 {
            written(&one, &delta(offset, "x"));
        }
        assert_eq!(kept(&one), MAX_KEPT);
        written(&one, &delta(0, &large.repeat(9)));
        assert_eq!(kept(&one), MAX_KEPT);
    }
}
