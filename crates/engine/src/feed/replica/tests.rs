use neuraxis_core::uuid::Uuid;
use neuraxis_core::{
    BlockIndex, Cancelled, ContentIndex, CutReply, InputId, Purpose, Reply, ReplyPart, RunId,
};
use neuraxis_testkit::{RunLog, reply};

use super::*;
use crate::feed::Position;

const RUN: RunId = RunId(Uuid::nil());

const CALL: EffectId = EffectId {
    run: RUN,
    number: 1,
};

fn call() -> LiveCall {
    LiveCall {
        effect_id: CALL,
        content_index: ContentIndex(0),
        run_id: RUN,
        agent: AgentId::ROOT,
    }
}

/// The call as the process that makes it knows it, and how far it was sent.
struct Original {
    buffer: CallBuffer,
    lease: u64,
    position: Position,
    known: u64,
    item: Option<usize>,
}

impl Original {
    fn new(lease: u64) -> Self {
        Self {
            buffer: CallBuffer::new(call()),
            lease,
            position: Position::default(),
            known: 0,
            item: None,
        }
    }

    fn says(&self, attempt: u32, block: u32, text: &str) {
        let (attempt, block) = (Attempt(attempt), BlockIndex(block));
        self.buffer.text(attempt, block, LiveText::Text, text);
    }

    /// Returns what was shown since the last call.
    fn pieces(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let (lease, known, last) = (self.lease, &mut self.known, &mut self.item);
        self.buffer
            .read_items(&mut self.position, Seq(1), |item, event| {
                let piece = Piece {
                    lease,
                    at: *known,
                    begins: *last != Some(item),
                    event,
                };
                (*known, *last) = (piece.end(), Some(item));
                pieces.push(piece);
            });
        pieces
    }

    fn all_anew(&mut self) -> Vec<Piece> {
        (self.position, self.known, self.item) = (Position::default(), 0, None);
        self.pieces()
    }
}

/// A listener in another process.
struct Elsewhere {
    replica: Replica,
    buffer: Arc<CallBuffer>,
    position: Position,
    /// The result of assembling the deltas: the reasoning and the text.
    received: [String; 2],
}

impl Elsewhere {
    fn new() -> Self {
        Self {
            replica: Replica::new(Seq(1)),
            buffer: Arc::new(CallBuffer::new(call())),
            position: Position::default(),
            received: Default::default(),
        }
    }

    fn take(&mut self, piece: &Piece) -> Taken {
        let buffer = Arc::clone(&self.buffer);
        let taken = self.replica.take(piece, Seq(1), |_| buffer);
        self.read();
        taken
    }

    fn take_all(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            self.take(piece);
        }
    }

    fn settle(&mut self, record: &Record) {
        self.replica.settle(record);
        self.read();
    }

    fn read(&mut self) {
        for event in self.buffer.read(&mut self.position, Seq(1)) {
            match event.body {
                LiveBody::ReasoningDelta { text } => self.received[0].push_str(&text),
                LiveBody::TextDelta { text } => self.received[1].push_str(&text),
                LiveBody::TextRetracted => self.received = Default::default(),
                _ => {}
            }
        }
    }

    fn text(&self) -> &str {
        &self.received[1]
    }
}

fn replied(reply: Reply, purpose: Purpose, attempt: u32) -> Arc<Record> {
    let mut log = RunLog::new(RUN, "s".parse().unwrap());
    let mut record = Arc::unwrap_or_clone(log.replied(reply));
    if let RecordBody::LlmCall(call) = &mut record.body {
        (call.effect_id, call.purpose, call.attempt) = (CALL, purpose, Attempt(attempt));
    }
    Arc::new(record)
}

fn said(text: &str) -> Arc<Record> {
    replied(reply::text(text), Purpose::Turn, 1)
}

