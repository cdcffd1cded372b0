//! The lines of one exchange while they are read.

mod convert;

use std::sync::Arc;

use neuraxis_core::{
    AssistantMessage, Message, ModelRef, Part, Reply, ReplyDelta, ReplyEnd, ToolMessage, ToolSpec,
    Transcript,
};

use self::convert::{check, delta, part, reply_part, request, spec};
use super::SizedMessage;
use crate::exchange::{Ended, Event, Exchange};
use crate::format::line::from_fields;
use crate::format::line::{EndLine, ExchangeLine, Line, SettingsLine};
use crate::format::shared_bytes;

/// What is wrong with a line.
type Reason = &'static str;

/// The error for a line where the settings should be.
const NO_SETTINGS: Reason = "expected the request's settings before its response";

/// An exchange being read.
pub(super) struct Block {
    line: usize,
    head: ExchangeLine,
    tools: Option<Arc<[ToolSpec]>>,
    own_tools: Vec<ToolSpec>,
    messages: Vec<SizedMessage>,
    open: Option<Open>,
    settings: Option<SettingsLine>,
    events: Vec<(u64, Event)>,
}

/// A message or reply whose parts may still follow.
enum Open {
    System(String, usize),
    User(Vec<Part>, usize),
    Assistant(Vec<Part>, Option<ModelRef>, usize),
    Reply(EndLine, Vec<Part>),
}

impl Block {
    /// Begins an exchange with what it shares with earlier ones.
    pub(super) const fn new(
        line: usize,
        head: ExchangeLine,
        messages: Vec<SizedMessage>,
        tools: Option<Arc<[ToolSpec]>>,
    ) -> Self {
        Self {
            line,
            head,
            tools,
            own_tools: Vec::new(),
            messages,
            open: None,
            settings: None,
            events: Vec::new(),
        }
    }

    pub(super) const fn number(&self) -> u32 {
        self.head.number
    }

    /// Processes the next line.
    pub(super) fn process_line(&mut self, line: Line, bytes: usize) -> Result<(), Reason> {
        match line {
            Line::Text { .. } | Line::Reasoning { .. } | Line::Call(_) | Line::Media(_) => {
                self.part(part(line)?, bytes)
            }
            Line::More(text) => self.more(&text, bytes),
            Line::Tool(_)
            | Line::System { .. }
            | Line::User {}
            | Line::Assistant { .. }
            | Line::Result { .. }
            | Line::Settings(_) => {
                self.close();
                if self.settings.is_some() {
                    return Err("part of a request after its settings");
                }
                self.request(line, bytes)
            }
            line => {
                self.close();
                if self.settings.is_none() {
                    return Err(NO_SETTINGS);
                }
                self.event(line)
            }
        }
    }

    fn request(&mut self, line: Line, bytes: usize) -> Result<(), Reason> {
        match line {
            Line::Tool(_) if self.tools.is_some() => {
                return Err("a tool in a request that uses the tools of another exchange");
            }
            Line::Tool(tool) => self.own_tools.push(spec(tool)?),
            Line::System { text } => self.open = Some(Open::System(text, bytes)),
            Line::User {} => self.open = Some(Open::User(Vec::new(), bytes)),
            Line::Assistant { model } => {
                self.open = Some(Open::Assistant(Vec::new(), model, bytes));
            }
            Line::Result {
                id,
                name,
                content,
                content_text,
                media,
            } => {
                let content = from_fields(content, content_text);
                let message = Message::Tool(ToolMessage {
                    tool_call_id: id,
                    name: name.into(),
                    content: content.ok_or("a result without content")?,
                    media,
                });
                self.push(message, bytes);
            }
            Line::Settings(settings) => self.settings = Some(settings),
            _ => return Err("not part of a request"),
        }
        Ok(())
    }

