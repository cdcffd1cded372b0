//! A transaction being assembled, in as few database calls as possible: every job that waits for the disk also waits
//! for each call.

use neuraxis_core::ContentHash;
use sqlx::{AssertSqlSafe, Error};

use super::commit::NextStep;
use super::upsert::{chunks, in_chunks, rows};
use crate::link::{Link, Value, values};
use crate::read::history::EndedRun;
use crate::step::EncodedStep;

/// A transaction that writes.
pub(super) struct Transaction<'a> {
    pub(super) link: Link,
    /// The steps to insert: those of all runs together, in the same call as the commit if nothing follows them.
    steps: Vec<StepRow<'a>>,
    /// The runs that end with it, which are added to the cached histories after the commit.
    pub(super) ended: Vec<EndedRun>,
}

/// The row of a step.
struct StepRow<'a> {
    run: i64,
    first: i64,
    last: i64,
    chain: ContentHash,
    body: &'a [u8],
}

/// The number of columns of a step's row.
const COLUMNS: usize = 5;

impl<'a> Transaction<'a> {
    pub(super) async fn begin(mut link: Link) -> Result<Self, Error> {
        link.begin().await?;
        Ok(Self {
            link,
            steps: Vec::new(),
            ended: Vec::new(),
        })
    }

    /// Queues the row of a step, to be inserted before the commit.
    pub(super) fn insert_step(&mut self, next: &NextStep<'a>) {
        self.steps.push(StepRow {
            run: next.change.key,
            first: next.change.before + 1,
            last: next.change.after,
            chain: next.change.head.hash,
            body: &next.step.body,
        });
    }

    /// Inserts the queued rows; called before anything reads them.
    pub(super) async fn flush(&mut self) -> Result<(), Error> {
        let steps = std::mem::take(&mut self.steps);
        insert(&mut self.link, &steps).await
    }

    /// Returns whether exactly this step is stored.
    pub(super) async fn is_stored(&mut self, run: i64, step: &EncodedStep) -> Result<bool, Error> {
        let Some((first, last)) = step.range() else {
            return Ok(true);
        };
        self.flush().await?;
        let sql = "SELECT last_seq, body FROM steps WHERE run = $1 AND first_seq = $2";
        let row = self
            .link
            .row(sql, values![run, first.cast_signed()])
            .await?;
        let Some(row) = row else {
            return Ok(false);
        };
        Ok(row.int(0)? == last.cast_signed() && row.bytes(1)? == step.body)
    }

    /// Inserts the queued rows and commits.
    pub(super) async fn commit(&mut self) -> Result<(), Error> {
        let steps = std::mem::take(&mut self.steps);
        if steps.is_empty() {
            return self.link.run("COMMIT", &[]).await.map(drop);
        }
        let (last, others) = steps.split_at(chunks(steps.len()));
        insert(&mut self.link, others).await?;
        let (sql, values) = inserting(last);
        self.link.run_and_commit(sql, &values).await
    }
}

/// Inserts rows of steps, as many per statement as fit.
async fn insert(link: &mut Link, steps: &[StepRow<'_>]) -> Result<(), Error> {
    for chunk in in_chunks(steps) {
        let (sql, values) = inserting(chunk);
        link.run(AssertSqlSafe(sql), &values).await?;
    }
    Ok(())
}

/// Returns the statement that inserts rows of steps, and its values.
fn inserting<'v>(steps: &'v [StepRow<'_>]) -> (String, Vec<Value<'v>>) {
    let mut values = Vec::with_capacity(steps.len() * COLUMNS);
    for step in steps {
        values.extend([
            Value::from(step.run),
            Value::from(step.first),
            Value::from(step.last),
            Value::from(step.chain.as_bytes().as_slice()),
            Value::from(step.body),
        ]);
    }
    let rows = rows(steps.len(), COLUMNS);
    let sql = format!("INSERT INTO steps (run, first_seq, last_seq, chain, body) VALUES {rows}");
    (sql, values)
}
