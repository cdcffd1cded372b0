//! The section `[driver]`: which process drives runs. The crate of each driver documents its keys.

use neuraxis_restate::RestateConfig;
use serde::Deserialize;
use toml::{Table, Value};

use super::Config;

/// `[driver]`: which process drives the runs that a server starts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct DriverConfig {
    /// `local` for the process that starts them, or `restate` for workers (`neuraxis-server worker`) to which Restate
    /// assigns them. Defaults to `local`. The command line always drives its own runs.
    pub kind: DriverKind,
    /// `[driver.restate]`: where Restate is, for `restate`.
    pub restate: RestateConfig,
}

/// The process that drives runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DriverKind {
    /// The process that starts them.
    #[default]
    Local,
    /// Workers to which Restate assigns them.
    Restate,
}

impl DriverKind {
    /// Returns its name in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Restate => "restate",
        }
    }
}

impl Config {
    /// Returns the section `[driver]`.
    #[must_use]
    pub const fn driver(&self) -> &DriverConfig {
        &self.driver
    }
}

/// Returns the section in its written form, without the settings that the selected driver does not use.
pub(super) fn table(driver: &DriverConfig) -> Value {
    let kind = Value::String(driver.kind.as_str().to_owned());
    let mut table = Table::from_iter([("kind".to_owned(), kind)]);
    if driver.kind == DriverKind::Restate {
        // A table of strings, so serializing it cannot fail.
        let restate = Table::try_from(&driver.restate).unwrap_or_default();
        table.insert("restate".to_owned(), Value::Table(restate));
    }
    Value::Table(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_is_local_by_default() {
        let driver: DriverConfig = toml::from_str("").unwrap();
        assert_eq!(driver.kind, DriverKind::Local);
        assert_eq!(table(&driver).to_string(), r#"{ kind = "local" }"#);
        let text = "kind = 'restate'\n[restate]\nadvertise = 'http://workers:9080'";
        let driver: DriverConfig = toml::from_str(text).unwrap();
        assert_eq!(driver.kind, DriverKind::Restate);
        assert_eq!(
            table(&driver)["restate"]["advertise"].as_str(),
            Some("http://workers:9080")
        );
        assert!(toml::from_str::<DriverConfig>("kind = 'temporal'").is_err());
    }
}
