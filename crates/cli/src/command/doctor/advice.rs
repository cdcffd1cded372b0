//! How to fix an error of a model.

use neuraxis::core::{LlmError, LlmErrorKind};
use neuraxis_app::{Endpoint, KeySource, ProviderKind};

/// Returns how to fix an error.
pub(super) fn fix(endpoint: &Endpoint, error: &LlmError) -> String {
    let role = &endpoint.role;
    if let Some(advice) = endpoint.advice(error) {
        return advice;
    }
    match &error.kind {
        LlmErrorKind::Connection if error.is_certificate_refused => {
            format!(
                "read what the error says about the certificate: fix this machine's clock or its trusted certificates \
                 if they are the cause (for a company's own authority, set models.{role}.ca_file); otherwise the \
                 server's operator must replace the certificate"
            )
        }
        LlmErrorKind::Connection => unreachable(endpoint),
        LlmErrorKind::Timeout => format!(
            "check whether the server is busy; if it is only slow, set models.{role}.timeouts"
        ),
        LlmErrorKind::Unauthorized => key(endpoint),
        LlmErrorKind::QuotaExhausted => {
            "add credit to the account that the key belongs to, or use another key".to_owned()
        }
        LlmErrorKind::RateLimited { .. } => {
            "wait a minute, or ask the provider for a higher limit".to_owned()
        }
        LlmErrorKind::ModelNotFound => {
            format!("set models.{role}.model to one that `neuraxis models` lists")
        }
        LlmErrorKind::ContextOverflow { .. } => {
            "give the model a larger context (-c for llama-server): runs need far more than this request"
                .to_owned()
        }
        LlmErrorKind::Loading => "wait until the server has loaded its model".to_owned(),
        LlmErrorKind::InvalidResponse => format!(
            "the address may not be a model server's, or the server may use another protocol: check \
             models.{role}.base_url"
        ),
        LlmErrorKind::BadRequest => {
            format!("check models.{role}.base_url and models.{role}.model")
        }
        _ => "try again; if it keeps failing, check the server's log".to_owned(),
    }
}

fn unreachable(endpoint: &Endpoint) -> String {
    let role = &endpoint.role;
    let address = endpoint.address.as_deref().unwrap_or_default();
    match endpoint.provider().kind() {
        ProviderKind::OwnServer => {
            format!("start the server at {address}, or set models.{role}.base_url")
        }
        _ => format!(
            "check the network, the proxy (models.{role}.proxy, or else HTTPS_PROXY) and models.{role}.base_url"
        ),
    }
}

fn key(endpoint: &Endpoint) -> String {
    let role = &endpoint.role;
    match &endpoint.key {
        KeySource::None => format!(
            "the server requires a key: export it, and set models.{role}.api_key_env to its variable"
        ),
        source => {
            format!("check the key in {source}: it may be another provider's, revoked or expired")
        }
    }
}
