//! What survives the processes: the store, and the world that tools change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuraxis_core::{EffectId, LlmError, LlmErrorKind, ModelRequest, Role, SessionId};
use neuraxis_engine::{Agent, Orchestrator, RetryPolicy, UuidV7};
use neuraxis_ports::{Tool, ToolContext, ToolError, async_trait};
use neuraxis_testkit::{Script, ScriptedModel, VirtualClock, reply, spec};

use crate::dice::Dice;
use crate::people::Somebody;
use crate::store::MortalStore;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) dice: Dice,
    pub(crate) store: Arc<MortalStore>,
    pub(crate) session: SessionId,
    /// How often each payment was made, by its idempotency key.
    pub(crate) payments: Arc<Mutex<BTreeMap<EffectId, u32>>>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            store: Arc::new(MortalStore::new(seed ^ 0x5707)),
            session: "simulated".parse().unwrap(),
            payments: Arc::default(),
        }
    }

    /// Builds what a process needs.
    pub(crate) fn orchestrator(&self) -> Orchestrator {
        let next = || Dice::new(u64::from(self.dice.below(u32::MAX)));
        let mut retry = RetryPolicy::default();
        retry.first_delay = Duration::from_millis(100);
        let agent = Agent::builder("ask")
            .role(Role::CODING)
            .fan_out("of")
            .digest_after(2)
            .compaction(neuraxis_core::Compaction::Drop)
            .tools_named(["look", "pay", "pick", "ask"])
            .build()
            .unwrap();
        let tool = |spec: neuraxis_testkit::SpecBuilder| -> Arc<dyn Tool> {
            Arc::new(Machine {
                spec: spec.build(),
                dice: next(),
                payments: Arc::clone(&self.payments),
            })
        };
        Orchestrator::builder()
            .model(Role::REASONING, Arc::new(model(next())))
            .model(Role::CODING, Arc::new(model(next())))
            .store(self.store.clone())
            .clock(Arc::new(VirtualClock::new()))
            .ids(Arc::new(UuidV7))
            .retry(retry)
            .approver(Arc::new(Somebody(next())))
            .tools([
                tool(spec("look").read_only()),
                tool(spec("note").idempotent()),
                tool(spec("pay")),
            ])
            .client_tool(spec("pick").read_only().build())
            .agent_tool(agent)
            .build()
            .unwrap()
    }
}

/// A model with arbitrary output.
fn model(dice: Dice) -> ScriptedModel {
    ScriptedModel::answering(move |request| {
        let wait = Duration::from_millis(u64::from(dice.below(15_000)));
        let script = said(&dice, request);
        let chars = usize::try_from(1 + dice.below(5)).unwrap();
        let script = script.split(chars).after(wait);
        match dice.below(30) {
            0 => script.fail_at(1, error(&dice)),
            1 => script.cut_at(1),
            2 if dice.percent(20) => Script::hanging(),
            _ => script,
        }
    })
}

fn error(dice: &Dice) -> LlmError {
    let kinds: [fn() -> LlmErrorKind; 5] = [
        || LlmErrorKind::Connection,
        || LlmErrorKind::server(Some(500)),
        || LlmErrorKind::InvalidResponse,
        || LlmErrorKind::Unauthorized,
        || LlmErrorKind::ContextOverflow {
            limit: Some(1_000),
            needed: Some(2_000),
        },
    ];
    LlmError::new(dice.one_of(&kinds)(), "as the dice fell")
}

fn said(dice: &Dice, request: &ModelRequest) -> Script {
    if dice.percent(4) {
        return error(dice).into();
    }
    let reply = if request.tools.is_empty() || dice.percent(30) {
        match dice.below(10) {
            0 => reply::empty(),
            1 => reply::cut("half"),
            2 => reply::reasoned("hm", "thought through"),
            _ => reply::text(format!("answer {}", dice.below(100))),
        }
    } else {
        let calls: Vec<(&str, String)> = (0..1 + dice.below(4)).map(|_| call(dice)).collect();
        let calls = calls
            .iter()
            .map(|(name, arguments)| (*name, arguments.as_str()));
        reply::text_and_calls("let me see", calls)
    };
    let (prompt, completion) = (u64::from(dice.below(500)), u64::from(dice.below(50)));
    reply::using(reply, prompt, completion).into()
}

fn call(dice: &Dice) -> (&'static str, String) {
    let name = dice.one_of(&["look", "look", "note", "pay", "pay", "pick", "ask", "lost"]);
    let arguments = match (name, dice.below(12)) {
        (_, 0) => "{\"cut".to_owned(),
        (_, 1) => "[]".to_owned(),
        ("ask", count) => {
            let tasks: Vec<String> = (0..count % 4)
                .map(|task| format!("\"task {task}\""))
                .collect();
            format!("{{\"of\":[{}]}}", tasks.join(","))
        }
        // Sometimes the same as before.
        _ => format!("{{\"n\":{}}}", dice.below(5)),
    };
    (name, arguments)
}

/// A tool that takes time, fails, panics or hangs, and records its payments.
#[derive(Debug)]
struct Machine {
    spec: neuraxis_core::ToolSpec,
    dice: Dice,
    payments: Arc<Mutex<BTreeMap<EffectId, u32>>>,
}

#[async_trait]
impl Tool for Machine {
    fn spec(&self) -> &neuraxis_core::ToolSpec {
        &self.spec
    }

    fn should_use(&self, _: &neuraxis_ports::TurnContext) -> bool {
        !self.dice.percent(3)
    }

    async fn call(
        &self,
        arguments: neuraxis_core::JsonText,
        ctx: ToolContext,
    ) -> Result<neuraxis_core::ToolOutput, ToolError> {
        if self.spec.name.as_str() == "pay" {
            *self
                .payments
                .lock()
                .unwrap()
                .entry(ctx.effect_id)
                .or_default() += 1;
        }
        let wait = Duration::from_millis(u64::from(self.dice.below(10_000)));
        tokio::time::sleep(wait).await;
        match self.dice.below(20) {
            0 => Err(ToolError::temporary("try again")),
            1 => Err(ToolError::permanent("no")),
            2 => std::panic::resume_unwind(Box::new("as the dice fell")),
            3 => std::future::pending().await,
            _ => Ok(neuraxis_core::ToolOutput::new(arguments)),
        }
    }
}
