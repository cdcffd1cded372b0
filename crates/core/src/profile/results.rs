//! Effects of a tool's results on the loop.

use serde::{Deserialize, Serialize};

use crate::effect::ToolChoice;
use crate::ids::ToolName;
use crate::json::JsonText;
use crate::outcome::Keep;
use crate::texts::ResultTexts;

/// What the results of one tool change, for calls that returned a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ResultRule {
    /// The tool.
    pub tool: ToolName,
    /// Maximum number of characters of a result that a model reads; the record contains all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_chars: Option<u32>,
    /// Whether later history keeps the result, overriding the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Keep>,
    /// The tool choice of the next turn only (loop rule 18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<ToolChoice>,
    /// A message to the model after the batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl ResultRule {
    /// Creates a rule that changes nothing yet.
    #[must_use]
    pub const fn new(tool: ToolName) -> Self {
        Self {
            tool,
            max_chars: None,
            keep: None,
            then: None,
            note: None,
        }
    }

    /// Returns the result in the form that a model reads.
    pub(crate) fn edited(&self, value: &JsonText, texts: &ResultTexts) -> JsonText {
        let most = self
            .max_chars
            .map(|most| usize::try_from(most).unwrap_or(usize::MAX));
        let cut = most.and_then(|most| value.as_str().char_indices().nth(most));
        let Some((end, _)) = cut else {
            return value.clone();
        };
        let kept = value.as_str().get(..end).unwrap_or_default();
        let in_all = value.as_str().chars().count();
        JsonText::string(&(texts.shortened)(kept, in_all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::Texts;

    #[test]
    fn a_result_is_cut_only_if_it_is_too_long() {
        let texts = &Texts::of(4).results;
        let mut rule = ResultRule::new("read_file".parse().unwrap());
        let value = JsonText::from_text(r#""äöü""#);
        assert_eq!(rule.edited(&value, texts), value);
        rule.max_chars = Some(5);
        assert_eq!(rule.edited(&value, texts), value);
        rule.max_chars = Some(2);
        assert_eq!(
            rule.edited(&value, texts).as_str(),
            r#""\"ä… [cut: 5 characters in all]""#
        );
    }
}
