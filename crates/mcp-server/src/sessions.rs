//! Sessions as resources: listed in pages, and readable as text for users or as JSON for programs.

use std::fmt::Write;

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{Message, SessionId, with_causes};
use neuraxis_ports::{Session, SessionCursor, SessionFilter, SessionSummary, StoreError};
use rmcp::model::{
    ErrorData, ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
use serde_json::json;

use crate::server::McpServer;
use crate::shown::one_line;

/// The prefix of every session's address.
const SESSIONS: &str = "neuraxis://sessions/";

/// The suffix after the id that requests the messages as JSON.
const MESSAGES: &str = "/messages";

/// The maximum number of sessions per page.
const PAGE: usize = 100;

/// The maximum size of a resource, in bytes: clients accept at most 16 MiB, some less.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// The maximum number of characters shown of a tool's result.
const MAX_RESULT_CHARS: usize = 2_000;

/// Lists a page of the sessions that the owner may see, most recently used first.
pub(crate) async fn list(
    server: &McpServer,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, ErrorData> {
    if !server.shows_sessions {
        return Ok(ListResourcesResult::with_all_items(Vec::new()));
    }
    // One extra, to find out whether there is another page.
    let filter = SessionFilter::default().by_last_activity();
    let mut filter = filter.limited_to(PAGE + 1);
    filter.owner = server.owner.as_deref().map(ToOwned::to_owned);
    if let Some(cursor) = cursor {
        let position = parse_cursor(cursor).ok_or_else(|| {
            ErrorData::invalid_params("the cursor was not issued by this server", None)
        })?;
        filter.before = Some(position);
    }
    let found = server.orchestrator.sessions().list(&filter).await;
    let mut found = found.map_err(|error| unreadable(&error))?;
    let has_more = found.len() > PAGE;
    found.truncate(PAGE);
    let next = found.last().filter(|_| has_more);
    let next = next.map(|last| cursor_of(&SessionCursor::of(&last.session, filter.order)));
    let resources = found.iter().map(resource).collect();
    let mut page = ListResourcesResult::with_all_items(resources);
    page.next_cursor = next;
    Ok(page)
}

/// Describes the format of session addresses.
pub(crate) fn templates(server: &McpServer) -> ListResourceTemplatesResult {
    if !server.shows_sessions {
        return ListResourceTemplatesResult::with_all_items(Vec::new());
    }
    let text = ResourceTemplate::new(format!("{SESSIONS}{{id}}"), "session")
        .with_title("A session, as text")
        .with_description("The text of a session, for reading.")
        .with_mime_type("text/plain");
    let messages = ResourceTemplate::new(format!("{SESSIONS}{{id}}{MESSAGES}"), "session_messages")
        .with_title("The messages of a session, as JSON")
        .with_description("All messages of a session in order, with tool calls and their results.")
        .with_mime_type("application/json");
    ListResourceTemplatesResult::with_all_items(vec![text, messages])
}

/// Reads a session.
pub(crate) async fn read(server: &McpServer, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let nothing = || {
        let text = format!("no such resource: {:?}", one_line(uri));
        ErrorData::resource_not_found(text, None)
    };
    let rest = uri.strip_prefix(SESSIONS);
    let rest = rest.filter(|_| server.shows_sessions).ok_or_else(nothing)?;
    let (id, is_json) = match rest.strip_suffix(MESSAGES) {
        Some(id) => (id, true),
        None => (rest, false),
    };
    // Of the characters allowed in an id, a template escapes only colons.
    let id = id.replace("%3A", ":").replace("%3a", ":");
    let id: SessionId = id.parse().map_err(|_| nothing())?;
    let sessions = server.orchestrator.sessions();
    let session = match sessions.get(&id).await {
        Ok(session) => session,
        Err(StoreError::NoSuchSession(_)) => return Err(nothing()),
        Err(error) => return Err(unreadable(&error)),
    };
    // Another owner's session is treated as missing.
    if server.owner.is_some() && server.owner.as_deref() != session.owner.as_deref() {
        return Err(nothing());
    }
    let history = sessions.history(&id).await;
    let history = history.map_err(|error| unreadable(&error))?;
    let (text, kind) = match is_json {
        true => (as_json(&session, history.messages())?, "application/json"),
        false => (as_text(history.messages()), "text/plain"),
    };
    let contents = ResourceContents::text(text, uri).with_mime_type(kind);
    Ok(ReadResourceResult::new(vec![contents]))
}

/// Describes a session by its title or else its first message, because an id means nothing to a user.
fn resource(listed: &SessionSummary) -> Resource {
    let session = &listed.session;
    let title = session.title.as_ref().or(listed.first_message.as_ref());
    let mut resource = Resource::new(address(&session.id), session.id.as_str());
    resource.title = title.map(|title| one_line(title));
    resource
        .with_description(format!(
            "A Neuraxis session that started {}",
            session.created_at
        ))
        .with_mime_type("text/plain")
}

/// Returns the address of a session's text.
pub(crate) fn address(session: &SessionId) -> String {
    format!("{SESSIONS}{session}")
}

fn cursor_of(last: &SessionCursor) -> String {
    format!("{}~{}", last.at, last.id)
}

/// Parses a cursor: the position of the last session of the previous page.
fn parse_cursor(cursor: &str) -> Option<SessionCursor> {
    let (at, id) = cursor.split_once('~')?;
    Some(SessionCursor {
        at: at.parse::<Timestamp>().ok()?,
        id: id.parse().ok()?,
    })
}

fn as_json<M: AsRef<Message>>(session: &Session, messages: &[M]) -> Result<String, ErrorData> {
    let messages: Vec<&Message> = messages.iter().map(AsRef::as_ref).collect();
    let text = json!({"session": session, "messages": messages}).to_string();
    if text.len() > MAX_BYTES {
        let text = format!(
            "the messages are {} bytes, more than the resource limit of {MAX_BYTES}; read the session as text",
            text.len()
        );
        return Err(ErrorData::invalid_params(text, None));
    }
    Ok(text)
}

/// Renders the conversation as text. If it is too long, the earliest messages are left out.
fn as_text<M: AsRef<Message>>(messages: &[M]) -> String {
    let mut texts = Vec::new();
    let mut bytes = 0;
    let mut left_out = 0;
    for message in messages.iter().rev() {
        let text = in_text(message.as_ref());
        if left_out > 0 || bytes + text.len() > MAX_BYTES {
            left_out += 1;
        } else {
            bytes += text.len();
            texts.push(text);
        }
    }
    if left_out > 0 {
        texts.push(format!("[{left_out} earlier messages omitted]\n"));
    }
    texts.reverse();
    texts.concat()
}

fn in_text(message: &Message) -> String {
    let who = match message {
        Message::System { .. } => "system",
        Message::User { .. } => "user",
        Message::Assistant(_) => "assistant",
        Message::Tool(_) => "tool",
    };
    let mut text = format!("## {who}\n\n");
    match message {
        Message::Tool(result) => {
            let content = result.content.as_str();
            let shown: String = content.chars().take(MAX_RESULT_CHARS).collect();
            let more = if shown.len() < content.len() {
                "…"
            } else {
                ""
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{} returned: {shown}{more}", result.name);
        }
        message => {
            let body = message.text();
            if !body.is_empty() {
                let _ = writeln!(text, "{body}");
            }
        }
    }
    for call in message.tool_calls() {
        let _ = writeln!(text, "calls {} with {}", call.name, call.arguments.as_str());
    }
    text.push('\n');
    text
}

fn unreadable(error: &StoreError) -> ErrorData {
    let text = format!("cannot read the sessions: {}", with_causes(error));
    ErrorData::internal_error(text, None)
}