#[test]
fn pieces_are_assembled_once_however_often_they_arrive() {
    let (mut original, mut elsewhere) = (Original::new(1), Elsewhere::new());
    let mut all = Vec::new();
    for text in ["one ", "two ", "three"] {
        original.says(1, 0, text);
        let pieces = original.pieces();
        elsewhere.take_all(&pieces);
        all.extend(pieces);
        elsewhere.take_all(&all);
        elsewhere.take_all(&original.all_anew());
    }
    assert_eq!(elsewhere.text(), "one two three");
    elsewhere.settle(&said("one two three"));
    elsewhere.take_all(&all);
    assert_eq!(elsewhere.text(), "one two three");
}

#[test]
fn text_after_a_gap_is_not_shown_until_everything_is_resent() {
    let (mut original, mut elsewhere) = (Original::new(1), Elsewhere::new());
    original.says(1, 0, "one ");
    elsewhere.take_all(&original.pieces());
    original.says(1, 0, "two ");
    let lost = original.pieces();
    original.says(1, 1, "three");
    for piece in original.pieces() {
        assert!(matches!(elsewhere.take(&piece), Taken::Gap));
    }
    assert_eq!(elsewhere.text(), "one ");
    elsewhere.take_all(&original.all_anew());
    assert_eq!(elsewhere.text(), "one two three");
    elsewhere.take_all(&lost);
    assert_eq!(elsewhere.text(), "one two three");
}

#[test]
fn a_record_adds_missing_text_and_retracts_text_it_does_not_contain() {
    for (shown, record, expected) in [
        ("All ", said("All is well."), "All is well."),
        ("", said("All is well."), ""),
        ("Nothing ", said("All is well."), "All is well."),
        ("All is well.", said("All is well."), "All is well."),
        // A later attempt returned another text.
        (
            "All ",
            replied(reply::text("Yes."), Purpose::Turn, 2),
            "Yes.",
        ),
    ] {
        let (mut original, mut elsewhere) = (Original::new(1), Elsewhere::new());
        if !shown.is_empty() {
            original.says(1, 0, shown);
        }
        elsewhere.take_all(&original.pieces());
        elsewhere.settle(&record);
        // Without a piece there is nothing to continue: the record is everything.
        assert_eq!(elsewhere.text(), expected, "{shown}");
    }
}

#[test]
fn reasoning_and_text_are_both_completed() {
    let (mut original, mut elsewhere) = (Original::new(1), Elsewhere::new());
    let think = LiveText::Reasoning;
    original.buffer.text(Attempt(1), BlockIndex(0), think, "hm");
    elsewhere.take_all(&original.pieces());
    let record = replied(reply::reasoned("hm, hm", "Yes."), Purpose::Turn, 1);
    elsewhere.settle(&record);
    assert_eq!(elsewhere.received, ["hm, hm", "Yes."]);
}

#[test]
fn pieces_wait_for_earlier_records_and_are_ignored_once_their_call_is_closed() {
    let (mut original, mut elsewhere) = (Original::new(1), Elsewhere::new());
    original.says(1, 0, "early");
    let mut piece = original.pieces().remove(0);
    let after = |piece: &mut Piece, seq| piece.event.after = Seq(seq);
    after(&mut piece, 2);
    assert!(matches!(elsewhere.take(&piece), Taken::Early));
    // A listener that came later does not know what was committed before.
    after(&mut piece, 0);
    assert!(matches!(elsewhere.take(&piece), Taken::Known));
    after(&mut piece, 1);
    elsewhere.settle(&said("early and late"));
    assert!(matches!(elsewhere.take(&piece), Taken::Known));
    assert_eq!(elsewhere.text(), "");
}

#[test]
fn a_later_holder_of_the_run_restarts_the_text_and_older_pieces_are_ignored() {
    let (mut former, mut next) = (Original::new(1), Original::new(2));
    let mut elsewhere = Elsewhere::new();
    former.says(1, 0, "half of ");
    elsewhere.take_all(&former.pieces());
    former.says(1, 0, "it");
    let late = former.pieces();
    // It need not know of the earlier call.
    next.says(1, 0, "All");
    elsewhere.take_all(&next.pieces());
    assert_eq!(elsewhere.text(), "All");
    elsewhere.take_all(&late);
    next.says(1, 0, " of it");
    elsewhere.take_all(&next.pieces());
    assert_eq!(elsewhere.text(), "All of it");
}

