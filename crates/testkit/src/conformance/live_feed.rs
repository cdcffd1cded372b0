//! The rules of the [`LiveFeed`] port.
//!
//! Not for how an engine uses it (merged text, who wants which run, how long that lasts): that belongs to the engine.
#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a suite reports failures by panicking"
)]

use std::time::Duration;

use neuraxis_ports::{LiveFeed, LiveFeedError, LiveInbox, LiveNews, LiveRecipient};

use super::promptly;

/// Mounts the rules of the [`LiveFeed`](neuraxis_ports::LiveFeed) port as tests. Takes an array of two feeds that
/// receive each other's messages, like those of two processes. If they need something that is not available everywhere,
/// put them after `ignored because "needs …":`.
#[macro_export]
macro_rules! live_feed_suite {
    (ignored because $why:literal: $feeds:expr) => {
        $crate::live_feed_suite! { @ ($why) $feeds }
    };
    (@ $mark:tt $feeds:expr) => {
        $crate::mount_rules! { @ ($crate::conformance::live_feed) $mark $feeds, [
            messages_to_one_process_reach_only_it_and_arrive_in_order
            messages_to_everyone_reach_all_processes_including_the_sender
            every_inbox_of_a_process_receives_each_message
            messages_up_to_the_maximum_length_arrive_and_longer_ones_are_refused
            any_text_arrives_unchanged
            a_flood_does_not_block_the_sender_and_lost_messages_are_reported
        ] }
    };
    ($feeds:expr) => {
        $crate::live_feed_suite! { @ () $feeds }
    };
}

/// The pause before a message that did not arrive is sent again.
const PAUSE: Duration = Duration::from_millis(20);

/// A message to one process reaches no other, and messages arrive in order.
pub async fn messages_to_one_process_reach_only_it_and_arrive_in_order(feeds: [impl LiveFeed; 2]) {
    let [one, other] = feeds;
    let [mut heard_by_one, mut heard] = connected(&one, &other).await;
    assert_ne!(one.address(), other.address());
    for number in 0..40 {
        send(
            &one,
            LiveRecipient::One(other.address()),
            number.to_string(),
        )
        .await;
    }
    send(&one, LiveRecipient::One(one.address()), "mine".to_owned()).await;
    for number in 0..40 {
        assert_eq!(message(heard.as_mut()).await, number.to_string());
    }
    assert_eq!(message(heard_by_one.as_mut()).await, "mine");
}

/// A message to everyone reaches all processes, including the sender's.
pub async fn messages_to_everyone_reach_all_processes_including_the_sender(
    feeds: [impl LiveFeed; 2],
) {
    let [one, other] = feeds;
    let mut inboxes = connected(&one, &other).await;
    for text in ["a", "b"] {
        send(&one, LiveRecipient::Everyone, text.to_owned()).await;
        for inbox in &mut inboxes {
            assert_eq!(message(inbox.as_mut()).await, text);
        }
    }
}

/// Two listeners in one process do not take messages from each other.
pub async fn every_inbox_of_a_process_receives_each_message(feeds: [impl LiveFeed; 2]) {
    let [one, other] = feeds;
    let [_, mut first] = connected(&one, &other).await;
    let mut second = other.join();
    send(
        &one,
        LiveRecipient::One(other.address()),
        "to both".to_owned(),
    )
    .await;
    for inbox in [&mut first, &mut second] {
        assert_eq!(message(inbox.as_mut()).await, "to both");
    }
}

/// A message of the maximum length arrives complete. A longer one is refused immediately.
pub async fn messages_up_to_the_maximum_length_arrive_and_longer_ones_are_refused(
    feeds: [impl LiveFeed; 2],
) {
    let [one, other] = feeds;
    let [_, mut heard] = connected(&one, &other).await;
    let most = one.max_message();
    assert!(most >= 1_024, "{most} bytes are too few");
    // With characters of several bytes, since the limit counts bytes.
    let longest = format!("{}{}", "x".repeat(most % 2), "é".repeat(most / 2));
    send(&one, LiveRecipient::One(other.address()), longest.clone()).await;
    assert!(message(heard.as_mut()).await == longest, "it is cut");
    let length = most + 1;
    let refused = one.send(LiveRecipient::One(other.address()), "x".repeat(length));
    assert_eq!(refused, Err(LiveFeedError::TooLong { length, most }));
}

