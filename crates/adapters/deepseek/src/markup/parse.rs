//! Parses the markup of tool calls.
//!
//! A block holds calls, a call holds parameters:
//!
//! ```text
//! <｜DSML｜tool_calls>
//! <｜DSML｜invoke name="look">
//! <｜DSML｜parameter name="at" string="true">sky</｜DSML｜parameter>
//! <｜DSML｜parameter name="depth" string="false">2</｜DSML｜parameter>
//! </｜DSML｜invoke>
//! </｜DSML｜tool_calls>
//! ```
//!
//! A parameter is either literal text or JSON. Older models name the block `function_calls`. Anything incomplete is not
//! a call: half of a call must never be run.

use neuraxis_core::JsonText;
use neuraxis_wire::reply::MAX_CALLS;

use super::scan::{self, BARS, Opening, TagMatch};

/// The maximum number of parameters in a call.
const MAX_PARAMETERS: usize = 256;

/// The maximum length of a name, in bytes.
const MAX_NAME: usize = 300;

/// The calls in a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WrittenCalls {
    /// In the order of the text. Never empty.
    pub(super) calls: Vec<WrittenCall>,
    /// The text around them.
    pub(super) rest: String,
}

/// A call that was written as text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WrittenCall {
    pub(super) name: String,
    /// The parameters as a JSON object, in their order.
    pub(super) arguments: String,
}

/// Parses all calls in a text.
pub(super) fn calls(text: &str) -> Result<WrittenCalls, &'static str> {
    let mut reader = Reader { text };
    let mut calls = Vec::new();
    let mut rest = String::new();
    let mut block = None;
    loop {
        let between = reader.text_before_tag(block.is_some())?;
        rest.push_str(between);
        let Some(tag) = reader.tag()? else {
            break;
        };
        match (tag.is_closing, tag.name) {
            (false, "tool_calls" | "function_calls") if block.is_none() => block = Some(tag.name),
            (true, name) if block == Some(name) => block = None,
            // The tag that begins the block is the one that tends to get lost.
            (true, "tool_calls" | "function_calls") if block.is_none() && !calls.is_empty() => {}
            (false, "invoke") => calls.push(reader.call(&tag)?),
            _ => return Err("the model wrote a tool call as text, with misplaced tags"),
        }
        if calls.len() > MAX_CALLS {
            return Err("the model wrote more tool calls as text than a reply may have");
        }
    }
    if block.is_some() || calls.is_empty() {
        return Err("the model wrote a tool call as text and did not finish it");
    }
    Ok(WrittenCalls { calls, rest })
}

/// A tag of the markup.
#[derive(Debug)]
struct Tag<'a> {
    is_closing: bool,
    name: &'a str,
    attributes: Vec<(&'a str, &'a str)>,
}

impl<'a> Tag<'a> {
    fn attribute(&self, name: &str) -> Option<&'a str> {
        let mut named = self.attributes.iter().filter(|(key, _)| *key == name);
        named.next().map(|(_, value)| *value)
    }

    /// Returns the name that the tag carries.
    fn subject(&self) -> Result<&'a str, &'static str> {
        self.attribute("name")
            .filter(|name| !name.is_empty() && name.len() <= MAX_NAME)
            .ok_or("the model wrote a tool call as text, without a name")
    }
}

/// The unread part of the markup.
struct Reader<'a> {
    text: &'a str,
}

impl<'a> Reader<'a> {
    /// Reads up to the next tag. Inside a block, only whitespace may come before it.
    fn text_before_tag(&mut self, is_in_block: bool) -> Result<&'a str, &'static str> {
        let end = match scan::find(self.text) {
            TagMatch::Tag(at) => at,
            TagMatch::Nothing | TagMatch::Perhaps(_) => self.text.len(),
        };
        let (before, rest) = self.text.split_at_checked(end).unwrap_or((self.text, ""));
        self.text = rest;
        match is_in_block {
            true if !before.trim().is_empty() => {
                Err("the model wrote a tool call as text, with other content in it")
            }
            true => Ok(""),
            false => Ok(before),
        }
    }

