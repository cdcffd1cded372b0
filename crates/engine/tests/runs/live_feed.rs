//! Live events of a run that another process drives: here, another engine on the same store, with a feed between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use neuraxis_core::{LiveBody, RecordBody, RunId, Seq, SessionId};
use neuraxis_engine::{Event, Events, Orchestrator, RunHandle, UuidV7};
use neuraxis_memory::{MemoryLiveFeed, MemoryStore};
use neuraxis_ports::{
    DispatchError, LiveFeed, LiveFeedError, LiveInbox, LiveRecipient, RunDispatcher, async_trait,
};
use neuraxis_testkit::{Act, Script, ScriptedModel, ScriptedTool, reply, spec};
use tokio::time::{Instant, sleep};

use crate::support::{all_events, builder, policy, request};

const TEXT: &str = "Rome was not built in a day, and neither was this answer.";

/// Sends a text in pieces, first slower than they are passed on, and then faster.
fn slow() -> Script {
    Script::from(reply::text(TEXT))
        .split(3)
        .paced(Duration::from_millis(40))
}

/// A feed that counts, and may lose, messages to a single process.
#[derive(Debug)]
struct Watched {
    feed: MemoryLiveFeed,
    sent: AtomicUsize,
    /// Every n-th message is lost; none if 0.
    loses: usize,
    is_full: AtomicBool,
}

impl Watched {
    fn new(feed: MemoryLiveFeed, loses: usize) -> Arc<Self> {
        let (sent, is_full) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Self {
            feed,
            sent,
            loses,
            is_full,
        })
    }

    fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }
}

impl LiveFeed for Watched {
    fn address(&self) -> &str {
        self.feed.address()
    }

    fn max_message(&self) -> usize {
        self.feed.max_message()
    }

    fn send(&self, to: LiveRecipient<'_>, message: String) -> Result<(), LiveFeedError> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(LiveFeedError::Full);
        }
        if let LiveRecipient::One(_) = to {
            let sent = 1 + self.sent.fetch_add(1, Ordering::Relaxed);
            if self.loses > 0 && sent.is_multiple_of(self.loses) {
                return Ok(());
            }
        }
        self.feed.send(to, message)
    }

    fn join(&self) -> Box<dyn LiveInbox> {
        self.feed.join()
    }
}

/// Two engines on one store.
struct Two {
    /// Drives runs.
    here: Orchestrator,
    /// Follows them.
    there: Orchestrator,
    feed: Arc<Watched>,
}

impl Two {
    fn new(model: ScriptedModel) -> Self {
        Self::losing(model, 0, "", Vec::new())
    }

    fn losing(model: ScriptedModel, loses: usize, more: &str, tools: Vec<ScriptedTool>) -> Self {
        let store = Arc::new(MemoryStore::new());
        let feed = Watched::new(MemoryLiveFeed::new(), loses);
        let other: Arc<dyn LiveFeed> = Arc::new(feed.feed.sibling());
        let part = |model, feed: Arc<dyn LiveFeed>, tools: Vec<ScriptedTool>| {
            let tools = tools.into_iter().map(|tool| Arc::new(tool) as Arc<_>);
            let builder = builder(model).store(store.clone()).ids(Arc::new(UuidV7));
            let builder = builder.policy(policy(more)).tools(tools).live_feed(feed);
            let orchestrator = builder.build().unwrap();
            let runs = orchestrator.runs();
            tokio::spawn(async move { runs.keep_live_exchange().await });
            orchestrator
        };
        Self {
            here: part(model, feed.clone(), tools),
            there: part(ScriptedModel::new(), other, Vec::new()),
            feed,
        }
    }

    async fn begin(&self) -> RunHandle {
        self.here.stream(request("go")).await.unwrap().0
    }

    async fn follow(&self, run: RunId, after: u64) -> Events {
        self.there.runs().attach(run, Seq(after)).await.unwrap()
    }
}

/// Returns the received pieces of text, and how many came before the record that settles them.
fn pieces(events: &[Event]) -> (Vec<String>, usize) {
    let mut pieces = Vec::new();
    let mut before = None;
    for event in events {
        match event {
            Event::Live(live) => match &live.body {
                LiveBody::TextDelta { text } => pieces.push(text.clone()),
                LiveBody::TextRetracted => pieces.clear(),
                _ => {}
            },
            Event::Record(record) if matches!(record.body, RecordBody::LlmCall(_)) => {
                before = Some(pieces.len());
            }
            Event::Record(_) => {}
        }
    }
    (pieces, before.unwrap_or_default())
}

fn numbers(events: &[Event]) -> Vec<u64> {
    let numbers = events.iter().filter_map(|event| match event {
        Event::Record(record) => Some(record.seq.0),
        Event::Live(_) => None,
    });
    numbers.collect()
}

