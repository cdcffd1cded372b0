//! Checks calls: whether the tool exists, the arguments fit, it is available, and the policy lets it run.
//!
//! Most batches are answered immediately. The store is read only if a user would be asked, for the grants of the
//! session; it is read each time, so that revoked grants no longer apply.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt;
use neuraxis_brainstem::{Call, ReasonCache};
use neuraxis_core::{
    AdvisedCall, Approved, CallToVet, Decision, Grant, GrantScope, Grants, Input, Remember, Taint,
    ToolCallId, ToolClass, ToolSpec, Vet, Vetted, Vetting,
};
use neuraxis_ports::{StoreError, Tool, TurnContext};

use crate::catalog::{ToolCallError, ToolCatalog};
use crate::driver::Driver;
use crate::driver::dry_run::{dry_run, hopeful};
use crate::driver::hooks::narrowed;
use crate::driver::journal::Journal;
use crate::driver::under_way::Work;
use crate::engine::Engine;
use crate::tool_search;

/// Calls on their way to be judged.
pub(super) struct CallsToJudge {
    pub(super) vet: Vet,
    /// The calls whose recorded approvals are not valid.
    unproven: Vec<ToolCallId>,
    /// The hooks' advice to be recorded.
    pub(super) advised: Vec<AdvisedCall>,
}

impl CallsToJudge {
    /// Combines the policy's verdicts on calls with the hooks' advice, and marks calls whose approvals are not valid as
    /// asked about again.
    fn concluded(&self, vetted: Vec<Vetting>) -> Vec<Vetting> {
        let both = vetted.into_iter().zip(&self.vet.calls);
        let marked = both.map(|(vetting, call)| {
            let vetting = match &call.advised {
                Some(advised) => narrowed(vetting, &advised.advice),
                None => vetting,
            };
            match self.unproven.contains(&call.tool_call_id) {
                true => vetting.asking_again(),
                false => vetting,
            }
        });
        marked.collect()
    }

    /// Creates the input with the results for the calls, and the session grants given with them.
    fn vetted(self, calls: Vec<Vetting>, granted: Vec<Grant>) -> Input {
        let mut vetted = Vetted::new(self.vet.effect_id, calls);
        (vetted.granted, vetted.advised) = (granted, self.advised);
        Input::Vetted(vetted)
    }
}

impl Driver {
    pub(super) fn vet(&mut self, mut vet: Vet) {
        let unproven = self.drop_unproven(&mut vet);
        let hooks = self.tool_hooks(vet.agent);
        let calls = CallsToJudge {
            vet,
            unproven,
            advised: Vec::new(),
        };
        if hooks.is_empty() {
            return self.judge(calls);
        }
        self.ask_hooks(hooks, calls);
    }

    /// Judges calls without asking hooks first.
    pub(super) fn judge(&mut self, calls: CallsToJudge) {
        let vet = &calls.vet;
        let turn = self.turn_context(vet.agent, vet.turn);
        let mut reasons = std::mem::take(&mut self.reasons);
        let vetted = vet.calls.iter();
        let vetted = vetted.map(|call| self.vet_safely(call, &turn, &mut reasons));
        let vetted: Vec<Vetting> = vetted.collect();
        self.reasons = reasons;
        let mut both = vetted.iter().zip(&vet.calls);
        if both.any(|(vetting, call)| may_be_remembered(vetting, call)) {
            return self.look_up(calls, vetted);
        }
        let vetted = calls.concluded(vetted);
        if hopeful(&vetted, &calls.vet.calls).next().is_some() {
            let catalog = Arc::clone(&self.catalog);
            let client_calls = self.client_calls(&calls.vet);
            self.work.push(Box::pin(async move {
                let vetted = dry_run(&catalog, &calls.vet.calls, &client_calls, vetted).await;
                Work::Answer(Box::new(calls.vetted(vetted, Vec::new())))
            }));
            return;
        }
        self.ready.push_back(calls.vetted(vetted, Vec::new()));
    }

    /// Returns the calls of tools that the client supplied.
    fn client_calls(&self, vet: &Vet) -> Vec<ToolCallId> {
        let of_client = |call: &&CallToVet| self.is_client_tool(vet.agent, &call.name);
        let client_calls = vet.calls.iter().filter(of_client);
        client_calls.map(|call| call.tool_call_id.clone()).collect()
    }

    /// Removes recorded approvals that were not given through an engine with this key. Returns the calls that they were
    /// for.
    fn drop_unproven(&self, vet: &mut Vet) -> Vec<ToolCallId> {
        let run = self.scope.run_id;
        let key = &self.engine.approval_key;
        let mut unproven = Vec::new();
        for call in &mut vet.calls {
            let is_unproven = |approved: &Approved| !key.approves(run, call, approved);
            if call.approved.as_deref().is_some_and(is_unproven) {
                tracing::warn!(%run, call = %call.tool_call_id, "a recorded approval was not signed with the key of this installation; it is ignored");
                call.approved = None;
                unproven.push(call.tool_call_id.clone());
            }
        }
        unproven
    }

