//! Public prices of models, each with its source and the day on which it was looked up. They give an estimate of what a
//! call cost if the deployment sets no price.
//!
//! A list ships with this crate, and becomes outdated; a deployment can replace it with a file of the same format.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use crate::config::PriceConfig;
use crate::error::PolicyError;
use crate::policy::Policy;
use crate::prices::Prices;

/// The list that ships with this crate.
const BUILT_IN: &str = include_str!("../public-prices.toml");

/// Public prices of models.
///
/// ```
/// use neuraxis_brainstem::PriceList;
///
/// let list = PriceList::from_toml(
///     r#"
///     checked = "2026-11-24"
///     [prices."openai/gpt-6-luna"]
///     prompt = 0.1
///     completion = 0.5
///     source = "https://developers.openai.com/api/docs/pricing"
///     "#,
/// )?;
/// assert_eq!(list.checked(), "2026-11-24");
/// # Ok::<(), neuraxis_brainstem::PolicyError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceList {
    checked: String,
    pub(crate) prices: Prices,
}

/// A list in its written form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// The day on which the whole list was last checked.
    checked: String,
    prices: BTreeMap<String, WrittenPrice>,
}

/// A price in its written form, in US dollars per million tokens. (`#[serde(flatten)]` would lose the location of an
/// unknown key.)
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPrice {
    prompt: Option<f64>,
    cached: Option<f64>,
    cache_written: Option<f64>,
    completion: Option<f64>,
    reasoning: Option<f64>,
    /// Where the price was found. Required: a price without a source cannot be verified.
    #[serde(rename = "source")]
    _source: String,
    /// The day on which it was looked up, if it differs from that of the list.
    #[serde(rename = "checked")]
    _checked: Option<String>,
}

impl PriceList {
    /// Returns the list that ships with this crate. It is read once per process.
    #[must_use]
    pub fn built_in() -> Arc<Self> {
        static READ: LazyLock<Arc<PriceList>> = LazyLock::new(|| {
            #[expect(
                clippy::expect_used,
                reason = "the text ships with the crate and a test reads it"
            )]
            Arc::new(PriceList::from_toml(BUILT_IN).expect("the list of prices is readable"))
        });
        Arc::clone(&READ)
    }

    /// Returns the text of the list that ships with this crate, including comments, as a model for a newer list.
    #[must_use]
    pub const fn built_in_text() -> &'static str {
        BUILT_IN
    }

    /// Reads a list from TOML.
    ///
    /// # Errors
    ///
    /// A [`PolicyError`] that names the location of invalid text, or the invalid price.
    pub fn from_toml(text: &str) -> Result<Self, PolicyError> {
        let written: Written =
            toml::from_str(text).map_err(|error| PolicyError::syntax(text, &error))?;
        let prices = written.prices.into_iter().map(|(name, written)| {
            let price = PriceConfig {
                prompt: written.prompt,
                cached: written.cached,
                cache_written: written.cache_written,
                completion: written.completion,
                reasoning: written.reasoning,
            };
            (name, price)
        });
        Ok(Self {
            checked: written.checked,
            prices: Prices::check(&prices.collect())?,
        })
    }

    /// Returns the day on which the list was last checked, as it is written.
    #[must_use]
    pub fn checked(&self) -> &str {
        &self.checked
    }
}

impl Policy {
    /// Replaces the list of public prices that ships with this crate.
    #[must_use]
    pub fn with_price_list(mut self, list: PriceList) -> Self {
        self.price_list = Arc::new(list);
        self
    }

    /// Returns the list of public prices that is in use.
    #[must_use]
    pub fn price_list(&self) -> &PriceList {
        &self.price_list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_price_list_is_readable_and_each_price_has_a_source() {
        let list = PriceList::built_in();
        let day = list.checked().parse::<neuraxis_core::jiff::civil::Date>();
        assert!(day.is_ok(), "{}", list.checked());
        let written: Written = toml::from_str(BUILT_IN).unwrap();
        assert!(written.prices.len() > 10);
        for (name, price) in written.prices {
            assert!(price._source.starts_with("https://"), "{name}");
            assert!(
                price.prompt > Some(0.0) && price.completion > price.prompt,
                "{name}"
            );
            assert!(price.cached < price.prompt, "{name}");
        }
    }

    #[test]
    fn an_invalid_price_list_names_the_position_of_the_error() {
        let error = |text| PriceList::from_toml(text).unwrap_err().to_string();
        let text = error("checked = \"2026-11-24\"\n[prices.\"a/b\"]\nprompt = 1.0");
        assert!(
            text.contains("source") && text.starts_with("line "),
            "{text}"
        );
        let text = error(
            "checked = \"2026-11-24\"\n[prices.\"a/b\"]\nprompt = -1.0\nsource = \"https://a\"",
        );
        assert!(text.contains("prices.\"a/b\".prompt"), "{text}");
        let text = error("checked = \"2026-11-24\"\n[prices.b]\nsource = \"https://a\"");
        assert!(text.contains("PROVIDER/MODEL"), "{text}");
    }
}
