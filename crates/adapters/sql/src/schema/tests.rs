//! A database of each version there ever was is brought up to date.

use neuraxis_testkit::Postgres;

use super::*;
use crate::config::SqlConfig;

/// Makes a database of a version, as the program of that time did.
async fn made_at(version: usize, database: &Database, link: &mut Link) {
    begin(database.dialect, link).await.unwrap();
    for (version, number) in VERSIONS.iter().take(version).zip(1_i64..) {
        apply(database.dialect, link, version, number)
            .await
            .unwrap();
    }
    link.run("COMMIT", &[]).await.unwrap();
}

/// What the first version could hold, and every later one has to keep.
async fn fill(link: &mut Link) {
    let session = "INSERT INTO sessions (id, owner, created_at) VALUES ('s', 'me', 7)";
    link.run(session, &[]).await.unwrap();
    let run = "INSERT INTO runs (id, session, token, holder, records, bytes, chain_records, chain, status, turns) \
               SELECT $1, key, 1, 'h', 0, 0, 0, $2, 'running', 0 FROM sessions";
    let id = [7_u8; 16];
    let values = values![id.as_slice(), id.as_slice()];
    link.run(run, values).await.unwrap();
}

async fn brought_up_to_date(config: &SqlConfig, version: usize) {
    let database = Database::connect(config).unwrap();
    let mut link = database.writer().await.unwrap();
    made_at(version, &database, &mut link).await;
    if version > 0 {
        fill(&mut link).await;
    }
    for _ in 0..2 {
        migrate(&database, &mut link).await.unwrap();
        let found = found(database.dialect, &mut link).await.unwrap();
        assert_eq!(found, i64::try_from(VERSIONS.len()).ok());
    }
    if version == 0 {
        fill(&mut link).await;
    }
    let sql =
        "SELECT sessions.id, runs.turns FROM runs JOIN sessions ON sessions.key = runs.session";
    let row = link.row(sql, &[]).await.unwrap().unwrap();
    assert_eq!(
        (row.text(0).unwrap().as_str(), row.int(1).unwrap()),
        ("s", 0)
    );
}

#[tokio::test]
async fn a_file_of_each_version_is_brought_up_to_date_and_keeps_what_it_holds() {
    for version in 0..=VERSIONS.len() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions.db");
        brought_up_to_date(
            &SqlConfig::new(format!("sqlite://{}", file.display())),
            version,
        )
        .await;
    }
}

#[tokio::test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_server_of_each_version_is_brought_up_to_date_and_keeps_what_it_holds() {
    for version in 0..=VERSIONS.len() {
        let server = Postgres::start();
        brought_up_to_date(&SqlConfig::new(server.url()), version).await;
    }
}
