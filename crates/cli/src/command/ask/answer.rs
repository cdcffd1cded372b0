//! What stands on standard output in format `text`: the texts of the model's calls, one after the other.

use neuraxis::Event;
use neuraxis::core::{AgentId, EffectId, LiveBody, LiveEvent};

/// Turns events into what to print. What is printed stays: text that becomes void is followed by what replaces it.
#[derive(Debug)]
pub(super) struct PrintedAnswer {
    /// What was printed and stands.
    text: String,
    /// The call that is speaking, and where its text begins.
    speaking: Option<(EffectId, usize)>,
    /// How many line breaks end what was printed; two, if nothing was.
    breaks: usize,
}

/// What an event does to the answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// It goes on with this.
    More(String),
    /// What the last call said is void. To be printed: what ends its line.
    Void(&'static str),
}

impl Default for PrintedAnswer {
    fn default() -> Self {
        Self {
            text: String::new(),
            speaking: None,
            breaks: 2,
        }
    }
}

impl PrintedAnswer {
    /// Takes an event of the run.
    pub(super) fn hear(&mut self, event: &Event) -> Change {
        match event {
            // Sub-agents talk to the agent that asked them, not to the user.
            Event::Live(live) if live.agent == AgentId::ROOT => self.hear_live(live),
            _ => Change::None,
        }
    }

    /// Ends the answer: returns what is missing of the reply, and of the last line.
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
        missing + self.end_of_line()
    }

    /// Returns what ends the line that is begun.
    pub(super) fn end_of_line(&mut self) -> &'static str {
        if self.breaks > 0 {
            return "";
        }
        self.breaks = 1;
        "\n"
    }

    fn hear_live(&mut self, live: &LiveEvent) -> Change {
        match &live.body {
            LiveBody::TextDelta { text } if !text.is_empty() => self.say(live.call, text),
            LiveBody::TextRetracted => self.retract(live.call),
            _ => Change::None,
        }
    }

    fn say(&mut self, call: EffectId, text: &str) -> Change {
        let goes_on = self.speaking.is_some_and(|(speaking, _)| speaking == call);
        let mut more = String::new();
        if !goes_on {
            more.push_str(self.gap());
            self.text.push_str(&more);
            self.speaking = Some((call, self.text.len()));
        }
        more.push_str(text);
        self.text.push_str(text);
        self.printed(&more);
        Change::More(more)
    }

    fn retract(&mut self, call: EffectId) -> Change {
        match self.speaking {
            Some((speaking, start)) if speaking == call && self.text.len() > start => {
                self.text.truncate(start);
                self.speaking = None;
                Change::Void(self.end_of_line())
            }
            _ => Change::None,
        }
    }

    /// Returns what comes after the text of the last call, or after all text, where the reply begins with it.
    fn rest_of<'a>(&self, reply: &'a str) -> Option<&'a str> {
        let (_, start) = self.speaking?;
        let last = self.text.get(start..)?;
        let after = |text: &str| reply.strip_prefix(text).filter(|_| !text.trim().is_empty());
        after(last).or_else(|| after(&self.text))
    }

    /// Returns the line breaks that leave an empty line before what follows.
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
