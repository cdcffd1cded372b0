//! The tool with which a model reads what was cut out of a long result: in pages, or by the lines that match a pattern.
//!
//! The catalog of every engine with sessions contains it, but only with its description. A run gives it its
//! [reach](super::reach).

use neuraxis_core::{
    JsonText, RunId, ToolCallId, ToolClass, ToolName, ToolOutput, ToolSignal, ToolSpec,
};
use neuraxis_ports::{OutputPlace, Tool, ToolContext, ToolError, async_trait};
use serde::{Deserialize, Serialize};

use super::reach::Reach;
use super::search::{SEARCHED_BYTES, Search};

const DESCRIPTION: &str = "Reads what was cut out of the long result of an earlier call. Use the arguments given where \
    the result was cut. If more follows, the page has `next_offset`. With `pattern`, returns the matching lines \
    instead.";

const PARAMETERS: &str = r#"{"type":"object","properties":{"call":{"type":"string"},"offset":{"type":"integer","minimum":0,"description":"The byte to start at."},"line":{"type":"integer","minimum":1,"description":"The line to start at, instead of `offset`."},"pattern":{"type":"string","minLength":1,"maxLength":500,"description":"A regular expression to search for. (?i) ignores case."}},"required":["call"],"additionalProperties":false}"#;

/// The tool `read_output`.
#[derive(Debug)]
pub(crate) struct ReadOutput {
    spec: ToolSpec,
    /// What it may read; `None` outside a run.
    reach: Option<Reach>,
}

/// Returns the spec of the tool `read_output`, for checking what a policy says about tools without an engine.
#[must_use]
pub fn read_output_spec() -> ToolSpec {
    let spec = ToolSpec::new(ToolName::read_output(), DESCRIPTION);
    let parameters = JsonText::from_text(PARAMETERS);
    spec.parameters(parameters).class(ToolClass::ReadOnly)
}

impl ReadOutput {
    /// Creates the tool with its description only.
    pub(crate) fn new() -> Self {
        Self {
            spec: read_output_spec(),
            reach: None,
        }
    }

    /// Creates the tool for one call.
    pub(crate) fn reaching(spec: &ToolSpec, reach: Reach) -> Self {
        Self {
            spec: spec.clone(),
            reach: Some(reach),
        }
    }
}

#[derive(Debug, Deserialize)]
struct Arguments {
    call: String,
    offset: Option<u64>,
    line: Option<u64>,
    pattern: Option<String>,
}

/// A page, in the form that a model reads.
#[derive(Debug, Serialize)]
struct Page<'a> {
    text: &'a str,
    offset: u64,
    /// The line in which the page begins.
    line: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    total_bytes: u64,
    total_lines: u64,
    summary: String,
}

#[async_trait]
impl Tool for ReadOutput {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, arguments: JsonText, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let Some(reach) = &self.reach else {
            return Err(ToolError::permanent(
                "this call belongs to no session, so there are no outputs to read",
            ));
        };
        let arguments: Arguments = arguments.decode().map_err(ToolError::permanent)?;
        reach.read(arguments).await
    }
}

impl Reach {
    async fn read(&self, arguments: Arguments) -> Result<ToolOutput, ToolError> {
        let from = match (arguments.offset, arguments.line) {
            (Some(_), Some(_)) => {
                return Err(ToolError::permanent("give offset or line, not both"));
            }
            (_, Some(line)) => OutputPlace::Line(line),
            (offset, None) => OutputPlace::Byte(offset.unwrap_or(0)),
        };
        let call = ToolCallId::from_text(arguments.call);
        let run = self.run_of(&call).await?;
        let (value, untrusted) = match arguments.pattern {
            Some(pattern) => self.search(run, &call, from, &pattern).await?,
            None => self.page(run, &call, from).await?,
        };
        let mut output = ToolOutput::new(value);
        output.signal = untrusted.then_some(ToolSignal::Untrusted);
        Ok(output)
    }

    async fn page(
        &self,
        run: RunId,
        call: &ToolCallId,
        from: OutputPlace,
    ) -> Result<(JsonText, bool), ToolError> {
        let page = self.at(run, call, from, self.most).await?;
        let head = &page.head;
        if page.text.is_empty() {
            return Err(ToolError::permanent(format!(
                "nothing is there: the output has {} bytes in {} lines",
                head.bytes, head.lines
            )));
        }
        let mut text = page.text.as_str();
        loop {
            let end = page.start + text.len() as u64;
            let next_offset = (end < head.bytes).then_some(end);
            let follows = next_offset.map_or_else(
                || "This is the end.".to_owned(),
                |next| format!("Continue at offset {next}."),
            );
            let shown = JsonText::encode(&Page {
                text,
                offset: page.start,
                line: page.first_line,
                next_offset,
                total_bytes: head.bytes,
                total_lines: head.lines,
                summary: format!(
                    "Bytes {} to {end} of {} of the output of {}. {follows}",
                    page.start, head.bytes, head.tool
                ),
            })?;
            let size = shown.as_str().len();
            if size <= self.most || text.len() <= 1 {
                return Ok((shown, head.untrusted));
            }
            text = shortened(text, size - self.most);
        }
    }

    async fn search(
        &self,
        run: RunId,
        call: &ToolCallId,
        from: OutputPlace,
        pattern: &str,
    ) -> Result<(JsonText, bool), ToolError> {
        let mut search = Search::new(pattern, self.most / 2)?;
        let mut page = self.at(run, call, from, SEARCHED_BYTES).await?;
        while let Some(next) = search.within(&page)? {
            // Lets a search with a costly pattern be stopped here once the time of its call is over, with any store.
            tokio::task::yield_now().await;
            page = self.at(run, call, next, SEARCHED_BYTES).await?;
        }
        let found = search.found(page.head.lines);
        Ok((JsonText::encode(&found)?, page.head.untrusted))
    }
}

/// Removes `by` bytes from the end of a text, and also an incomplete last line if a complete line remains before it.
fn shortened(text: &str, by: usize) -> &str {
    let end = text.floor_char_boundary(text.len().saturating_sub(by));
    let first = text.chars().next().map_or(0, char::len_utf8);
    let part = text.get(..end.max(first)).unwrap_or_default();
    match part.rfind('\n').map(|at| at + 1) {
        Some(lines) if lines > part.len() / 2 => part.get(..lines).unwrap_or_default(),
        _ => part,
    }
}
