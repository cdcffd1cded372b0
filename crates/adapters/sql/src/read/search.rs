//! The search for sessions by their titles and messages. Texts are compared by the port, so both databases, whose own
//! comparisons differ, find the same.

use std::collections::{HashMap, HashSet};

use neuraxis_core::log::LogSummary;
use neuraxis_core::{ContentHash, Record};
use neuraxis_ports::{
    MessageMatch, SearchExtent, SessionCursor, SessionSearch, SessionsFound, StoreError,
};
use sqlx::AssertSqlSafe;

use super::session_lists::{Listed, listed};
use crate::error::Failure;
use crate::link::{Link, values};
use crate::step::{Line, lines};
use crate::writer::{in_chunks, keys};

/// The number of sessions that are read at a time.
const AT_ONCE: usize = 32;

/// Returns sessions that contain a text, until enough are found or as much was examined as one call may.
pub(crate) async fn sessions(
    link: &mut Link,
    search: &SessionSearch,
) -> Result<SessionsFound, Failure> {
    let mut found = SessionsFound::default();
    let mut extent = SearchExtent::default();
    let mut filter = search.filter.clone().limited_to(AT_ONCE);
    loop {
        let mut page = listed(link, &filter).await?;
        let is_last = page.len() < AT_ONCE;
        let admitted = admitted(link, &page, &mut extent).await?;
        let is_cut = admitted < page.len();
        page.truncate(admitted);
        let matching = matching(link, search, &page).await?;
        let mut rest = page.into_iter();
        while let Some(session) = rest.next() {
            filter.before = Some(SessionCursor::of(&session.summary.session, filter.order));
            if matching.contains(&session.key) {
                found.sessions.push(session.summary);
            }
            let is_end = is_last && !is_cut && rest.as_slice().is_empty();
            if found.sessions.len() >= search.limit() && !is_end {
                found.next.clone_from(&filter.before);
                return Ok(found);
            }
        }
        if is_cut {
            found.next.clone_from(&filter.before);
        }
        if is_cut || is_last {
            return Ok(found);
        }
    }
}

/// Returns how many sessions of a page, from the first on, may still be examined.
async fn admitted(
    link: &mut Link,
    page: &[Listed],
    extent: &mut SearchExtent,
) -> Result<usize, Failure> {
    let sessions: Vec<i64> = page.iter().map(|listed| listed.key).collect();
    let mut counts = HashMap::<i64, i64>::new();
    for chunk in in_chunks(&sessions) {
        let (keys, values) = keys(chunk.iter().copied());
        let sql = format!(
            "SELECT session, count(*) FROM runs WHERE session IN ({keys}) GROUP BY session"
        );
        for row in link.rows(AssertSqlSafe(sql), &values).await? {
            counts.insert(row.int(0)?, row.int(1)?);
        }
    }
    let mut admitted = 0;
    for session in &sessions {
        let runs = counts.get(session).copied().unwrap_or_default();
        if !extent.admits(usize::try_from(runs).unwrap_or(usize::MAX)) {
            break;
        }
        admitted += 1;
    }
    Ok(admitted)
}

/// Returns the keys of the sessions that contain the text.
async fn matching(
    link: &mut Link,
    search: &SessionSearch,
    page: &[Listed],
) -> Result<HashSet<i64>, Failure> {
    let is_titled = |listed: &&Listed| search.is_in_title(&listed.summary.session);
    let by_title = page.iter().filter(is_titled).map(|listed| listed.key);
    let mut matching: HashSet<i64> = by_title.collect();
    let others = page.iter().map(|listed| listed.key);
    let others: Vec<i64> = others.filter(|key| !matching.contains(key)).collect();
    // The runs whose messages are longer than their summaries show.
    let mut long = Vec::new();
    for chunk in in_chunks(&others) {
        let (keys, values) = keys(chunk.iter().copied());
        let newest = SearchExtent::MAX_RUNS;
        let sql = format!(
            "SELECT session, key, summary FROM (SELECT session, key, summary, \
             row_number() OVER (PARTITION BY session ORDER BY key DESC) AS place \
             FROM runs WHERE session IN ({keys})) AS newest WHERE place <= {newest}"
        );
        for row in link.rows(AssertSqlSafe(sql), &values).await? {
            let session = row.int(0)?;
            let log = row.maybe_json::<LogSummary>(2, "the summary of a run")?;
            match search.is_in_summary(&log.unwrap_or_default()) {
                MessageMatch::Absent => {}
                MessageMatch::Found => {
                    matching.insert(session);
                }
                MessageMatch::Beyond => long.push((session, row.int(1)?)),
            }
        }
    }
    long.retain(|(session, _)| !matching.contains(session));
    for chunk in in_chunks(&long) {
        let runs: HashMap<i64, i64> = chunk
            .iter()
            .map(|(session, run)| (*run, *session))
            .collect();
        let found = in_messages(link, search, runs.keys().copied()).await?;
        matching.extend(found.iter().filter_map(|run| runs.get(run)));
    }
    Ok(matching)
}

/// Returns the runs, given by their keys, whose messages contain the text, by their first records. One that cannot be
/// read contains nothing: verifying its session reports it.
async fn in_messages(
    link: &mut Link,
    search: &SessionSearch,
    runs: impl Iterator<Item = i64>,
) -> Result<Vec<i64>, Failure> {
    let (keys, values) = keys(runs);
    let sql = format!("SELECT run, body FROM steps WHERE run IN ({keys}) AND first_seq = 1");
    let mut texts = Vec::new();
    for row in link.rows(AssertSqlSafe(sql), &values).await? {
        let (run, body) = (row.int(0)?, row.bytes(1)?);
        let text = match lines(&body).next().flatten() {
            Some(Line::Record(text)) => Some(text.to_vec()),
            Some(Line::Payload(hash)) => payload(link, run, hash).await?,
            None => None,
        };
        texts.extend(text.map(|text| (run, text)));
    }
    let search = search.clone();
    // With long prompts, these are megabytes of JSON.
    let compared = tokio::task::spawn_blocking(move || {
        texts.retain(|(_, text)| {
            let record = std::str::from_utf8(text).ok();
            let record = record.and_then(|text| Record::from_json(text).ok());
            record.is_some_and(|record| search.is_in_message(&record))
        });
        texts.into_iter().map(|(run, _)| run).collect()
    });
    let aborted = |_| StoreError::Unavailable("the program is shutting down".to_owned());
    Ok(compared.await.map_err(aborted)?)
}

/// Returns a record that is stored separately.
async fn payload(link: &mut Link, run: i64, hash: ContentHash) -> Result<Option<Vec<u8>>, Failure> {
    let sql = "SELECT body FROM payloads WHERE run = $1 AND hash = $2";
    let values = values![run, hash.as_bytes().as_slice()];
    let row = link.row(sql, values).await?;
    Ok(row.map(|row| row.bytes(0)).transpose()?)
}