    /// Judges a call. If judging it panics, the call is denied, and the run continues.
    fn vet_safely(
        &self,
        call: &CallToVet,
        turn: &TurnContext,
        reasons: &mut ReasonCache,
    ) -> Vetting {
        // The cache of reasons holds only wording, so it stays usable after a panic.
        let judged = catch_unwind(AssertUnwindSafe(|| self.vet_call(call, turn, reasons)));
        judged.unwrap_or_else(|_| {
            tracing::error!(run = %turn.run_id, call = %call.tool_call_id, "judging a call crashed; it is denied");
            Vetting::deny("it could not be judged")
        })
    }

    fn vet_call(&self, call: &CallToVet, turn: &TurnContext, reasons: &mut ReasonCache) -> Vetting {
        if let Some(absent) = self.catalog.absent(&call.name) {
            return Vetting::deny(absent.to_string());
        }
        // A tool that this agent was not offered is treated like one that does not exist.
        let offered = self.tree.tools(turn.agent);
        if !offered.iter().any(|tool| tool.name.as_str() == &*call.name) {
            return Vetting::Unknown;
        }
        if let Some(found) = self.vet_delivery(call, turn.agent) {
            return found;
        }
        if self.is_client_tool(turn.agent, &call.name) {
            // The client runs it as it sees fit, and nothing happens here. Its result has not been inspected by anyone
            // here.
            return Vetting::run(ToolClass::ReadOnly).bringing_untrusted();
        }
        if self.is_search(turn.agent, &call.name) {
            // It only returns what the agent may call anyway, so it needs no permission.
            return match tool_search::check_query(&call.arguments) {
                Ok(()) => Vetting::run(ToolClass::ReadOnly),
                Err(message) => Vetting::Invalid { message },
            };
        }
        let tool = match self.catalog.check(&call.name, &call.arguments) {
            Ok(tool) => tool,
            Err(ToolCallError::UnknownTool { .. } | ToolCallError::AbsentTool { .. }) => {
                return Vetting::Unknown;
            }
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
            return Vetting::deny("the current policy does not offer it to such a request");
        }
        let taint = self.tree.taint(turn.agent);
        let owner = self.scope.request.owner();
        let judged = self.engine.call(spec, &call.arguments, taint, owner);
        self.engine.policy.vet(decision, &judged, reasons)
    }

    /// Answers with the session's grants taken into account, once the store has returned them.
    fn look_up(&mut self, calls: CallsToJudge, vetted: Vec<Vetting>) {
        let Some(decision) = self.scope.decision.clone() else {
            return;
        };
        let lookup = Lookup {
            engine: Arc::clone(&self.engine),
            catalog: Arc::clone(&self.catalog),
            journal: Arc::clone(&self.journal),
            decision,
            taint: self
                .tree
                .taint(calls.vet.agent)
                .cloned()
                .unwrap_or_default(),
            owner: self.scope.request.owner().map(str::to_owned),
        };
        let client_calls = self.client_calls(&calls.vet);
        self.work.push(Box::pin(async move {
            let answered = AssertUnwindSafe(lookup.answer(&calls.vet.calls, vetted))
                .catch_unwind()
                .await;
            let (vetted, granted) = answered.unwrap_or_else(|_| {
                let effect_id = calls.vet.effect_id;
                tracing::error!(%effect_id, "judging calls crashed; they are denied");
                let deny = |_: &CallToVet| Vetting::deny("it could not be judged");
                (calls.vet.calls.iter().map(deny).collect(), Vec::new())
            });
            let vetted = calls.concluded(vetted);
            let vetted = dry_run(&lookup.catalog, &calls.vet.calls, &client_calls, vetted).await;
            Work::Answer(Box::new(calls.vetted(vetted, granted)))
        }));
    }
}

/// Returns whether a tool can be used in this turn; `false` if it panics when asked.
fn is_available(tool: &dyn Tool, turn: &TurnContext) -> bool {
    // The tool's state is not used after a panic.
    let should_use = catch_unwind(AssertUnwindSafe(|| tool.should_use(turn)));
    should_use.unwrap_or_else(|_| {
        tracing::error!(tool = %tool.spec().name, "the tool crashed while it checked whether it can be used");
        false
    })
}

/// Returns whether a session grant may apply to a call, or may result from it.
fn may_be_remembered(vetting: &Vetting, call: &CallToVet) -> bool {
    let asks = matches!(vetting, Vetting::Ask { remember, .. } if *remember > Remember::Never);
    let remembers = |approved: &Approved| approved.remember.is_some() && !call.is_rechecked;
    asks && call.approved.as_deref().is_none_or(remembers)
}

/// What is needed to judge calls again with the session's grants.
struct Lookup {
    engine: Arc<Engine>,
    catalog: Arc<ToolCatalog>,
    journal: Arc<Journal>,
    decision: Arc<Decision>,
    taint: Taint,
    owner: Option<String>,
}

