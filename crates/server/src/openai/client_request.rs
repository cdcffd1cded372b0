//! A client's request, in either of OpenAI's protocols, and its conversion to the engine's request, including which
//! conversation continues.

use std::collections::BTreeSet;
use std::mem;

use neuraxis::core::{Message, RunId, ToolCall, ToolCallId, ToolChoice, ToolSpec};
use neuraxis::engine::UuidV7;
use neuraxis::ports::{Ids, RunSummary};
use neuraxis::{
    AnswerSchema, Channel, ClientInput, FinishReason, Mode, Orchestrator, RunStatus, SessionId,
    UserRequest,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::models;
use super::responses::ID;
use super::run::{began_without_budget, ended_by_repeats, gave_up_on_structure, handed_over};
use crate::api::result_if_settled;
use crate::caller::Caller;
use crate::limits::ServerState;
use crate::problem::Problem;

/// The maximum length of a list of calls without results in an error message, in characters.
const MAX_NAMED_CHARS: usize = 1000;

/// Options beyond the fields of OpenAI's API, in the field `neuraxis` of a request.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "OpenAiChoices")]
#[serde(
    default,
    deny_unknown_fields,
    expecting = "an object that may have the fields session, mode and channel"
)]
pub(super) struct NeuraxisOptions {
    /// The session of the conversation. The server stores it and uses only the messages after the last answer, or all
    /// messages if the session is empty.
    session: Option<SessionId>,
    /// How much freedom the run has. The default is `moderate`, or the freest mode that is no freer and that the caller
    /// may choose.
    mode: Option<Mode>,
    /// What kind of request it is. The default is `chat`, or the only channel that the caller may use.
    channel: Option<Channel>,
}

/// A client's request.
#[derive(Debug, Default)]
pub(super) struct ClientRequest {
    pub(super) model: Option<String>,
    /// The messages, without system messages.
    pub(super) messages: Vec<Message>,
    /// Instructions for the agent in this run only.
    pub(super) instructions: Option<String>,
    /// The system and developer messages.
    pub(super) system: Vec<String>,
    pub(super) tools: Vec<ToolSpec>,
    pub(super) tool_choice: Option<ToolChoice>,
    pub(super) answer: Option<AnswerSchema>,
    pub(super) temperature: Option<f32>,
    pub(super) max_output_tokens: Option<u32>,
    /// The run whose conversation continues, if the client names one.
    pub(super) previous: Option<RunId>,
    /// The runs that gave the answers among the messages, according to their ids.
    pub(super) answered_by: BTreeSet<RunId>,
    pub(super) own: NeuraxisOptions,
}

impl ClientRequest {
    /// Converts this to the engine's request. `conversation_field` is the field that holds the conversation.
    pub(super) async fn into_request(
        mut self,
        state: &ServerState,
        caller: &Caller,
        conversation_field: &'static str,
    ) -> Result<UserRequest, Problem> {
        let orchestrator = state.orchestrator();
        self.follow_its_calls(orchestrator, caller).await?;
        let session = self.session(orchestrator, caller).await?;
        let mut missing = missing_results(&self.messages);
        if let Some(session) = &session
            && missing.is_empty()
        {
            missing = self.missing_in(session, orchestrator, caller).await?;
        }
        if !missing.is_empty() {
            return Err(Problem::invalid(conversation_field, incomplete(&missing)));
        }
        if session.is_none() && !has_its_calls(&self.messages) {
            let why = "contains a result whose call is neither in it nor waiting here; send the whole conversation";
            return Err(Problem::invalid(conversation_field, why));
        }
        if let (Some(named), Some(found)) = (&self.own.session, &session)
            && named != found
        {
            let why = "it does not belong to the session named in neuraxis";
            return Err(Problem::invalid("previous_response_id", why));
        }
        let messages = match (&session, self.previous) {
            (Some(_), Some(run)) => without_calls_of(run, self.messages),
            (Some(session), None) if !holds_anything(orchestrator, session).await? => self.messages,
            (Some(_), None) => since_the_last_answer(self.messages),
            (None, _) => self.messages,
        };
        let session = match session {
            Some(session) => session,
            None => new_session()?,
        };
        let untrusted = caller.taint_of(orchestrator, &self.answered_by).await?;
        let mut client_input = ClientInput::default()
            .conversation(messages)
            .untrusted(untrusted)
            .tools(self.tools)
            .hand_over();
        let instructions: Vec<String> = self.instructions.into_iter().chain(self.system).collect();
        client_input.instructions = Some(instructions.join("\n\n")).filter(|it| !it.is_empty());
        client_input.tool_choice = self.tool_choice;
        client_input.temperature = self.temperature;
        client_input.max_output_tokens = self.max_output_tokens;
        let mut request = UserRequest::new(session, "");
        request.answer = self.answer;
        (request.channel, request.mode) =
            caller.channel_and_mode(state, self.own.channel, self.own.mode);
        let (request, client_input) = match &self.model {
            Some(model) => models::choose(orchestrator, model, request, client_input)?,
            None => (request, client_input),
        };
        Ok(request.with_client_input(client_input))
    }

