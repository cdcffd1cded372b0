//! What a profile does to arguments before they are checked.

use crate::json::JsonText;
use crate::profile::Arguments;

/// Returns the arguments as they are checked and run; what the model wrote stays in the history.
pub(super) fn preprocessed(rule: Arguments, written: &JsonText) -> JsonText {
    match rule {
        Arguments::AsWritten => written.clone(),
        Arguments::Lenient => lenient(written),
    }
}

fn lenient(written: &JsonText) -> JsonText {
    let text = without_fence(written.as_str());
    if text.is_empty() {
        return JsonText::from_text("{}");
    }
    match serde_json::from_str::<String>(text) {
        Ok(inner) if inner.trim_start().starts_with('{') => JsonText::from_text(inner),
        _ if text.len() == written.as_str().len() => written.clone(),
        _ => JsonText::from_text(text),
    }
}

/// Takes a Markdown code fence off.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text
        .strip_prefix("```")
        .and_then(|text| text.strip_suffix("```"))
    else {
        return text;
    };
    // The language, if one is named, ends with the line.
    inner
        .split_once('\n')
        .filter(|(language, _)| !language.contains('{'))
        .map_or(inner, |(_, rest)| rest)
        .trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_small_models_get_wrong_is_put_right() {
        for (written, meant) in [
            ("", "{}"),
            ("  ", "{}"),
            ("{\"a\":1}", "{\"a\":1}"),
            ("```json\n{\"a\":1}\n```", "{\"a\":1}"),
            ("```{\"a\":1}```", "{\"a\":1}"),
            (r#""{\"a\":1}""#, "{\"a\":1}"),
            // Not ours to guess: the model is told.
            ("[1]", "[1]"),
            ("\"x\"", "\"x\""),
            ("{\"a\":", "{\"a\":"),
        ] {
            let written = JsonText::from_text(written);
            assert_eq!(preprocessed(Arguments::Lenient, &written).as_str(), meant);
            assert_eq!(preprocessed(Arguments::AsWritten, &written), written);
        }
    }
}