    /// Reads a tag. Returns `None` at the end of the text.
    fn tag(&mut self) -> Result<Option<Tag<'a>>, &'static str> {
        const UNREADABLE: &str = "the model wrote a tool call as text, with an unreadable tag";
        if self.text.is_empty() {
            return Ok(None);
        }
        let Opening::Whole(opening) = scan::opening(self.text) else {
            return Err(UNREADABLE);
        };
        let text = opening.rest.trim_start_matches(BARS);
        let is_letter = |letter: char| letter.is_ascii_lowercase() || letter == '_';
        let end = text.find(|letter| !is_letter(letter)).unwrap_or(text.len());
        let (name, after_name) = text.split_at_checked(end).ok_or(UNREADABLE)?;
        let (attributes, rest) = attributes(after_name).ok_or(UNREADABLE)?;
        self.text = rest;
        Ok(Some(Tag {
            is_closing: opening.is_closing,
            name,
            attributes,
        }))
    }

    /// Reads a call whose opening tag has been read.
    fn call(&mut self, first: &Tag<'a>) -> Result<WrittenCall, &'static str> {
        let name = first.subject()?.to_owned();
        let mut fields: Vec<(&str, String)> = Vec::new();
        loop {
            self.text_before_tag(true)?;
            let Some(tag) = self.tag()? else {
                return Err("the model wrote a tool call as text and did not finish it");
            };
            match (tag.is_closing, tag.name) {
                (true, "invoke") => break,
                (false, "parameter") => {
                    let key = tag.subject()?;
                    if fields.iter().any(|(known, _)| *known == key) {
                        return Err(
                            "the model wrote a tool call as text, with a duplicate parameter",
                        );
                    }
                    if fields.len() >= MAX_PARAMETERS {
                        return Err(
                            "the model wrote a tool call as text, with too many parameters",
                        );
                    }
                    fields.push((key, self.value(&tag)?));
                }
                _ => {
                    return Err("the model wrote a tool call as text, with misplaced tags");
                }
            }
        }
        let fields = fields
            .iter()
            .map(|(key, value)| format!("{}:{value}", JsonText::string(key)));
        let arguments = format!("{{{}}}", fields.collect::<Vec<_>>().join(","));
        Ok(WrittenCall { name, arguments })
    }

    /// Reads the value of a parameter as JSON, and the tag that ends it.
    fn value(&mut self, first: &Tag<'a>) -> Result<String, &'static str> {
        let written = self.text_before_tag(false)?;
        let end = self.tag()?;
        if !end.is_some_and(|tag| tag.is_closing && tag.name == "parameter") {
            return Err("the model wrote a tool call as text, with an unclosed parameter");
        }
        let json = JsonText::from_text(written.trim());
        match first.attribute("string") {
            Some("true") => Ok(JsonText::string(written).as_str().to_owned()),
            _ if json.is_valid() => Ok(json.as_str().to_owned()),
            Some(_) => {
                Err("the model wrote a tool call as text, with a parameter that is not JSON")
            }
            // The tag does not say which it is: a value that is not JSON can only be text.
            None => Ok(JsonText::string(written).as_str().to_owned()),
        }
    }
}

/// Reads the attributes of a tag, and returns them with the rest of the text.
fn attributes(mut text: &str) -> Option<(Vec<(&str, &str)>, &str)> {
    let mut attributes = Vec::new();
    loop {
        text = text.trim_start();
        if let Some(rest) = text.strip_prefix('>') {
            return Some((attributes, rest));
        }
        let (key, rest) = text.split_once("=\"")?;
        if !key.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return None;
        }
        let (value, rest) = rest.split_once('"')?;
        attributes.push((key, value));
        text = rest;
    }
}
