//! The calls of a run, from its records: what each is asked to do and, if it may not run, why.
//!
//! Who decided and why is read from the records that hold it, not from the message for the model.

use std::collections::{BTreeMap, HashMap, VecDeque};

use neuraxis::core::{
    AgentId, ApprovalDecided, ApprovalDecision, CallIndex, LlmCall, Recheck, Record, RecordBody,
    RuleRef, ToolCallId, ToolKind, Vetted, Vetting,
};

/// The calls that have no result yet.
#[derive(Debug, Default)]
pub(crate) struct CallLog {
    open: HashMap<ToolCallId, OpenCall>,
    /// The calls of each agent's last reply, in order. Sorted by agent, so that what is shown is the same each time.
    replies: BTreeMap<AgentId, Vec<ToolCallId>>,
    /// The calls of each agent that still need checking, in the order in which they will be checked.
    unchecked: HashMap<AgentId, VecDeque<ToolCallId>>,
}

/// A call without a result.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenCall {
    pub(crate) name: String,
    /// The call's final arguments as JSON: as the model wrote them, or as they were changed.
    pub(crate) arguments: String,
    /// Why the call may not run, if so.
    pub(crate) refusal: Option<Refusal>,
    /// The rule that denied the call or requires approval.
    pub(crate) rule: Option<RuleRef>,
    /// Why approval is required; `None` if it is not, or if the decision was made.
    why_asked: Option<String>,
    /// What runs the call, once it has begun.
    begun: Option<ToolKind>,
}

/// Why a call may not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The policy denies it, with this explanation.
    ByPolicy(String),
    /// The user denied it, perhaps with a reason.
    ByUser(Option<String>),
    /// It needed approval for this reason, and nobody could be asked.
    Unattended(String),
    /// It needed approval for this reason, and nobody decided in time.
    Expired(String),
}

impl CallLog {
    /// Adds a record of the run.
    pub(crate) fn add(&mut self, record: &Record) {
        match &record.body {
            RecordBody::LlmCall(call) => self.add_requested(record, call),
            RecordBody::Verdict(vetted) => self.checked(record.agent, vetted),
            RecordBody::ApprovalRequested(asked) => {
                let open = self.open.entry(asked.tool_call_id.clone()).or_default();
                open.name = asked.name.to_string();
                asked.arguments.as_str().clone_into(&mut open.arguments);
                open.why_asked = Some(asked.reason.clone());
                open.rule.clone_from(&asked.rule);
            }
            RecordBody::ApprovalDecided(decided) => self.decided(record.agent, decided),
            RecordBody::Resumed(resumed) if resumed.recheck == Recheck::Calls => {
                self.recheck();
            }
            RecordBody::ToolCall(call) => {
                let open = self.open.entry(call.tool_call_id.clone()).or_default();
                open.name = call.name.to_string();
                call.arguments.as_str().clone_into(&mut open.arguments);
                open.begun = Some(call.kind);
            }
            _ => {}
        }
    }

    /// Returns a call that has no result yet.
    pub(crate) fn get(&self, id: &ToolCallId) -> Option<&OpenCall> {
        self.open.get(id)
    }

    /// Returns the open calls that may still run before another one: those before it in its reply, and those of other
    /// agents, whose order is unknown.
    pub(crate) fn before<'a>(
        &'a self,
        agent: AgentId,
        id: &'a ToolCallId,
    ) -> impl Iterator<Item = &'a OpenCall> {
        let calls = self.replies.iter().flat_map(move |(of, calls)| {
            let is_before = move |call: &&ToolCallId| *of != agent || *call != id;
            calls.iter().take_while(is_before)
        });
        let open = calls.filter_map(|call| self.open.get(call));
        open.filter(|open| open.refusal.is_none())
    }

    /// Removes a call that has its result.
    pub(crate) fn close(&mut self, id: &ToolCallId) -> OpenCall {
        for unchecked in self.unchecked.values_mut() {
            unchecked.retain(|other| other != id);
        }
        self.open.remove(id).unwrap_or_default()
    }

    fn add_requested(&mut self, record: &Record, call: &LlmCall) {
        let Some(content_index) = record.content_index else {
            return;
        };
        let mut ids = Vec::new();
        for (index, requested) in (0..).zip(call.reply.calls()) {
            let index = CallIndex(index);
            let id = ToolCallId::new(record.run_id, record.agent, content_index, index);
            ids.push(id.clone());
            let open = self.open.entry(id).or_default();
            open.name = requested.name.to_string();
            requested.arguments.as_str().clone_into(&mut open.arguments);
        }
        let unchecked = ids.iter().cloned().collect();
        self.unchecked.insert(record.agent, unchecked);
        self.replies.insert(record.agent, ids);
    }

    /// Handles a resumed run. Calls that would start or be repeated are checked again, and so are the calls before them
    /// whose check was still to come.
    fn recheck(&mut self) {
        for (agent, calls) in &self.replies {
            let unchecked = self.unchecked.entry(*agent).or_default();
            for id in calls {
                let is_checked = self.open.get(id).is_some_and(OpenCall::needs_recheck);
                if is_checked && !unchecked.contains(id) {
                    unchecked.push_back(id.clone());
                }
            }
        }
    }

    /// Handles the check of calls: of all without a result, or of one that the user allowed.
    fn checked(&mut self, agent: AgentId, vetted: &Vetted) {
        for advised in &vetted.advised {
            if let (Some(open), Some(arguments)) = (
                self.open.get_mut(&advised.tool_call_id),
                advised.arguments.as_ref(),
            ) {
                arguments.as_str().clone_into(&mut open.arguments);
            }
        }
        let unchecked = self.unchecked.entry(agent).or_default();
        for found in &vetted.calls {
            let Some(id) = unchecked.pop_front() else {
                return;
            };
            if let (Vetting::Deny { reason, rule }, Some(open)) = (found, self.open.get_mut(&id)) {
                open.refusal = Some(Refusal::ByPolicy(reason.clone()));
                open.rule.clone_from(rule);
            }
        }
    }

    fn decided(&mut self, agent: AgentId, decided: &ApprovalDecided) {
        let Some(open) = self.open.get_mut(&decided.tool_call_id) else {
            return;
        };
        let why = open.why_asked.take().unwrap_or_default();
        open.refusal = match &decided.decision {
            ApprovalDecision::Approve { arguments, .. } => {
                if let Some(arguments) = arguments {
                    arguments.as_str().clone_into(&mut open.arguments);
                }
                open.rule = None;
                // A call that the user allowed is checked again.
                let unchecked = self.unchecked.entry(agent).or_default();
                unchecked.push_back(decided.tool_call_id.clone());
                None
            }
            ApprovalDecision::Deny { reason } if decided.by.is_some() => {
                Some(Refusal::ByUser(reason.clone()))
            }
            ApprovalDecision::Deny { .. } => Some(Refusal::Unattended(why)),
            ApprovalDecision::Expired => Some(Refusal::Expired(why)),
        };
    }
}

