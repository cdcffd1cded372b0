//! The records of a run, and the entries waiting in its inbox.

use std::collections::HashMap;
use std::sync::Arc;

use neuraxis_core::{ContentHash, InboxEntry, JsonText, Record, RunId};
use neuraxis_ports::{RunLease, StoreError};

use crate::error::Failure;
use crate::link::{Link, values};
use crate::step::{Line, lines};

/// The maximum number of bytes to decode between other work. More are decoded on a thread that may block.
const QUICK_BYTES: usize = 64 * 1024;

/// A stored step.
pub(crate) struct StoredStep {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) chain: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// Long records stored separately, by their hash.
pub(crate) type Payloads = HashMap<ContentHash, Vec<u8>>;

/// Returns the key of a run.
pub(crate) async fn key(link: &mut Link, run: RunId) -> Result<i64, Failure> {
    let sql = "SELECT key FROM runs WHERE id = $1";
    let row = link.row(sql, values![run.0.as_bytes().as_slice()]).await?;
    Ok(row.ok_or(StoreError::NoSuchRun(run))?.int(0)?)
}

/// Finds the steps of a run that hold records after `$2`.
const STEPS: &str = "SELECT first_seq, last_seq, chain, body FROM steps \
     WHERE run = $1 AND last_seq > $2 ORDER BY first_seq";

/// Finds them when earlier steps exist, without looking at those: a client that follows a long run repeatedly asks for
/// new records.
pub(super) const STEPS_AFTER: &str = "SELECT first_seq, last_seq, chain, body FROM steps \
     WHERE run = $1 AND last_seq > $2 AND first_seq >= \
     (SELECT coalesce(max(first_seq), 0) FROM steps WHERE run = $1 AND first_seq <= $2) ORDER BY first_seq";

/// Returns the steps of a run that hold records after the given one; for 0, all stored steps, including any that
/// another program inserted.
pub(crate) async fn steps(
    link: &mut Link,
    key: i64,
    after: u64,
) -> Result<Vec<StoredStep>, Failure> {
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let sql = match after {
        0 => STEPS,
        _ => STEPS_AFTER,
    };
    let rows = link.rows(sql, values![key, after]).await?;
    let steps = rows.iter().map(|row| {
        Ok(StoredStep {
            first: row.int(0)?.cast_unsigned(),
            last: row.int(1)?.cast_unsigned(),
            chain: row.bytes(2)?,
            body: row.bytes(3)?,
        })
    });
    steps.collect()
}

/// Returns the separately stored payloads of a run's steps.
pub(crate) async fn payloads(
    link: &mut Link,
    key: i64,
    steps: &[StoredStep],
) -> Result<Payloads, Failure> {
    let mut found = Payloads::new();
    let named = steps.iter().flat_map(|step| lines(&step.body));
    let named: Vec<_> = named
        .filter_map(|line| match line {
            Some(Line::Payload(hash)) => Some(hash),
            _ => None,
        })
        .collect();
    for hash in named {
        let sql = "SELECT body FROM payloads WHERE run = $1 AND hash = $2";
        let values = values![key, hash.as_bytes().as_slice()];
        if let Some(row) = link.row(sql, values).await? {
            found.insert(hash, row.bytes(0)?);
        }
    }
    Ok(found)
}

/// Returns the records of a run after the given one.
pub(crate) async fn of_run(
    link: &mut Link,
    key: i64,
    run: RunId,
    after: u64,
) -> Result<Vec<Arc<Record>>, Failure> {
    let steps = steps(link, key, after).await?;
    let payloads = payloads(link, key, &steps).await?;
    let is_quick = bytes(&steps, &payloads) <= QUICK_BYTES;
    let decode = move || decode(run, &steps, &payloads, after);
    if is_quick {
        return Ok(decode()?);
    }
    let decoded = tokio::task::spawn_blocking(decode).await;
    let aborted = |_| StoreError::Unavailable("the program is shutting down".to_owned());
    Ok(decoded.map_err(aborted)??)
}

/// Returns the number of bytes of JSON to decode.
fn bytes(steps: &[StoredStep], payloads: &Payloads) -> usize {
    let steps = steps.iter().map(|step| step.body.len());
    steps.chain(payloads.values().map(Vec::len)).sum()
}

fn decode(
    run: RunId,
    steps: &[StoredStep],
    payloads: &Payloads,
    after: u64,
) -> Result<Vec<Arc<Record>>, StoreError> {
    let mut records = Vec::new();
    for step in steps {
        for (line, seq) in lines(&step.body).zip(step.first..) {
            if seq <= after {
                continue;
            }
            let text = match line {
                Some(Line::Record(text)) => Some(text),
                Some(Line::Payload(hash)) => payloads.get(&hash).map(Vec::as_slice),
                None => None,
            };
            let text = text.and_then(|text| std::str::from_utf8(text).ok());
            let record = text.and_then(|text| Record::from_json(text).ok());
            let record = record.filter(|record| record.seq.0 == seq && record.run_id == run);
            records.push(Arc::new(record.ok_or_else(|| unreadable(run, seq))?));
        }
    }
    Ok(records)
}

fn unreadable(run: RunId, seq: u64) -> StoreError {
    StoreError::Damaged(format!("record {seq} of run {run} is unreadable"))
}

/// Returns the entries in the inbox of a run, the oldest first.
pub(crate) async fn inbox(link: &mut Link, lease: &RunLease) -> Result<Vec<InboxEntry>, Failure> {
    let sql = "SELECT runs.key FROM runs JOIN sessions ON sessions.key = runs.session \
               WHERE runs.id = $1 AND runs.token = $2 AND sessions.id = $3";
    let values = values![
        lease.run.0.as_bytes().as_slice(),
        lease.token.cast_signed(),
        lease.session.as_str(),
    ];
    let row = link.row(sql, values).await?;
    let key = row.ok_or(StoreError::Stale(lease.run))?.int(0)?;
    let sql = "SELECT body FROM inbox WHERE run = $1 AND body IS NOT NULL ORDER BY key";
    let rows = link.rows(sql, values![key]).await?;
    let entries = rows.iter().map(|row| {
        let text = String::from_utf8(row.bytes(0)?).ok();
        let entry = text.and_then(|text| JsonText::from_text(text).decode().ok());
        let run = lease.run;
        let damaged = || StoreError::Damaged(format!("the inbox of run {run} is unreadable"));
        Ok(entry.ok_or_else(damaged)?)
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A long record is stored separately; its step holds a hash instead.
    #[test]
    fn separately_stored_payloads_count_toward_the_bytes_to_read() {
        let step = StoredStep {
            first: 1,
            last: 1,
            chain: Vec::new(),
            body: vec![b'@'; 66],
        };
        let long = vec![b'x'; QUICK_BYTES];
        let payloads = Payloads::from([(ContentHash::of(&long), long)]);
        assert_eq!(bytes(&[step], &payloads), 66 + QUICK_BYTES);
    }
}
