//! `neuraxis models`: lists what each model's endpoint offers. No model is called.

use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use futures_util::future::join_all;
use neuraxis::Role;
use neuraxis::core::LlmError;
use neuraxis::core::log::describe::counted;
use neuraxis_app::{
    Endpoint, KeySource, ModelError, OfferedModels, Readiness, UnnamedModel, discover,
};
use serde_json::{Value, json};

use crate::error::CommandError;
use crate::glyphs::ELLIPSIS;
use crate::harmless::one_line;
use crate::output::{ListFormat, Output};
use crate::progress::{self, Progress};
use crate::setup::Setup;

/// The time limit for an endpoint to say what it offers. It exceeds the default connection timeout of 10 seconds, so
/// that an unreachable endpoint can be told from a silent one.
pub(crate) const WITHIN: Duration = Duration::from_secs(12);

/// The maximum number of model names in the text output.
const MAX_SHOWN: usize = 20;

const EXAMPLES: &str = "\
Examples:
  neuraxis models
  neuraxis models --set models.reasoning.provider=llama
  neuraxis models --format json | jq -r '.[] | select(.role == \"reasoning\") | .models[]'";

/// List the available models, by role
///
/// Each configured endpoint is asked what it offers, or the one that was found if none is configured. This is free of
/// charge. The model that serves the role is marked with a *. The exit code is 1 if an endpoint cannot say what it
/// offers.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Models {
    /// What to print: a list, or a JSON array with all names
    #[arg(long, value_enum, default_value_t = ListFormat::Text)]
    format: ListFormat,
}

/// A role, with what is known of its endpoint.
struct Listing {
    role: Role,
    found: Found,
}

enum Found {
    Endpoint(Endpoint, Result<OfferedModels, LlmError>),
    /// An endpoint whose model has not been chosen yet.
    Unnamed(Box<UnnamedModel>, Result<OfferedModels, LlmError>),
    Unusable(ModelError),
}

impl Models {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let loaded = setup.load()?;
        let progress = Progress::new();
        progress.activity("listing models");
        let discovery = discover(&loaded.config, &loaded.environment).await;
        let notices: Vec<String> = discovery.notices().collect();
        let requests = discovery.endpoints.into_iter().map(ask);
        let listings = join_all(requests).await;
        progress.hide();
        loaded.warn_settings_ignored();
        for notice in &notices {
            progress::notice(notice);
        }
        Output::new().list(self.format, listings.iter(), in_text, in_json)?;
        match listings.iter().filter(|listing| listing.failed()).count() {
            0 => Ok(()),
            failed => {
                let all = counted(listings.len() as u64, "endpoint");
                let their = if failed == 1 { "its" } else { "their" };
                let error = anyhow!("{failed} of {all} did not list {their} models");
                Err(CommandError::failed(error).hint("`neuraxis doctor` shows how to fix this"))
            }
        }
    }
}

impl Listing {
    fn failed(&self) -> bool {
        !matches!(
            self.found,
            Found::Endpoint(_, Ok(_)) | Found::Unnamed(_, Ok(_))
        )
    }
}

async fn ask((role, endpoint): (Role, Result<Endpoint, ModelError>)) -> Listing {
    let found = match endpoint {
        Ok(endpoint) => {
            let offer = endpoint.offer(WITHIN).await;
            Found::Endpoint(endpoint, offer)
        }
        Err(ModelError::NoModel { server, .. }) => {
            let offer = server.offer(WITHIN).await;
            Found::Unnamed(server, offer)
        }
        Err(error) => Found::Unusable(error),
    };
    Listing { role, found }
}

fn in_text(listing: &Listing) -> String {
    let role = &listing.role;
    let (described, listed) = match &listing.found {
        Found::Unusable(error) => {
            return format!("{role}\n    failed: {}\n", one_line(&error.to_string()));
        }
        Found::Endpoint(endpoint, offer) => {
            let serves = |name: &str| endpoint.is_asked(name);
            let listed = offer.as_ref().map(|offer| offered(offer, serves));
            (described(endpoint), listed)
        }
        Found::Unnamed(server, offer) => {
            let listed = offer.as_ref().map(|offer| {
                let names = offered(offer, |_| false);
                format!("    no model is named: set models.{role}.model to one of these\n{names}")
            });
            (described_unnamed(server), listed)
        }
    };
    let listed =
        listed.unwrap_or_else(|error| format!("    failed: {}\n", one_line(&error.to_string())));
    format!("{role}: {described}\n{listed}")
}

fn described_unnamed(server: &UnnamedModel) -> String {
    let (provider, address) = (server.provider, &server.address);
    match &server.key {
        KeySource::None => format!("{provider} at {address}"),
        source => format!("{provider} at {address}, key in {source}"),
    }
}

/// Lists what an endpoint offers; `serves` returns whether a model is the one in use.
fn offered(offer: &OfferedModels, serves: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    if offer.readiness == Readiness::Loading {
        text.push_str("    still loading\n");
    }
    if let Some(tokens) = offer.context_tokens {
        text.push_str(&format!("    context: {tokens} tokens\n"));
    }
    // The model in use must not be among those left out.
    let (serving, others): (Vec<_>, Vec<_>) = offer.models.iter().partition(|name| serves(name));
    for name in &serving {
        text.push_str(&format!("  * {}\n", one_line(name)));
    }
    for name in others.iter().take(MAX_SHOWN) {
        text.push_str(&format!("    {}\n", one_line(name)));
    }
    if others.len() > MAX_SHOWN {
        let more = others.len() - MAX_SHOWN;
        text.push_str(&format!(
            "    {ELLIPSIS} and {more} more: --format json lists them all\n"
        ));
    }
    text
}

fn in_json(listing: &Listing) -> Value {
    let role = listing.role.as_str();
    let (mut value, offer) = match &listing.found {
        Found::Unusable(error) => {
            return json!({"role": role, "error": {"message": error.to_string()}});
        }
        Found::Endpoint(endpoint, offer) => {
            let described = json!({
                "role": role,
                "provider": endpoint.provider().as_str(),
                "model": endpoint.info().model.model,
                "address": endpoint.address,
            });
            (described, offer)
        }
        Found::Unnamed(server, offer) => {
            let described = json!({
                "role": role,
                "provider": server.provider.as_str(),
                "model": null,
                "address": server.address,
            });
            (described, offer)
        }
    };
    let more = match offer {
        Ok(offer) => json!({
            "loading": offer.readiness == Readiness::Loading,
            "context_tokens": offer.context_tokens,
            "models": offer.models,
        }),
        Err(error) => json!({"error": error}),
    };
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    value
}

/// Describes a model's endpoint: the model, the address, and the key.
pub(crate) fn described(endpoint: &Endpoint) -> String {
    let mut text = endpoint.info().model.to_string();
    if let Some(address) = &endpoint.address {
        text.push_str(&format!(" at {address}"));
    }
    match &endpoint.key {
        KeySource::None => text,
        source => format!("{text}, key in {source}"),
    }
}
