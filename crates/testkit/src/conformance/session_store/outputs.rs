//! Rules for long outputs: kept beside their run, read in pages, deleted with it.

use neuraxis_core::{AgentId, CallIndex, ContentIndex, ToolCallId};
use neuraxis_ports::{LongOutput, OutputPlace, RunBounds, RunOutputs, SessionStore, StoreError};

use super::Busy;
use crate::clock::CountingIds;

impl Busy {
    /// Returns the id of a call of the run.
    fn call(&self, number: u32) -> ToolCallId {
        let (batch, index) = (ContentIndex(1), CallIndex(number));
        ToolCallId::new(self.log.run(), AgentId::ROOT, batch, index)
    }

    fn output(&self, number: u32, text: impl Into<String>) -> LongOutput {
        LongOutput::new(self.call(number), "run_command", text.into())
    }
}

/// Returns a text of many lines, with characters of one to four bytes and control characters for terminals.
fn long_text() -> String {
    let lines =
        (1..=6_000).map(|number| format!("line {number} of ÄÖ and 🦀 \0 \u{1b}[1m{{\"\\\n"));
    lines.collect()
}

#[expect(clippy::expect_used, reason = "a suite reports failures by panicking")]
async fn joined(store: &impl RunOutputs, busy: &Busy, call: &ToolCallId, most: usize) -> String {
    let (mut text, mut from) = (String::new(), Some(OutputPlace::Byte(0)));
    while let Some(place) = from {
        let page = store.output_page(busy.log.run(), call, place, most).await;
        let page = page.expect("the output is stored");
        assert!(page.text.len() <= most, "a page is longer than it may be");
        let breaks = text.matches('\n').count() as u64;
        assert_eq!(
            (page.start, page.first_line),
            (text.len() as u64, breaks + 1)
        );
        from = page.next();
        text.push_str(&page.text);
    }
    text
}

/// The joined pieces are the whole output, whatever the page size.
pub async fn the_pages_of_an_output_join_to_the_whole_output(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    for (number, text) in [long_text(), "one line".to_owned(), "x".repeat(200_000)]
        .into_iter()
        .enumerate()
    {
        let output = busy.output(u32::try_from(number).unwrap_or_default(), text);
        assert_eq!(store.keep_output(&busy.lease, &output).await, Ok(()));
        for most in [1_000, 65_536, 70_001, 1 << 20] {
            let whole = joined(&store, &busy, &output.call, most).await;
            assert!(
                whole == *output.text,
                "pages of {most} bytes are not the whole"
            );
        }
    }
}

/// The reader chooses where a page begins; after the end there is nothing.
#[expect(clippy::expect_used, reason = "a suite reports failures by panicking")]
pub async fn a_page_starts_at_a_given_byte_or_line(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let output = busy.output(1, long_text()).untrusted(true);
    assert_eq!(store.keep_output(&busy.lease, &output).await, Ok(()));
    let page = async |from| {
        let page = store
            .output_page(busy.log.run(), &output.call, from, 12)
            .await;
        page.expect("the output is stored")
    };
    let all = output.text.len() as u64;
    for (from, first_line, text) in [
        (OutputPlace::Byte(5), 1, "1 of ÄÖ an"),
        (OutputPlace::Line(0), 1, "line 1 of Ä"),
        (OutputPlace::Line(1), 1, "line 1 of Ä"),
        (OutputPlace::Line(2), 2, "line 2 of Ä"),
        (OutputPlace::Line(3_117), 3_117, "line 3117 of"),
        (OutputPlace::Line(6_000), 6_000, "line 6000 of"),
        (OutputPlace::Line(6_001), 6_001, ""),
        (OutputPlace::Line(u64::MAX), 6_001, ""),
        (OutputPlace::Byte(all), 6_001, ""),
        (OutputPlace::Byte(u64::MAX), 6_001, ""),
    ] {
        let found = page(from).await;
        assert_eq!(
            (found.first_line, found.text.as_str()),
            (first_line, text),
            "{from:?}"
        );
        assert_eq!(found.next().is_some(), found.start < all, "{from:?}");
        let head = found.head;
        assert_eq!((head.bytes, head.lines, head.untrusted), (all, 6_000, true));
    }
}

/// A character is always completely in one page.
#[expect(clippy::expect_used, reason = "a suite reports failures by panicking")]
pub async fn a_page_never_splits_a_character(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    // If a store splits the output into pieces, it must not split a character either.
    let output = busy.output(1, format!("{}🦀🦀", "ä".repeat(100_000)));
    assert_eq!(store.keep_output(&busy.lease, &output).await, Ok(()));
    assert!(joined(&store, &busy, &output.call, 65_537).await == *output.text);
    let inside = OutputPlace::Byte(200_002);
    let page = store
        .output_page(busy.log.run(), &output.call, inside, 7)
        .await;
    let page = page.expect("the output is stored");
    assert_eq!((page.start, page.text.as_str()), (200_000, "🦀"));
    let page = store
        .output_page(busy.log.run(), &output.call, inside, 1)
        .await;
    assert_eq!(
        page.expect("the output is stored").text,
        "🦀",
        "no page is empty before the end"
    );
}

