//! Keeps secrets out of logs and of what clients are told went wrong: keys, what lets spans into a backend, and what the
//! patterns of `[telemetry]` match.
//!
//! Not for conversations: what was said is told to whoever may read it as it was said.

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

use neuraxis_app::{Config, Environment, Redactor, secrets_of};
use serde_json::{Map, Value};

/// What is known to be secret. Whatever logs has no configuration, and the log is the process's own.
static SECRETS: RwLock<Option<Redactor>> = RwLock::new(None);

/// Keeps the secrets of a configuration out from here on, and those of former ones still: the engine of one of them may be at
/// work, and one that is read may not be taken.
pub(crate) fn keep_out(config: &Config, environment: &Environment) {
    let new = secrets_of(config, environment);
    let mut secrets = SECRETS.write().unwrap_or_else(PoisonError::into_inner);
    *secrets = Some(secrets.take().unwrap_or_default().and(new));
}

/// Returns a text without secrets; as it is where no configuration was read yet.
#[must_use]
pub(crate) fn without_secrets(text: &str) -> Cow<'_, str> {
    let secrets = SECRETS.read().unwrap_or_else(PoisonError::into_inner);
    match secrets.as_ref() {
        Some(secrets) => secrets.text(text),
        None => Cow::Borrowed(text),
    }
}

/// Takes secrets out of the texts of an object.
pub(crate) fn clean_members(members: &mut Map<String, Value>) {
    for value in members.values_mut() {
        if let Value::String(text) = value
            && let Cow::Owned(clean) = without_secrets(text)
        {
            *text = clean;
        }
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_app::Sources;

    use super::*;

    #[test]
    fn secrets_of_a_former_configuration_are_kept_out_still() {
        for key in ["sk-canary-of-before", "sk-canary-of-now"] {
            let environment =
                Environment::new(std::env::temp_dir()).with_variable("OPENAI_API_KEY", key);
            let config = Config::load(&environment, &Sources::default()).unwrap();
            keep_out(&config, &environment);
        }
        let clean = without_secrets("sk-canary-of-before, then sk-canary-of-now");
        assert!(!clean.contains("canary"), "{clean}");
    }
}
