//! The usage of a Chat Completions reply, from what the server reports.

use neuraxis_core::Usage;

use crate::chat::chunk::{Timings, UsageField};
use crate::reply::{Shares, TokenCounts, known_count};

/// Returns the tokens that a reply used. No server of this protocol counts the tokens of tool calls, and few count
/// those of reasoning.
pub(crate) fn usage(
    field: Option<&UsageField>,
    timings: Option<&Timings>,
    shares: Shares,
) -> Usage {
    let timed = |number: fn(&Timings) -> Option<i64>| known_count(timings.and_then(number));
    let said = |number: fn(&UsageField) -> Option<i64>| known_count(field.and_then(number));
    let hits = said(|usage| usage.prompt_cache_hit_tokens);
    let cached = said(|usage| usage.prompt_tokens_details?.cached_tokens)
        .or_else(|| said(|usage| usage.cached_tokens))
        .or(hits)
        .or_else(|| timed(|timings| timings.cache_n));
    let misses = said(|usage| usage.prompt_cache_miss_tokens);
    let both = || Some(hits?.saturating_add(misses?));
    let prompt = said(|usage| usage.prompt_tokens).or_else(both).or_else(|| {
        // The timings count cached tokens separately.
        let read = timed(|timings| timings.prompt_n)?;
        Some(read.saturating_add(timed(|timings| timings.cache_n).unwrap_or(0)))
    });
    let counts = TokenCounts {
        prompt,
        completion: said(|usage| usage.completion_tokens)
            .or_else(|| timed(|timings| timings.predicted_n)),
        total: said(|usage| usage.total_tokens),
        reasoning: said(|usage| usage.completion_tokens_details?.reasoning_tokens),
        // A server that reports usage but no cache has none, or found nothing in it.
        cached: cached.or(field.map(|_| 0)),
        cache_written: said(|usage| usage.prompt_tokens_details?.cache_write_tokens),
    };
    with_reasoning(counts).usage(shares)
}

