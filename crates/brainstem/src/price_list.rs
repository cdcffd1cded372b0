//! Public prices of models, each with its source and the day on which it was looked up: what a call cost where the deployment
//! says nothing of it, as an estimate.
//!
//! A list ships with this crate, and grows old; a deployment puts a file of the same form in its place.

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

/// A list as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// The day on which the list was last looked through as a whole.
    checked: String,
    prices: BTreeMap<String, WrittenPrice>,
}

/// A price as it is written, in US dollars per million tokens. (`#[serde(flatten)]` would lose the place of an unknown key.)
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPrice {
    prompt: Option<f64>,
    cached: Option<f64>,
    cache_written: Option<f64>,
    completion: Option<f64>,
    reasoning: Option<f64>,
    /// Where it was found. Has to be set: a price without a source cannot be looked up again.
    #[serde(rename = "source")]
    _source: String,
    /// The day on which it was looked up, if not that of the list.
    #[serde(rename = "checked")]
    _checked: Option<String>,
}

impl PriceList {
    /// Returns the list that ships with this crate. It is read once in a process.
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

    /// Returns the text of the list that ships with this crate, comments included: a form for a newer one.
    #[must_use]
    pub const fn built_in_text() -> &'static str {
        BUILT_IN
    }

    /// Reads a list from TOML.
    ///
    /// # Errors
    ///
    /// A [`PolicyError`] that names the place of what is no such list, or the price that cannot stand.
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

    /// Returns the day on which the list was last looked through, as it is written.
    #[must_use]
    pub fn checked(&self) -> &str {
        &self.checked
    }
}

impl Policy {
    /// Puts a list of public prices in the place of the one that ships with this crate.
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
    fn the_list_that_ships_is_readable_and_each_price_has_a_source() {
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
    fn a_list_that_cannot_be_used_says_where() {
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
