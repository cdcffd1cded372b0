//! Counts failures in a row, and lets a larger role or a person take over: failed attempts of a turn's model call, turns
//! whose calls all failed, drafts that a check turned down.

use crate::decision::TakesOver;
use crate::finish::FinishReason;
use crate::ids::AgentId;
use crate::outcome::ToolFailure;
use crate::record::{Escalated, RecordBody};
use crate::run::RunTree;
use crate::run::batch::{Batch, Call};
use crate::run::draft::Draft;

/// What the user is told when not even the larger role got further.
const ASK_A_PERSON: &str = "I have tried several times and did not get this right, so I stop here rather than guess. \
     Please tell me how to go on, or ask somebody who knows.";

impl RunTree {
    /// Counts a failure, and says who takes over from now on, if anybody does.
    pub(super) fn failed(&mut self, draft: &mut Draft, id: AgentId) -> TakesOver {
        self.count_failure(id);
        self.take_over(draft, id)
    }

    /// Counts a failure after which the driver itself tries again.
    pub(super) fn count_failure(&mut self, id: AgentId) {
        if let Some(ways) = self.ways_mut(id) {
            ways.failures = ways.failures.saturating_add(1);
        }
    }

    /// Ends the row of failures.
    pub(super) fn succeeded(&mut self, id: AgentId) {
        if let Some(ways) = self.ways_mut(id) {
            ways.failures = 0;
        }
    }

    /// Counts a turn by what came of its calls.
    pub(super) fn count_turn(
        &mut self,
        draft: &mut Draft,
        id: AgentId,
        all_failed: bool,
    ) -> TakesOver {
        if all_failed {
            self.failed(draft, id)
        } else {
            self.succeeded(id);
            TakesOver::Nobody
        }
    }

    /// Ends the agent with a question to the person.
    pub(super) fn ask_person(&mut self, draft: &mut Draft, id: AgentId) {
        let text = self.agent(id).map(|agent| agent.text.clone());
        let text = text.filter(|text| !text.is_empty());
        let content = match text {
            Some(text) => format!("{text}\n\n{ASK_A_PERSON}"),
            None => ASK_A_PERSON.to_owned(),
        };
        self.say(id, ASK_A_PERSON);
        self.finish(draft, id, FinishReason::Clarify, content);
    }

    /// Says who takes over after the failures so far, if anybody does, and records it.
    pub(super) fn take_over(&mut self, draft: &mut Draft, id: AgentId) -> TakesOver {
        let Some(ways) = self.ways_mut(id) else {
            return TakesOver::Nobody;
        };
        let failures = ways.failures;
        let takes_over = ways.escalation.as_ref().map(|it| it.after(failures));
        let escalated = match takes_over {
            Some(TakesOver::Role(role)) if ways.larger.is_none() => {
                ways.larger = Some(role.clone());
                let (role, question) = (Some(role), None);
                Escalated {
                    failures,
                    role,
                    question,
                }
            }
            Some(TakesOver::Person) => Escalated {
                failures,
                role: None,
                question: Some(ASK_A_PERSON.to_owned()),
            },
            _ => return TakesOver::Nobody,
        };
        let takes_over = escalated
            .role
            .clone()
            .map_or(TakesOver::Person, TakesOver::Role);
        self.record(draft, id, None, RecordBody::Escalated(Box::new(escalated)));
        takes_over
    }
}

impl Batch {
    /// Tells whether every call failed, be it by the tool or by how the model called it.
    pub(super) fn is_all_failed(&self) -> bool {
        self.calls.iter().all(Call::went_wrong)
    }
}

impl Call {
    fn went_wrong(&self) -> bool {
        self.failure().is_some_and(|failure| {
            failure.is_of_the_tool()
                || matches!(
                    failure,
                    ToolFailure::InvalidArguments | ToolFailure::UnknownTool
                )
        })
    }
}
