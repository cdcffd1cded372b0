//! Tools and hooks know the caller: refunds for others are refused, large refunds need a user's approval, and card
//! numbers are hidden from the model.
//!
//! `cargo run -p neuraxis --example tool_hooks`; the model is scripted, so it needs no key and no network.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use anyhow::Result;
use neuraxis::core::{JsonText, ToolOutcome, ToolOutput};
use neuraxis::memory::MemoryStore;
use neuraxis::ports::{AfterCall, BeforeCall, HookedCall, ToolHook, async_trait};
use neuraxis::{Mode, Orchestrator, Role, UserRequest};
use neuraxis_testkit::{ScriptedApprover, ScriptedModel, ScriptedTool, reply, spec};
use serde::Deserialize;

/// The shop's data about the caller.
#[derive(Debug)]
struct Customer {
    number: u32,
}

#[derive(Deserialize)]
struct Refund {
    customer: u32,
    amount: u32,
}

#[derive(Debug)]
struct Shop;

#[async_trait]
impl ToolHook for Shop {
    async fn before(&self, call: &HookedCall) -> BeforeCall {
        let Ok(refund) = call.arguments.decode::<Refund>() else {
            return BeforeCall::Continue;
        };
        match call.get::<Customer>() {
            Some(customer) if customer.number == refund.customer => {}
            _ => return BeforeCall::refuse("only refunds of the customer who asks can be made"),
        }
        if refund.amount > 100 {
            return BeforeCall::ask("It is a refund of more than 100.");
        }
        BeforeCall::Continue
    }

    async fn after(&self, _call: &HookedCall, outcome: &ToolOutcome) -> AfterCall {
        if outcome.output.value.as_str().contains("card") {
            return AfterCall::rewrite(ToolOutput::new(JsonText::string("refunded")));
        }
        AfterCall::Keep
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let model = ScriptedModel::new()
        .then(reply::calls([
            ("refund", r#"{"customer":7,"amount":30,"card":"4111"}"#),
            ("refund", r#"{"customer":8,"amount":30}"#),
            ("refund", r#"{"customer":7,"amount":300}"#),
        ]))
        .then(reply::text("The first one is done."));
    let refund = Arc::new(ScriptedTool::echoing(spec("refund").idempotent()));
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tool(refund.clone())
        .tool_hook(Arc::new(Shop))
        .approver(Arc::new(ScriptedApprover::new().deny("not so much")))
        .store(Arc::new(MemoryStore::default()))
        .build()?;
    let request = UserRequest::new("example".parse()?, "Please refund me.")
        .mode(Mode::EXPLORATORY)
        .owner("ada")
        .context(Customer { number: 7 });
    let result = orchestrator.handle(request).await?;
    println!("{}", result.reply);
    anyhow::ensure!(refund.count() == 1, "only her own small refund is made");
    Ok(())
}
