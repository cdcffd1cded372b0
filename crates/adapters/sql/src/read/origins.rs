//! Compares what a session carries from one run to the next with its records: an answer of a person that nobody gave is
//! found, and untrusted content that was made to be forgotten.
//!
//! The last answers of a session may be gone without a trace, and what they allowed is then asked about again.

use std::collections::HashMap;

use neuraxis_core::{
    ApprovalDecided, ApprovalDecision, ContentHash, Grant, GrantScope, Record, RecordBody, RunId,
    Taint, ToolCallId,
};
use neuraxis_ports::StoreError;

use super::answers::{grants_of, taint_of};
use crate::error::Failure;
use crate::link::Link;

/// How far into a line the type of its record stands, at the most.
const HEAD_BYTES: usize = 512;

/// The records that say where something carried came from.
const TYPES: [&[u8]; 4] = [
    br#""type":"decision""#,
    br#""type":"tool_result""#,
    br#""type":"approval_requested""#,
    br#""type":"approval_decided""#,
];

/// What a session carries, and what its records say of it.
#[derive(Debug)]
pub(super) struct Origins {
    session: i64,
    /// By their numbers; nothing for one that was taken back.
    grants: Vec<(i64, Option<Grant>)>,
    noted: Taint,
    /// What the records hold.
    brought: Taint,
    /// The tools of the calls that people were asked about.
    asked: HashMap<(RunId, ToolCallId), String>,
    answers: Vec<Given>,
}

/// What a person wanted to be remembered.
#[derive(Debug)]
struct Given {
    tool: String,
    scope: GrantScope,
    by: Option<String>,
}

impl Origins {
    /// Reads what a session carries; before its records, because those of a run at work come first.
    pub(super) async fn of(link: &mut Link, session: i64) -> Result<Self, Failure> {
        Ok(Self {
            session,
            grants: grants_of(link, session).await?,
            noted: taint_of(link, session).await?,
            brought: Taint::default(),
            asked: HashMap::new(),
            answers: Vec::new(),
        })
    }

    /// Takes in a record of the session, as its line.
    pub(super) fn read(&mut self, line: &[u8]) {
        let head = line.get(..HEAD_BYTES).unwrap_or(line);
        let names = |name: &&[u8]| head.windows(name.len()).any(|part| part == *name);
        if !TYPES.iter().any(names) {
            return;
        }
        let text = std::str::from_utf8(line).ok();
        // What cannot be read is found by whoever goes on from it.
        let Some(record) = text.and_then(|text| Record::from_json(text).ok()) else {
            return;
        };
        self.brought.read(&record);
        match &record.body {
            RecordBody::ApprovalRequested(asked) => {
                let call = (record.run_id, asked.tool_call_id.clone());
                self.asked.insert(call, asked.name.to_string());
            }
            RecordBody::ApprovalDecided(decided) => self.read_answer(&record, decided),
            _ => {}
        }
    }

    fn read_answer(&mut self, record: &Record, decided: &ApprovalDecided) {
        let call = (record.run_id, decided.tool_call_id.clone());
        if let ApprovalDecision::Approve {
            remember: Some(scope),
            ..
        } = &decided.decision
            && let Some(tool) = self.asked.get(&call)
        {
            self.answers.push(Given {
                tool: tool.clone(),
                scope: scope.clone(),
                by: decided.by.clone(),
            });
        }
    }

    /// Compares, once all records were read.
    pub(super) async fn check(mut self, link: &mut Link) -> Result<(), Failure> {
        for ((number, grant), place) in std::mem::take(&mut self.grants).into_iter().zip(1_i64..) {
            if number != place {
                return Err(damaged(format!(
                    "the remembered permission {place} is missing"
                )));
            }
            if grant.is_some_and(|grant| !self.was_given(&grant)) {
                return Err(damaged(format!(
                    "the remembered permission {number} was given by nobody: no record of the session says so"
                )));
            }
        }
        // What a run at work brings meanwhile is noted together with its record.
        let noted = taint_of(link, self.session).await?;
        if let Some(tool) = tool_beyond(&self.brought, &noted) {
            return Err(damaged(format!(
                "it is no longer noted that {tool} brought untrusted content"
            )));
        }
        if let Some(tool) = tool_beyond(&self.noted, &self.brought) {
            return Err(damaged(format!(
                "it is noted that {tool} brought untrusted content, and no record of the session says so"
            )));
        }
        Ok(())
    }

    /// Tells whether a person gave such an answer, which then counts for no other.
    fn was_given(&mut self, grant: &Grant) -> bool {
        let place = self.answers.iter().position(|given| {
            given.tool == grant.tool.as_str()
                && is_same(&given.scope, &grant.scope)
                && given.by == grant.by
        });
        place.is_some_and(|place| {
            self.answers.remove(place);
            true
        })
    }
}

/// Tells whether an answer is about the calls that a person was asked about, as far as the records may say that.
fn is_same(given: &GrantScope, kept: &GrantScope) -> bool {
    match (given, kept) {
        (
            GrantScope::Command {
                pattern: given,
                access: asked,
            },
            GrantScope::Command {
                pattern: kept,
                access,
            },
        ) => asked == access && (given == kept || is_stand_in(given, kept)),
        (GrantScope::Host { pattern: given }, GrantScope::Host { pattern: kept })
        | (GrantScope::Path { pattern: given }, GrantScope::Path { pattern: kept }) => {
            given == kept || is_stand_in(given, kept)
        }
        _ => given == kept,
    }
}

/// Tells whether a text stands for another that the policy of its run keeps out of the log: it names its hash.
fn is_stand_in(recorded: &str, text: &str) -> bool {
    let hash = ContentHash::of(text.as_bytes()).to_string();
    recorded.starts_with("[withheld: ") && recorded.contains(&hash)
}

/// Returns a tool of the one that the other does not name.
fn tool_beyond(one: &Taint, other: &Taint) -> Option<String> {
    let names = |tool: &_| other.sources().iter().any(|known| known.tool == *tool);
    let mut beyond = one.sources().iter().filter(|source| !names(&source.tool));
    beyond.next().map(|source| source.tool.to_string())
}

fn damaged(what: String) -> Failure {
    Failure::Refused(StoreError::Damaged(what))
}
