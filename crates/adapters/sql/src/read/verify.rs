//! Checks that stored data is unchanged: the file as a whole, and the records of a session with what it carries.

use neuraxis_core::log::Carried;
use neuraxis_core::{ContentHash, RunId, SessionId, Taint};
use neuraxis_ports::{ChainHead, ExpectedHead, StoreError};

use super::records::{self, Payloads, StoredStep};
use super::sessions;
use crate::database::Dialect;
use crate::error::Failure;
use crate::link::{Link, Row, values};
use crate::step::{Line, lines};

/// How much a database holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contents {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of runs, over all sessions.
    pub runs: u64,
    /// Connections of the server; `None` for a file, which needs none.
    pub connections: Option<Connections>,
}

/// Connections of a Postgres server, over all of its databases and programs. If the role or the database has a limit of
/// its own that leaves fewer, only the connections under that limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Connections {
    /// The maximum number of connections of users other than the server's own.
    pub most: u64,
    /// Number of open connections, including this one.
    pub in_use: u64,
}

/// Checks a file, and reports at most three faults.
const MOST_FAULTS: &str = "PRAGMA quick_check(3)";

/// Reads a whole file, checks its structure, and counts its contents. A server's tables are not read: that would take
/// longer than a request may, and their storage is for the server's operator to check.
pub(crate) async fn contents(link: &mut Link, dialect: Dialect) -> Result<Contents, Failure> {
    if dialect == Dialect::Sqlite {
        let faults = link.rows(MOST_FAULTS, &[]).await?;
        let faults = faults.iter().map(|row| row.text(0));
        let faults = faults.collect::<Result<Vec<String>, _>>()?;
        if faults != ["ok"] {
            return Err(StoreError::Damaged(faults.join("; ").replace('\n', " ")).into());
        }
        // Reads every row, whatever the indexes point to: no index holds this column.
        count(link, "SELECT coalesce(sum(length(body)), 0) FROM steps").await?;
    }
    if dialect == Dialect::Postgres {
        check_rights(link).await?;
    }
    let sessions = count(link, "SELECT count(*) FROM sessions").await?;
    let runs = count(link, "SELECT count(*) FROM runs").await?;
    let connections = match dialect {
        Dialect::Sqlite => None,
        Dialect::Postgres => Some(connections(link).await?),
    };
    Ok(Contents {
        sessions,
        runs,
        connections,
    })
}

/// Finds the tables and sequences that the user of the database may not read and change, such as tables that a later
/// version added. Identity sequences need no privilege, and the tables of schema versions are only read.
async fn check_rights(link: &mut Link) -> Result<(), Failure> {
    let sql = "SELECT string_agg(CAST(c.relname AS TEXT), ', ' ORDER BY c.relname) FROM pg_class c \
               WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) \
               AND CASE c.relkind \
               WHEN 'r' THEN c.relname NOT IN ('schema_version', '_sqlx_migrations') \
               AND NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') \
               AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')) \
               WHEN 'S' THEN NOT has_sequence_privilege(c.oid, 'USAGE') \
               AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'i') \
               ELSE false END";
    let row = link.row(sql, &[]).await?;
    let missing = row.map_or(Ok(None), |row| row.maybe_text(0))?;
    match missing {
        Some(names) => Err(StoreError::Refused(format!(
            "its user lacks the right to read and change {names}"
        ))
        .into()),
        None => Ok(()),
    }
}

/// Counts the connections under the limit that leaves the fewest: the server's, or one of the role's or the database's
/// own. Superusers are not subject to the latter two.
async fn connections(link: &mut Link) -> Result<Connections, Failure> {
    // Few roles may see the type of another role's connection. Client connections have a user and a database, which the
    // server's own processes lack.
    let sql = "WITH used AS (SELECT usesysid, datid FROM pg_stat_activity \
               WHERE usesysid IS NOT NULL AND datid IS NOT NULL \
               AND coalesce(backend_type, 'client backend') = 'client backend'), \
               us AS (SELECT r.oid AS role, r.rolconnlimit, d.oid AS base, d.datconnlimit, r.rolsuper \
               FROM pg_roles r, pg_database d WHERE r.rolname = session_user AND d.datname = current_database()) \
               SELECT most, in_use FROM (\
               SELECT CAST(current_setting('max_connections') AS BIGINT) \
               - CAST(current_setting('superuser_reserved_connections') AS BIGINT) AS most, \
               (SELECT count(*) FROM used) AS in_use \
               UNION ALL SELECT rolconnlimit, (SELECT count(*) FROM used WHERE usesysid = role) \
               FROM us WHERE rolconnlimit >= 0 AND NOT rolsuper \
               UNION ALL SELECT datconnlimit, (SELECT count(*) FROM used WHERE datid = base) \
               FROM us WHERE datconnlimit >= 0 AND NOT rolsuper) AS limits \
               ORDER BY most - in_use LIMIT 1";
    let row = link.row(sql, &[]).await?;
    let row = row.ok_or(sqlx::Error::RowNotFound)?;
    Ok(Connections {
        most: row.int(0)?.cast_unsigned(),
        in_use: row.int(1)?.cast_unsigned(),
    })
}

async fn count(link: &mut Link, sql: &'static str) -> Result<u64, Failure> {
    let row = link.row(sql, &[]).await?;
    let row = row.ok_or(sqlx::Error::RowNotFound)?;
    Ok(row.int(0)?.cast_unsigned())
}

