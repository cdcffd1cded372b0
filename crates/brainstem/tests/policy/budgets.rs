//! Budgets of several runs, and what model calls cost.

use std::time::Duration;

use neuraxis_brainstem::{Policy, PolicyConfig, Request};
use neuraxis_core::{
    BudgetMeasure, BudgetScope, Channel, Cost, CountLabel, Limits, MicroUsd, Mode, ModelRef,
    PlanName, Spent, TokenCount, Usage,
};

use crate::catalog::layered;

const PLAN: &str = "
[plans.team]
max_tokens = 50_000
[plans.team.session]
max_tokens = 40_000
max_time = '1h'
[plans.team.day]
max_tokens = 100_000
max_cost_micro_usd = 2_000_000
max_tool_calls = 100
";

fn tokens(tokens: u64) -> Spent {
    Spent {
        tokens,
        ..Spent::NONE
    }
}

#[test]
fn a_run_receives_what_its_session_and_day_budgets_have_left() {
    let (policy, plan) = (layered(PLAN), PlanName::new("team"));
    let limits = |session, day| {
        let request = Request::new(&Mode::MODERATE, &Channel::CHAT, "Hello").with_plan(&plan);
        policy
            .evaluate_request(&request.with_spent(session, day))
            .unwrap()
    };
    let fresh = limits(Spent::NONE, Spent::NONE);
    assert_eq!(fresh.limits.max_tokens, Some(40_000));
    assert_eq!(fresh.limits.max_tool_calls, Some(100));
    assert_eq!(fresh.limits.max_cost, Some(MicroUsd(2_000_000)));
    assert_eq!(
        fresh.limits.deadline,
        Some(Duration::from_secs(180)),
        "the mode's is shorter"
    );
    let whole = "At most 40000 tokens in total, set by the session budget of plan team.";
    assert!(
        fresh.reasons.iter().any(|reason| reason == whole),
        "{:?}",
        fresh.reasons
    );
    let later = limits(tokens(39_000), tokens(95_000));
    assert_eq!(later.limits.max_tokens, Some(1_000));
    assert!(
        later.reasons.contains(
            &"At most 1000 tokens in total, set by what is left of the session budget of plan team."
                .to_owned()
        ),
        "{:?}",
        later.reasons
    );
}

#[test]
fn a_resumed_run_keeps_its_own_usage_and_receives_what_the_day_has_left() {
    let (policy, plan) = (layered(PLAN), PlanName::new("team"));
    let within = |max_tokens, day, own| {
        let limits = Limits {
            max_tokens: Some(max_tokens),
            ..Limits::NONE
        };
        let within = policy.within_day(&plan, limits, tokens(day), tokens(own));
        within.max_tokens.unwrap()
    };
    // No other run has used anything in the meantime.
    assert_eq!(within(40_000, 60_000, 0), 40_000);
    assert_eq!(within(40_000, 70_000, 10_000), 40_000);
    assert_eq!(within(40_000, 95_000, 10_000), 15_000);
    assert_eq!(within(40_000, 200_000, 10_000), 10_000);
    let unlimited = policy.within_day(&plan, Limits::NONE, tokens(200_000), tokens(10_000));
    assert_eq!(unlimited.max_tokens, Some(10_000));
    let other = policy.within_day(&PlanName::new("none"), Limits::NONE, tokens(1), Spent::NONE);
    assert_eq!(other, Limits::NONE, "the plan is no longer configured");
}

#[test]
fn an_exhausted_budget_is_reported_in_the_decision_and_is_not_an_error() {
    let (policy, plan) = (layered(PLAN), PlanName::new("team"));
    let spent = |session, day| {
        let request = Request::new(&Mode::MODERATE, &Channel::CHAT, "Hello").with_plan(&plan);
        policy
            .evaluate_request(&request.with_spent(session, day))
            .unwrap()
            .spent
    };
    assert_eq!(spent(tokens(1), tokens(1)), None);
    let session = spent(tokens(40_001), Spent::NONE).unwrap();
    assert_eq!(
        (session.scope, session.measure),
        (BudgetScope::Session, BudgetMeasure::Tokens)
    );
    let day = spent(
        tokens(40_001),
        Spent {
            cost: MicroUsd(2_000_000),
            ..Spent::NONE
        },
    )
    .unwrap();
    assert_eq!(
        (day.scope, day.measure),
        (BudgetScope::Day, BudgetMeasure::Cost)
    );
    assert_eq!(
        day.reply,
        "This request cannot be handled because today's budget of money is used up. Please come back after midnight UTC, or ask for a larger budget."
    );
}

fn of_name(model: &str) -> ModelRef {
    let (provider, model) = model.split_once('/').unwrap();
    ModelRef::new(provider, model)
}

