//! `calculate` is exact, bounded, and says what is wrong with an expression.

use std::time::Duration;

use neuraxis_ports::ToolError;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::limits::{
    CALCULATION_TIMEOUT, EXPRESSION_MAX_CHARS, EXPRESSION_MAX_DEPTH, RESULT_MAX_CHARS,
};
use crate::support::{call, context};

async fn calculated(expression: &str) -> Result<Value, ToolError> {
    let tool = neuraxis_tools::calculate().unwrap();
    call(
        tool.as_ref(),
        json!({ "expression": expression }),
        context(),
    )
    .await
}

async fn refusal(expression: &str) -> String {
    calculated(expression).await.unwrap_err().message
}

#[tokio::test]
async fn results_are_exact_when_possible() {
    for (expression, expected) in [
        ("2 + 2", "4"),
        ("(17.5 + 3) * 12", "246"),
        ("0.1 + 0.2", "0.3"),
        ("123456789 * 987654321", "121932631112635269"),
        ("2^100", "1267650600228229401496703205376"),
        ("2^3^2", "512"),
        ("2**10", "1024"),
        ("-2^2", "-4"),
        ("17 mod 5", "2"),
        ("5% of 80", "4"),
        ("20!", "2432902008176640000"),
        ("sqrt(144)", "12"),
        ("7 × 6 ÷ 2 − 1", "20"),
        ("1.5e3", "1500"),
        ("1,000 * 3", "3000"),
        ("1,234,567.25 + 1", "1234568.25"),
        ("200 + 10% of 200", "220"),
        ("5% + 3% to %", "8%"),
        ("1e-2% + 1% to %", "1.01%"),
        ("-5% of 80", "-4"),
        ("80 * (1 - 15%)", "68"),
        ("(1 + 5%)^2", "1.1025"),
        ("1 + 10%", "1.1"),
        ("80 * (1 - (5% + 3%))", "73.6"),
        ("10 / 4", "2.5"),
        ("abs(-3)", "3"),
        ("floor(2.7)", "2"),
        ("ceil(2.1)", "3"),
        ("round(2.5)", "3"),
        ("sin(30 degrees)", "0.5"),
        ("3 km + 200 m to m", "3200 m"),
        ("floor(10 / 3)", "3"),
        ("1/2 hour", "0.5 hours"),
        ("20 / (5%)", "400"),
        ("100 km / 2 to km", "50 km"),
        ("2 * 3/4e1 * 10^2", "15"),
        ("0xF0 / 0x10", "0xf"),
        ("1024 / 0b100", "256"),
        ("64 / 0o10", "8"),
        ("100 / sqrt(4)", "50"),
        ("100 / sqrt 4", "50"),
        ("18 km / h to m / s", "5 m / s"),
        ("100 N / square meter to Pa", "100 Pa"),
        ("6 / (1 + 2) * 2", "4"),
    ] {
        let result = calculated(expression).await.unwrap();
        assert_eq!(result["result"], expected, "{expression}");
        assert_eq!(result["exact"], true, "{expression}");
    }
}

#[tokio::test]
async fn a_rounded_result_is_marked_as_such() {
    let third = calculated("1/3").await.unwrap();
    assert_eq!(
        (third["exact"].as_bool(), third["result"].as_str()),
        (Some(false), Some("0.3333333333"))
    );
    assert_eq!(third["summary"], "1/3 ≈ 0.3333333333");
    let more = calculated("1/3 to 30 dp").await.unwrap();
    assert_eq!(more["result"], format!("0.{}", "3".repeat(30)));
    let root = calculated("sqrt(2)").await.unwrap();
    assert!(
        root["result"].as_str().unwrap().starts_with("1.41421356"),
        "{root}"
    );
    assert_eq!(root["exact"], false);
}

#[tokio::test]
async fn an_ambiguous_expression_is_refused() {
    let power = refusal("5%^2").await;
    assert!(power.contains("write `(5%)^2`"), "{power}");
    for expression in [
        "12,50 + 3",
        "0,125 * 8",
        "1.000,50 + 1",
        "1000,000",
        "1,0000",
        "1,,000",
    ] {
        let message = refusal(expression).await;
        assert!(message.contains("is ambiguous"), "{message}");
    }
    for expression in [
        "(2 + 3) - 15%",
        "100 - 15 %",
        "3! + 1%",
        "2 * 100 + 5% * 2",
        "(200) + (10%)",
        "21 + 5%",
    ] {
        let message = refusal(expression).await;
        assert!(message.contains("means a hundredth"), "{message}");
    }
}

