//! Parses a client's arguments into a request. Error messages are written for the calling model: they name the argument
//! and what it accepts.

use neuraxis_core::{Channel, Mode, SessionId};
use neuraxis_engine::{UserRequest, UuidV7};
use neuraxis_ports::Ids;
use rmcp::model::JsonObject;
use serde_json::Value;

use crate::offers::{MAX_MESSAGE_CHARS, OfferedTool, usable, usual_mode};
use crate::server::McpServer;
use crate::shown::one_line;

/// The accepted arguments.
const KNOWN: [&str; 4] = ["message", "session", "channel", "mode"];

/// Builds the request of a call.
pub(crate) fn request(
    server: &McpServer,
    offer: &OfferedTool,
    arguments: &JsonObject,
) -> Result<UserRequest, String> {
    let is_known = |name: &&String| KNOWN.contains(&name.as_str());
    if let Some(unknown) = arguments.keys().find(|name| !is_known(name)) {
        let known = KNOWN.join(", ");
        return Err(format!(
            "unknown argument {:?}; known: {known}",
            one_line(unknown)
        ));
    }
    let message = text(arguments, "message")?.ok_or("missing argument: message")?;
    if message.trim().is_empty() {
        return Err("message: must not be empty".to_owned());
    }
    if message.chars().nth(MAX_MESSAGE_CHARS).is_some() {
        return Err(format!(
            "message: exceeds the limit of {MAX_MESSAGE_CHARS} characters"
        ));
    }
    if message.contains('\0') {
        // Some stores cannot hold it, so all refuse it.
        return Err("message: must not contain the character U+0000".to_owned());
    }
    let session = match text(arguments, "session")? {
        Some(session) => session.parse(),
        None => UuidV7.new_id().to_string().parse(),
    };
    let session: SessionId = session.map_err(|error| format!("session: {error}"))?;
    let channel = match text(arguments, "channel")? {
        Some(channel) => Channel::new(channel.to_owned()),
        None => offer.channel.clone(),
    };
    let mode = match text(arguments, "mode")? {
        Some(mode) => Mode::new(mode.to_owned()),
        None if channel == offer.channel => offer.mode.clone(),
        None => {
            let usual = usual_mode(server.policy(), &server.choice, &channel);
            usual.unwrap_or_else(|| offer.mode.clone())
        }
    };
    check_mode(server, &channel, &mode)?;
    let mut request = UserRequest::new(session, message)
        .channel(channel)
        .mode(mode);
    request.agent.clone_from(&offer.agent);
    if let Some(owner) = &server.owner {
        request = request.owner(owner.as_ref());
    }
    match &server.admit {
        Some(admit) => admit(request),
        None => Ok(request),
    }
}

fn text<'a>(arguments: &'a JsonObject, name: &str) -> Result<Option<&'a str>, String> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{name}: expected a string")),
    }
}

/// Refuses a mode that clients may not use, or may not use on this channel. An unknown channel is left to the policy,
/// whose error lists the known ones.
fn check_mode(server: &McpServer, channel: &Channel, mode: &Mode) -> Result<(), String> {
    let policy = server.policy();
    if !policy.channels().any(|known| known == channel) {
        return Ok(());
    }
    let usable = usable(policy, &server.choice, channel);
    if usable.contains(&mode) {
        return Ok(());
    }
    let names: Vec<&str> = usable.into_iter().map(Mode::as_str).collect();
    Err(if names.is_empty() {
        format!("channel: clients of this server cannot use {channel}")
    } else {
        let (mode, names) = (one_line(mode.as_str()), names.join(", "));
        format!("mode: {mode:?} cannot be used on channel {channel}; allowed: {names}")
    })
}
