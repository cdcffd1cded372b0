//! What model calls cost: by the prices that a deployment sets in `[prices]`, or else by a list of public prices.

use std::collections::BTreeMap;

use neuraxis_core::{Cost, CountLabel, MicroUsd, ModelRef, Usage};

use crate::config::PriceConfig;
use crate::error::PolicyError;
use crate::policy::Policy;

/// The highest price that is accepted, in US dollars per million tokens; a higher one is most likely a typo.
const MOST: f64 = 1_000_000.0;

/// Stands for the other models of a provider.
const OTHERS: &str = "*";

/// What a model costs, in millionths of a US dollar per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Price {
    prompt: u64,
    cached: u64,
    cache_written: u64,
    completion: u64,
    reasoning: u64,
}

/// The prices of models, by provider and model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Prices(BTreeMap<String, BTreeMap<String, Price>>);

impl Prices {
    /// Checks prices, by `PROVIDER/MODEL`.
    pub(crate) fn check(config: &BTreeMap<String, PriceConfig>) -> Result<Self, PolicyError> {
        let mut prices = Self::default();
        for (name, price) in config {
            let at = format!("prices.\"{}\"", crate::names::shown(name));
            let Some((provider, model)) = name.split_once('/') else {
                let why = "its name must be PROVIDER/MODEL, or PROVIDER/* for all other models of a provider";
                return Err(PolicyError::Contradiction { at, why });
            };
            let models = prices.0.entry(provider.to_owned()).or_default();
            models.insert(model.to_owned(), Price::check(&at, price)?);
        }
        Ok(prices)
    }

    /// Returns the price of the first of the models that has one, or else that of the provider's other models.
    fn of(&self, models: [&ModelRef; 2]) -> Option<&Price> {
        let others = |model: &ModelRef| self.0.get(model.provider.as_ref())?.get(OTHERS);
        self.of_named(models)
            .or_else(|| models.into_iter().find_map(others))
    }

    /// Returns the price of the first of the models that has its own.
    fn of_named(&self, models: [&ModelRef; 2]) -> Option<&Price> {
        models.into_iter().find_map(|model| self.of_any_date(model))
    }

    /// Returns the price of a model, or else that of the model of which it is a dated version.
    fn of_any_date(&self, model: &ModelRef) -> Option<&Price> {
        let models = self.0.get(model.provider.as_ref())?;
        let named = models.get(model.model.as_ref());
        named.or_else(|| models.get(without_date(&model.model)?))
    }
}

impl Price {
    fn check(at: &str, price: &PriceConfig) -> Result<Self, PolicyError> {
        let amount = |key: &str, given: Option<f64>, otherwise: u64| match given {
            None => Ok(otherwise),
            Some(given) => micros(&format!("{at}.{key}"), given),
        };
        // An omitted price is not zero: every answer would be free.
        let needed = |key: &str, given: Option<f64>, why| match given {
            Some(given) => micros(&format!("{at}.{key}"), given),
            None => Err(PolicyError::Contradiction {
                at: at.to_owned(),
                why,
            }),
        };
        let prompt = needed(
            "prompt",
            price.prompt,
            "it lacks prompt, the price of input tokens; set it to 0.0 if they are free",
        )?;
        let completion = needed(
            "completion",
            price.completion,
            "it lacks completion, the price of output tokens; set it to 0.0 if they are free",
        )?;
        Ok(Self {
            prompt,
            cached: amount("cached", price.cached, prompt)?,
            cache_written: amount("cache_written", price.cache_written, prompt)?,
            completion,
            reasoning: amount("reasoning", price.reasoning, completion)?,
        })
    }

    /// Returns the cost of tokens, rounded up to a millionth of a US dollar. Uses only integers, so it never drifts.
    fn of(&self, usage: &Usage) -> MicroUsd {
        let cached = usage.cached.tokens.min(usage.prompt.tokens);
        let written = usage.cache_written.map_or(0, |written| written.tokens);
        let written = written.min(usage.prompt.tokens - cached);
        let reasoning = usage.reasoning.tokens.min(usage.completion.tokens);
        let amounts = [
            (usage.prompt.tokens - cached - written, self.prompt),
            (cached, self.cached),
            (written, self.cache_written),
            (usage.completion.tokens - reasoning, self.completion),
            (reasoning, self.reasoning),
        ];
        let amounts = amounts.map(|(tokens, price)| u128::from(tokens) * u128::from(price));
        let sum: u128 = amounts.iter().sum();
        MicroUsd(u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX))
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

/// Returns the name of a model without the date of its version, `-2026-11-24` or `-20261124`; `None` if it has none.
fn without_date(model: &str) -> Option<&str> {
    let is_date = |end: &str| {
        let parts: Vec<&str> = end.split('-').collect();
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        let digits = parts
            .iter()
            .all(|part| part.bytes().all(|it| it.is_ascii_digit()));
        digits && (lengths == [8] || lengths == [4, 2, 2])
    };
    [9, 11].into_iter().find_map(|length| {
        let (name, end) = model.split_at_checked(model.len().checked_sub(length)?)?;
        let is_dated = end.strip_prefix('-').is_some_and(is_date);
        is_dated.then_some(name)
    })
}

impl Policy {
    /// Returns the cost of the tokens of a model call, rounded up. `None` if the price of the model is unknown, so that
    /// an unknown price is not mistaken for a free model.
    ///
    /// Servers may answer under another name than the requested one, such as a dated version or the name behind an
    /// alias. So the price of the model that `replied` applies first, also without the date of its version, then that
    /// of the model that was `asked`, and only then that of the provider's other models.
    ///
    /// With a price that the deployment sets, the cost is as reliable as the token counts. With a price of the
    /// [list of public prices](crate::PriceList), it is an estimate. Cached tokens and tokens written to a cache are part
    /// of the prompt, and reasoning is part of the completion; each has its own price.
    #[must_use]
    pub fn cost(&self, usage: &Usage, replied: &ModelRef, asked: &ModelRef) -> Option<Cost> {
        let counted = usage.prompt.label.max(usage.completion.label);
        let models = [replied, asked];
        if let Some(price) = self.prices.of(models) {
            return Some(Cost {
                amount: price.of(usage),
                label: counted,
            });
        }
        let price = self.price_list.prices.of_named(models)?;
        Some(Cost {
            amount: price.of(usage),
            label: counted.max(CountLabel::Estimated),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_date_is_distinguished_from_other_name_endings() {
        assert_eq!(without_date("gpt-5.5-2026-04-23"), Some("gpt-5.5"));
        assert_eq!(
            without_date("claude-opus-4-5-20251101"),
            Some("claude-opus-4-5")
        );
        for other in [
            "gpt-5.5",
            "",
            "-",
            "m-2026-4-23",
            "m-2026042",
            "ä-20260423x",
            "20260423",
        ] {
            assert_eq!(without_date(other), None, "{other}");
        }
    }
}
