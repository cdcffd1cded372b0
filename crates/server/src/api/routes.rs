//! The routes, each with its description: add new ones here.

use axum::http::StatusCode;
use neuraxis::core::log::Stats;
use neuraxis::core::{Decision, QuestionId, RunId, ToolCallId};
use neuraxis::ports::Session;
use neuraxis::{IdempotencyKey, OrchestratorResult, SessionId};
use neuraxis_app::Scope;

use super::{approvals, fork, introspection, questions, runs, session_part, sessions};
use crate::limits::ServerState;
use crate::openapi::{DescribedRouter, Operation, Pointers, Problems, Tag, operation};
use crate::problem::{
    AGENT_NOT_ALLOWED, AT_WORK_ELSEWHERE, CANNOT_GO_ON, CHANNEL_NOT_ALLOWED,
    IDEMPOTENCY_KEY_REUSED, INVALID_IDEMPOTENCY_KEY, INVALID_LAST_EVENT_ID, INVALID_SESSION_ID,
    MODE_NOT_ALLOWED, NO_MODEL, NO_SUCH_EVENT, NO_SUCH_QUESTION, NO_SUCH_RUN, NO_SUCH_SESSION,
    NOT_ASKED, NOT_WAITING, OTHER_QUESTION, QUESTION_ALTERED, QUESTION_EXPIRED, REFUSED, RUN_ENDED,
    RUN_UNRECORDED, SESSION_ALTERED, SESSION_BUSY, SESSION_EXISTS, SHUTTING_DOWN,
    TOO_MANY_OWN_RUNS, TOO_MANY_RUNS, UNKNOWN_CHANNEL, UNKNOWN_MODE,
};
use crate::turn::Turn;
use crate::turns;

/// The problems with which the policy may refuse a request.
pub(crate) const OF_POLICY: Problems = &[
    &UNKNOWN_MODE,
    &UNKNOWN_CHANNEL,
    &MODE_NOT_ALLOWED,
    &CHANNEL_NOT_ALLOWED,
    &AGENT_NOT_ALLOWED,
    &REFUSED,
    &NO_MODEL,
];

/// The problems with which a contribution to a run may be refused.
const OF_JOINING: Problems = &[
    &MODE_NOT_ALLOWED,
    &CHANNEL_NOT_ALLOWED,
    &AGENT_NOT_ALLOWED,
    &TOO_MANY_RUNS,
];

/// The problems with which resuming a run may be refused.
const OF_RESUMING: Problems = &[
    &RUN_ENDED,
    &NOT_WAITING,
    &NOT_ASKED,
    &QUESTION_EXPIRED,
    &SESSION_ALTERED,
    &SESSION_BUSY,
    &AT_WORK_ELSEWHERE,
    &CANNOT_GO_ON,
    &SHUTTING_DOWN,
];

/// An example of a turn.
const TURN: &str = r#"{ "message": "What time is it?", "channel": "chat", "mode": "moderate" }"#;

/// Returns the routes of the API.
pub(crate) fn routes() -> DescribedRouter<ServerState> {
    DescribedRouter::new()
        .merge(of_sessions())
        .merge(of_runs())
        .merge(of_approvals())
        .merge(of_introspection())
}