#[tokio::test]
async fn a_percent_sign_before_a_signed_number_is_refused_but_sums_of_percentages_work() {
    for expression in ["7 % -3", "7%-3", "7 % +3", "-7 % -3", "2 * (7 % -x)"] {
        let message = refusal(expression).await;
        assert!(message.contains("whole numbers, `7 mod 3`"), "{message}");
    }
    for (expression, expected) in [
        ("50% - 3 to %", "-250%"),
        ("80 * (1 +5%-2%)", "82.4"),
        ("5%-3% to %", "2%"),
    ] {
        let result = calculated(expression).await.unwrap();
        assert_eq!(result["result"], expected, "{expression}");
    }
}

#[tokio::test]
async fn an_unknown_function_is_refused_with_the_available_ones() {
    for (expression, expected) in [
        ("gcd(12, 18)", "there is no function \"gcd\"; "),
        ("gcd(12)", "there is no function \"gcd\"; "),
        ("rad(180)", "there is no function \"rad\"; "),
        (
            "2 * max(3,500)",
            "there is no function \"max\" with several arguments; ",
        ),
        (
            "pow(2, (3 + 1))",
            "there is no function \"pow\" with several arguments; ",
        ),
        (
            "round(3.14159, 2)",
            "there is no function \"round\" with several arguments; ",
        ),
        ("min(3, 4)", "there is no function \"min\"; "),
        ("min (3)", "there is no function \"min\"; "),
        ("MIN(3)", "there is no function \"MIN\"; "),
        ("C(5)", "there is no function \"C\"; "),
        ("2 * E(3)", "there is no function \"E\"; "),
        ("2sec(1)", "there is no function \"sec\"; "),
        (
            "sec (1)",
            "there is no function \"sec\"; after the unit write `*`; ",
        ),
        (
            "average(3,500)",
            "there is no function \"average\" with several arguments; ",
        ),
        ("factorial(5)", "unknown identifier 'factorial'; "),
    ] {
        let message = refusal(expression).await;
        assert!(message.contains(expected), "{message}");
        let functions = "; the functions, each with one argument, include abs, floor, ceil, round, sqrt, cbrt, exp, ln, log2, ";
        assert!(message.contains(functions), "{message}");
    }
    for expression in [
        "log(100)",
        "2 log 8",
        "log(8, 2)",
        "2log(100)",
        "2.5e3log(100)",
        "LOG(100)",
    ] {
        let message = refusal(expression).await;
        assert!(
            message.contains("write `ln`, `log10` or `log2`"),
            "{message}"
        );
    }
    for (expression, expected) in [
        ("sqrt(1,440,000)", "1200"),
        ("abs(-1,000)", "1000"),
        ("(1,000 + 2) mod (1,000)", "2"),
        ("17000 mod(1,000)", "0"),
        ("5% of(1,000)", "50"),
        ("3 kg(1,000)", "3000 kg"),
        ("90 min to hours", "1.5 hours"),
    ] {
        let result = calculated(expression).await.unwrap();
        assert_eq!(result["result"], expected, "{expression}");
    }
}

#[tokio::test]
async fn an_ambiguous_division_is_refused() {
    for expression in ["10 // 3", "5 // 2 + 1", "10 / / 3", "7 ÷/ 2"] {
        let message = refusal(expression).await;
        assert!(message.contains("write `floor(10 / 3)`"), "{message}");
    }
    for expression in [
        "100 km / 2 h",
        "100 km/2h",
        "100 km per 2 h",
        "10 MB / 2 s",
        "10 MB / -2.5e3 s",
        "70 kg / 1.75^2 m^2",
        "5 km / 1/2 h",
        "100 / 5%",
        "360° / 2°",
        "6/2(1+2)",
        "6/2 (1+2)",
        "6/(2)(1+2)",
        "8.314 J / mol K",
        "70 kg / (1.75)^2 m^2",
        "100 W / m^2 K",
        "1/2 pi",
        "1 / 2 π",
        "1/2 e",
    ] {
        let message = refusal(expression).await;
        assert!(message.contains("as in `100 km / (2 h)`"), "{message}");
    }
}

