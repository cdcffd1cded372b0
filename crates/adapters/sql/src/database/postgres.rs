//! A database of a Postgres server.

use std::sync::Arc;

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Error, PgConnection, PgPool};

use super::{Database, Dialect, Pools, shown};
use crate::config::{Durability, SqlConfig};
use crate::error::OpenError;
use crate::lease_clock::LeaseClock;
use crate::schema::SCHEMA;

/// The parameters that the query of a URL may have, apart from `options[NAME]`, as libpq and sqlx name them.
const PARAMETERS: [&str; 18] = [
    "application_name",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "ssl-root-cert",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "statement-cache-capacity",
    "user",
];

/// How the store's own connections are opened.
#[derive(Debug, Clone)]
pub(super) struct Server {
    pub(super) options: PgConnectOptions,
    /// Statements that set up each connection. Poolers refuse or drop startup options.
    set_up: Arc<str>,
}

/// Prepares to connect; nothing is sent yet. [`Durability::Normal`] lets a commit return before it is on the disk.
///
/// # Errors
///
/// [`OpenError::Url`] if the URL is not that of a Postgres server; [`OpenError::Parameter`] if its query has an unknown
/// parameter.
pub(super) fn prepare(config: &SqlConfig) -> Result<Database, OpenError> {
    let address = without_needless(&config.url);
    if let Some(name) = unknown_parameter(&address) {
        let url = shown(&config.url);
        return Err(OpenError::Parameter { url, name });
    }
    let options: PgConnectOptions = address.parse().map_err(|_| OpenError::Url {
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

/// Removes parameters from the query of a URL that libpq knows, sqlx does not, and the store does not need: timeouts
/// are configured elsewhere, only a writable server is of use, and `channel_binding` proves no more about a server than
/// its certificate does where that is checked.
fn without_needless(url: &str) -> String {
    let address = url.split('#').next().unwrap_or_default();
    let Some((place, query)) = address.split_once('?') else {
        return address.to_owned();
    };
    let is_checked = query.split('&').any(|pair| pair == "sslmode=verify-full");
    let is_needed = |pair: &&str| match pair.split_once('=') {
        Some(("connect_timeout", _)) => false,
        Some(("target_session_attrs", asked)) => !matches!(asked, "any" | "primary" | "read-write"),
        Some(("channel_binding", asked)) => asked == "require" && !is_checked,
        _ => true,
    };
    let needed: Vec<&str> = query.split('&').filter(is_needed).collect();
    format!("{place}?{}", needed.join("&"))
}

/// Returns the first parameter in the query of a URL that sqlx does not know. sqlx would ignore it, even
/// `sslmodes=verify-full`, and write its value to the log.
fn unknown_parameter(url: &str) -> Option<String> {
    let (_, query) = url.split('#').next()?.split_once('?')?;
    let mut pairs = query.split('&').filter(|pair| !pair.is_empty());
    let unknown = pairs.find(|pair| !is_known(pair.split('=').next().unwrap_or_default()))?;
    let (name, _) = unknown.split_once('=').unwrap_or_default();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    // The name may be a piece of a password with an unescaped character.
    let is_shown = !query.contains('@') && !query.contains("password");
    let is_shown = is_shown && !name.is_empty() && name.bytes().all(is_name);
    let name = match is_shown {
        true => name,
        false => "***",
    };
    Some(name.to_owned())
}

fn is_known(name: &str) -> bool {
    let inner = name.strip_prefix("options");
    let is_option = inner.is_some_and(|inner| {
        let begins = ["[", "%5B", "%5b"]
            .iter()
            .any(|sign| inner.starts_with(sign));
        begins && ["]", "%5D", "%5d"].iter().any(|sign| inner.ends_with(sign))
    });
    is_option || PARAMETERS.contains(&name)
}

/// Uses the database of a pool: the pool's connections read, and one of the store's own, opened the same way, writes.
pub(super) fn in_pool(pool: &PgPool, config: &SqlConfig) -> Database {
    let options = PgConnectOptions::clone(&pool.connect_options());
    let (host, port) = (options.get_host(), options.get_port());
    let name = options.get_database().unwrap_or(options.get_username());
    let place = format!("postgres://{host}:{port}/{name}");
    let pools = Pools::Borrowed {
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
        // The server itself cancels statements that no caller waits for any longer.
        let patience = config.patience.as_millis();
        let statements = format!(
            "SET search_path = {SCHEMA}; SET synchronous_commit = {durable}; SET statement_timeout = {patience}; \
             SET idle_in_transaction_session_timeout = {patience}"
        );
        Self {
            // No fractional numbers are stored, and poolers refuse the setting for how to format those.
            options: options
                .application_name("neuraxis")
                .extra_float_digits(None),
            set_up: statements.into(),
        }
    }

    /// Opens a connection with the settings that the store needs.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_url_parameter_is_named_without_revealing_secrets() {
        for (query, expected) in [
            ("passwd=s3cret&sslmode=require", Some("passwd")),
            ("sslmode=require&pass=s3cret", Some("pass")),
            ("sslmodes=verify-full", Some("sslmodes")),
            (
                "sslmode=require&channel_binding=require",
                Some("channel_binding"),
            ),
            (
                "target_session_attrs=read-only",
                Some("target_session_attrs"),
            ),
            // Pieces of passwords.
            ("password=a&s3cret=b", Some("***")),
            ("s3cret=a@db/nx", Some("***")),
            ("s3cret", Some("***")),
            ("=s3cret", Some("***")),
            ("options[search_path=x", Some("***")),
            ("ssl-mode=require&sslrootcert=a.crt&", None),
            ("options[work_mem]=1MB&options%5Bjit%5D=off", None),
            ("host=/run/postgres&user=app&password=a%26b", None),
            ("#sslmodes=x", None),
        ] {
            let url = format!("postgres://db/nx?{query}");
            assert_eq!(unknown_parameter(&url).as_deref(), expected, "{query}");
            if expected.is_some() {
                let refused = prepare(&SqlConfig::new(url)).unwrap_err();
                let told = format!("{refused} {refused:?}");
                assert!(!told.contains("s3cret"), "{told}");
            }
        }
        assert_eq!(unknown_parameter("postgres://db/nx"), None);
    }

    #[tokio::test]
    async fn needless_url_parameters_are_removed() {
        for (query, expected) in [
            ("?connect_timeout=5", "?"),
            (
                "?target_session_attrs=read-write&sslmode=require",
                "?sslmode=require",
            ),
            (
                "?sslmode=verify-full&channel_binding=require",
                "?sslmode=verify-full",
            ),
            ("?channel_binding=prefer&user=app", "?user=app"),
            ("?sslmode=require#connect_timeout=5", "?sslmode=require"),
            ("", ""),
        ] {
            let address = |query: &str| format!("postgres://db/nx{query}");
            let url = address(query);
            assert_eq!(without_needless(&url), address(expected));
            prepare(&SqlConfig::new(url)).unwrap();
        }
    }
}