#[tokio::test(start_paused = true)]
async fn a_follower_elsewhere_receives_text_live_once_and_before_the_record() {
    let two = Two::new(ScriptedModel::always(slow()));
    let handle = two.begin().await;
    let events = all_events(two.follow(handle.run_id(), 0).await).await;
    let (pieces, before) = pieces(&events);
    assert_eq!(pieces.concat(), TEXT);
    assert_eq!(before, pieces.len());
    assert!(before > 4, "{pieces:?}");
    // Pieces that arrived within a tick are one message.
    let most = TEXT.len() / 3;
    assert!((4..most).contains(&two.feed.sent()), "{}", two.feed.sent());
    let whole: Vec<u64> = (1..=numbers(&events).len().try_into().unwrap()).collect();
    assert_eq!(numbers(&events), whole);
}

#[tokio::test(start_paused = true)]
async fn a_late_follower_receives_earlier_text_and_then_the_rest() {
    let two = Two::new(ScriptedModel::always(slow()));
    let handle = two.begin().await;
    let first = tokio::spawn(all_events(two.follow(handle.run_id(), 0).await));
    sleep(Duration::from_millis(300)).await;
    let later = tokio::spawn(all_events(two.follow(handle.run_id(), 2).await));
    for events in [first.await.unwrap(), later.await.unwrap()] {
        let (pieces, before) = pieces(&events);
        assert_eq!(pieces.concat(), TEXT);
        assert!(before > 2, "{pieces:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn text_is_complete_and_not_repeated_whatever_the_feed_loses() {
    for loses in 1..5 {
        let model = ScriptedModel::new()
            .then(
                Script::from(reply::text_and_calls("I look. ", [("look", "{}")]))
                    .split(1)
                    .paced(Duration::from_millis(90)),
            )
            .then(slow());
        let look = ScriptedTool::always(spec("look").read_only(), Act::value("1"));
        let two = Two::losing(model, loses, "", vec![look]);
        let handle = two.begin().await;
        let events = two.follow(handle.run_id(), 0).await;
        let mut words = events.text_stream();
        let mut text = String::new();
        while let Some(piece) = words.next().await {
            text.push_str(&piece);
        }
        // If no piece arrived at all, only the answer was received.
        let expected = format!("I look. \n\n{TEXT}");
        assert!(
            text == expected || (loses == 1 && text == TEXT),
            "{loses}: {text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_without_remote_followers_sends_nothing_and_lost_followers_expire() {
    let model = ScriptedModel::new().then(slow()).then(slow());
    let two = Two::new(model);
    let handle = two.begin().await;
    all_events(handle.events()).await;
    assert_eq!(two.feed.sent(), 0);

    let long = "x".repeat(4_000);
    let model = Script::from(reply::text(&*long))
        .split(1)
        .paced(Duration::from_millis(50));
    let two = Two::new(ScriptedModel::always(model));
    let handle = two.begin().await;
    let mut events = two.follow(handle.run_id(), 0).await;
    while !matches!(events.next().await, Some(Event::Live(_))) {}
    drop(events);
    // No process reports any longer that it follows the run.
    sleep(Duration::from_secs(40)).await;
    let lapsed = two.feed.sent();
    assert!(lapsed > 0);
    sleep(Duration::from_secs(20)).await;
    assert_eq!(two.feed.sent(), lapsed);
    // A follower that stays receives events for as long as it likes.
    let mut events = two.follow(handle.run_id(), 0).await;
    let began = Instant::now();
    let mut last = began;
    while began.elapsed() < Duration::from_secs(60) {
        if let Some(Event::Live(_)) = events.next().await {
            assert!(last.elapsed() < Duration::from_secs(1));
            last = Instant::now();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn text_that_must_not_be_stored_is_not_sent_elsewhere() {
    let more = "channels.chat.data.text = false\n";
    let two = Two::losing(ScriptedModel::always(slow()), 0, more, Vec::new());
    let handle = two.begin().await;
    let (here, there) = tokio::join!(async { all_events(handle.events()).await }, async {
        all_events(two.follow(handle.run_id(), 0).await).await
    });
    assert_eq!(pieces(&here).0.concat(), TEXT);
    assert_eq!(pieces(&there).0, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn tool_output_is_received_elsewhere_while_the_tools_run() {
    let model = ScriptedModel::new()
        .then(reply::calls([("build", "{}")]))
        .then(reply::text("built"));
    let act = Act::value("1")
        .printing("compiling\n")
        .after(Duration::from_secs(1));
    let act = act.reporting("linking", None).printing("linking\n");
    let build = ScriptedTool::always(spec("build").read_only(), act.after(Duration::from_secs(1)));
    let two = Two::losing(model, 0, "", vec![build]);
    let handle = two.begin().await;
    let events = all_events(two.follow(handle.run_id(), 0).await).await;
    let mut kinds = events.iter().filter_map(|event| match event {
        Event::Live(live) => match &live.body {
            LiveBody::ToolOutput { text, .. } => Some(text.trim_end()),
            // The model's deltas of the call come before.
            LiveBody::ToolCallDelta { .. } => None,
            body => Some(body.kind()),
        },
        Event::Record(record) => (record.body.kind() == "tool_result").then_some("result"),
    });
    let expected = [
        "tool_start",
        "compiling",
        "tool_progress",
        "linking",
        "result",
    ];
    assert!(
        expected
            .iter()
            .all(|expected| kinds.next() == Some(expected)),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_full_feed_does_not_delay_a_run_and_is_retried() {
    let long = "x".repeat(400);
    let script = Script::from(reply::text(&*long))
        .split(1)
        .paced(Duration::from_millis(50));
    let two = Two::new(ScriptedModel::always(script));
    let handle = two.begin().await;
    let following = tokio::spawn(all_events(two.follow(handle.run_id(), 0).await));
    let began = Instant::now();
    sleep(Duration::from_secs(3)).await;
    let before = two.feed.sent();
    assert!(before > 0);
    two.feed.is_full.store(true, Ordering::Relaxed);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(two.feed.sent(), before);
    two.feed.is_full.store(false, Ordering::Relaxed);
    handle.result().await.unwrap();
    // As long as its model takes, and no longer.
    assert!(began.elapsed() < Duration::from_secs(21));
    let events = following.await.unwrap();
    assert_eq!(pieces(&events).0.concat(), long);
    assert!(two.feed.sent() > before);
}

#[tokio::test(start_paused = true)]
async fn resuming_a_run_retracts_the_text_of_the_call_in_progress() {
    let two =
        Two::new(ScriptedModel::new().then(Script::from(reply::text(TEXT)).split(3).hang_at(6)));
    let handle = two.begin().await;
    let mut events = two.follow(handle.run_id(), 0).await;
    let mut text = String::new();
    while text.len() < 18 {
        match events.next().await.unwrap() {
            Event::Live(live) => match live.body {
                LiveBody::TextDelta { text: more } => text.push_str(&more),
                other => panic!("{other:?}"),
            },
            Event::Record(_) => {}
        }
    }
    assert!(TEXT.starts_with(&text));
    assert_eq!(two.here.suspend(Duration::ZERO).await, [handle.run_id()]);
    two.there
        .runs()
        .resume(handle.run_id(), Vec::new())
        .await
        .unwrap();
    let rest = all_events(events).await;
    assert!(
        rest.iter().any(
            |event| matches!(event, Event::Live(live) if live.body == LiveBody::TextRetracted)
        )
    );
}

/// A dispatcher that passes runs to no process: another engine resumes them on its own.
#[derive(Debug)]
struct ToNobody;

#[async_trait]
impl RunDispatcher for ToNobody {
    async fn dispatch(&self, _session: &SessionId, _run: RunId) -> Result<(), DispatchError> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn text_of_a_run_elsewhere_is_still_received_during_suspension() {
    let (store, feed) = (Arc::new(MemoryStore::new()), MemoryLiveFeed::new());
    let other = feed.sibling();
    let part = |model: ScriptedModel, feed: MemoryLiveFeed| {
        let builder = builder(model).store(store.clone()).ids(Arc::new(UuidV7));
        builder.live_feed(Arc::new(feed))
    };
    let here = part(ScriptedModel::new().then(slow()), feed);
    let there = part(ScriptedModel::new(), other).dispatcher(Arc::new(ToNobody));
    let (here, there) = (here.build().unwrap(), there.build().unwrap());
    for orchestrator in [&here, &there] {
        let runs = orchestrator.runs();
        tokio::spawn(async move { runs.keep_live_exchange().await });
    }
    let (handle, mut events) = there.stream(request("go")).await.unwrap();
    let run = handle.run_id();
    here.runs().resume(run, Vec::new()).await.unwrap();
    let is_text = |event: &Event| match event {
        Event::Live(live) => matches!(live.body, LiveBody::TextDelta { .. }),
        Event::Record(_) => false,
    };
    while !is_text(&events.next().await.unwrap()) {}
    tokio::spawn(async move { there.suspend(Duration::from_secs(60)).await });
    let rest = all_events(events).await;
    let pieces = rest.iter().filter(|event| is_text(event)).count();
    // Everything after the last received piece would arrive as one piece, with the record.
    assert!(pieces > 2, "{pieces}");
    assert_eq!(handle.result().await.unwrap().reply, TEXT);
}