/// Counts reasoning as part of the reply. Some servers, such as xAI's, count it separately: then it exceeds the reply's
/// count, or the total is the sum of prompt, reply and reasoning. Gemini does not report reasoning: it is the rest of
/// the total, unless that equals the cached tokens, which other servers omit from the prompt.
fn with_reasoning(counts: TokenCounts) -> TokenCounts {
    let Some(completion) = counts.completion else {
        return counts;
    };
    let sum = || counts.prompt?.checked_add(completion);
    let more = counts.total.zip(sum());
    let more = more.and_then(|(total, sum)| total.checked_sub(sum));
    let beside = match counts.reasoning {
        Some(thought) if thought > completion || more == Some(thought) => thought,
        Some(_) => 0,
        None if more == counts.cached => 0,
        None => more.unwrap_or(0),
    };
    TokenCounts {
        completion: Some(completion.saturating_add(beside)),
        reasoning: counts.reasoning.or((beside > 0).then_some(beside)),
        ..counts
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_core::TokenCount;

    use super::*;

    fn field(json: &str) -> UsageField {
        serde_json::from_str(json).unwrap()
    }

    const TEXT: Shares = Shares {
        reasoning: 0,
        text: 10,
        calls: 0,
    };

    #[test]
    fn counts_reported_by_the_server_are_measured() {
        let field = field(
            r#"{"prompt_tokens":50,"completion_tokens":9,"total_tokens":59,"prompt_tokens_details":{"cached_tokens":40},
                "completion_tokens_details":{"reasoning_tokens":3}}"#,
        );
        let usage = usage(Some(&field), None, TEXT);
        let expected = Usage {
            prompt: TokenCount::measured(50),
            completion: TokenCount::measured(9),
            total: TokenCount::measured(59),
            reasoning: TokenCount::measured(3),
            cached: TokenCount::measured(40),
            action: TokenCount::measured(0),
            cache_written: None,
        };
        assert_eq!(usage, expected);
    }

    #[test]
    fn tokens_written_to_the_cache_are_counted_if_reported() {
        for (details, written) in [
            (
                r#"{"cached_tokens":8,"cache_write_tokens":30}"#,
                Some(TokenCount::measured(30)),
            ),
            (r#"{"cache_write_tokens":0}"#, Some(TokenCount::measured(0))),
            (r#"{"cache_write_tokens":-1}"#, None),
            (r#"{"cached_tokens":8}"#, None),
            ("null", None),
        ] {
            let field = field(&format!(
                r#"{{"prompt_tokens":50,"completion_tokens":9,"prompt_tokens_details":{details}}}"#
            ));
            let usage = usage(Some(&field), None, TEXT);
            assert_eq!(usage.cache_written, written, "{details}");
            assert_eq!(usage.prompt, TokenCount::measured(50), "{details}");
        }
    }

    #[test]
    fn timings_replace_missing_usage() {
        let timings =
            serde_json::from_str(r#"{"cache_n":30,"prompt_n":5,"predicted_n":7,"prompt_ms":1.5}"#);
        let usage = usage(None, Some(&timings.unwrap()), TEXT);
        assert_eq!(usage.prompt, TokenCount::measured(35));
        assert_eq!(usage.cached, TokenCount::measured(30));
        assert_eq!(usage.total, TokenCount::measured(42));
    }

    #[test]
    fn cache_hits_and_misses_add_up_to_the_prompt() {
        let field = field(
            r#"{"completion_tokens":2,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":6}"#,
        );
        let usage = usage(Some(&field), None, TEXT);
        assert_eq!(usage.cached, TokenCount::measured(64));
        assert_eq!(usage.prompt, TokenCount::measured(70));
        assert_eq!(usage.total, TokenCount::measured(72));
    }

    #[test]
    fn top_level_cached_tokens_of_moonshot_are_read() {
        for (counts, cached) in [
            (r#""cached_tokens":40"#, 40),
            (r#""cached_tokens":40,"prompt_tokens_details":null"#, 40),
            (
                r#""cached_tokens":40,"prompt_tokens_details":{"cached_tokens":30}"#,
                30,
            ),
        ] {
            let field = field(&format!(r#"{{"prompt_tokens":50,{counts}}}"#));
            let usage = usage(Some(&field), None, TEXT);
            assert_eq!(usage.cached, TokenCount::measured(cached), "{counts}");
        }
    }

    #[test]
    fn reasoning_tokens_counted_separately_are_added_to_the_completion() {
        for (completion, reasoning, total, whole) in [
            (1_499, 2_809, r#","total_tokens":14428"#, 4_308),
            (1_499, 1_000, r#","total_tokens":12619"#, 2_499),
            (1_499, 1_000, r#","total_tokens":11619"#, 1_499),
            (1_499, 1_000, "", 1_499),
            (1_499, 1_499, "", 1_499),
            (1_499, 1_500, "", 2_999),
            (1_499, 0, r#","total_tokens":11619"#, 1_499),
        ] {
            let field = field(&format!(
                r#"{{"prompt_tokens":10120,"completion_tokens":{completion},
                    "completion_tokens_details":{{"reasoning_tokens":{reasoning}}}{total}}}"#
            ));
            let usage = usage(Some(&field), None, TEXT);
            assert_eq!(usage.completion, TokenCount::measured(whole), "{total}");
            assert_eq!(usage.reasoning, TokenCount::measured(reasoning), "{total}");
        }
    }

    #[test]
    fn reasoning_tokens_of_gemini_are_derived_from_the_total() {
        for (details, total, whole) in [
            ("", 103, 94),
            (r#","prompt_tokens_details":{"cached_tokens":8}"#, 103, 94),
            // Cached tokens, from a server that omits them from the prompt.
            (r#","prompt_tokens_details":{"cached_tokens":93}"#, 103, 1),
            ("", 10, 1),
            ("", 9, 1),
        ] {
            let field = field(&format!(
                r#"{{"prompt_tokens":9,"completion_tokens":1,"total_tokens":{total}{details}}}"#
            ));
            let usage = usage(Some(&field), None, TEXT);
            let counts = (usage.completion.tokens, usage.reasoning.tokens);
            assert_eq!(counts, (whole, whole - 1), "{details} {total}");
        }
    }

    #[test]
    fn counts_that_are_not_reported_are_unknown() {
        assert_eq!(usage(None, None, TEXT).prompt, TokenCount::UNKNOWN);
        let field = field(r#"{"prompt_tokens":-1,"completion_tokens":null}"#);
        let usage = usage(Some(&field), None, TEXT);
        assert_eq!(usage.prompt, TokenCount::UNKNOWN);
        assert_eq!(usage.total, TokenCount::UNKNOWN);
        assert_eq!(usage.cached, TokenCount::measured(0));
    }

    #[test]
    fn an_implausibly_large_count_is_unknown() {
        let field = field(
            r#"{"prompt_tokens":4611686018427387904,"completion_tokens":1000000000,"total_tokens":1000000001}"#,
        );
        let usage = usage(Some(&field), None, TEXT);
        assert_eq!(usage.prompt, TokenCount::UNKNOWN);
        assert_eq!(usage.completion, TokenCount::measured(1_000_000_000));
        assert_eq!(usage.total, TokenCount::UNKNOWN);
    }

    #[test]
    fn a_count_may_be_a_float_and_an_invalid_one_is_unknown() {
        let field = field(
            r#"{"prompt_tokens":12.0,"completion_tokens":"7","total_tokens":1e30,"cached_tokens":0.5}"#,
        );
        let usage = usage(Some(&field), None, TEXT);
        assert_eq!(usage.prompt, TokenCount::measured(12));
        assert_eq!(usage.completion, TokenCount::UNKNOWN);
        assert_eq!(usage.total, TokenCount::UNKNOWN);
        assert_eq!(usage.cached, TokenCount::measured(0));
    }

    #[test]
    fn reasoning_and_calls_are_estimated_by_share_unless_they_are_the_whole_reply() {
        let field = field(r#"{"prompt_tokens":1,"completion_tokens":100}"#);
        let mixed = Shares {
            reasoning: 30,
            text: 60,
            calls: 10,
        };
        let usage = |shares| usage(Some(&field), None, shares);
        assert_eq!(usage(mixed).reasoning, TokenCount::estimated(30));
        assert_eq!(usage(mixed).action, TokenCount::estimated(10));
        let calls = Shares {
            calls: 5,
            ..Shares::default()
        };
        assert_eq!(usage(calls).action, TokenCount::measured(100));
    }
}