/// Verifies the hash chain of a session through all of its records, and returns its head. Compares what the session
/// carries from one run to the next with its records, and looks for a head that was noted elsewhere.
pub(crate) async fn session(
    link: &mut Link,
    id: &SessionId,
    expect: Option<ContentHash>,
) -> Result<ChainHead, Failure> {
    let (key, session) = sessions::find(link, id).await?;
    loop {
        let kept = sessions::carried_with_revoked(link, key).await?;
        let sql = "SELECT key, id, records, chain_records, chain FROM runs WHERE session = $1 ORDER BY key";
        let mut head = ChainHead::start(&session);
        let mut expected = ExpectedHead::new(expect, head);
        let mut recorded = Carried::default();
        for row in link.rows(sql, values![key]).await? {
            head = run(link, &row, head, &mut recorded, &mut expected).await?;
        }
        // A run at work may have changed it meanwhile; few steps do.
        if sessions::carried_with_revoked(link, key).await? == kept {
            check(&kept, &recorded)?;
            return Ok(expected.met(head)?);
        }
    }
}

async fn run(
    link: &mut Link,
    row: &Row,
    start: ChainHead,
    recorded: &mut Carried,
    expected: &mut ExpectedHead,
) -> Result<ChainHead, Failure> {
    let (key, run) = (row.int(0)?, row.run_id(1)?);
    let upto = row.int(2)?.cast_unsigned();
    let end = ChainHead::new(row.int(3)?.cast_unsigned(), row.hash(4)?);
    let mut steps = records::steps(link, key, 0).await?;
    // A run at work may have received more steps since its row was read.
    steps.retain(|step| step.first <= upto);
    let payloads = records::payloads(link, key, &steps).await?;
    let mut head = start;
    let mut next = 1;
    for step in &steps {
        if step.first != next {
            return Err(missing(run, next));
        }
        head = step_head((run, step), &payloads, head, recorded, expected)?;
        next = step.last + 1;
    }
    if next != upto + 1 {
        return Err(missing(run, next));
    }
    if head != end {
        return Err(damaged(format!(
            "the records of run {run} do not match the end of its chain"
        )));
    }
    Ok(head)
}

fn step_head(
    (run, step): (RunId, &StoredStep),
    payloads: &Payloads,
    mut head: ChainHead,
    recorded: &mut Carried,
    expected: &mut ExpectedHead,
) -> Result<ChainHead, Failure> {
    let is_first = head.records == 0;
    let mut next = step.first;
    for line in lines(&step.body) {
        let hash = match line {
            Some(Line::Record(text)) => {
                recorded.apply_line(text);
                ContentHash::of(text)
            }
            Some(Line::Payload(hash)) => {
                let body = payloads.get(&hash).ok_or_else(|| missing(run, next))?;
                if ContentHash::of(body) != hash {
                    return Err(changed(run, next));
                }
                recorded.apply_line(body);
                hash
            }
            None => return Err(changed(run, next)),
        };
        head = head.with_hash(hash);
        expected.pass(head);
        next += 1;
    }
    if next != step.last + 1 || head.hash.as_bytes().as_slice() != step.chain {
        return Err(match is_first {
            // The chain begins with the session itself.
            true => damaged(format!(
                "the step of run {run} that begins with record {} does not match what was stored, or the session's \
                 own row (its owner, time or seed) does not",
                step.first
            )),
            false => changed(run, step.first),
        });
    }
    Ok(head)
}

/// Compares what a session carries, as stored, with what its records say.
fn check(kept: &Carried, recorded: &Carried) -> Result<(), Failure> {
    let (grants, given) = (kept.remembered.grants(), recorded.remembered.grants());
    if let Some(grant) = grants.iter().find(|grant| !given.contains(grant)) {
        return Err(damaged(format!(
            "no record of the session holds the remembered answer {}",
            grant.id
        )));
    }
    if let Some(grant) = given.iter().find(|grant| !grants.contains(grant)) {
        let id = grant.id;
        return Err(damaged(format!("the remembered answer {id} is missing")));
    }
    if let Some(tool) = tool_beyond(&recorded.taint, &kept.taint) {
        return Err(damaged(format!(
            "the stored taint no longer names {tool} as a source of untrusted content"
        )));
    }
    if let Some(tool) = tool_beyond(&kept.taint, &recorded.taint) {
        return Err(damaged(format!(
            "the stored taint names {tool} as a source of untrusted content, but no record of the session does"
        )));
    }
    if kept != recorded {
        return Err(damaged(
            "the state carried by the session does not match its records".to_owned(),
        ));
    }
    Ok(())
}

/// Returns a tool named in `one` but not in `other`.
fn tool_beyond(one: &Taint, other: &Taint) -> Option<String> {
    let names = |tool: &_| other.sources().iter().any(|known| known.tool == *tool);
    let mut beyond = one.sources().iter().filter(|source| !names(&source.tool));
    beyond.next().map(|source| source.tool.to_string())
}

fn missing(run: RunId, seq: u64) -> Failure {
    damaged(format!("record {seq} of run {run} is missing"))
}

fn changed(run: RunId, seq: u64) -> Failure {
    damaged(format!(
        "the step of run {run} that begins with record {seq} does not match what was stored"
    ))
}

fn damaged(what: String) -> Failure {
    Failure::Refused(StoreError::Damaged(what))
}