    /// Continues from the response whose calls the last messages answer, if the client names an earlier response and
    /// that one is the last of its conversation: a client that executes calls in a loop names the same response at each
    /// step. It must send the calls, because the messages before them are already in the session.
    async fn follow_its_calls(
        &mut self,
        orchestrator: &Orchestrator,
        caller: &Caller,
    ) -> Result<(), Problem> {
        let (Some(named), Some(answered)) = (self.previous, answered_run(&self.messages)) else {
            return Ok(());
        };
        if named == answered || !has_its_calls(&self.messages) {
            return Ok(());
        }
        let Some(Since::Answer(last)) = since(orchestrator, caller, named).await? else {
            return Ok(());
        };
        if last == answered
            && let Some(Since::NoAnswer { ended, .. }) = since(orchestrator, caller, last).await?
            && ended == Some(FinishReason::ClientTools)
        {
            self.previous = Some(last);
            self.messages = since_the_last_answer(mem::take(&mut self.messages));
        }
        Ok(())
    }

    /// Like [`missing_results`], for clients that omit the calls themselves because the session holds them.
    async fn missing_in(
        &self,
        session: &SessionId,
        orchestrator: &Orchestrator,
        caller: &Caller,
    ) -> Result<Vec<ToolCallId>, Problem> {
        let Some(run) = answered_run(&self.messages) else {
            return Ok(Vec::new());
        };
        // A client that sends the calls may have omitted some of them along with their results.
        if self.previous.is_none() && has_its_calls(&self.messages) {
            return Ok(Vec::new());
        }
        let summary = caller.find_run(orchestrator, run).await?;
        let is_of_session = summary.is_some_and(|summary| {
            summary.session == *session && summary.finish_reason == Some(FinishReason::ClientTools)
        });
        if !is_of_session {
            return Ok(Vec::new());
        }
        let records = orchestrator.sessions().records(run).await?;
        let calls = handed_over(&records);
        Ok(without_results(
            calls.iter(),
            &self.messages,
            &self.messages,
        ))
    }

    /// Returns the session that continues: the named one, that of the named run, or the one whose calls the last
    /// messages answer, so that the results of the server's own tools stay known. Returns `None` if a new session
    /// begins, as it does for a complete conversation if a data policy kept its content out of the session.
    async fn session(
        &self,
        orchestrator: &Orchestrator,
        caller: &Caller,
    ) -> Result<Option<SessionId>, Problem> {
        // If a response is named too, it must belong to that session.
        let named = self.own.session.as_ref();
        if let Some(session) = named.filter(|_| self.previous.is_none()) {
            return Ok(Some(session.clone()));
        }
        if let Some(run) = self.previous {
            let why = match since(orchestrator, caller, run).await? {
                Some(Since::NoAnswer { session, .. }) => return Ok(Some(session)),
                Some(Since::Answer(last)) => {
                    format!(
                        "its conversation has continued; name its last response, {ID}{last}, or omit \
                         previous_response_id and send the conversation"
                    )
                }
                None => "no such response".to_owned(),
            };
            return Err(Problem::invalid("previous_response_id", why));
        }
        let Some(run) = answered_run(&self.messages) else {
            return Ok(None);
        };
        let Some(Since::NoAnswer {
            session,
            ended: Some(FinishReason::ClientTools),
        }) = since(orchestrator, caller, run).await?
        else {
            // It is an ordinary conversation, sent in full.
            return Ok(None);
        };
        if has_its_calls(&self.messages) && !holds_content(orchestrator, run).await? {
            return Ok(None);
        }
        Ok(Some(session))
    }
}

/// The outcome of a conversation after one of its runs.
enum Since {
    /// No answer: the conversation continues from that run. A later run that failed, or was left by its client, may be
    /// asked again.
    NoAnswer {
        session: SessionId,
        /// Why that run ended, if it has.
        ended: Option<FinishReason>,
    },
    /// The run that gave the last answer.
    Answer(RunId),
}

/// Returns what happened after a run, or `None` if no such run is visible to the caller.
async fn since(
    orchestrator: &Orchestrator,
    caller: &Caller,
    run: RunId,
) -> Result<Option<Since>, Problem> {
    let Some(summary) = caller.find_run(orchestrator, run).await? else {
        return Ok(None);
    };
    let Some(runs) = orchestrator.sessions().runs(&summary.session).await? else {
        return Ok(None);
    };
    for later in runs.iter().rev().take_while(|later| later.run_id != run) {
        if has_an_answer(orchestrator, later).await? {
            return Ok(Some(Since::Answer(later.run_id)));
        }
    }
    Ok(Some(Since::NoAnswer {
        ended: summary.finish_reason.clone(),
        session: summary.session,
    }))
}