#[tokio::test]
async fn an_invalid_expression_is_refused_with_the_reason() {
    for (expression, expected) in [
        ("", "invalid_expression: the expression is empty"),
        (" \n", "invalid_expression: the expression is empty"),
        ("(1 + 2", "invalid_expression: a parenthesis is not closed"),
        (
            "((1 + 2",
            "invalid_expression: 2 parentheses are not closed",
        ),
        (
            "1 + 2)",
            "invalid_expression: the closing parenthesis at character 6 has no opening one",
        ),
        (
            "x = 3",
            "invalid_expression: '=' at character 3 does not belong in an expression; write only the expression, without `=`",
        ),
        (
            "1 < 2",
            "invalid_expression: '<' at character 3 does not belong in an expression; comparisons are not supported",
        ),
        (
            "17 % 5",
            "invalid_expression: `%` means percent; for a remainder write `17 mod 5`, for a share `5% of 80`",
        ),
        (
            "200 + 10%",
            "invalid_expression: `%` means a hundredth, so `200 + 10%` is 200.1; for a share of the preceding value write `200 + 10% of 200`",
        ),
        (
            "3,5 * 2",
            "invalid_expression: 3,5 is ambiguous; write decimals with a period, as in 3.5, and no commas",
        ),
        (
            "roll d6",
            "invalid_expression: \"roll\" is not a number; only arithmetic is supported",
        ),
        (
            "3d6",
            "invalid_expression: \"3d6\" is not a number; only arithmetic is supported",
        ),
    ] {
        assert_eq!(refusal(expression).await, expected, "{expression:?}");
    }
    for expression in [
        "1 / 0",
        "2 +",
        "nonsense",
        "* 3",
        "3 km + 2 kg",
        "1..2",
        "0^0",
    ] {
        let message = refusal(expression).await;
        assert!(
            message.starts_with("cannot_calculate: "),
            "{expression}: {message}"
        );
        assert!(message.contains(expression), "{message}");
    }
}

#[tokio::test]
async fn programs_texts_dates_and_statements_are_not_arithmetic() {
    for expression in [
        "(x: x x) (x: x x)",
        "\\x. x",
        "f = x => f x",
        "\"text\"",
        "1; 2",
        "@2026-01-01",
        "# 1",
        "2 & 3",
        "1 << 10000000000",
        "\u{202e}1+1",
        "today",
    ] {
        let message = refusal(expression).await;
        assert!(
            message.starts_with("invalid_expression: "),
            "{expression}: {message}"
        );
    }
}

#[tokio::test]
async fn length_depth_and_time_are_bounded() {
    let long = "1+".repeat(EXPRESSION_MAX_CHARS);
    assert!(refusal(&long).await.contains("longer than 500 characters"));
    let deep = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(
        calculated(&deep(EXPRESSION_MAX_DEPTH)).await.unwrap()["result"],
        "1"
    );
    let too_deep = refusal(&deep(EXPRESSION_MAX_DEPTH + 1)).await;
    assert!(too_deep.contains("nested deeper than 20"), "{too_deep}");
    let digits = refusal(&format!("10^{}", RESULT_MAX_CHARS + 1)).await;
    assert!(digits.starts_with("too_long: "), "{digits}");
    for expression in ["9^9^9", "1000000!"] {
        let started = std::time::Instant::now();
        let message = refusal(expression).await;
        assert!(
            started.elapsed() < CALCULATION_TIMEOUT + Duration::from_secs(3),
            "{expression} took {:?}: {message}",
            started.elapsed()
        );
    }
}

#[tokio::test]
async fn the_longest_possible_chains_do_not_exhaust_the_stack() {
    for (piece, end) in [
        ("-", "1"),
        ("+", "1"),
        ("1^", "1"),
        ("2^", "1"),
        ("1+", "1"),
        ("1/", "1"),
        ("1 mod ", "2"),
        ("5% of ", "1"),
        ("sqrt ", "1"),
        ("abs(-", ""),
        ("1 ", "1"),
        ("m ", ""),
        ("m^", "2"),
        ("!", ""),
        ("1!", ""),
        ("%", ""),
        ("√", "2"),
        ("not ", "1"),
        ("1 to ", "m"),
        ("1 per ", "m"),
        ("- -", "1"),
        ("/", "1"),
        ("1,", "1"),
        ("1'", ""),
        ("'", ""),
    ] {
        let times = (EXPRESSION_MAX_CHARS - end.chars().count()) / piece.chars().count();
        let expression = format!("{}{end}", piece.repeat(times));
        // Either a value or a refusal is fine, as long as the program survives.
        let _ = calculated(&expression).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sums_and_products_of_integers_match_integer_arithmetic(a in -1_000_000_i128..1_000_000, b in -1_000_000_i128..1_000_000, c in -1_000_i128..1_000) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let result = runtime.block_on(calculated(&format!("({a}) * ({b}) + ({c})"))).unwrap();
        prop_assert_eq!(result["result"].as_str().unwrap(), (a * b + c).to_string());
    }

    #[test]
    fn arbitrary_text_does_not_crash_the_calculator(text in "[0-9a-z+*/^().,!% -]{0,40}") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        if let Err(error) = runtime.block_on(calculated(&text)) {
            let code = error.message.split(':').next().unwrap();
            prop_assert!(["invalid_expression", "cannot_calculate", "too_big", "too_long"].contains(&code), "{}", error.message);
        }
    }
}
