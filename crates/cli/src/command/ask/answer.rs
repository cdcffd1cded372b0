//! What is printed to standard output in format `text`: the texts of the model's calls, one after the other.

use neuraxis::Event;
use neuraxis::core::{AgentId, EffectId, LiveBody, LiveEvent, Record, RecordBody};

/// Turns events into text to print. Printed text stays: text that becomes void is followed by its replacement, or is
/// held back until it can no longer become void.
#[derive(Debug)]
pub(super) struct AnswerPrinter {
    /// The valid text, printed or held back.
    text: String,
    /// The call whose text is arriving.
    current: Option<CallText>,
    /// The number of line breaks at the end of the text; two if it is empty.
    breaks: usize,
    timing: PrintTiming,
    /// The end of the text, which is held back.
    held: String,
}

/// When text is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrintTiming {
    /// As it arrives.
    Immediately,
    /// Once its reply is complete: text sent to a program cannot be taken back.
    OnceComplete,
}

/// The text of a call, and the state before it, to be restored if the text becomes void.
#[derive(Debug, Clone, Copy)]
struct CallText {
    call: EffectId,
    /// Where the text begins.
    start: usize,
    /// The line breaks inserted to leave an empty line before the text.
    gap: &'static str,
    /// The length of the held-back text before it.
    held: usize,
    /// The number of line breaks before it.
    breaks: usize,
}

/// The effect of an event on the answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// This text is added.
    More(String),
    /// The last call's text is void. Contains what must be printed to end its line.
    Void(&'static str),
}

impl AnswerPrinter {
    pub(super) const fn new(timing: PrintTiming) -> Self {
        Self {
            text: String::new(),
            current: None,
            breaks: 2,
            timing,
            held: String::new(),
        }
    }

    /// Processes an event of the run.
    pub(super) fn handle_event(&mut self, event: &Event) -> Change {
        match event {
            // Sub-agents talk to the agent that called them, not to the user.
            Event::Live(live) if live.agent == AgentId::ROOT => self.handle_live(live),
            Event::Record(record) => self.handle_record(record),
            _ => Change::None,
        }
    }

    /// Ends the answer: returns the held-back text, and what is missing of the reply and of the last line.
    pub(super) fn finish(&mut self, reply: &str) -> String {
        let reply = reply.trim_end();
        let mut missing = String::new();
        if !self.text.trim_end().ends_with(reply) {
            match self.rest_of(reply) {
                Some(rest) => missing.push_str(rest),
                None => missing = format!("{}{reply}", self.gap()),
            }
            self.printed(&missing);
        }
        self.held.push_str(&missing);
        self.end()
    }

    /// Ends the text: returns the held-back text, and what is missing of the last line.
    pub(super) fn end(&mut self) -> String {
        std::mem::take(&mut self.held) + self.end_of_line()
    }

    /// Returns the line break that ends an incomplete line.
    pub(super) fn end_of_line(&mut self) -> &'static str {
        if self.breaks > 0 {
            return "";
        }
        self.breaks = 1;
        "\n"
    }

    fn handle_live(&mut self, live: &LiveEvent) -> Change {
        match &live.body {
            LiveBody::TextDelta { text } if !text.is_empty() => self.append(live.call, text),
            LiveBody::TextRetracted => self.retract(live.call),
            _ => Change::None,
        }
    }

    /// Processes a record. A recorded reply is complete.
    fn handle_record(&mut self, record: &Record) -> Change {
        let current = self.current.map(|current| current.call);
        match &record.body {
            RecordBody::LlmCall(call)
                if current == Some(call.effect_id) && !self.held.is_empty() =>
            {
                Change::More(std::mem::take(&mut self.held))
            }
            _ => Change::None,
        }
    }

    fn append(&mut self, call: EffectId, text: &str) -> Change {
        let goes_on = self.current.is_some_and(|current| current.call == call);
        let mut more = String::new();
        if !goes_on {
            let gap = self.gap();
            more.push_str(gap);
            self.text.push_str(gap);
            self.current = Some(CallText {
                call,
                start: self.text.len(),
                gap,
                held: self.held.len(),
                breaks: self.breaks,
            });
        }
        more.push_str(text);
        self.text.push_str(text);
        self.printed(&more);
        match self.timing {
            PrintTiming::Immediately => Change::More(more),
            PrintTiming::OnceComplete => {
                self.held.push_str(&more);
                Change::None
            }
        }
    }

    fn retract(&mut self, call: EffectId) -> Change {
        let current = self.current.filter(|current| current.call == call);
        let Some(current) = current.filter(|current| self.text.len() > current.start) else {
            return Change::None;
        };
        self.text.truncate(current.start);
        self.current = None;
        match self.timing {
            PrintTiming::Immediately => Change::Void(self.end_of_line()),
            PrintTiming::OnceComplete => {
                self.text.truncate(current.start - current.gap.len());
                self.held.truncate(current.held);
                self.breaks = current.breaks;
                Change::None
            }
        }
    }

    /// Returns the rest of the reply if it begins with the last call's text, or with the whole text.
    fn rest_of<'a>(&self, reply: &'a str) -> Option<&'a str> {
        let current = self.current?;
        let last = self.text.get(current.start..)?;
        let after = |text: &str| reply.strip_prefix(text).filter(|_| !text.trim().is_empty());
        after(last).or_else(|| after(&self.text))
    }

    /// Returns the line breaks that leave an empty line before the next text.
    fn gap(&self) -> &'static str {
        match self.breaks {
            0 => "\n\n",
            1 => "\n",
            _ => "",
        }
    }

    fn printed(&mut self, text: &str) {
        let end = text.trim_end_matches('\n').len();
        let breaks = text.len() - end;
        self.breaks = if end == 0 {
            self.breaks + breaks
        } else {
            breaks
        };
    }
}

#[cfg(test)]
mod tests;