impl OpenCall {
    /// Returns whether the call is checked again when its run is resumed with checks. It is not while approval is
    /// pending, nor if the client or another agent works on it.
    fn needs_recheck(&self) -> bool {
        let is_run_here = self.begun.is_none_or(|kind| kind == ToolKind::Server);
        is_run_here && self.why_asked.is_none() && self.refusal.is_none()
    }
}

#[cfg(test)]
mod tests {
    use neuraxis::core::Turn;
    use neuraxis::engine::read_log;

    use super::*;

    const LOG: &str = include_str!("../../../core/tests/golden/edited_approval_and_crash.jsonl");

    #[test]
    fn a_call_denied_when_its_run_is_resumed_has_a_reason() {
        let mut calls = CallLog::default();
        let (mut begun, mut verdict) = (None, None);
        for record in read_log(LOG).unwrap() {
            let mut record = (*record).clone();
            match &mut record.body {
                RecordBody::ToolCall(call) => begun = Some(call.tool_call_id.clone()),
                RecordBody::Verdict(_) => verdict = Some(record.clone()),
                RecordBody::Resumed(resumed) => resumed.recheck = Recheck::Calls,
                RecordBody::ToolResult(result) => drop(calls.close(&result.tool_call_id)),
                _ => {}
            }
            calls.add(&record);
            // The second time, the call only reads, so it would be repeated.
            if matches!(record.body, RecordBody::Resumed(_)) && record.turn == Turn(2) {
                break;
            }
        }
        let mut verdict = verdict.unwrap();
        if let RecordBody::Verdict(vetted) = &mut verdict.body {
            vetted.calls = vec![Vetting::deny("not any more")];
        }
        calls.add(&verdict);
        let refusal = calls.get(&begun.unwrap()).unwrap().refusal.clone();
        assert_eq!(refusal, Some(Refusal::ByPolicy("not any more".to_owned())));
    }

    #[test]
    fn an_approved_call_no_longer_names_the_rule_that_asked() {
        let mut calls = CallLog::default();
        let mut rules = Vec::new();
        for record in read_log(LOG).unwrap() {
            let mut record = (*record).clone();
            if let RecordBody::ApprovalRequested(asked) = &mut record.body {
                asked.rule = Some(RuleRef {
                    name: "writes".into(),
                    source: "neuraxis.toml".into(),
                    line: 7,
                });
            }
            calls.add(&record);
            let id = match &record.body {
                RecordBody::ApprovalRequested(asked) => &asked.tool_call_id,
                RecordBody::ApprovalDecided(decided) => &decided.tool_call_id,
                _ => continue,
            };
            rules.push(calls.get(id).unwrap().rule.is_some());
        }
        assert_eq!(rules, [true, false]);
    }

    #[test]
    fn a_call_has_the_arguments_edited_on_approval() {
        let mut calls = CallLog::default();
        let mut edited = 0;
        for record in read_log(LOG).unwrap() {
            calls.add(&record);
            if let RecordBody::ApprovalDecided(decided) = &record.body
                && let ApprovalDecision::Approve {
                    arguments: Some(given),
                    ..
                } = &decided.decision
            {
                edited += 1;
                let open = calls.get(&decided.tool_call_id).unwrap();
                assert_eq!(open.arguments, given.as_str());
            }
        }
        assert!(edited > 0);
    }
}
