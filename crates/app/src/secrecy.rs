//! Keeps secrets out of logs, errors and standard error: a server may repeat a key in its error, and a user may have
//! typed one. In addition to the keys of models, these are credentials for spans, the password of the database, and
//! matches of the patterns of `[telemetry]`.
//!
//! Not for conversations: users who may read them see what was said, unchanged.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::StreamExt;
use neuraxis_cassette::Redactor;
use neuraxis_core::{LlmError, ModelRequest, Reply};
use neuraxis_ports::{CallContext, LlmClient, ModelInfo, ReplyStream, Secret, async_trait};
use percent_encoding::percent_decode_str;
use url::Url;

use crate::config::Config;
use crate::discover::secrets_of;
use crate::environment::Environment;
use crate::telemetry::ENDPOINTS;

/// The known secrets. Any part of a program may produce output, and not every part has the configuration.
static SECRETS: RwLock<Option<Redactor>> = RwLock::new(None);

/// Adds the secrets of a configuration to those that [`without_secrets`] removes. Those of earlier configurations
/// remain: their engines may still be running, and a configuration that was read may not be used.
pub fn register_secrets(config: &Config, environment: &Environment) {
    let new = secrets_of(config, environment);
    let mut secrets = SECRETS.write().unwrap_or_else(PoisonError::into_inner);
    *secrets = Some(secrets.take().unwrap_or_default().and(new));
}

/// Returns a text without the secrets of the configurations that this process has read; unchanged if it has read none.
#[must_use]
pub fn without_secrets(text: &str) -> Cow<'_, str> {
    let secrets = SECRETS.read().unwrap_or_else(PoisonError::into_inner);
    match secrets.as_ref() {
        Some(secrets) => secrets.text(text),
        None => Cow::Borrowed(text),
    }
}

/// The variables with credentials for spans and metrics, such as `authorization=Basic …,x-key=…`.
pub(crate) const OTLP_HEADERS: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
];

/// Returns the secrets that belong to no model and no tool.
pub(crate) fn secrets(config: &Config, environment: &Environment) -> Vec<Secret> {
    let variables = OTLP_HEADERS.iter();
    let variables = variables.filter_map(|name| environment.text(name));
    let headers = variables
        .flat_map(|value| value.split(','))
        .filter_map(|it| {
            let (_, value) = it.split_once('=')?;
            Some(value.trim())
        });
    let endpoints = ENDPOINTS.iter().filter_map(|name| environment.text(name));
    let addresses = std::iter::once(config.store().url()).chain(endpoints);
    let passwords = addresses.flat_map(passwords);
    let written = headers.flat_map(of_header).chain(passwords);
    written.map(|secret| Secret::new(&secret)).collect()
}

/// Returns the value of a header as it is written in a variable, as it is sent, and without its scheme.
fn of_header(written: &str) -> Vec<String> {
    let sent = decoded(written);
    let behind_scheme = sent.split_once(' ').map(|(_, secret)| secret.to_owned());
    let all = [Some(written.to_owned()), behind_scheme, Some(sent)];
    all.into_iter().flatten().collect()
}

/// Returns the passwords in an address, as they are written and as they are sent: that of the user, and any in its
/// parameters.
fn passwords(url: &str) -> Vec<String> {
    let Ok(url) = Url::parse(url) else {
        return Vec::new();
    };
    let of_user = url
        .password()
        .map(|written| [written.to_owned(), decoded(written)]);
    let parameters = url.query_pairs();
    let named = parameters.filter(|(name, _)| name == "password" || name == "sslpassword");
    let named = named.map(|(_, value)| value.into_owned());
    of_user.into_iter().flatten().chain(named).collect()
}

fn decoded(written: &str) -> String {
    percent_decode_str(written).decode_utf8_lossy().into_owned()
}

/// Returns a model client whose errors contain no secrets, whatever its server repeated in them.
pub(crate) fn redacting(client: Arc<dyn LlmClient>, redactor: &Redactor) -> Arc<dyn LlmClient> {
    Arc::new(RedactingClient {
        client,
        redactor: redactor.clone(),
    })
}

/// A model client whose errors contain no secrets.
#[derive(Debug)]
struct RedactingClient {
    client: Arc<dyn LlmClient>,
    redactor: Redactor,
}

fn cleaned(redactor: &Redactor, mut error: LlmError) -> LlmError {
    error.message = redactor.text(&error.message).into_owned();
    error
}

#[async_trait]
impl LlmClient for RedactingClient {
    async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError> {
        let reply = self.client.respond(request, ctx).await;
        reply.map_err(|error| cleaned(&self.redactor, error))
    }

    async fn stream_respond(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        let stream = self.client.stream_respond(request, ctx).await;
        let stream = stream.map_err(|error| cleaned(&self.redactor, error))?;
        let redactor = self.redactor.clone();
        Ok(stream
            .map(move |item| item.map_err(|error| cleaned(&redactor, error)))
            .boxed())
    }

    fn info(&self) -> ModelInfo {
        self.client.info()
    }

    async fn learn_context(&self) {
        self.client.learn_context().await;
    }

    async fn learn_media(&self) {
        self.client.learn_media().await;
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Sources;

    use super::*;

    #[test]
    fn secrets_and_patterns_of_the_configuration_are_redacted_once_registered() {
        let environment = Environment::new("/w").with_variable("OPENAI_API_KEY", "canary-of-a-key");
        let pattern = Sources::default().with_flag("--set", "telemetry.redact", "['HERON-\\d+']");
        let config = Config::load(&environment, &pattern).unwrap();
        register_secrets(&config, &environment);
        assert_eq!(
            without_secrets("canary-of-a-key of HERON-17"),
            "[redacted] of [redacted]"
        );
    }

    #[test]
    fn secrets_of_a_previous_configuration_are_still_redacted() {
        for key in ["sk-canary-of-before", "sk-canary-of-now"] {
            let environment =
                Environment::new(std::env::temp_dir()).with_variable("OPENAI_API_KEY", key);
            let config = Config::load(&environment, &Sources::default()).unwrap();
            register_secrets(&config, &environment);
        }
        let clean = without_secrets("sk-canary-of-before, then sk-canary-of-now");
        assert!(!clean.contains("canary"), "{clean}");
    }

    #[test]
    fn telemetry_headers_database_passwords_and_patterns_are_redacted() {
        let environment = Environment::new("/w")
            .with_variable(
                "OTEL_EXPORTER_OTLP_HEADERS",
                "authorization=Basic%20b25lOnR3bw,x-key=canary-one",
            )
            .with_variable("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "x-key=canary-two")
            .with_variable(
                "NEURAXIS_STORE__URL",
                "postgres://me:p%40ss-three@db/x?password=word-four",
            );
        let sources = Sources::default().with_flag("--set", "telemetry.redact", r"['CUST-\d+']");
        let config = Config::load(&environment, &sources).unwrap();
        let secrets = secrets_of(&config, &environment);
        for secret in [
            "Basic b25lOnR3bw",
            "b25lOnR3bw",
            "canary-one",
            "canary-two",
            "p@ss-three",
            "p%40ss-three",
            "word-four",
            "CUST-17",
        ] {
            let clean = secrets.text(&format!("so {secret} it is")).into_owned();
            assert_eq!(clean, "so [redacted] it is", "{secret}");
        }
    }
}
