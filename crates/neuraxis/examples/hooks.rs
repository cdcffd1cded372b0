//! An embedder's hook sees every batch of calls before it runs, and ends the loop when it has seen enough.
//!
//! `cargo run -p neuraxis --example hooks`; the model is scripted, so it needs no key and no network.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use anyhow::Result;
use neuraxis::core::{Advice, Consult, Hook};
use neuraxis::memory::MemoryStore;
use neuraxis::ports::{Advisor, TurnContext, async_trait};
use neuraxis::{Channel, Mode, Orchestrator, Role};
use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};

/// Refuses access to the safe.
#[derive(Debug)]
struct Guard;

#[async_trait]
impl Advisor for Guard {
    async fn advise(&self, question: &Consult, _: &TurnContext) -> Advice {
        println!("{:?}: {}", question.hook, question.subject);
        if question.subject.as_str().contains("safe") {
            let reason = "the safe is off limits".to_owned();
            return Advice::Stop { reason };
        }
        Advice::Continue
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let model = ScriptedModel::new()
        .then(reply::calls([("open", r#"{"what":"the door"}"#)]))
        .then(reply::text_and_calls(
            "I will open it.",
            [("open", r#"{"what":"the safe"}"#)],
        ));
    let open = Arc::new(ScriptedTool::echoing(spec("open").read_only()));
    let orchestrator = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tool(open.clone())
        .advisor([Hook::ProcessCalls], Arc::new(Guard))
        .store(Arc::new(MemoryStore::default()))
        .build()?;
    let session = "example".parse()?;
    let result = orchestrator
        .handle_user_request(&session, "Open up.", Mode::EXPLORATORY, Channel::CHAT)
        .await?;
    println!("{}", result.reply);
    anyhow::ensure!(open.count() == 1, "the safe was opened");
    Ok(())
}