/// A repeated call has the output of its last attempt.
pub async fn an_output_stored_again_replaces_the_first_one(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    for text in ["a".repeat(300_000), "short".to_owned()] {
        let output = busy.output(1, text);
        assert_eq!(store.keep_output(&busy.lease, &output).await, Ok(()));
        assert_eq!(
            joined(&store, &busy, &output.call, 100_000).await,
            *output.text
        );
    }
    let found = store.outputs(busy.log.run()).await;
    assert_eq!(found.map(|found| found.len()), Ok(1));
}

/// A user can see which outputs exist.
pub async fn outputs_of_a_run_are_listed(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    assert_eq!(store.outputs(busy.log.run()).await, Ok(Vec::new()));
    let outputs = [busy.output(1, "a\nb"), busy.output(2, "c").untrusted(true)];
    for output in outputs.iter().rev() {
        assert_eq!(store.keep_output(&busy.lease, output).await, Ok(()));
    }
    let heads = outputs.map(|output| output.head()).to_vec();
    assert_eq!(store.outputs(busy.log.run()).await, Ok(heads));
}

/// An error names what does not exist.
pub async fn a_missing_output_or_run_is_named_in_the_error(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let (run, call) = (busy.log.run(), busy.call(7));
    let from = OutputPlace::Byte(0);
    let none = store.output_page(run, &call, from, 9).await;
    let missing = call.clone();
    assert_eq!(none, Err(StoreError::NoSuchOutput { run, call: missing }));
    let unknown = CountingIds::nth_run(99);
    let none = store.output_page(unknown, &call, from, 9).await;
    assert_eq!(none, Err(StoreError::NoSuchRun(unknown)));
    let none = store.outputs(unknown).await;
    assert_eq!(none, Err(StoreError::NoSuchRun(unknown)));
}

/// What a run keeps beside its records is limited, and existing outputs stay.
pub async fn the_outputs_of_a_run_are_limited_in_total_size(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let most = RunBounds::default().max_output_bytes;
    let half = usize::try_from(most / 2).unwrap_or(usize::MAX);
    let first = busy.output(1, "x".repeat(half));
    assert_eq!(store.keep_output(&busy.lease, &first).await, Ok(()));
    let second = busy.output(2, "y".repeat(half + 1));
    let (run, bytes) = (busy.log.run(), most + 1);
    let refused = Err(StoreError::OutputsTooLarge { run, bytes, most });
    assert_eq!(store.keep_output(&busy.lease, &second).await, refused);
    let listed = store.outputs(run).await;
    assert_eq!(listed, Ok(vec![first.head()]));
    // There is room for it in place of the first.
    let again = busy.output(1, "z");
    assert_eq!(store.keep_output(&busy.lease, &again).await, Ok(()));
    assert_eq!(store.keep_output(&busy.lease, &second).await, Ok(()));
}

/// A process that lost a run can keep nothing more beside it. No process can after the run has ended.
#[expect(clippy::expect_used, reason = "a suite reports failures by panicking")]
pub async fn no_output_is_stored_under_a_stale_lease(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let started = vec![busy.log.started("hello")];
    busy.commit(&store, &started).await;
    let run = busy.log.run();
    let output = busy.output(1, "text");
    let newer = store.begin_run(&busy.session, run).await;
    let newer = newer.expect("the run is begun again");
    let stale = Err(StoreError::Stale(run));
    assert_eq!(store.keep_output(&busy.lease, &output).await, stale);
    assert_eq!(store.release(&newer).await, Ok(()));
    assert_eq!(store.keep_output(&newer, &output).await, stale);
    busy.lease = store
        .begin_run(&busy.session, run)
        .await
        .expect("a released run is resumed");
    assert_eq!(store.keep_output(&busy.lease, &output).await, Ok(()));
    let end = vec![busy.log.finished("hi")];
    busy.commit(&store, &end).await;
    assert_eq!(store.keep_output(&busy.lease, &output).await, stale);
    assert_eq!(joined(&store, &busy, &output.call, 10).await, "text");
}

/// A session's outputs are deleted with it, and do not reappear in another session with the same id.
pub async fn outputs_are_deleted_with_their_session(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let (run, output) = (busy.log.run(), busy.output(1, "secret"));
    assert_eq!(store.keep_output(&busy.lease, &output).await, Ok(()));
    let session = busy.session.clone();
    busy.finish(&store, "hello", "hi").await;
    assert_eq!(store.delete_session(&session).await, Ok(()));
    assert_eq!(store.outputs(run).await, Err(StoreError::NoSuchRun(run)));
    let again = Busy::new(&store).await;
    assert_eq!(store.outputs(again.log.run()).await, Ok(Vec::new()));
}
