//! Keeps secrets out of what is said on standard error: a server may repeat a key in its error, and a user may have typed one.
//!
//! Not for answers: what a model says to the user is the user's own.

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

use neuraxis::cassette::Redactor;
use neuraxis_app::{Config, Environment, secrets_of};

/// What is known to be secret. Every part of the program may have something to say, and none of them has the configuration.
static SECRETS: RwLock<Option<Redactor>> = RwLock::new(None);

/// Keeps the secrets of a configuration out from here on, in place of those of another.
pub(crate) fn keep_out(config: &Config, environment: &Environment) {
    let mut secrets = SECRETS.write().unwrap_or_else(PoisonError::into_inner);
    *secrets = Some(secrets_of(config, environment));
}

/// Returns a text without secrets; as it is where no configuration was read yet.
pub(crate) fn without_secrets(text: &str) -> Cow<'_, str> {
    let secrets = SECRETS.read().unwrap_or_else(PoisonError::into_inner);
    match secrets.as_ref() {
        Some(secrets) => secrets.text(text),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_app::Sources;

    use super::*;

    #[test]
    fn what_the_configuration_wants_out_is_taken_out_from_then_on() {
        let environment = Environment::new("/w").with_variable("OPENAI_API_KEY", "canary-of-a-key");
        let pattern = Sources::default().with_flag("--set", "telemetry.redact", "['HERON-\\d+']");
        let config = Config::load(&environment, &pattern).unwrap();
        keep_out(&config, &environment);
        assert_eq!(
            without_secrets("canary-of-a-key of HERON-17"),
            "[redacted] of [redacted]"
        );
    }
}
