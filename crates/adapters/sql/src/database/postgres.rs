//! A database of a Postgres server.

use std::sync::Arc;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Error, PgConnection, PgPool};

use super::{Database, Dialect, Pools, shown};
use crate::config::{Durability, SqlConfig};
use crate::error::OpenError;
use crate::lease_clock::LeaseClock;
use crate::schema::SCHEMA;

/// How the store's own connections are made.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) options: PgConnectOptions,
    /// The statements by which each of them is set up. Options that a connection begins with are refused by poolers, or lost.
    set_up: Arc<str>,
}

/// Prepares to connect; nothing is sent yet. [`Durability::Normal`] lets a commit return before it is on the disk.
///
/// # Errors
///
/// [`OpenError::Url`] where the URL is none of a Postgres server.
pub(super) fn prepare(config: &SqlConfig) -> Result<Database, OpenError> {
    let options: PgConnectOptions = config.url.parse().map_err(|_| OpenError::Url {
        url: shown(&config.url),
    })?;
    let writer = Server::new(options, config);
    let statements = Arc::clone(&writer.set_up);
    let readers = PgPoolOptions::new()
        .max_connections(config.max_connections.max(1))
        .acquire_timeout(config.patience)
        .after_connect(move |wire, _| Box::pin(set_up(wire, Arc::clone(&statements))))
        .connect_lazy_with(writer.options.clone());
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
        writer: Server::new(options, config),
        pool: pool.clone(),
    };
    database(place, pools, config)
}

impl Server {
    fn new(options: PgConnectOptions, config: &SqlConfig) -> Self {
        let durable = match config.durability {
            Durability::Full => "on",
            Durability::Normal => "off",
        };
        // The server gives up on its own what nobody waits for any more.
        let patience = config.patience.as_millis();
        let statements = format!(
            "SET search_path = {SCHEMA}; SET synchronous_commit = {durable}; SET statement_timeout = {patience}; \
             SET idle_in_transaction_session_timeout = {patience}"
        );
        Self {
            // No number with a fraction is stored, and poolers refuse to hear how those are to be shown.
            options: options
                .application_name("neuraxis")
                .extra_float_digits(None),
            set_up: statements.into(),
        }
    }

    /// Makes a connection with the settings that the store needs.
    pub(super) async fn connect(&self) -> Result<PgConnection, Error> {
        let mut wire = self.options.connect().await?;
        set_up(&mut wire, Arc::clone(&self.set_up)).await?;
        Ok(wire)
    }
}

async fn set_up(wire: &mut PgConnection, statements: Arc<str>) -> Result<(), Error> {
    let set = sqlx::raw_sql(AssertSqlSafe(statements));
    set.execute(wire).await.map(drop)
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
