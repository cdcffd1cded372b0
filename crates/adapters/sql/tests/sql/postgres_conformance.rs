//! The store follows the rules of its port on Postgres.

use crate::support::store_on_server;

neuraxis_testkit::session_store_suite!(
    ignored because "needs PostgreSQL: run by cargo xtask test": store_on_server().await
);