/// Quotes, line breaks and all other characters except U+0000 have no meaning for the transport.
pub async fn any_text_arrives_unchanged(feeds: [impl LiveFeed; 2]) {
    let [one, other] = feeds;
    let [_, mut heard] = connected(&one, &other).await;
    let text = "{\"it's\": \"1\\n\"}\r\n\t$1 ?1 -- '; \u{1} \u{202e}🙂\n";
    send(&one, LiveRecipient::One(other.address()), text.to_owned()).await;
    assert_eq!(message(heard.as_mut()).await, text);
}

/// If a sender sends more than can be transported or read, either the send is refused or the reader is notified.
/// Sending never waits, and later messages arrive.
pub async fn a_flood_does_not_block_the_sender_and_lost_messages_are_reported(
    feeds: [impl LiveFeed; 2],
) {
    const MANY: usize = 20_000;
    let [one, other] = feeds;
    let [_, mut heard] = connected(&one, &other).await;
    let mut refused = 0;
    for number in 0..MANY {
        let sent = one.send(LiveRecipient::One(other.address()), format!("{number}"));
        match sent {
            Ok(()) => {}
            Err(LiveFeedError::Full) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    send(
        &one,
        LiveRecipient::One(other.address()),
        "the last".to_owned(),
    )
    .await;
    let (mut missed, mut came) = (false, 0);
    loop {
        match promptly("nothing arrives after a flood", heard.next()).await {
            Some(LiveNews::Message(text)) if &*text == "the last" => break,
            Some(LiveNews::Message(_)) => came += 1,
            Some(LiveNews::Missed) => missed = true,
            other => panic!("{other:?}"),
        }
    }
    assert!(
        missed || came + refused == MANY,
        "{came} arrived, {refused} were refused, and the loss of the rest was not reported"
    );
}

/// Waits until both feeds receive from each other, and returns an empty inbox of each.
async fn connected(one: &impl LiveFeed, other: &impl LiveFeed) -> [Box<dyn LiveInbox>; 2] {
    let mut inboxes = [one.join(), other.join()];
    // A connected feed receives its own messages.
    ready(one, &mut inboxes).await;
    ready(other, &mut inboxes).await;
    inboxes
}

/// Sends to everyone until the message has arrived everywhere, and then sends one more that is the last.
async fn ready(feed: &impl LiveFeed, inboxes: &mut [Box<dyn LiveInbox>; 2]) {
    for inbox in inboxes.iter_mut() {
        let connecting = async {
            for attempt in 0.. {
                // The transport may not be connected yet.
                let _ = feed.send(LiveRecipient::Everyone, format!("ready? {attempt}"));
                if let Ok(Some(LiveNews::Message(_))) =
                    tokio::time::timeout(PAUSE, inbox.next()).await
                {
                    return;
                }
            }
        };
        promptly("the feeds do not receive each other's messages", connecting).await;
    }
    let last = format!("ready {}", feed.address());
    send(feed, LiveRecipient::Everyone, last.clone()).await;
    for inbox in inboxes {
        while message(inbox.as_mut()).await != last {}
    }
}

/// Sends a message, retrying as often as necessary.
async fn send(feed: &impl LiveFeed, to: LiveRecipient<'_>, message: String) {
    let sending = async {
        while let Err(error) = feed.send(to, message.clone()) {
            assert_eq!(error, LiveFeedError::Full);
            tokio::time::sleep(PAUSE).await;
        }
    };
    promptly("the feed stays full", sending).await;
}

/// Returns the next message.
async fn message(inbox: &mut dyn LiveInbox) -> String {
    let heard = async {
        loop {
            let news = inbox.next().await.expect("the feed is there");
            // News other than messages stems from connecting the feeds, and no test expects it.
            if let LiveNews::Message(text) = news {
                return text.to_string();
            }
        }
    };
    promptly("a message does not arrive", heard).await
}
