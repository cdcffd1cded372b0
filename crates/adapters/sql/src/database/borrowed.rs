//! Connections of a pool that the rest of the program also uses: each is returned with its previous settings.

use std::ops::DerefMut;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{Error, PgConnection, PgPool, Postgres, Row as _};

use crate::schema::SCHEMA;

/// Applies the settings that the store's statements need, and returns the previous ones.
const SET: &str = "SELECT current_setting('search_path'), current_setting('statement_timeout'), \
    set_config('search_path', $1, false), set_config('statement_timeout', $2, false)";

/// Restores the previous settings.
const SET_BACK: &str =
    "SELECT set_config('search_path', $1, false), set_config('statement_timeout', $2, false)";

/// A borrowed connection. Dropping it returns it to the pool with its previous settings, or closes it.
#[derive(Debug)]
pub(crate) struct BorrowedConnection {
    /// `None` once the connection is returned.
    wire: Option<PoolConnection<Postgres>>,
    search_path: String,
    statement_timeout: String,
    patience: Duration,
}

impl BorrowedConnection {
    /// Takes a connection out of a pool.
    pub(super) async fn of(pool: &PgPool, patience: Duration) -> Result<Self, Error> {
        let taken = tokio::time::timeout(patience, pool.acquire()).await;
        let mut borrowed = Self {
            wire: Some(taken.map_err(|_| Error::PoolTimedOut)??),
            search_path: String::new(),
            statement_timeout: String::new(),
            patience,
        };
        let set = sqlx::query(SET)
            .bind(SCHEMA)
            .bind(patience.as_millis().to_string());
        let set = tokio::time::timeout(patience, set.fetch_one(borrowed.get()?)).await;
        match set.map_err(|_| Error::PoolTimedOut).flatten() {
            Ok(before) => {
                borrowed.search_path = before.try_get(0)?;
                borrowed.statement_timeout = before.try_get(1)?;
                Ok(borrowed)
            }
            Err(error) => {
                // It is unknown which settings are in effect.
                borrowed.close();
                Err(error)
            }
        }
    }

    /// Closes the connection instead of returning it.
    pub(crate) fn close(&mut self) {
        if let Some(wire) = self.wire.take() {
            drop(wire.detach());
        }
    }

    pub(crate) fn get(&mut self) -> Result<&mut PgConnection, Error> {
        let wire = self.wire.as_mut().ok_or(Error::PoolClosed)?;
        Ok(wire.deref_mut())
    }
}

impl Drop for BorrowedConnection {
    fn drop(&mut self) {
        let Some(mut wire) = self.wire.take() else {
            return;
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            drop(wire.detach());
            return;
        };
        let path = std::mem::take(&mut self.search_path);
        let timeout = std::mem::take(&mut self.statement_timeout);
        let patience = self.patience;
        runtime.spawn(async move {
            let set = sqlx::query(SET_BACK).bind(path).bind(timeout);
            let set = tokio::time::timeout(patience, set.execute(wire.deref_mut())).await;
            if !matches!(set, Ok(Ok(_))) {
                drop(wire.detach());
            }
        });
    }
}
