//! What must hold after any fault: seven checks of the state that it left.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a check reports failures by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use neuraxis_core::{
    EffectId, Message, Record, RecordBody, Seq, ToolCallId, ToolFailure, run_messages,
};

/// How long processes that a server started may outlive it.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The pause between two checks for that.
const PAUSE: Duration = Duration::from_millis(20);

/// The state that a fault left behind.
///
/// ```
/// use neuraxis_testkit::{Aftermath, CountingIds, RunLog, reply};
///
/// let mut log = RunLog::new(CountingIds::nth_run(1), "main".parse()?);
/// let records = [log.started("Hello?"), log.replied(reply::text("Hi.")), log.finished("Hi.")];
/// let received = [records[0].to_json()];
/// Aftermath::of(&records).received(&received).assert_ended();
/// # Ok::<(), neuraxis_core::InvalidId>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is checked yet"]
pub struct Aftermath<'a> {
    records: &'a [Arc<Record>],
    received: &'a [String],
    effects: &'a [EffectId],
    folder: Option<&'a Path>,
    canary: Option<&'a str>,
}

impl<'a> Aftermath<'a> {
    /// Creates checks of a run's log, as it was read back.
    pub const fn of(records: &'a [Arc<Record>]) -> Self {
        Self {
            records,
            received: &[],
            effects: &[],
            folder: None,
            canary: None,
        }
    }

    /// Adds the records that a client received, as JSON.
    pub const fn received(mut self, received: &'a [String]) -> Self {
        self.received = received;
        self
    }

    /// Adds the irreversible effects of tools: the effect id of each start, in this run or in others. Leave out
    /// read-only calls, which may start before their record is on disk.
    pub const fn effects(mut self, effects: &'a [EffectId]) -> Self {
        self.effects = effects;
        self
    }

    /// Sets the folder with which every process of the test was started, and which contains all its files.
    pub const fn folder(mut self, folder: &'a Path) -> Self {
        self.folder = Some(folder);
        self
    }

    /// Sets a secret that must not be in any record or in any file of the folder.
    pub const fn canary(mut self, canary: &'a str) -> Self {
        self.canary = Some(canary);
        self
    }

    /// Checks everything that must hold for a run that has ended.
    ///
    /// # Panics
    ///
    /// Panics with the failed check and the reason.
    pub fn assert_ended(&self) {
        self.each_call_has_one_result();
        self.there_is_one_end();
        self.assert_whole();
    }

    /// Checks everything that must hold for a run in any state.
    ///
    /// # Panics
    ///
    /// Panics with the failed check and the reason.
    pub fn assert_whole(&self) {
        self.what_was_received_is_stored();
        self.what_cannot_be_undone_was_done_once();
        self.numbers_have_no_gap();
        self.no_process_is_left();
        self.no_secret_has_leaked();
    }

    /// I1: what a client received is in the log, byte for byte.
    fn what_was_received_is_stored(&self) {
        let stored: Vec<_> = self.records.iter().map(|record| record.to_json()).collect();
        for received in self.received {
            assert!(
                stored.contains(received),
                "I1: shown to the client, but not stored: {received}"
            );
        }
    }

    /// I2: each call that started has exactly one result, and the run's history pairs them.
    fn each_call_has_one_result(&self) {
        let mut results: BTreeMap<&ToolCallId, usize> = BTreeMap::new();
        for record in self.records {
            if let RecordBody::ToolResult(result) = &record.body {
                *results.entry(&result.tool_call_id).or_default() += 1;
            }
        }
        for record in self.records {
            if let RecordBody::ToolCall(call) = &record.body {
                let count = results.get(&call.tool_call_id).copied().unwrap_or_default();
                assert_eq!(count, 1, "I2: results of call {}", call.tool_call_id);
            }
        }
        assert_paired(&run_messages(self.records));
    }

    /// I3: an irreversible effect was started at most once, and only if it is in the journal. A call whose result was
    /// lost is reported as unknown.
    fn what_cannot_be_undone_was_done_once(&self) {
        let mut begun: BTreeMap<EffectId, usize> = BTreeMap::new();
        for effect in self.effects {
            *begun.entry(*effect).or_default() += 1;
        }
        let mut journal = BTreeSet::new();
        for record in self.records {
            match &record.body {
                RecordBody::ToolCall(call) => {
                    journal.insert(call.effect_id);
                }
                RecordBody::ToolResult(result)
                    if result.failure == Some(ToolFailure::OutcomeUnknown) =>
                {
                    let effect = result
                        .effect_id
                        .expect("I3: an unknown outcome belongs to an effect");
                    assert!(
                        journal.contains(&effect),
                        "I3: {effect} is not in the journal"
                    );
                }
                _ => {}
            }
        }
        let run = self.records.first().map(|record| record.run_id);
        // Effects of other runs are in their own journals.
        begun.retain(|effect, _| Some(effect.run) == run);
        for (effect, times) in begun {
            assert!(
                journal.contains(&effect),
                "I3: {effect} was started, but is not in the journal"
            );
            assert_eq!(times, 1, "I3: {effect} was started {times} times");
        }
    }

