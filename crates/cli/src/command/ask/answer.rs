//! What stands on standard output in format `text`: the texts of the model's calls, one after the other.

use neuraxis::Event;
use neuraxis::core::{AgentId, EffectId, LiveBody, LiveEvent, Record, RecordBody};

/// Turns events into what to print. What is printed stays: text that becomes void is followed by what replaces it, or waits
/// until it cannot become void any more.
#[derive(Debug)]
pub(super) struct PrintedAnswer {
    /// What was printed, or waits, and stands.
    text: String,
    /// The call that is speaking.
    speaking: Option<Speech>,
    /// How many line breaks end it; two, if there is nothing.
    breaks: usize,
    when: When,
    /// The end of the text, which waits.
    held: String,
}

/// When text is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// As it comes.
    AsItComes,
    /// Once its reply is whole: from a program nothing can be taken back.
    OnceItStands,
}

/// What a call says, and what there was before, which stays where that becomes void.
#[derive(Debug, Clone, Copy)]
struct Speech {
    call: EffectId,
    /// Where its text begins.
    start: usize,
    /// What leaves an empty line before it.
    gap: &'static str,
    /// How much waited before that.
    held: usize,
    /// How many line breaks ended it then.
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

impl PrintedAnswer {
    pub(super) const fn new(when: When) -> Self {
        Self {
            text: String::new(),
            speaking: None,
            breaks: 2,
            when,
            held: String::new(),
        }
    }

    /// Takes an event of the run.
    pub(super) fn hear(&mut self, event: &Event) -> Change {
        match event {
            // Sub-agents talk to the agent that asked them, not to the user.
            Event::Live(live) if live.agent == AgentId::ROOT => self.hear_live(live),
            Event::Record(record) => self.hear_record(record),
            _ => Change::None,
        }
    }

    /// Ends the answer: returns what waits, and what is missing of the reply and of the last line.
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

    /// Ends what was said: returns what waits, and what is missing of the last line.
    pub(super) fn end(&mut self) -> String {
        std::mem::take(&mut self.held) + self.end_of_line()
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

    /// A reply that is on record is whole.
    fn hear_record(&mut self, record: &Record) -> Change {
        let speaking = self.speaking.map(|speech| speech.call);
        match &record.body {
            RecordBody::LlmCall(call)
                if speaking == Some(call.effect_id) && !self.held.is_empty() =>
            {
                Change::More(std::mem::take(&mut self.held))
            }
            _ => Change::None,
        }
    }

    fn say(&mut self, call: EffectId, text: &str) -> Change {
        let goes_on = self.speaking.is_some_and(|speech| speech.call == call);
        let mut more = String::new();
        if !goes_on {
            let gap = self.gap();
            more.push_str(gap);
            self.text.push_str(gap);
            self.speaking = Some(Speech {
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
        match self.when {
            When::AsItComes => Change::More(more),
            When::OnceItStands => {
                self.held.push_str(&more);
                Change::None
            }
        }
    }

    fn retract(&mut self, call: EffectId) -> Change {
        let speaking = self.speaking.filter(|speech| speech.call == call);
        let Some(speech) = speaking.filter(|speech| self.text.len() > speech.start) else {
            return Change::None;
        };
        self.text.truncate(speech.start);
        self.speaking = None;
        match self.when {
            When::AsItComes => Change::Void(self.end_of_line()),
            When::OnceItStands => {
                self.text.truncate(speech.start - speech.gap.len());
                self.held.truncate(speech.held);
                self.breaks = speech.breaks;
                Change::None
            }
        }
    }

    /// Returns what comes after the text of the last call, or after all text, where the reply begins with it.
    fn rest_of<'a>(&self, reply: &'a str) -> Option<&'a str> {
        let speech = self.speaking?;
        let last = self.text.get(speech.start..)?;
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
