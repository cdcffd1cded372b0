//! Checks calls: is there such a tool, do the arguments fit, is it available, does policy let it run.
//!
//! Most batches are answered at once. Only where a person would be asked is the store looked at, for what people allowed
//! for the session: it is read anew each time, so that what was taken back meanwhile counts no more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use neuraxis_brainstem::{Call, Ruling, Told};
use neuraxis_core::{
    Approved, CallToVet, Decision, Input, Remember, Remembered, Taint, ToolCallId, ToolSpec,
    Verdict, Vet, Vetted, Vetting,
};
use neuraxis_ports::{StoreError, Tool, TurnContext};

use crate::catalog::ToolCallError;
use crate::driver::Driver;
use crate::driver::journal::Journal;
use crate::driver::under_way::Work;
use crate::engine::Engine;

impl Driver {
    pub(super) fn vet(&mut self, mut vet: Vet) {
        let unproven = self.drop_unproven(&mut vet);
        let session = self.scope.session_id.clone();
        let turn = TurnContext::new(self.scope.run_id, session, vet.agent, vet.turn);
        let mut told = std::mem::take(&mut self.told);
        let calls = vet.calls.iter();
        let calls = calls.map(|call| self.vet_safely(call, &turn, &mut told));
        let calls: Vec<Vetting> = calls.collect();
        self.told = told;
        let mut both = calls.iter().zip(&vet.calls);
        if both.any(|(vetting, call)| may_be_remembered(vetting, call)) {
            self.look_up(vet, calls, unproven);
            return;
        }
        self.ready.push_back(Input::Vetted(Vetted {
            calls: asked_again(calls, &vet.calls, &unproven),
            effect_id: vet.effect_id,
        }));
    }

    /// Leaves out approvals that are on record and were not given through an engine with this key. Returns whose they are.
    fn drop_unproven(&self, vet: &mut Vet) -> Vec<ToolCallId> {
        let run = self.scope.run_id;
        let key = &self.engine.approval_key;
        let mut unproven = Vec::new();
        for call in &mut vet.calls {
            let is_unproven = |approved: &Approved| !key.approves(run, call, approved);
            if call.approved.as_ref().is_some_and(is_unproven) {
                tracing::warn!(%run, call = %call.tool_call_id, "an approval on record was not given with the key of this installation: it does not count");
                call.approved = None;
                unproven.push(call.tool_call_id.clone());
            }
        }
        unproven
    }

    /// Judges a call. One that nobody can judge without crashing is denied, and the run goes on.
    fn vet_safely(&self, call: &CallToVet, turn: &TurnContext, told: &mut Told) -> Vetting {
        // What was told of earlier calls is no more than wording.
        let judged = catch_unwind(AssertUnwindSafe(|| self.vet_call(call, turn, told)));
        judged.unwrap_or_else(|_| {
            tracing::error!(run = %turn.run_id, call = %call.tool_call_id, "judging a call crashed; it is denied");
            Vetting::deny("it could not be judged")
        })
    }

    fn vet_call(&self, call: &CallToVet, turn: &TurnContext, told: &mut Told) -> Vetting {
        // A tool that this agent was not offered is as unknown as one that does not exist.
        let offered = self.tree.tools(turn.agent);
        if !offered.iter().any(|tool| tool.name.as_str() == &*call.name) {
            return Vetting::Unknown;
        }
        let tool = match self.engine.catalog.check(&call.name, &call.arguments) {
            Ok(tool) => tool,
            Err(ToolCallError::UnknownTool { .. }) => return Vetting::Unknown,
            Err(ToolCallError::InvalidArguments(message)) => return Vetting::Invalid { message },
        };
        if !is_available(tool.as_ref(), turn) {
            return Vetting::Disabled;
        }
        let spec = tool.spec();
        let Some(decision) = &self.scope.decision else {
            return Vetting::run(spec.class);
        };
        let offered = self.scope.offered_now.as_ref();
        if offered.is_some_and(|offered| !offered.contains(&spec.name)) {
            return Vetting::deny("the policy in force does not offer it to such a request");
        }
        let judged = judged(spec, call, self.tree.taint(turn.agent), &self.engine);
        let ruling = self.engine.policy.ruling(decision, &judged, told);
        self.engine.vetting(spec, ruling)
    }

    /// Answers with what people allowed for the session, once the store has told it.
    fn look_up(&mut self, vet: Vet, calls: Vec<Vetting>, unproven: Vec<ToolCallId>) {
        let Some(decision) = self.scope.decision.clone() else {
            return;
        };
        let lookup = Lookup {
            engine: Arc::clone(&self.engine),
            journal: Arc::clone(&self.journal),
            decision,
            taint: self.tree.taint(vet.agent).cloned().unwrap_or_default(),
        };
        self.work.push(Box::pin(async move {
            let effect_id = vet.effect_id;
            let answered = AssertUnwindSafe(lookup.answer(&vet.calls, calls))
                .catch_unwind()
                .await;
            let calls = answered.unwrap_or_else(|_| {
                tracing::error!(%effect_id, "judging calls crashed; they are denied");
                let deny = |_: &CallToVet| Vetting::deny("it could not be judged");
                vet.calls.iter().map(deny).collect()
            });
            let calls = asked_again(calls, &vet.calls, &unproven);
            Work::Answer(Box::new(Input::Vetted(Vetted { effect_id, calls })))
        }));
    }
}

/// Says of calls whose approvals do not count that they are asked about again.
fn asked_again(vetted: Vec<Vetting>, calls: &[CallToVet], unproven: &[ToolCallId]) -> Vec<Vetting> {
    let both = vetted.into_iter().zip(calls);
    let marked = both.map(
        |(vetting, call)| match unproven.contains(&call.tool_call_id) {
            true => vetting.asking_again(),
            false => vetting,
        },
    );
    marked.collect()
}

