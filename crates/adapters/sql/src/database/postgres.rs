//! A database of a Postgres server.

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{Database, Dialect, Pools, shown};
use crate::config::{Durability, SqlConfig};
use crate::error::OpenError;
use crate::lease_clock::LeaseClock;

/// The schema in which the tables stand: a database may hold other things.
pub(super) const SCHEMA: &str = "neuraxis";

/// Prepares to connect; nothing is sent yet. [`Durability::Normal`] lets a commit return before it is on the disk.
///
/// # Errors
///
/// [`OpenError::Url`] where the URL is none of a Postgres server.
pub(super) fn prepare(config: &SqlConfig) -> Result<Database, OpenError> {
    let options: PgConnectOptions = config.url.parse().map_err(|_| OpenError::Url {
        url: shown(&config.url),
    })?;
    let writer = with_settings(options, config);
    let readers = PgPoolOptions::new()
        .max_connections(config.max_connections.max(1))
        .acquire_timeout(config.patience)
        .connect_lazy_with(writer.clone());
    let pools = Pools::Postgres { writer, readers };
    Ok(database(shown(&config.url), pools, config))
}

/// Takes the database that the connections of a pool lead to: those read, and one of the store's own, made in the same way,
/// writes.
pub(super) fn in_pool(pool: &PgPool, config: &SqlConfig) -> Database {
    let options = PgConnectOptions::clone(&pool.connect_options());
    let (host, port) = (options.get_host(), options.get_port());
    let name = options.get_database().unwrap_or(options.get_username());
    let place = format!("postgres://{host}:{port}/{name}");
    let pools = Pools::Lent {
        writer: with_settings(options, config),
        pool: pool.clone(),
    };
    database(place, pools, config)
}

/// Returns how to connect with the settings that the store's own connections need.
fn with_settings(options: PgConnectOptions, config: &SqlConfig) -> PgConnectOptions {
    let durable = match config.durability {
        Durability::Full => "on",
        Durability::Normal => "off",
    };
    // The server gives up on its own what nobody waits for any more.
    let patience = config.patience.as_millis().to_string();
    options.application_name("neuraxis").options([
        ("search_path", SCHEMA),
        ("synchronous_commit", durable),
        ("statement_timeout", &patience),
        ("idle_in_transaction_session_timeout", &patience),
    ])
}

fn database(place: String, pools: Pools, config: &SqlConfig) -> Database {
    Database {
        place,
        dialect: Dialect::Postgres,
        lease_clock: LeaseClock::new(),
        patience: config.patience,
        pools,
    }
}
