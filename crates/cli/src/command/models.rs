//! `neuraxis models`: what each model's endpoint offers. No model is asked anything.

use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use futures_util::future::join_all;
use neuraxis::Role;
use neuraxis::core::LlmError;
use neuraxis_app::{Endpoint, ModelError, Offer, Readiness, discover};
use serde_json::{Value, json};

use crate::error::CommandError;
use crate::harmless::one_line;
use crate::output::Output;
use crate::progress::Progress;
use crate::setup::Setup;
use crate::wording::{described, offers};

/// How long an endpoint may take to say what it offers.
pub(crate) const WITHIN: Duration = Duration::from_secs(5);

/// How many names of models are shown to people.
const MAX_SHOWN: usize = 20;

const EXAMPLES: &str = "\
Examples:
  neuraxis models
  neuraxis models --set models.reasoning.provider=llama
  neuraxis models --format json | jq -r '.[] | select(.role == \"reasoning\") | .models[]'";

/// List the models that can be had, by role
///
/// Each configured endpoint is asked what it offers, or the one that was found if none is configured. Nothing is paid
/// for. The model that serves the role is marked with a *. Exit code 1 if an endpoint cannot say what it offers.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Models {
    /// What to print: a list for people, or a JSON array with all names
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// What to print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// A JSON array
    Json,
}

/// A role, with what is known of its endpoint.
struct Listing {
    role: Role,
    endpoint: Result<(Endpoint, Result<Offer, LlmError>), ModelError>,
}

impl Models {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let (environment, config) = setup.surroundings()?;
        let mut progress = Progress::new();
        progress.activity("asking what models there are");
        let discovery = discover(&config, &environment).await;
        let asked = discovery.endpoints.into_iter().map(ask);
        let listings = join_all(asked).await;
        progress.hide();
        if let Some(notice) = discovery.choice.notice() {
            progress.notice(&notice);
        }
        let text = match self.format {
            Format::Text => listings.iter().map(in_text).collect(),
            Format::Json => {
                let list: Value = listings.iter().map(in_json).collect();
                format!("{list:#}\n")
            }
        };
        Output::new().text(&text)?;
        match listings.iter().filter(|listing| listing.failed()).count() {
            0 => Ok(()),
            failed => {
                let all = listings.len();
                let error = anyhow!("{failed} of {all} endpoints did not say what they offer");
                Err(CommandError::failed(error).hint("`neuraxis doctor` says how to fix that"))
            }
        }
    }
}

impl Listing {
    fn failed(&self) -> bool {
        !matches!(self.endpoint, Ok((_, Ok(_))))
    }
}

async fn ask((role, endpoint): (Role, Result<Endpoint, ModelError>)) -> Listing {
    let endpoint = match endpoint {
        Ok(endpoint) => {
            let offer = endpoint.offer(WITHIN).await;
            Ok((endpoint, offer))
        }
        Err(error) => Err(error),
    };
    Listing { role, endpoint }
}

fn in_text(listing: &Listing) -> String {
    let role = &listing.role;
    match &listing.endpoint {
        Err(error) => format!("{role}\n    failed: {}\n", one_line(&error.to_string())),
        Ok((endpoint, Err(error))) => {
            let described = described(endpoint);
            format!(
                "{role}: {described}\n    failed: {}\n",
                one_line(&error.to_string())
            )
        }
        Ok((endpoint, Ok(offer))) => {
            format!(
                "{role}: {}\n{}",
                described(endpoint),
                offered(endpoint, offer)
            )
        }
    }
}

fn offered(endpoint: &Endpoint, offer: &Offer) -> String {
    let mut text = String::new();
    if offer.readiness == Readiness::Loading {
        text.push_str("    it is still loading\n");
    }
    if let Some(tokens) = offer.context_tokens {
        text.push_str(&format!("    context: {tokens} tokens\n"));
    }
    let serves = |name: &&String| offers(endpoint, name);
    // The one that matters must not be among those that are left out.
    let (serving, others): (Vec<_>, Vec<_>) = offer.models.iter().partition(serves);
    for name in &serving {
        text.push_str(&format!("  * {}\n", one_line(name)));
    }
    for name in others.iter().take(MAX_SHOWN) {
        text.push_str(&format!("    {}\n", one_line(name)));
    }
    if others.len() > MAX_SHOWN {
        let more = others.len() - MAX_SHOWN;
        text.push_str(&format!(
            "    … and {more} more: --format json has them all\n"
        ));
    }
    text
}

fn in_json(listing: &Listing) -> Value {
    let role = listing.role.as_str();
    match &listing.endpoint {
        Err(error) => json!({"role": role, "error": {"message": error.to_string()}}),
        Ok((endpoint, offer)) => {
            let mut value = json!({
                "role": role,
                "provider": endpoint.provider().as_str(),
                "model": endpoint.info().model.model,
                "address": endpoint.address,
            });
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
    }
}
