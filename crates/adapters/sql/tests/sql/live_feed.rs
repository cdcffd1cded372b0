//! Live events over a Postgres server: the rules of the port, and behavior when the server becomes unavailable.

use std::time::{Duration, Instant};

use neuraxis_ports::{LiveFeed, LiveFeedError, LiveInbox, LiveNews, LiveRecipient};
use neuraxis_sql::{PgPool, PostgresLiveFeed, SqlConfig, SqlStore};
use neuraxis_testkit::{Postgres, SilentProxy};
use sqlx::Connection as _;

use crate::support::{open, server_config, store_in_file};

mod rules {
    use neuraxis_sql::PostgresLiveFeed;

    use crate::support::{open, server_config};

    async fn two() -> [PostgresLiveFeed; 2] {
        let config = server_config();
        // Two processes with a store each.
        let (one, other) = (open(&config).await, open(&config).await);
        [one.live_feed().unwrap(), other.live_feed().unwrap()]
    }

    neuraxis_testkit::live_feed_suite!(
        ignored because "needs PostgreSQL: run by cargo xtask test": two().await
    );
}

/// The time limit for any operation.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until a message that is sent repeatedly arrives. Returns how often the inbox reported possible losses.
async fn passes(from: &PostgresLiveFeed, inbox: &mut dyn LiveInbox, text: &str) -> usize {
    let started = Instant::now();
    let mut missed = 0;
    loop {
        assert!(started.elapsed() < PATIENCE, "{text} is not heard");
        let sent = from.send(LiveRecipient::Everyone, text.to_owned());
        assert!(
            matches!(sent, Ok(()) | Err(LiveFeedError::Full)),
            "{sent:?}"
        );
        let heard = tokio::time::timeout(Duration::from_millis(100), inbox.next()).await;
        match heard {
            Ok(Some(LiveNews::Message(heard))) if &*heard == text => return missed,
            Ok(Some(LiveNews::Missed)) => missed += 1,
            _ => {}
        }
    }
}

/// Waits until `expected` of our connections exist.
async fn are_connected(url: &str, expected: i64) {
    let mut raw = sqlx::PgConnection::connect(url).await.unwrap();
    let sql = "SELECT count(*) FROM pg_stat_activity \
               WHERE backend_type = 'client backend' AND application_name = 'neuraxis'";
    let started = Instant::now();
    loop {
        let there: i64 = sqlx::query_scalar(sql).fetch_one(&mut raw).await.unwrap();
        if there == expected {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{there} connections");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn the_live_feed_recovers_after_a_server_crash_and_reports_possible_loss() {
    let mut server = Postgres::start();
    let config = SqlConfig::new(server.url());
    let store = open(&config).await;
    let (one, other) = (store.live_feed().unwrap(), store.live_feed().unwrap());
    let (_mine, mut inbox) = (one.join(), other.join());
    passes(&one, inbox.as_mut(), "before").await;
    server.crash();
    // Sending never blocks; at some point, messages that cannot be sent are refused.
    let mut refused = 0;
    for number in 0..200 {
        let sent = one.send(LiveRecipient::Everyone, format!("lost {number}"));
        refused += usize::from(sent == Err(LiveFeedError::Full));
    }
    assert!(refused > 0);
    server.restart();
    assert!(passes(&one, inbox.as_mut(), "after").await > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_silent_server_is_abandoned_and_reached_again() {
    let server = Postgres::start();
    let proxy = SilentProxy::start(&server.url()).await;
    let mut config = SqlConfig::new(proxy.url());
    config.patience = Duration::from_millis(500);
    let feed = open(&config).await.live_feed().unwrap();
    let mut inbox = feed.join();
    passes(&feed, inbox.as_mut(), "before").await;
    proxy.fall_silent();
    feed.send(LiveRecipient::Everyone, "lost".to_owned())
        .unwrap();
    tokio::time::sleep(Duration::from_millis(800)).await;
    proxy.speak();
    assert!(passes(&feed, inbox.as_mut(), "after").await > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn the_live_feed_uses_one_connection_once_joined_and_closes_it_on_drop() {
    let config = server_config();
    let store = open(&config).await;
    let feed = store.live_feed().unwrap();
    // The store itself connects on its first query.
    are_connected(&config.url, 0).await;
    let (mut first, _second) = (feed.join(), feed.join());
    passes(&feed, first.as_mut(), "here").await;
    are_connected(&config.url, 1).await;
    drop(feed);
    are_connected(&config.url, 0).await;
    // Listeners are notified that the feed has ended.
    let end = async { while first.next().await.is_some() {} };
    tokio::time::timeout(PATIENCE, end).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_store_in_a_pool_has_a_live_feed_that_takes_no_pool_connection() {
    let config = server_config();
    let pool = PgPool::connect(&config.url).await.unwrap();
    let store = SqlStore::open_in_pool(&pool, &SqlConfig::new(""))
        .await
        .unwrap();
    let feed = store.live_feed().unwrap();
    let mut inbox = feed.join();
    let size = pool.size();
    passes(&feed, inbox.as_mut(), "here").await;
    assert_eq!(pool.size(), size);
}

#[tokio::test]
async fn a_store_in_a_file_has_no_live_feed() {
    assert!(store_in_file().await.live_feed().is_none());
}
