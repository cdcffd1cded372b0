//! Stores the long outputs of calls in chunks, so a page can be read without the rest.

use neuraxis_ports::{LongOutput, RunLease, StoreError, output_chunks};

use super::Task;
use crate::error::Failure;
use crate::link::{Link, values};

impl Task {
    pub(super) async fn keep_output(
        &self,
        link: &mut Link,
        lease: &RunLease,
        output: &LongOutput,
    ) -> Result<(), Failure> {
        // A run that has ended or was released accepts no output.
        let key = self.extend_lease(link, lease).await?;
        let head = output.head();
        let call = head.call.as_str();
        self.check_room(link, key, lease, output).await?;
        remove(link, key, call).await?;
        let sql = "INSERT INTO outputs (run, call, tool, untrusted, bytes, lines) VALUES ($1, $2, $3, $4, $5, $6)";
        let values = values![
            key,
            call,
            &*head.tool,
            i64::from(head.untrusted),
            head.bytes.cast_signed(),
            head.lines.cast_signed(),
        ];
        link.run(sql, values).await?;
        for chunk in output_chunks(&output.text) {
            let sql = "INSERT INTO output_chunks (run, call, start, first_line, body) VALUES ($1, $2, $3, $4, $5)";
            let (start, line) = (chunk.start.cast_signed(), chunk.first_line.cast_signed());
            let values = values![key, call, start, line, chunk.text.as_bytes()];
            link.run(sql, values).await?;
        }
        Ok(())
    }

    async fn check_room(
        &self,
        link: &mut Link,
        key: i64,
        lease: &RunLease,
        output: &LongOutput,
    ) -> Result<(), Failure> {
        let sql = "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM outputs WHERE run = $1 AND call <> $2";
        let row = link.row(sql, values![key, output.call.as_str()]).await?;
        let others = row.map_or(Ok(0), |row| row.int(0))?.cast_unsigned();
        let bytes = others.saturating_add(output.text.len() as u64);
        let most = self.settings.bounds.max_output_bytes;
        if bytes > most {
            let run = lease.run;
            return Err(StoreError::OutputsTooLarge { run, bytes, most }.into());
        }
        Ok(())
    }
}

async fn remove(link: &mut Link, key: i64, call: &str) -> Result<(), sqlx::Error> {
    for sql in [
        "DELETE FROM output_chunks WHERE run = $1 AND call = $2",
        "DELETE FROM outputs WHERE run = $1 AND call = $2",
    ] {
        link.run(sql, values![key, call]).await?;
    }
    Ok(())
}
