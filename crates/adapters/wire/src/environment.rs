//! The key of a provider from where its own libraries look for it: an environment variable.
//!
//! Not for a configuration file's `api_key_env`, which names any variable and is read by whoever reads the file.

use neuraxis_ports::{ConnectError, KeyDiscovery, Provider, Secret};

/// What the environment says of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Environment {
    /// The key.
    pub key: Secret,
    /// Another address than the provider's own, if one is named.
    pub base_url: Option<String>,
}

/// A key is not where it was looked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the environment variable {variable}, which is to hold the key, is not set or is empty: set it, or give the key as `api_key`"
)]
#[non_exhaustive]
pub struct NoKey {
    /// The variable.
    pub variable: &'static str,
}

impl Environment {
    /// Looks for the key of a provider, and for its address, in the variables of this process.
    ///
    /// # Errors
    ///
    /// [`NoKey`], if the variable of the key is not set, is empty, or is not UTF-8.
    pub fn read(discovery: KeyDiscovery) -> Result<Self, NoKey> {
        Self::look_up(discovery, |name| std::env::var(name).ok())
    }

    /// Puts the key of a provider, and its address where one is named, from the variables of this process into a
    /// configuration: what `from_env` of each does.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn fill<P: Provider>(
        base_url: &mut String,
        api_key: &mut Option<Secret>,
    ) -> Result<(), NoKey> {
        if let Some(discovery) = P::KEY_DISCOVERY {
            Self::read(discovery)?.put(base_url, api_key);
        }
        Ok(())
    }

    fn put(self, base_url: &mut String, api_key: &mut Option<Secret>) {
        if let Some(named) = self.base_url {
            *base_url = named;
        }
        *api_key = Some(self.key);
    }

    /// As [`read`](Self::read), in variables that somebody else looks up.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn look_up(
        discovery: KeyDiscovery,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, NoKey> {
        let set = |name| variable(name).filter(|value| !value.trim().is_empty());
        let key = set(discovery.key).ok_or(NoKey {
            variable: discovery.key,
        })?;
        Ok(Self {
            key: Secret::new(&key),
            base_url: set(discovery.base_url).map(|url| url.trim().to_owned()),
        })
    }
}

impl From<NoKey> for ConnectError {
    fn from(error: NoKey) -> Self {
        Self::new("api_key_env", error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISCOVERY: KeyDiscovery = KeyDiscovery {
        key: "EXAMPLE_API_KEY",
        base_url: "EXAMPLE_BASE_URL",
        model_setting: "example_model",
        model: "example-1",
    };

    #[test]
    fn a_key_is_found_where_it_usually_is_and_an_address_where_one_is_named() {
        let set = |name: &str| (name == DISCOVERY.key).then(|| " sk-canary\n".to_owned());
        let found = Environment::look_up(DISCOVERY, set).unwrap();
        assert_eq!((found.key.expose(), found.base_url), ("sk-canary", None));
        let found = Environment::look_up(DISCOVERY, |name| Some(format!("at {name}"))).unwrap();
        assert_eq!(found.base_url.as_deref(), Some("at EXAMPLE_BASE_URL"));
        let (mut base_url, mut key) = ("usual".to_owned(), None);
        Environment::look_up(DISCOVERY, set)
            .unwrap()
            .put(&mut base_url, &mut key);
        assert_eq!((base_url.as_str(), key.is_some()), ("usual", true));
        found.put(&mut base_url, &mut key);
        assert_eq!(base_url, "at EXAMPLE_BASE_URL");
    }

    #[test]
    fn a_key_that_is_missing_is_asked_for_by_the_name_of_its_variable() {
        for value in [None, Some("  ")] {
            let error = Environment::look_up(DISCOVERY, |_| value.map(str::to_owned)).unwrap_err();
            assert!(
                error.to_string().contains("variable EXAMPLE_API_KEY,"),
                "{error}"
            );
            assert_eq!(ConnectError::from(error).key(), "api_key_env");
        }
    }
}