fn of_sessions() -> DescribedRouter<ServerState> {
    let list = operation(
        "list_sessions",
        Tag::Sessions,
        "Lists sessions, most recently used first, in pages.",
    )
    .description(
        "A session is used when a run of it begins or ends. One that is used while the pages are read moves to the \
         front, so later pages lack it unless an earlier one showed it. With `q`, only sessions whose title, or the \
         user's message of one of their runs, contains this text. A request searches a limited number of sessions and \
         runs: its page may be short or empty and still have a `next`, from which the search continues. Without `q`, \
         pages are full, except the last one.",
    )
    .query::<sessions::SessionsQuery>()
    .answers::<sessions::Page>("A page of sessions.")
    .problems(&[&NO_SUCH_SESSION])
    .uses_store();
    let create = operation("create_session", Tag::Sessions, "Creates a session.")
        .description("A turn also creates its session if the session does not exist.")
        .body_if_any::<sessions::NewSession>(r#"{ "id": "support:42" }"#)
        .answers::<Session>("The session.")
        .status(StatusCode::CREATED)
        .example(include_str!("../openapi/examples/session.json"))
        .sends::<String>("Location", "The address of the session.")
        .leads_to("show_session", &[("id", "/id")])
        .leads_to("rename_session", &[("id", "/id")])
        .leads_to("take_turn", &[("id", "/id")])
        .leads_to("delete_session", &[("id", "/id")])
        .problems(&[&SESSION_EXISTS, &SHUTTING_DOWN])
        .uses_store();
    let show = of_session(
        "show_session",
        "Shows a session with its runs, messages, plan and usage.",
    )
    .description(
        "A long session is returned in pages, each with the next runs and the next messages, the oldest first. A run that \
         summarizes the conversation while the pages are read replaces messages: begin again then.",
    )
    .query::<session_part::SessionQuery>()
    .answers::<session_part::SessionPart>("The session.")
    .problems(&[&NO_SUCH_SESSION]);
    let rename = of_session(
        "rename_session",
        "Sets the title of a session, or removes it.",
    )
    .description("Works while a run is in progress, too. The last request wins.")
    .body::<sessions::Renaming>(r#"{ "title": "Trip to Kyoto" }"#)
    .answers::<Session>("The session.")
    .example(include_str!("../openapi/examples/renamed.json"))
    .problems(&[&NO_SUCH_SESSION]);
    let delete = of_session("delete_session", "Deletes a session with its runs.")
        .problems(&[&NO_SUCH_SESSION, &SESSION_BUSY]);
    DescribedRouter::new()
        .get("/api/v1/sessions", Scope::Read, sessions::list, list)
        .post("/api/v1/sessions", Scope::Turns, sessions::create, create)
        .get(
            "/api/v1/sessions/{id}",
            Scope::Read,
            session_part::show,
            show,
        )
        .patch(
            "/api/v1/sessions/{id}",
            Scope::Turns,
            sessions::rename,
            rename,
        )
        .delete(
            "/api/v1/sessions/{id}",
            Scope::Turns,
            sessions::delete,
            delete,
        )
        .post(
            "/api/v1/sessions/{id}/turns",
            Scope::Turns,
            turns::take,
            turn(),
        )
}

fn turn() -> Operation {
    let key = "Makes the request safe to repeat: 1 to 255 visible ASCII characters, such as a random UUID. Sent again \
               with the same key, the same request returns the run that the first one started.";
    of_session("take_turn", "Takes a turn: sends a user message and returns the run's result or its events.")
        .description(
            "The result is JSON or, with the header `Accept: text/event-stream`, the events of the run. The run \
             continues if the client disconnects.",
        )
        .header::<IdempotencyKey>("Idempotency-Key", key)
        .header::<u64>("Last-Event-ID", LAST_OF_REPEAT)
        .body::<Turn>(TURN)
        .answers::<OrchestratorResult>("The run's result, or what it waits for.")
        .answers_events("The run's result, or what it waits for; or its events as they happen.")
        .example(include_str!("../openapi/examples/result.json"))
        .sends::<bool>("Idempotency-Replayed", "Whether the request had already been sent.")
        .leads_to("show_run", &[("id", "/run_id")])
        .leads_to("follow_run", &[("id", "/run_id")])
        .leads_to("cancel_run", &[("id", "/run_id")])
        .leads_to("steer_run", &[("id", "/run_id")])
        .problems(OF_POLICY)
        .problems(&[
            &INVALID_IDEMPOTENCY_KEY,
            &INVALID_LAST_EVENT_ID,
            &NO_SUCH_EVENT,
            &NO_SUCH_SESSION,
            &IDEMPOTENCY_KEY_REUSED,
            &SESSION_BUSY,
            &SESSION_ALTERED,
            &AT_WORK_ELSEWHERE,
            &CANNOT_GO_ON,
            &RUN_UNRECORDED,
            &TOO_MANY_RUNS,
            &TOO_MANY_OWN_RUNS,
            &SHUTTING_DOWN,
        ])
}

/// The description of `Last-Event-ID` for a turn.
const LAST_OF_REPEAT: &str =
    "When repeating a request: the last record received. Later events are sent.";

/// The description of `Last-Event-ID` for a run.
const LAST: &str = "The last record received. Later events are sent; all of them by default.";

fn of_runs() -> DescribedRouter<ServerState> {
    let list = operation(
        "list_runs",
        Tag::Runs,
        "Lists runs, newest first, in pages.",
    )
    .query::<runs::RunsQuery>()
    .answers::<runs::Page>("A page of runs.")
    .uses_store();
    let stats = operation(
        "show_stats",
        Tag::Runs,
        "Sums up runs: in total, and by day, owner, model, role, tool and agent.",
    )
    .description(
        "A run is counted entirely on the day (UTC) on which it started. Money is in millionths of a US dollar.",
    )
    .query::<runs::StatsQuery>()
    .answers::<Stats>("The totals of the runs.")
    .uses_store();
    let show = of_run(
        "show_run",
        "Shows a run, with its tools' open questions and, if it has ended or waits, its result.",
    )
    .answers::<runs::Run>("The run.")
    .problems(&[&SHUTTING_DOWN]);
    let follow = of_run(
        "follow_run",
        "Streams the events of a run, after any record, until the run ends.",
    )
    .description("Works during the run, after it, and after a restart of the server.")
    .header::<u64>("Last-Event-ID", LAST)
    .answers_events("The events of the run as they happen. The stream ends with the run.")
    .also_answers(
        "204",
        "The run has ended, and `Last-Event-ID` names its last record.",
    )
    .problems(&[&INVALID_LAST_EVENT_ID, &NO_SUCH_EVENT]);
    DescribedRouter::new()
        .get("/api/v1/runs", Scope::Read, runs::list, list)
        .get("/api/v1/stats", Scope::Read, runs::stats, stats)
        .get("/api/v1/runs/{id}", Scope::Read, runs::show, show)
        .get(
            "/api/v1/runs/{id}/events",
            Scope::Read,
            runs::events,
            follow,
        )
        .merge(of_inputs())
}

/// The description of `Idempotency-Key` for a message to a run.
const STEER_KEY: &str = "Makes the request safe to repeat: 1 to 255 visible ASCII characters. Sent again with the \
                         same key, the same message is added once, with the same answer, even after the run has ended.";

/// Returns the routes that change what a run does.
fn of_inputs() -> DescribedRouter<ServerState> {
    let cancel = of_run("cancel_run", "Cancels a run.")
        .body_if_any::<runs::Cancel>(r#"{ "reason": "no longer needed" }"#)
        .answers::<runs::Taken>(
            "The cancellation is stored; the run ends with one of its next steps.",
        )
        .status(StatusCode::ACCEPTED)
        .problems(&[&RUN_ENDED, &SESSION_ALTERED, &TOO_MANY_RUNS]);
    let steer = of_run("steer_run", "Adds a message to a run in progress.")
        .header::<IdempotencyKey>("Idempotency-Key", STEER_KEY)
        .body::<runs::Steer>(r#"{ "message": "In UTC, please." }"#)
        .answers::<runs::Taken>(
            "The message is stored; it joins the run after the current batch of tool calls.",
        )
        .status(StatusCode::ACCEPTED)
        .problems(OF_JOINING)
        .problems(&[
            &INVALID_IDEMPOTENCY_KEY,
            &IDEMPOTENCY_KEY_REUSED,
            &NO_SUCH_SESSION,
            &RUN_ENDED,
            &SESSION_ALTERED,
            &CANNOT_GO_ON,
        ]);
    let bring = of_call(
        "bring_tool_result",
        Tag::Runs,
        "Submits the result of a tool that the client runs.",
    )
    .body::<runs::ToolResultBody>(r#"{ "result": { "celsius": 21 }, "duration_ms": 40 }"#)
    .answers::<runs::Taken>("The result is stored, and the run continues.")
    .status(StatusCode::ACCEPTED)
    .problems(OF_JOINING)
    .problems(OF_RESUMING);
    DescribedRouter::new()
        .post(
            "/api/v1/runs/{id}/cancel",
            Scope::Turns,
            runs::cancel,
            cancel,
        )
        .post("/api/v1/runs/{id}/steer", Scope::Turns, runs::steer, steer)
        .post(
            "/api/v1/runs/{id}/fork",
            Scope::Turns,
            fork::fork,
            of_fork(),
        )
        .post(
            "/api/v1/runs/{id}/tools/{call_id}",
            Scope::Turns,
            runs::submit_tool_result,
            bring,
        )
}

fn of_fork() -> Operation {
    of_run(
        "fork_run",
        "Starts a session that continues a conversation from a turn of a run.",
    )
    .body_if_any::<fork::Fork>(r#"{ "message": "Say it shorter.", "turn": 1 }"#)
    .answers::<fork::Forked>("The run in the new session.")
    .status(StatusCode::ACCEPTED)
    .leads_to("show_run", &[("id", "/run_id")])
    .problems(OF_POLICY)
    .problems(&[
        &INVALID_IDEMPOTENCY_KEY,
        &NO_SUCH_SESSION,
        &SESSION_EXISTS,
        &SESSION_BUSY,
        &SESSION_ALTERED,
        &AT_WORK_ELSEWHERE,
        &TOO_MANY_RUNS,
        &TOO_MANY_OWN_RUNS,
        &SHUTTING_DOWN,
    ])
}

/// The location of the first waiting call.
const OF_FIRST: Pointers = &[
    ("id", "/approvals/0/run_id"),
    ("call_id", "/approvals/0/request/tool_call_id"),
];

fn of_approvals() -> DescribedRouter<ServerState> {
    let list = operation(
        "list_approvals",
        Tag::Approvals,
        "Lists the calls that wait for approval, in pages.",
    )
    .description(
        "A page may be empty and still have a `next`, because expired questions are omitted. The integrity of the \
         session is checked if `session` is given, and when a decision is made.",
    )
    .query::<approvals::ApprovalsQuery>()
    .answers::<approvals::ApprovalsPage>("A page of calls, those of the oldest run first.")
    .example(include_str!("../openapi/examples/approvals.json"))
    .leads_to("decide", OF_FIRST)
    .leads_to("bring_tool_result", OF_FIRST)
    .uses_store();
    let decide = of_call("decide", Tag::Approvals, "Decides about a waiting call.")
        .description(
            "`question` identifies exactly what was asked, including the arguments. If that has changed, the decision \
             is refused.",
        )
        .body::<approvals::DecisionBody>(r#"{ "decision": "approve", "question": "9f86d081884c7d65" }"#)
        .answers::<approvals::DecisionAccepted>("The decision is stored, and the run continues.")
        .status(StatusCode::ACCEPTED)
        .decides()
        .problems(OF_RESUMING)
        .problems(&[&OTHER_QUESTION, &QUESTION_ALTERED, &TOO_MANY_RUNS]);
    let answer = operation(
        "answer_question",
        Tag::Approvals,
        "Answers a question that a tool asks during its call.",
    )
    .description(
        "The question appears in the run's events and in `questions` of the run. Only the process that drives the run \
         knows it, and only during the call. An answer that does not match the question's fields is refused, and the \
         question stays open.",
    )
    .path::<RunId>("id", "The run.")
    .path::<QuestionId>("question_id", "The question.")
    .body::<questions::Answer>(r#"{ "action": "accept", "content": { "size": "l" } }"#)
    .answers::<questions::Answered>("The tool has the answer and continues.")
    .status(StatusCode::ACCEPTED)
    .decides()
    .problems(&[
        &NO_SUCH_RUN,
        &NO_SUCH_QUESTION,
        &RUN_ENDED,
        &AT_WORK_ELSEWHERE,
    ])
    .uses_store();
    DescribedRouter::new()
        .get("/api/v1/approvals", Scope::Read, approvals::list, list)
        .post(
            "/api/v1/runs/{id}/approvals/{call_id}",
            Scope::Approve,
            approvals::decide,
            decide,
        )
        .post(
            "/api/v1/runs/{id}/questions/{question_id}",
            Scope::Approve,
            questions::answer,
            answer,
        )
}

fn of_introspection() -> DescribedRouter<ServerState> {
    let of = |id, summary| operation(id, Tag::Introspection, summary);
    let tools = of("list_tools", "Lists the tools.").answers::<introspection::Tools>("The tools.");
    let models = of(
        "list_models",
        "Lists the models by the roles that they serve.",
    )
    .answers::<introspection::Models>("The models.")
    .example(include_str!("../openapi/examples/models.json"));
    let agents = of("list_agents", "Lists the configured agents.")
        .answers::<introspection::Agents>("The agents.");
    let policy = of("show_policy", "Lists what clients may choose from.")
        .answers::<introspection::Choices>("The modes, channels and agents.")
        .example(include_str!("../openapi/examples/policy.json"));
    let explain = of(
        "explain_policy",
        "Explains what the policy would decide about a turn, without taking it.",
    )
    .body::<Turn>(TURN)
    .answers::<Decision>("The decision, with its reasons.")
    .problems(OF_POLICY);
    DescribedRouter::new()
        .get("/api/v1/tools", Scope::Read, introspection::tools, tools)
        .get("/api/v1/models", Scope::Read, introspection::models, models)
        .get("/api/v1/agents", Scope::Read, introspection::agents, agents)
        .get("/api/v1/policy", Scope::Read, introspection::policy, policy)
        .post(
            "/api/v1/policy/explain",
            Scope::Read,
            introspection::explain,
            explain,
        )
}

/// Describes an operation on one session.
fn of_session(id: &'static str, summary: &'static str) -> Operation {
    operation(id, Tag::Sessions, summary)
        .path::<SessionId>("id", "The session.")
        .problems(&[&INVALID_SESSION_ID])
        .uses_store()
}

/// Describes an operation on one run.
fn of_run(id: &'static str, summary: &'static str) -> Operation {
    operation(id, Tag::Runs, summary)
        .path::<RunId>("id", "The run.")
        .problems(&[&NO_SUCH_RUN])
        .uses_store()
}

/// Describes an operation on one call of a run.
fn of_call(id: &'static str, tag: Tag, summary: &'static str) -> Operation {
    operation(id, tag, summary)
        .path::<RunId>("id", "The run.")
        .path::<ToolCallId>("call_id", "The call.")
        .problems(&[&NO_SUCH_RUN])
        .uses_store()
}
