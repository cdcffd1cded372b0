//! The numbers of leases, which increase within a session, whichever process grants them.

use sqlx::Error;

use super::Task;
use crate::database::Dialect;
use crate::link::{Link, values};

/// How many lease numbers are reserved at once. Unused ones are lost when the store is closed, which leaves a gap.
const SET_ASIDE: usize = 256;

impl Task {
    /// Returns the number of a new lease: the greatest so far.
    pub(super) async fn next_token(&self, link: &mut Link) -> Result<i64, Error> {
        let tokens = self.next_tokens(link, 1).await?;
        tokens.first().copied().ok_or(Error::RowNotFound)
    }

    /// Returns `count` new lease numbers, each greater than `last`: from the reserved ones if those are greater.
    pub(super) async fn tokens_after(
        &mut self,
        link: &mut Link,
        last: i64,
        count: usize,
    ) -> Result<Vec<i64>, Error> {
        let are_greater = self.tokens.first().is_some_and(|token| *token > last);
        if !are_greater || self.tokens.len() < count {
            // Greater than all numbers given so far by any process.
            self.tokens = self.next_tokens(link, SET_ASIDE.max(count)).await?;
        }
        Ok(self.tokens.drain(..count).collect())
    }

    /// Reserves and returns `count` new lease numbers.
    pub(super) async fn next_tokens(
        &self,
        link: &mut Link,
        count: usize,
    ) -> Result<Vec<i64>, Error> {
        let dialect = self.database.dialect;
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let rows = link.rows(dialect.next_leases(), values![count]).await?;
        let mut numbers = rows.iter().map(|row| row.int(0));
        match dialect {
            Dialect::Postgres => numbers.collect(),
            // The statement returns the last of them.
            Dialect::Sqlite => {
                let last = numbers.next_back().ok_or(Error::RowNotFound)??;
                Ok((last - count + 1..=last).collect())
            }
        }
    }
}