    /// I4: the numbers of a run's records have no gaps.
    fn numbers_have_no_gap(&self) {
        for (record, seq) in self.records.iter().zip(1..) {
            assert_eq!(record.seq, Seq(seq), "I4: a gap");
        }
    }

    /// I5: a run ends once, with its last record.
    fn there_is_one_end(&self) {
        let ends = self.records.iter().filter(|record| record.ends_the_run());
        assert_eq!(ends.count(), 1, "I5: ends of the run");
        let last = self.records.last().expect("I5: a run has records");
        assert!(
            last.ends_the_run(),
            "I5: {} follows the end",
            last.body.kind()
        );
    }

    /// I6: no process remains that has the folder in its command line, in its environment or as its working directory.
    /// A process that a server started inherits at least one of them, and may take a moment to end after the server.
    fn no_process_is_left(&self) {
        let Some(folder) = self.folder else { return };
        let deadline = Instant::now() + EXIT_TIMEOUT;
        loop {
            match process_of(folder) {
                None => return,
                Some(left) if Instant::now() >= deadline => panic!("I6: a process is left: {left}"),
                Some(_) => thread::sleep(PAUSE),
            }
        }
    }

    /// I7: the secret appears nowhere.
    fn no_secret_has_leaked(&self) {
        let Some(canary) = self.canary else { return };
        let texts = self.records.iter().map(|record| record.to_json());
        for text in texts.chain(self.received.iter().cloned()) {
            assert!(!text.contains(canary), "I7: the secret is in {text}");
        }
        if let Some(folder) = self.folder {
            assert_nowhere(folder, canary);
        }
    }
}

/// Returns the id and command line of a process, other than this one, that belongs to a folder.
fn process_of(folder: &Path) -> Option<String> {
    let name = folder.as_os_str().as_encoded_bytes();
    let own = std::process::id().to_string();
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = all.filter(|entry| {
        let number = entry.file_name();
        let is_process = number.as_encoded_bytes().iter().all(u8::is_ascii_digit);
        is_process && number != own.as_str()
    });
    // Nothing can be read about a process that has died or belongs to another user.
    let read = |process: &Path, what: &str| fs::read(process.join(what)).unwrap_or_default();
    let mut paths = processes.map(|process| process.path());
    let found = paths.find(|process| {
        let lives_there = fs::read_link(process.join("cwd"));
        lives_there.is_ok_and(|cwd| cwd.starts_with(folder))
            || ["cmdline", "environ"]
                .iter()
                .any(|what| holds(&read(process, what), name))
    })?;
    let command = read(&found, "cmdline");
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    Some(format!("{} {command}", found.display()))
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|it| it == part)
}

/// Checks that a string is in no file of a folder, whatever the type of the file.
///
/// # Panics
///
/// Panics with the name of the file that contains it.
pub fn assert_nowhere(folder: &Path, canary: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        if kind.as_ref().is_ok_and(fs::FileType::is_dir) {
            assert_nowhere(&path, canary);
        } else if kind.is_ok_and(|kind| kind.is_file()) {
            let bytes = fs::read(&path).unwrap_or_default();
            let found = holds(&bytes, canary.as_bytes());
            assert!(!found, "I7: the secret is in {}", path.display());
        }
    }
}

/// Checks that every call is answered by exactly one result, right after its message and in call order.
///
/// # Panics
///
/// Panics with the ids that are out of place.
pub fn assert_paired(messages: &[Arc<Message>]) {
    let mut open: Vec<ToolCallId> = Vec::new();
    for message in messages {
        if let Message::Tool(tool) = message.as_ref() {
            assert_eq!(
                open.first(),
                Some(&tool.tool_call_id),
                "I2: a result out of place"
            );
            open.remove(0);
        } else {
            assert!(open.is_empty(), "I2: calls without results: {open:?}");
            open = message.tool_calls().map(|call| call.id.clone()).collect();
        }
    }
    assert!(open.is_empty(), "I2: calls without results: {open:?}");
}