/// Tells whether a tool can be used in this turn; one that crashes when it is asked cannot.
fn is_available(tool: &dyn Tool, turn: &TurnContext) -> bool {
    // Nothing of the tool's answer is looked at after a panic.
    let asked = catch_unwind(AssertUnwindSafe(|| tool.should_use(turn)));
    asked.unwrap_or_else(|_| {
        tracing::error!(tool = %tool.spec().name, "the tool crashed when it was asked whether it can be used");
        false
    })
}

/// Tells whether what people allowed for the session has a say about a call, or may get one by it.
fn may_be_remembered(vetting: &Vetting, call: &CallToVet) -> bool {
    let asks = matches!(vetting, Vetting::Ask { remember, .. } if *remember > Remember::Never);
    let approved = call.approved.as_ref();
    asks && approved.is_none_or(|approved| approved.remember.is_some())
}

fn judged<'a>(
    spec: &'a ToolSpec,
    call: &'a CallToVet,
    taint: Option<&'a Taint>,
    engine: &'a Engine,
) -> Call<'a> {
    let mut judged = Call::new(spec, &call.arguments);
    judged.taint = taint;
    judged.root = engine.root.as_deref();
    judged
}

impl Engine {
    fn vetting(&self, spec: &ToolSpec, ruling: Ruling) -> Vetting {
        let class = spec.class;
        let vetting = match ruling.verdict {
            Verdict::Allow => Vetting::Run {
                class,
                untrusted: false,
                reason: ruling.reason,
                rule: ruling.rule,
                grant: ruling.grant,
            },
            other => Vetting::from_verdict(other, class),
        };
        if self.policy.brings_untrusted(spec) {
            vetting.bringing_untrusted()
        } else {
            vetting
        }
    }
}

/// What it takes to judge calls once more, with what people allowed for the session.
struct Lookup {
    engine: Arc<Engine>,
    journal: Arc<Journal>,
    decision: Arc<Decision>,
    taint: Taint,
}

impl Lookup {
    async fn answer(&self, calls: &[CallToVet], mut vetted: Vec<Vetting>) -> Vec<Vetting> {
        // What cannot be read allows nothing: the person is asked.
        let mut remembered = self.remembered().await.unwrap_or_else(|error| {
            let run = self.journal.run_id;
            tracing::warn!(%run, %error, "what people allowed for the session cannot be read");
            Remembered::default()
        });
        for (vetting, call) in vetted.iter_mut().zip(calls) {
            if !may_be_remembered(vetting, call) {
                continue;
            }
            let Ok(name) = call.name.parse() else {
                continue;
            };
            let Some(tool) = self.engine.catalog.tool(&name) else {
                continue;
            };
            *vetting = self.judge(tool.spec(), call, &mut remembered).await;
        }
        vetted
    }

    async fn judge(
        &self,
        spec: &ToolSpec,
        call: &CallToVet,
        remembered: &mut Remembered,
    ) -> Vetting {
        let policy = &self.engine.policy;
        let judged = judged(spec, call, Some(&self.taint), &self.engine);
        let mut told = Told::default();
        let asked = policy.ruling(
            &self.decision,
            &judged.with_remembered(remembered),
            &mut told,
        );
        let asks = matches!(asked.verdict, Verdict::Ask { .. });
        if let Some(approved) = call.approved.as_ref().filter(|_| asks)
            && self.remember(&judged, approved, remembered).await
        {
            let again = policy.ruling(
                &self.decision,
                &judged.with_remembered(remembered),
                &mut told,
            );
            return self.engine.vetting(spec, again);
        }
        let mut vetting = self.engine.vetting(spec, asked);
        if let Vetting::Ask { choices, .. } = &mut vetting {
            *choices = if self.keeps_answers() {
                policy.grant_choices(&self.decision, &judged.with_remembered(remembered))
            } else {
                Vec::new()
            };
        }
        vetting
    }

    /// Remembers an approval for the session, as far as policy lets it be; tells whether it is. If not, the approval still
    /// holds for this one call.
    async fn remember(
        &self,
        call: &Call<'_>,
        approved: &Approved,
        remembered: &mut Remembered,
    ) -> bool {
        let (run, tool) = (self.journal.run_id, &call.tool.name);
        let Some(scope) = approved.remember.clone() else {
            return false;
        };
        let (at, by) = (self.engine.clock.now(), approved.by.clone());
        let mut after = remembered.clone();
        let policy = &self.engine.policy;
        if let Err(error) = policy.remember(&mut after, &self.decision, call, scope, at, by) {
            tracing::warn!(%run, %tool, %error, "an approval is not remembered for the session");
            return false;
        }
        let (Some(slot), Some(mut grant)) = (&self.journal.slot, after.grants().last().cloned())
        else {
            return false;
        };
        let key = &self.engine.approval_key;
        key.sign_grant(slot.session(), &mut grant);
        if let Err(error) = slot.remember(&grant).await {
            tracing::warn!(%run, %tool, %error, "an approval is not remembered for the session");
            return false;
        }
        *remembered = after;
        true
    }

    fn keeps_answers(&self) -> bool {
        self.journal.slot.is_some()
    }

    async fn remembered(&self) -> Result<Remembered, StoreError> {
        let Some(slot) = &self.journal.slot else {
            return Ok(Remembered::default());
        };
        let (store, session) = (slot.store(), slot.session());
        let mut remembered = store.remembered(session).await?;
        let key = &self.engine.approval_key;
        remembered.retain(|grant| key.grants(session, grant));
        if !remembered.grants().is_empty() {
            // What was slipped in behind the back of the store allows nothing.
            store.verify(session, None).await?;
        }
        Ok(remembered)
    }
}
