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
    Ok(with(options, shown(&config.url), config))
}

/// Prepares to connect to the database that the connections of a pool lead to. Each connection here needs settings of its own,
/// which those of the pool do not have.
pub(super) fn beside(pool: &PgPool, config: &SqlConfig) -> Database {
    let options = PgConnectOptions::clone(&pool.connect_options());
    let (host, port) = (options.get_host(), options.get_port());
    let name = options.get_database().unwrap_or(options.get_username());
    let place = format!("postgres://{host}:{port}/{name}");
    with(options, place, config)
}

fn with(options: PgConnectOptions, place: String, config: &SqlConfig) -> Database {
    let durable = match config.durability {
        Durability::Full => "on",
        Durability::Normal => "off",
    };
    // The server gives up on its own what nobody waits for any more.
    let patience = config.patience.as_millis().to_string();
    let options = options.application_name("neuraxis").options([
        ("search_path", SCHEMA),
        ("synchronous_commit", durable),
        ("statement_timeout", &patience),
        ("idle_in_transaction_session_timeout", &patience),
    ]);
    let readers = PgPoolOptions::new()
        .max_connections(config.max_connections.max(1))
        .acquire_timeout(config.patience)
        .connect_lazy_with(options.clone());
    Database {
        place,
        dialect: Dialect::Postgres,
        lease_clock: LeaseClock::new(),
        patience: config.patience,
        pools: Pools::Postgres {
            writer: options,
            readers,
        },
    }
}
