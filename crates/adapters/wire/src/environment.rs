//! Reads a provider's key from the environment variable that its own libraries use.
//!
//! Not for a configuration file's `api_key_env`, which names any variable and is resolved by the code that reads the
//! file.

use neuraxis_ports::{ConnectError, KeyDiscovery, Provider, Secret};

/// The variable with a provider's key is not set, or is empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the environment variable {variable}, which must hold the key, is not set or is empty: set it, or set `api_key`"
)]
#[non_exhaustive]
pub struct NoKey {
    /// The variable.
    pub variable: &'static str,
}

/// Copies a provider's key, and its address if one is set, from the variables of this process into a configuration.
/// Each provider's `from_env` does this. Does not compile for a provider without [`Provider::KEY_DISCOVERY`].
///
/// # Errors
///
/// [`NoKey`] if the key's variable is not set, is empty, or is not UTF-8.
pub fn key_from_env<P: Provider>(
    base_url: &mut String,
    api_key: &mut Option<Secret>,
) -> Result<(), NoKey> {
    const {
        assert!(
            P::KEY_DISCOVERY.is_some(),
            "`Provider::KEY_DISCOVERY` says where the key is looked for"
        );
    }
    let variable = |name: &str| std::env::var(name).ok();
    match P::KEY_DISCOVERY {
        Some(discovery) => fill(discovery, variable, base_url, api_key),
        None => Ok(()),
    }
}

fn fill(
    discovery: KeyDiscovery,
    variable: impl Fn(&str) -> Option<String>,
    base_url: &mut String,
    api_key: &mut Option<Secret>,
) -> Result<(), NoKey> {
    let set = |name| variable(name).filter(|value| !value.trim().is_empty());
    let key = set(discovery.key).ok_or(NoKey {
        variable: discovery.key,
    })?;
    *api_key = Some(Secret::new(&key));
    if let Some(named) = set(discovery.base_url) {
        named.trim().clone_into(base_url);
    }
    Ok(())
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
    fn the_api_key_and_base_url_are_read_from_their_variables() {
        let (mut base_url, mut key) = ("usual".to_owned(), None);
        let set = |name: &str| (name == DISCOVERY.key).then(|| " sk-canary\n".to_owned());
        fill(DISCOVERY, set, &mut base_url, &mut key).unwrap();
        assert_eq!(key.as_ref().map(Secret::expose), Some("sk-canary"));
        assert_eq!(base_url, "usual");
        let set = |name: &str| Some(format!("at {name} "));
        fill(DISCOVERY, set, &mut base_url, &mut key).unwrap();
        assert_eq!(key.as_ref().map(Secret::expose), Some("at EXAMPLE_API_KEY"));
        assert_eq!(base_url, "at EXAMPLE_BASE_URL");
    }

    #[test]
    fn a_missing_api_key_is_reported_with_its_variable() {
        for value in [None, Some("  ")] {
            let (mut base_url, mut key) = (String::new(), None);
            let set = |_: &str| value.map(str::to_owned);
            let error = fill(DISCOVERY, set, &mut base_url, &mut key).unwrap_err();
            assert!(
                error.to_string().contains("variable EXAMPLE_API_KEY,"),
                "{error}"
            );
            assert_eq!(ConnectError::from(error).key(), "api_key_env");
        }
    }
}