#[test]
fn cancelled_text_stays_only_if_the_record_contains_it() {
    let (mut original, mut elsewhere) = (Original::new(1), Elsewhere::new());
    original.says(1, 0, "As I was ");
    elsewhere.take_all(&original.pieces());
    let mut cancelled = Cancelled::new(InputId::new("c"), "enough");
    let mut log = RunLog::new(RUN, "s".parse().unwrap());
    let mut kept = cancelled.clone();
    kept.cut = Some(CutReply {
        effect_id: CALL,
        text: "As I was saying".to_owned(),
    });
    elsewhere.settle(&log.record(RecordBody::Cancelled(Box::new(kept))));
    assert_eq!(elsewhere.text(), "As I was saying");

    let (mut original, mut elsewhere) = (Original::new(1), Elsewhere::new());
    original.says(1, 0, "As I was ");
    elsewhere.take_all(&original.pieces());
    cancelled.agent = AgentId(7);
    let of_another = log.record(RecordBody::Cancelled(Box::new(cancelled.clone())));
    elsewhere.settle(&of_another);
    assert_eq!(elsewhere.text(), "As I was ");
    cancelled.agent = AgentId::ROOT;
    elsewhere.settle(&log.record(RecordBody::Cancelled(Box::new(cancelled))));
    assert_eq!(elsewhere.text(), "");
    // What was sent before it is outdated.
    original.says(1, 0, "saying");
    elsewhere.take_all(&original.pieces());
    assert_eq!(elsewhere.text(), "");
}

#[test]
fn lost_or_repeated_pieces_still_yield_the_text_of_the_record() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut original, mut elsewhere) = (Original::new(1), Elsewhere::new());
        let mut standing: Vec<ReplyPart> = Vec::new();
        let (mut attempt, mut sent) = (1, Vec::new());
        for step in 0..random.u32(1..30) {
            if random.u32(0..8) == 0 {
                original.buffer.retract(Attempt(attempt));
                (attempt, standing) = (attempt + 1, Vec::new());
            } else {
                let text = format!("{step}é ");
                let goes_on = random.bool() && !standing.is_empty();
                match standing.last_mut() {
                    Some(ReplyPart::Text(part)) if goes_on => part.text.push_str(&text),
                    _ => standing.push(ReplyPart::text(text.clone())),
                }
                let block = u32::try_from(standing.len() - 1).unwrap();
                original.says(attempt, block, &text);
            }
            let pieces = match random.u32(0..6) {
                0 => original.all_anew(),
                _ => original.pieces(),
            };
            sent.extend(pieces);
            while random.u32(0..3) > 0 && !sent.is_empty() {
                let piece = sent.remove(0);
                match random.u32(0..4) {
                    0 => {}
                    1 => {
                        elsewhere.take(&piece);
                        elsewhere.take(&piece);
                    }
                    _ => {
                        elsewhere.take(&piece);
                    }
                }
            }
            // What is shown is always the beginning of something that was said.
            let whole: String = texts(&standing);
            let is_beginning = whole.starts_with(elsewhere.text());
            assert!(
                is_beginning || attempt > 1,
                "seed {seed}: {:?}",
                elsewhere.text()
            );
        }
        let is_any = !elsewhere.replica.calls.is_empty();
        let whole = texts(&standing);
        let mut last = reply::text("");
        last.parts = standing;
        elsewhere.settle(&replied(last, Purpose::Turn, attempt));
        elsewhere.take_all(&sent);
        let expected = if is_any { whole.as_str() } else { "" };
        assert_eq!(elsewhere.text(), expected, "seed {seed}");
    }
}

fn texts(parts: &[ReplyPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        ReplyPart::Text(part) => Some(part.text.as_str()),
        _ => None,
    });
    texts.collect()
}
