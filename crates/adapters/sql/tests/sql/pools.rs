//! A store in the database of a pool that a program has already.

use neuraxis_ports::{Session, SessionIndex as _};
use neuraxis_sql::{PgPool, SqlConfig, SqlStore};
use neuraxis_testkit::START;

use crate::support::{id, open, server_config};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_store_beside_a_pool_has_the_pools_database_and_leaves_the_pool_alone() {
    let of_server = server_config();
    let pool = PgPool::connect(&of_server.url).await.unwrap();
    let config = SqlConfig::new("");
    let store = SqlStore::open_beside(&pool, &config).await.unwrap();
    let session = Session::new(id("main"), START);
    store.create_session(&session).await.unwrap();
    // What is kept there is found by whoever names the database.
    let other = open(&of_server).await;
    assert_eq!(other.session(&session.id).await.unwrap(), session);
    store.close().await;
    assert!(!pool.is_closed());
    let mut connection = pool.acquire().await.unwrap();
    is_as_it_was(&mut connection).await;
}

async fn is_as_it_was(connection: &mut sqlx::PgConnection) {
    let path: String = sqlx::query_scalar("SHOW search_path")
        .fetch_one(connection)
        .await
        .unwrap();
    assert!(!path.contains("neuraxis"), "{path}");
}
