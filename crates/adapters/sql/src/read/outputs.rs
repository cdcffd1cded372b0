//! The stored long outputs of a run's calls.

use neuraxis_core::{RunId, ToolCallId};
use neuraxis_ports::{OutputChunk, OutputHead, OutputPage, OutputPlace, StoreError};

use super::records;
use crate::error::Failure;
use crate::link::{Link, Row, values};

/// A lower bound on the bytes of every chunk except the last. It is below the maximum because a chunk never splits a
/// character.
const CHUNK_BYTES: usize = 32 * 1024;

/// Returns the metadata of a run's outputs.
pub(crate) async fn of_run(link: &mut Link, run: RunId) -> Result<Vec<OutputHead>, Failure> {
    let key = records::key(link, run).await?;
    let sql =
        "SELECT call, tool, untrusted, bytes, lines FROM outputs WHERE run = $1 ORDER BY call";
    let rows = link.rows(sql, values![key]).await?;
    rows.iter().map(head).collect()
}

fn head(row: &Row) -> Result<OutputHead, Failure> {
    let size = (row.int(3)?.cast_unsigned(), row.int(4)?.cast_unsigned());
    let call = ToolCallId::from_text(row.text(0)?);
    Ok(OutputHead::new(
        call,
        row.text(1)?.into(),
        row.int(2)? != 0,
        size,
    ))
}

/// Returns a page of an output.
pub(crate) async fn page(
    link: &mut Link,
    run: RunId,
    call: &ToolCallId,
    from: OutputPlace,
    most: usize,
) -> Result<OutputPage, Failure> {
    let key = records::key(link, run).await?;
    let sql =
        "SELECT call, tool, untrusted, bytes, lines FROM outputs WHERE run = $1 AND call = $2";
    let row = link.row(sql, values![key, call.as_str()]).await?;
    let row = row.ok_or_else(|| StoreError::NoSuchOutput {
        run,
        call: call.clone(),
    })?;
    let head = head(&row)?;
    let (first, place) = match from {
        OutputPlace::Byte(byte) => (
            "SELECT coalesce(max(start), 0) FROM output_chunks WHERE run = $1 AND call = $2 AND start <= $3",
            byte,
        ),
        OutputPlace::Line(line) => (
            "SELECT coalesce(max(start), 0) FROM output_chunks WHERE run = $1 AND call = $2 AND first_line < $3",
            line,
        ),
    };
    let place = i64::try_from(place).unwrap_or(i64::MAX);
    let row = link.row(first, values![key, call.as_str(), place]).await?;
    let first = row.map_or(Ok(0), |row| row.int(0))?;
    let sql = "SELECT start, first_line, body FROM output_chunks \
               WHERE run = $1 AND call = $2 AND start >= $3 ORDER BY start LIMIT $4";
    let pieces = i64::try_from(most / CHUNK_BYTES).unwrap_or(i64::MAX - 2) + 2;
    let rows = link
        .rows(sql, values![key, call.as_str(), first, pieces])
        .await?;
    let mut piece = OutputChunk::default();
    if let Some(first) = rows.first() {
        piece.start = first.int(0)?.cast_unsigned();
        piece.first_line = first.int(1)?.cast_unsigned();
    }
    let mut bytes = Vec::new();
    for row in &rows {
        bytes.extend(row.bytes(2)?);
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        StoreError::Damaged(format!(
            "the output of call {call} of run {run} is not text"
        ))
    })?;
    piece.text = &text;
    Ok(OutputPage::cut(head, piece, from, most))
}
