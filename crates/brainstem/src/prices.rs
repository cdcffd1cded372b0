//! What model calls cost.

use std::collections::BTreeMap;

use neuraxis_core::{MicroUsd, ModelRef, Usage};

use crate::config::PriceConfig;
use crate::error::PolicyError;
use crate::policy::Policy;

/// The highest price that is no slip of the pen, in US dollars per million tokens.
const MOST: f64 = 1_000_000.0;

/// What a model costs, in millionths of a US dollar per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Price {
    prompt: u64,
    cached: u64,
    completion: u64,
    reasoning: u64,
}

/// The prices of models, by `provider/model`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prices(BTreeMap<String, Price>);

impl Prices {
    pub(crate) fn check(config: &BTreeMap<String, PriceConfig>) -> Result<Self, PolicyError> {
        let check = |(name, price): (&String, &PriceConfig)| {
            let at = format!("prices.\"{}\"", crate::names::shown(name));
            if !name.contains('/') {
                let why = "its name is PROVIDER/MODEL, or PROVIDER/* for the others of a provider";
                return Err(PolicyError::Contradiction { at, why });
            }
            let amount = |key: &str, given: Option<f64>, otherwise: u64| match given {
                None => Ok(otherwise),
                Some(given) => micros(&format!("{at}.{key}"), given),
            };
            let prompt = amount("prompt", price.prompt, 0)?;
            let completion = amount("completion", price.completion, 0)?;
            Ok((
                name.clone(),
                Price {
                    prompt,
                    cached: amount("cached", price.cached, prompt)?,
                    completion,
                    reasoning: amount("reasoning", price.reasoning, completion)?,
                },
            ))
        };
        config.iter().map(check).collect::<Result<_, _>>().map(Self)
    }

    fn of(&self, model: &ModelRef) -> Option<&Price> {
        // Nothing is looked up, and no name put together, where nothing has a price.
        if self.0.is_empty() {
            return None;
        }
        let named = self.0.get(&format!("{}/{}", model.provider, model.model));
        named.or_else(|| self.0.get(&format!("{}/*", model.provider)))
    }
}

fn micros(at: &str, given: f64) -> Result<u64, PolicyError> {
    if !(0.0..=MOST).contains(&given) {
        return Err(PolicyError::Price {
            at: at.to_owned(),
            given,
        });
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be from 0 to a million above"
    )]
    let micros = (given * 1_000_000.0).round() as u64;
    Ok(micros)
}

impl Policy {
    /// Returns what the tokens of a model call cost, rounded up; `None` where the model has no price, so that nobody
    /// takes unknown for free.
    ///
    /// Cached tokens are a part of the prompt and reasoning a part of the completion, each with a price of its own.
    #[must_use]
    pub fn cost(&self, usage: &Usage, model: &ModelRef) -> Option<MicroUsd> {
        let price = self.prices.of(model)?;
        let cached = usage.cached.tokens.min(usage.prompt.tokens);
        let reasoning = usage.reasoning.tokens.min(usage.completion.tokens);
        let amounts = [
            (usage.prompt.tokens - cached, price.prompt),
            (cached, price.cached),
            (usage.completion.tokens - reasoning, price.completion),
            (reasoning, price.reasoning),
        ];
        let sum: u128 = amounts
            .iter()
            .map(|(tokens, price)| u128::from(*tokens) * u128::from(*price))
            .sum();
        Some(MicroUsd(
            u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX),
        ))
    }
}