#[test]
fn a_reply_under_another_model_name_is_priced_as_the_requested_model() {
    let usage = Usage {
        prompt: TokenCount::measured(1_000_000),
        ..Usage::default()
    };
    let policy = layered(
        "
        [prices.'openai/big']
        prompt = 10.0
        completion = 0.0
        [prices.'openai/small']
        prompt = 1.0
        completion = 0.0
        [prices.'openai/gpt-5.5']
        prompt = 7.0
        completion = 0.0
        [prices.'azure/mine']
        prompt = 3.0
        completion = 0.0
        [prices.'azure/*']
        prompt = 0.5
        completion = 0.0
        ",
    );
    for (replied, asked, dollars) in [
        ("openai/big", "openai/big", Some(10)),
        ("openai/big-2026-11-01", "openai/big", Some(10)),
        ("openai/big-20261101", "openai/big", Some(10)),
        ("openai/big-eu", "openai/big", Some(10)),
        ("openai/small", "openai/big", Some(1)),
        ("openai/small-2026-11-01", "openai/big", Some(1)),
        ("azure/gpt-5.5-2026-04-23", "azure/mine", Some(3)),
        ("openai/gpt-5.5-2026-04-23", "openai/gpt-5.5", Some(7)),
        ("openai/gpt-5.5-2026-04-23", "openai/big", Some(7)),
        ("other/x", "other/y", None),
    ] {
        let cost = policy.cost(&usage, &of_name(replied), &of_name(asked));
        let expected = dollars.map(|dollars| Cost {
            amount: MicroUsd(dollars * 1_000_000),
            label: CountLabel::Measured,
        });
        assert_eq!(cost, expected, "{replied} {asked}");
    }
    let other = policy.cost(&usage, &of_name("azure/x"), &of_name("azure/y"));
    assert_eq!(other.map(|cost| cost.amount), Some(MicroUsd(500_000)));
}

#[test]
fn a_price_must_name_both_prompt_and_completion() {
    for (text, lacks) in [
        ("prompt = 1.0", "it lacks completion"),
        ("completion = 1.0", "it lacks prompt"),
        ("cached = 1.0", "it lacks prompt"),
    ] {
        let text = format!("[prices.'openai/mine']\n{text}\n");
        let config = PolicyConfig::from_toml(&text).unwrap();
        let error = Policy::layered(config).unwrap_err();
        assert_eq!(error.key(), "prices.\"openai/mine\"");
        assert!(error.to_string().contains(lacks), "{error}");
    }
    layered("[prices.'openai/mine']\nprompt = 0.0\ncompletion = 0.0\n");
}

#[test]
fn a_cost_limit_is_detected_in_every_section() {
    let limits = |text: &str| layered(text).config().limits_money();
    assert!(!limits("[plans.team.day]\nmax_tokens = 5\n"));
    for section in [
        "modes.moderate",
        "channels.chat",
        "agents.main_thread",
        "plans.team",
        "plans.team.session",
        "plans.team.day",
    ] {
        let text = format!("[{section}]\nmax_cost_micro_usd = 5\n");
        assert!(limits(&text), "{section}");
    }
}

#[test]
fn public_prices_apply_only_if_the_deployment_prices_neither_model() {
    let usage = Usage {
        prompt: TokenCount::measured(1_000),
        ..Usage::default()
    };
    let label = |policy: &str, replied: &str, asked: &str| {
        let cost = layered(policy).cost(&usage, &of_name(replied), &of_name(asked));
        cost.map(|cost| cost.label)
    };
    let own = "[prices.'openai/mine']\nprompt = 1.0\ncompletion = 0.0\n";
    let (listed, mine) = ("openai/gpt-5.5-2026-04-23", "openai/mine");
    assert_eq!(label(own, listed, mine), Some(CountLabel::Measured));
    assert_eq!(label("", listed, mine), Some(CountLabel::Estimated));
    assert_eq!(label("", mine, listed), Some(CountLabel::Estimated));
    assert_eq!(label("", mine, mine), None);
}

#[test]
fn a_model_call_is_priced_per_kind_of_token() {
    let policy = layered(
        "
        [prices.'openai/big']
        prompt = 2.0
        cached = 0.5
        completion = 8.0
        reasoning = 10.0
        [prices.'openai/*']
        prompt = 0.15
        completion = 0.6
        ",
    );
    let usage = |prompt, cached, completion, reasoning| Usage {
        prompt: TokenCount::measured(prompt),
        cached: TokenCount::measured(cached),
        completion: TokenCount::measured(completion),
        reasoning: TokenCount::measured(reasoning),
        ..Usage::default()
    };
    let cost = |model: &str, usage: Usage| {
        let model = of_name(model);
        let cost = policy.cost(&usage, &model, &model);
        cost.map(|cost| cost.amount.0)
    };
    assert_eq!(
        cost("openai/big", usage(1_000, 400, 100, 60)),
        Some(1_200 + 200 + 320 + 600)
    );
    assert_eq!(
        cost("openai/small", usage(1_000, 400, 100, 60)),
        Some(150 + 60)
    );
    assert_eq!(
        cost("openai/small", usage(1, 0, 0, 0)),
        Some(1),
        "rounded up"
    );
    assert_eq!(
        cost("openai/big", usage(10, 99, 0, 99)),
        Some(5),
        "a part is no more than the whole"
    );
    assert_eq!(
        cost("openai/big", usage(u64::MAX, 0, u64::MAX, 0)),
        Some(u64::MAX)
    );
    assert_eq!(
        cost("llama/any", usage(1_000, 0, 0, 0)),
        None,
        "unknown is not free"
    );
}
