//! A sub-agent's report as the model that started it reads it, and how much room there is for it.

use serde_json::value::RawValue;

use super::agent::Agent;
use crate::finish::{FinishReason, RunOutcome, RunStatus};
use crate::json::{JsonText, without_fence};
use crate::texts::AgentTexts;

/// Maximum size of an answer in bytes, the same as for a long result of any tool.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Minimum size of an answer in bytes, however little room there is: less would be useless.
const LEAST_OF_ANSWER: usize = 256;

/// An agent's answer in the form that its parent reads.
pub(super) enum SubAgentAnswer {
    Given(JsonText),
    Failed(String),
}

impl SubAgentAnswer {
    /// Returns an agent's answer, if it has ended.
    pub(super) fn of(
        agent: &Agent,
        has_form: bool,
        version: u32,
        texts: &AgentTexts,
    ) -> Option<Self> {
        let outcome = agent.answer.as_deref()?;
        Some(match (&agent.stopped_by, has_form) {
            (Some(call), _) if version >= 3 => Self::Failed((texts.no_answer)(call)),
            (_, true) => Self::of_form(outcome, texts),
            (_, false) => Self::of_text(outcome, texts),
        })
    }

    /// Returns an agent's text. If the text is not an answer, or not a complete one, a note tells the caller's model,
    /// which could not know otherwise.
    fn of_text(outcome: &RunOutcome, texts: &AgentTexts) -> Self {
        let content = &outcome.content;
        if content.trim().is_empty() {
            return Self::none(outcome, texts);
        }
        let note = match outcome.finish_reason {
            FinishReason::Length => texts.note_cut,
            FinishReason::ContentFilter => texts.note_filtered,
            FinishReason::Refused => texts.note_refused,
            _ => return Self::Given(JsonText::string(content)),
        };
        Self::Given(JsonText::string(&format!("{content}\n[{note}]")))
    }

    /// Returns the answer of an agent that must give JSON: as that JSON, not as a string that contains it. The driver
    /// checked its form, unless the agent ended in another way.
    fn of_form(outcome: &RunOutcome, texts: &AgentTexts) -> Self {
        let value = JsonText::from_text(without_fence(&outcome.content));
        let is_json = value.decode::<&RawValue>().is_ok();
        if outcome.status() == RunStatus::Done && is_json {
            Self::Given(value)
        } else {
            Self::none(outcome, texts)
        }
    }

    fn none(outcome: &RunOutcome, texts: &AgentTexts) -> Self {
        let why = match &outcome.finish_reason {
            FinishReason::Stop if outcome.content.trim().is_empty() => texts.empty.to_owned(),
            FinishReason::Length => texts.cut.to_owned(),
            FinishReason::ContentFilter => texts.filtered.to_owned(),
            FinishReason::Refused => texts.refused.to_owned(),
            reason => (texts.ended)(reason),
        };
        Self::Failed((texts.no_answer)(&why))
    }

    pub(super) fn json(&self) -> String {
        match self {
            Self::Given(value) => value.as_str().to_owned(),
            Self::Failed(why) => JsonText::error(why).as_str().to_owned(),
        }
    }

    /// Returns its size as JSON, in bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Given(value) => value.as_str().len(),
            Self::Failed(why) => why.len(),
        }
    }

    /// Truncates an answer to the available room, with a note on how much is shown.
    fn cut(&mut self, most: usize, texts: &AgentTexts) {
        let Self::Given(value) = self else {
            return;
        };
        let text = value.as_text();
        // An answer that is longer only as JSON, because of its escapes, is not truncated.
        if text.len() <= most {
            return;
        }
        let kept = text
            .get(..text.floor_char_boundary(most))
            .unwrap_or_default();
        let (kept_bytes, all) = (kept.len(), text.len());
        let note = (texts.note_shortened)(kept_bytes, all);
        *value = JsonText::string(&format!("{kept}\n{note}"));
    }
}

/// Makes answers fit a total number of bytes: those longer than an equal share are cut, and share what the shorter ones
/// leave.
pub(super) fn fit(answers: &mut [SubAgentAnswer], room: usize, texts: &AgentTexts) {
    let lengths = answers.iter().map(SubAgentAnswer::bytes);
    let mut lengths: Vec<usize> = lengths.map(|it| it.min(MAX_ANSWER_BYTES)).collect();
    lengths.sort_unstable();
    let (mut left, mut sharing) = (room, lengths.len());
    let share = lengths.into_iter().find_map(|length| {
        let share = left / sharing.max(1);
        left = left.saturating_sub(length);
        sharing = sharing.saturating_sub(1);
        (length > share).then_some(share)
    });
    let most = share.unwrap_or(MAX_ANSWER_BYTES).max(LEAST_OF_ANSWER);
    answers
        .iter_mut()
        .for_each(|answer| answer.cut(most, texts));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::Texts;

    const TEXTS: &AgentTexts = &Texts::of(4).agents;

    fn answers(lengths: &[usize]) -> Vec<SubAgentAnswer> {
        let texts = lengths.iter().map(|length| "ä".repeat(length / 2));
        texts
            .map(|text| SubAgentAnswer::Given(JsonText::string(&text)))
            .collect()
    }

    fn fitted(lengths: &[usize], room: usize) -> Vec<usize> {
        let mut all = answers(lengths);
        fit(&mut all, room, TEXTS);
        let kept = all.iter().map(|answer| match answer {
            SubAgentAnswer::Given(value) => value.as_text().matches('ä').count() * 2,
            SubAgentAnswer::Failed(_) => 0,
        });
        kept.collect()
    }

    #[test]
    fn answers_that_fit_are_unchanged_and_long_ones_share_the_remaining_room() {
        assert_eq!(fitted(&[100, 3_000], 4_000), [100, 3_000]);
        // The quotes of each answer are two bytes.
        assert_eq!(fitted(&[98, 3_000, 5_000], 4_100), [98, 2_000, 2_000]);
        assert_eq!(fitted(&[3_000], 0), [256], "a word of it is always left");
        let two = [60_000, 70_000];
        assert_eq!(fitted(&two, usize::MAX), [60_000, MAX_ANSWER_BYTES]);
        assert!(fitted(&[], 10).is_empty());
    }

    #[test]
    fn a_cut_answer_states_its_full_size() {
        let mut long = answers(&[1_000]);
        fit(&mut long, 300, TEXTS);
        let text = long[0].json();
        assert!(
            text.contains("[cut: these are the first 300 of 1000 bytes;"),
            "{text}"
        );
        let form = JsonText::from_text(format!(r#"{{"a":"{}"}}"#, "x".repeat(1_000)));
        let mut form = [
            SubAgentAnswer::Given(form),
            SubAgentAnswer::Failed("no".repeat(400)),
        ];
        fit(&mut form, 600, TEXTS);
        assert!(
            form[0].json().starts_with(r#""{\"a\":\"xxx"#),
            "what was JSON is a text now"
        );
        assert_eq!(form[1].json().len(), 812, "why one failed is told whole");
        let lines = JsonText::string(&"a\n".repeat(140));
        let mut lines = [SubAgentAnswer::Given(lines)];
        fit(&mut lines, 300, TEXTS);
        assert!(!lines[0].json().contains("[cut"), "its text fits");
    }
}
