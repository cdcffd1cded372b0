//! Reads the markup of tool calls.
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
//! A parameter is a text as it stands, or JSON. The block is called `function_calls` by older models. Whatever is not
//! whole is no call: half of one must never be run.

use neuraxis_core::JsonText;
use neuraxis_wire::reply::MAX_CALLS;

use super::scan::{self, BARS, Opening, TagMatch};

/// The most parameters of a call.
const MAX_PARAMETERS: usize = 256;

/// The most bytes of a name.
const MAX_NAME: usize = 300;

/// The calls that a text holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WrittenCalls {
    /// In the order of the text; at least one.
    pub(super) calls: Vec<WrittenCall>,
    /// The text around them.
    pub(super) rest: String,
}

/// A call that was written as text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WrittenCall {
    pub(super) name: String,
    /// The JSON object of the parameters, in their order.
    pub(super) arguments: String,
}

/// Reads all calls of a text.
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
            // The tag that begins the block is the one that gets lost.
            (true, "tool_calls" | "function_calls") if block.is_none() && !calls.is_empty() => {}
            (false, "invoke") => calls.push(reader.call(&tag)?),
            _ => return Err("the model wrote a tool call as text, with tags in the wrong places"),
        }
        if calls.len() > MAX_CALLS {
            return Err("the model wrote more tool calls as text than a reply may have");
        }
    }
    if block.is_some() || calls.is_empty() {
        return Err("the model wrote a tool call as text, and not to its end");
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

    /// Returns what the tag names.
    fn subject(&self) -> Result<&'a str, &'static str> {
        self.attribute("name")
            .filter(|name| !name.is_empty() && name.len() <= MAX_NAME)
            .ok_or("the model wrote a tool call as text, without a name")
    }
}

/// What is left to be read.
struct Reader<'a> {
    text: &'a str,
}

impl<'a> Reader<'a> {
    /// Reads up to the next tag. Inside a block there may be nothing but space.
    fn text_before_tag(&mut self, is_in_block: bool) -> Result<&'a str, &'static str> {
        let end = match scan::find(self.text) {
            TagMatch::Tag(at) => at,
            TagMatch::Nothing | TagMatch::Perhaps(_) => self.text.len(),
        };
        let (before, rest) = self.text.split_at_checked(end).unwrap_or((self.text, ""));
        self.text = rest;
        match is_in_block {
            true if !before.trim().is_empty() => {
                Err("the model wrote a tool call as text, with something else in it")
            }
            true => Ok(""),
            false => Ok(before),
        }
    }

    /// Reads a tag; nothing at the end of the text.
    fn tag(&mut self) -> Result<Option<Tag<'a>>, &'static str> {
        const UNREADABLE: &str =
            "the model wrote a tool call as text, with a tag that cannot be read";
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

    /// Reads a call, whose first tag was read.
    fn call(&mut self, first: &Tag<'a>) -> Result<WrittenCall, &'static str> {
        let name = first.subject()?.to_owned();
        let mut fields: Vec<(&str, String)> = Vec::new();
        loop {
            self.text_before_tag(true)?;
            let Some(tag) = self.tag()? else {
                return Err("the model wrote a tool call as text, and not to its end");
            };
            match (tag.is_closing, tag.name) {
                (true, "invoke") => break,
                (false, "parameter") => {
                    let key = tag.subject()?;
                    if fields.iter().any(|(known, _)| *known == key) {
                        return Err("the model wrote a tool call as text, with a parameter twice");
                    }
                    if fields.len() >= MAX_PARAMETERS {
                        return Err(
                            "the model wrote a tool call as text, with too many parameters",
                        );
                    }
                    fields.push((key, self.value(&tag)?));
                }
                _ => {
                    return Err(
                        "the model wrote a tool call as text, with tags in the wrong places",
                    );
                }
            }
        }
        let fields = fields
            .iter()
            .map(|(key, value)| format!("{}:{value}", JsonText::string(key)));
        let arguments = format!("{{{}}}", fields.collect::<Vec<_>>().join(","));
        Ok(WrittenCall { name, arguments })
    }

    /// Reads the value of a parameter, as JSON, and the tag that ends it.
    fn value(&mut self, first: &Tag<'a>) -> Result<String, &'static str> {
        let written = self.text_before_tag(false)?;
        let end = self.tag()?;
        if !end.is_some_and(|tag| tag.is_closing && tag.name == "parameter") {
            return Err("the model wrote a tool call as text, with a parameter that does not end");
        }
        let json = JsonText::from_text(written.trim());
        match first.attribute("string") {
            Some("true") => Ok(JsonText::string(written).as_str().to_owned()),
            _ if json.is_valid() => Ok(json.as_str().to_owned()),
            Some(_) => {
                Err("the model wrote a tool call as text, with a parameter that is not JSON")
            }
            // Not said which it is: what is no JSON can only be a text.
            None => Ok(JsonText::string(written).as_str().to_owned()),
        }
    }
}

/// Reads the attributes of a tag, and returns what follows it.
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
