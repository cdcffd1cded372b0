//! Checks that what is stored is what was kept.

use neuraxis_core::{ContentHash, RunId, SessionId};
use neuraxis_ports::{ChainHead, StoreError};

use super::ids::{hash, run_id};
use super::origins::Origins;
use super::records::{self, Beside, Stored};
use super::sessions;
use crate::error::Failure;
use crate::link::{Link, Row, values};
use crate::step::{Line, lines};

/// Follows the hash chain of a session through all of its records, and returns where it ends. What the session carries
/// from one run to the next is compared with them.
pub(crate) async fn session(link: &mut Link, id: &SessionId) -> Result<ChainHead, Failure> {
    let (key, session) = sessions::find(link, id).await?;
    let mut origins = Origins::of(link, key).await?;
    let sql =
        "SELECT key, id, records, chain_records, chain FROM runs WHERE session = $1 ORDER BY key";
    let mut head = ChainHead::start(&session);
    for row in link.rows(sql, values![key]).await? {
        head = run(link, &row, head, &mut origins).await?;
    }
    origins.check(link).await?;
    Ok(head)
}

async fn run(
    link: &mut Link,
    row: &Row,
    start: ChainHead,
    origins: &mut Origins,
) -> Result<ChainHead, Failure> {
    let (key, run) = (row.int(0)?, run_id(row, 1)?);
    let upto = row.int(2)?.cast_unsigned();
    let expected = ChainHead::new(row.int(3)?.cast_unsigned(), hash(row, 4)?);
    let mut steps = records::steps(link, key, 0).await?;
    // A run at work may have been given more since its row was read.
    steps.retain(|step| step.first <= upto);
    let beside = records::beside(link, key, &steps).await?;
    let mut head = start;
    let mut next = 1;
    for step in &steps {
        if step.first != next {
            return Err(missing(run, next));
        }
        head = step_head((run, step), &beside, head, origins)?;
        next = step.last + 1;
    }
    if next != upto + 1 {
        return Err(missing(run, next));
    }
    if head != expected {
        return Err(damaged(format!(
            "the records of run {run} are not those that its chain ends with"
        )));
    }
    Ok(head)
}

fn step_head(
    (run, step): (RunId, &Stored),
    beside: &Beside,
    mut head: ChainHead,
    origins: &mut Origins,
) -> Result<ChainHead, Failure> {
    let mut next = step.first;
    for line in lines(&step.body) {
        let hash = match line {
            Some(Line::Record(text)) => {
                origins.read(text);
                ContentHash::of(text)
            }
            Some(Line::Beside(hash)) => {
                let body = beside.get(&hash).ok_or_else(|| missing(run, next))?;
                if ContentHash::of(body) != hash {
                    return Err(changed(run, next));
                }
                origins.read(body);
                hash
            }
            None => return Err(changed(run, next)),
        };
        head = head.with_hash(hash);
        next += 1;
    }
    if next != step.last + 1 || head.hash.as_bytes().as_slice() != step.chain {
        return Err(changed(run, step.first));
    }
    Ok(head)
}

fn missing(run: RunId, seq: u64) -> Failure {
    damaged(format!("record {seq} of run {run} is missing"))
}

fn changed(run: RunId, seq: u64) -> Failure {
    damaged(format!(
        "the step of run {run} that begins with record {seq} is not what was kept"
    ))
}

fn damaged(what: String) -> Failure {
    Failure::Refused(StoreError::Damaged(what))
}