/// Returns whether a run has an answer, according to what its client was sent.
async fn has_an_answer(orchestrator: &Orchestrator, run: &RunSummary) -> Result<bool, Problem> {
    let why = run.finish_reason.as_ref();
    if run.status != RunStatus::Done || began_without_budget(why, &run.metrics().usage) {
        return Ok(false);
    }
    if !ended_by_repeats(why) {
        return Ok(true);
    }
    let result = result_if_settled(orchestrator, run).await?;
    Ok(!result.is_some_and(|result| gave_up_on_structure(&result)))
}

/// Returns whether a session holds any part of a conversation. The session may not exist yet, or no longer.
async fn holds_anything(orchestrator: &Orchestrator, session: &SessionId) -> Result<bool, Problem> {
    let runs = orchestrator.sessions().runs(session).await?;
    Ok(runs.is_some_and(|runs| !runs.is_empty()))
}

/// Returns whether the log of a run holds its text, calls and results, rather than the hashes to which a data policy
/// reduces them.
async fn holds_content(orchestrator: &Orchestrator, run: RunId) -> Result<bool, Problem> {
    let records = orchestrator.sessions().records(run).await?;
    let started = records.first().and_then(|first| first.run_started());
    Ok(started.is_none_or(|started| {
        let stored = started.spec.data_policy();
        stored.text && stored.tool_calls && stored.tool_results
    }))
}

/// Returns whether the call of each result is among the messages, as in a complete conversation.
fn has_its_calls(messages: &[Message]) -> bool {
    let calls = messages.iter().flat_map(Message::tool_calls);
    let called: BTreeSet<&ToolCallId> = calls.map(|call| &call.id).collect();
    messages.iter().all(|message| match message {
        Message::Tool(result) => called.contains(&result.tool_call_id),
        _ => true,
    })
}

/// Returns the calls of the last answer that have no result, if other calls of that answer have one: the model would be
/// told that they are lost, and their results could not be sent later. If no call has a result, the user has said
/// something else instead.
fn missing_results(messages: &[Message]) -> Vec<ToolCallId> {
    let is_answer = |message: &Message| matches!(message, Message::Assistant(_));
    let Some(last) = messages.iter().rposition(is_answer) else {
        return Vec::new();
    };
    let (up_to_answer, since) = messages.split_at(last.saturating_add(1));
    let calls = up_to_answer
        .last()
        .into_iter()
        .flat_map(Message::tool_calls);
    without_results(calls, since, messages)
}

/// Returns the calls that have no result among `messages`, if at least one call has a result in `since`.
fn without_results<'a>(
    calls: impl Iterator<Item = &'a ToolCall>,
    since: &[Message],
    messages: &[Message],
) -> Vec<ToolCallId> {
    let (given, new) = (results(messages), results(since));
    let calls: Vec<&ToolCall> = calls.collect();
    if !calls.iter().any(|call| new.contains(&call.id)) {
        return Vec::new();
    }
    let missing = calls.iter().filter(|call| !given.contains(&call.id));
    missing.map(|call| call.id.clone()).collect()
}

/// Returns the calls whose results are among the messages.
fn results(messages: &[Message]) -> BTreeSet<&ToolCallId> {
    let results = messages.iter().filter_map(|message| match message {
        Message::Tool(result) => Some(&result.tool_call_id),
        _ => None,
    });
    results.collect()
}

/// Describes which results are missing.
fn incomplete(missing: &[ToolCallId]) -> String {
    let missing: Vec<&str> = missing.iter().map(ToolCallId::as_str).collect();
    let named: String = missing.join(", ").chars().take(MAX_NAMED_CHARS).collect();
    format!("the results of all calls of an answer must be sent together; missing: {named}")
}

/// Returns the run whose calls the last messages answer, if they answer calls of a run on this server.
fn answered_run(messages: &[Message]) -> Option<RunId> {
    let mut latest_first = messages.iter().rev();
    match latest_first.find(|message| !matches!(message, Message::User { .. }))? {
        Message::Tool(result) => result.tool_call_id.run(),
        _ => None,
    }
}

/// Returns the new part of a conversation: the results of calls and the messages after the last answer. Clients may put
/// each result directly after its call, so results of calls that the same run returned are new too.
fn since_the_last_answer(mut messages: Vec<Message>) -> Vec<Message> {
    let is_answer = |message: &Message| matches!(message, Message::Assistant(_));
    let new = messages.iter().rposition(is_answer).map_or(0, |at| at + 1);
    let run = answered_run(&messages);
    let since = messages.split_off(new);
    messages.retain(|message| match message {
        Message::Tool(result) => run.is_some() && result.tool_call_id.run() == run,
        _ => false,
    });
    messages.extend(since);
    messages
}

/// Returns the new part of a conversation that continues a named run: everything except that run's calls, which its
/// session holds.
fn without_calls_of(run: RunId, mut messages: Vec<Message>) -> Vec<Message> {
    messages.retain(|message| {
        let mut calls = message.tool_calls();
        !calls.any(|call| call.id.run() == Some(run))
    });
    messages
}

fn new_session() -> Result<SessionId, Problem> {
    let id = UuidV7.new_id().to_string();
    id.parse()
        .map_err(|error: neuraxis::core::InvalidId| crate::refusal::internal(&error))
}