    fn event(&mut self, line: Line) -> Result<(), Reason> {
        let (ms, event) = match line {
            Line::Open { ms } => (ms, Event::Open),
            Line::Delta(line) => (line.ms, Event::Delta(delta(line)?)),
            Line::End(line) => {
                let EndLine {
                    ms,
                    finish,
                    usage,
                    model,
                } = line;
                let end = ReplyEnd {
                    finish,
                    usage,
                    model,
                };
                (ms, Event::Delta(ReplyDelta::End(Box::new(end))))
            }
            Line::Error { ms, error } => (ms, Event::Error(error)),
            Line::Reply(head) => {
                self.open = Some(Open::Reply(head, Vec::new()));
                return Ok(());
            }
            _ => return Err("not part of a response"),
        };
        self.events.push((ms, event));
        Ok(())
    }

    fn part(&mut self, part: Part, more: usize) -> Result<(), Reason> {
        match &mut self.open {
            Some(Open::User(parts, bytes) | Open::Assistant(parts, _, bytes)) => {
                parts.push(part);
                *bytes += more;
            }
            Some(Open::Reply(_, parts)) => parts.push(part),
            Some(Open::System(..)) | None => return Err("a part outside a message"),
        }
        Ok(())
    }

    fn more(&mut self, text: &str, more: usize) -> Result<(), Reason> {
        let nothing = "a continuation without a text to continue";
        let parts = match &mut self.open {
            Some(Open::System(system, bytes)) => {
                system.push_str(text);
                *bytes += more;
                return Ok(());
            }
            Some(Open::User(parts, bytes) | Open::Assistant(parts, _, bytes)) => {
                *bytes += more;
                parts
            }
            Some(Open::Reply(_, parts)) => parts,
            None => return Err(nothing),
        };
        match parts.last_mut() {
            Some(Part::Text(part)) => part.text.push_str(text),
            Some(Part::Reasoning(part)) => part.text.push_str(text),
            _ => return Err(nothing),
        }
        Ok(())
    }

    /// Stores the message or reply whose parts were read.
    fn close(&mut self) {
        match self.open.take() {
            Some(Open::System(text, bytes)) => self.push(Message::System { text }, bytes),
            Some(Open::User(parts, bytes)) => self.push(Message::User { parts }, bytes),
            Some(Open::Assistant(parts, model, bytes)) => {
                self.push(Message::Assistant(AssistantMessage { parts, model }), bytes);
            }
            Some(Open::Reply(head, parts)) => {
                let reply = Reply {
                    parts: parts.into_iter().filter_map(reply_part).collect(),
                    finish: head.finish,
                    usage: head.usage,
                    model: head.model,
                    advice: None,
                };
                self.events.push((head.ms, Event::Reply(reply)));
            }
            None => {}
        }
    }

    fn push(&mut self, message: Message, bytes: usize) {
        let bytes = shared_bytes(&message, bytes);
        let message = Arc::new(message);
        self.messages.push(SizedMessage { message, bytes });
    }

    /// Returns the finished exchange, and its messages with their sizes.
    pub(super) fn into_exchange(
        mut self,
        ended_ms: u64,
        ended: Ended,
    ) -> Result<(Exchange, Vec<SizedMessage>), Reason> {
        self.close();
        let settings = self.settings.ok_or(NO_SETTINGS)?;
        let head = self.head;
        check(head.mode, &self.events, ended)?;
        let messages: Transcript = self
            .messages
            .iter()
            .map(|weighed| Arc::clone(&weighed.message))
            .collect();
        let tools = self.tools.unwrap_or_else(|| self.own_tools.into());
        let exchange = Exchange {
            number: head.number,
            line: self.line,
            role: head.role,
            model: head.model,
            context_tokens: head.context_tokens,
            mode: head.mode,
            started_ms: head.started_ms,
            request: request(messages, tools, settings)?,
            events: self.events,
            ended_ms,
            ended,
        };
        Ok((exchange, self.messages))
    }
}