impl Lookup {
    /// Judges calls again; returns the results, and the session grants that were given with their approvals. A grant
    /// applies from the record that holds it.
    async fn answer(
        &self,
        calls: &[CallToVet],
        mut vetted: Vec<Vetting>,
    ) -> (Vec<Vetting>, Vec<Grant>) {
        // Another batch of this run may be about to add a grant, which takes the next number.
        let mut given = self.journal.given.lock().await;
        // If grants cannot be read, they allow nothing: the user is asked, and an answer applies only to its call.
        let mut remembered = match self.remembered(&given).await {
            Ok(remembered) => remembered,
            Err(error) => {
                let run = self.journal.run_id;
                tracing::warn!(%run, %error, "could not read the session's grants");
                None
            }
        };
        let before = given.len();
        for (vetting, call) in vetted.iter_mut().zip(calls) {
            if !may_be_remembered(vetting, call) {
                continue;
            }
            let Ok(name) = call.name.parse() else {
                continue;
            };
            let Some(tool) = self.catalog.tool(&name) else {
                continue;
            };
            *vetting = self.judge(tool.spec(), call, &mut remembered, &mut given);
        }
        (vetted, given.get(before..).unwrap_or_default().to_vec())
    }

    fn judge(
        &self,
        spec: &ToolSpec,
        call: &CallToVet,
        remembered: &mut Option<Grants>,
        given: &mut Vec<Grant>,
    ) -> Vetting {
        let policy = &self.engine.policy;
        let (taint, owner) = (Some(&self.taint), self.owner.as_deref());
        let judged = self.engine.call(spec, &call.arguments, taint, owner);
        let nothing = Grants::default();
        let known = remembered.as_ref().unwrap_or(&nothing);
        let mut reasons = ReasonCache::default();
        let judged_with = |known: &Grants, reasons: &mut ReasonCache| {
            policy.vet(&self.decision, &judged.with_remembered(known), reasons)
        };
        let mut vetting = judged_with(known, &mut reasons);
        let asks = matches!(vetting, Vetting::Ask { .. });
        if let Some(approved) = call.approved.as_deref().filter(|_| asks)
            && remembered.is_some()
            && let Some(after) = self.remember(&judged, approved, known, given)
        {
            let again = judged_with(&after, &mut reasons);
            *remembered = Some(after);
            return again;
        }
        if let Vetting::Ask { choices, .. } = &mut vetting {
            *choices = match self.journal.slot {
                Some(_) => policy.grant_choices(&self.decision, &judged.with_remembered(known)),
                None => Vec::new(),
            };
            choices.retain(|scope| self.may_be_kept(scope));
        }
        vetting
    }

    /// Returns whether a grant may be in the log: the data policy may keep words of arguments out of it.
    fn may_be_kept(&self, scope: &GrantScope) -> bool {
        self.journal.policy.tool_calls || !scope.quotes_arguments()
    }

    /// Remembers an approval for the session, as far as the policy permits; returns what is then remembered. If it is
    /// not remembered, the approval still applies to this one call.
    fn remember(
        &self,
        call: &Call<'_>,
        approved: &Approved,
        known: &Grants,
        given: &mut Vec<Grant>,
    ) -> Option<Grants> {
        let (run, tool) = (self.journal.run_id, &call.tool.name);
        let slot = self.journal.slot.as_ref()?;
        let scope = approved.remember.clone()?;
        if !self.may_be_kept(&scope) {
            tracing::warn!(%run, %tool, "an approval is not remembered for the session: the data policy keeps its pattern out of the log");
            return None;
        }
        let (at, by) = (self.engine.clock.now(), approved.by.clone());
        let mut after = known.clone();
        let policy = &self.engine.policy;
        if let Err(error) = policy.remember(&mut after, &self.decision, call, scope, at, by) {
            tracing::warn!(%run, %tool, %error, "an approval is not remembered for the session");
            return None;
        }
        let mut grant = after.grants().last()?.clone();
        self.engine
            .approval_key
            .sign_grant(slot.session(), &mut grant);
        if !grant.is_small_enough() {
            tracing::warn!(%run, %tool, "an approval is not remembered for the session: it is too large");
            return None;
        }
        given.push(grant);
        Some(after)
    }

    /// Returns the session's grants, including those given in this run that may not be on record yet; `None` for a run
    /// that is not stored.
    async fn remembered(&self, given: &[Grant]) -> Result<Option<Grants>, StoreError> {
        let Some(slot) = &self.journal.slot else {
            return Ok(None);
        };
        let (store, session) = (slot.store(), slot.session());
        let mut remembered = store.carried(session).await?.remembered;
        let key = &self.engine.approval_key;
        remembered.retain(|grant| key.grants(session, grant));
        if !self.journal.has_verified(remembered.grants()) {
            // Grants that were written into the store by other means allow nothing.
            store.verify(session, None).await?;
            self.journal.note_verified(remembered.grants());
        }
        for grant in given {
            remembered.record(grant.clone());
        }
        // Grants that are not on record, or not yet, let nothing run. Their numbers stay taken.
        let recorded = self.journal.recorded();
        let is_given = |id: u32| given.iter().any(|grant| grant.id == id);
        remembered.retain(|grant| recorded.contains(&grant.id) || !is_given(grant.id));
        Ok(Some(remembered))
    }
}
