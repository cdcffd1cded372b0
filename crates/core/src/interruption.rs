//! Why a run that could not continue was ended.
//!
//! A cause is for programs; the sentence for people is in [`FinishReason::Interrupted`](crate::FinishReason) and may
//! say more, such as which record differs. **Not for** runs that are cancelled while they are in progress: these end
//! themselves, as [cancelled](crate::FinishReason::Cancelled).

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a run ended as [interrupted](crate::FinishReason::Interrupted).
///
/// Its text form is a sentence without details, and contains nothing of what was said in the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Interruption {
    /// A program ended it while no process drove it, for a reason of its own.
    Closed,
    /// It was cancelled from another folder than the one it works in, so it could not end itself.
    CancelledElsewhere,
    /// It was a run of an eval whose process died: nothing waits for its result.
    EvalGone,
    /// Its caller left before learning that it had started.
    NoCaller,
    /// The store could not confirm that it had started, so its request was refused.
    StartUnconfirmed,
    /// None of the workers could resume it, because all of them work in other folders.
    NoWorker,
    /// Its log has a version that this program does not know. Unless nothing is left to answer or its log lacks
    /// content, another run continues from there.
    OtherVersion,
    /// Its log lacks content that the data policy does not allow to be stored.
    Withheld,
    /// Its log can be read, but does not lead to the state that it describes.
    NotReplayable,
    /// Its log cannot be read.
    LogDamaged,
    /// Its log contains no policy decision.
    Undecided,
    /// It was resumed several times in a row without progress.
    NoProgress,
    /// The state that results from its log contradicts itself.
    Defect,
}

impl fmt::Display for Interruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "it was ended while no process drove it",
            Self::CancelledElsewhere => "it was cancelled from another folder",
            Self::EvalGone => "the eval that started it is gone, and nothing waits for its result",
            Self::NoCaller => "no caller learned that it had started",
            Self::StartUnconfirmed => {
                "the store could not confirm that it had started, so its request was refused"
            }
            Self::NoWorker => "no worker can resume it",
            Self::OtherVersion => "the log has another loop version",
            Self::Withheld => "the log cannot be replayed: its data policy keeps content out of it",
            Self::NotReplayable => "the log cannot be replayed",
            Self::LogDamaged => "the log cannot be read",
            Self::Undecided => "its log contains no policy decision, so nothing would govern it",
            Self::NoProgress => "it was resumed repeatedly without progress",
            Self::Defect => "its state contradicts itself",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_cause_has_a_sentence_of_its_own_and_is_documented() {
        let causes = [
            Interruption::Closed,
            Interruption::CancelledElsewhere,
            Interruption::EvalGone,
            Interruption::NoCaller,
            Interruption::StartUnconfirmed,
            Interruption::NoWorker,
            Interruption::OtherVersion,
            Interruption::Withheld,
            Interruption::NotReplayable,
            Interruption::LogDamaged,
            Interruption::Undecided,
            Interruption::NoProgress,
            Interruption::Defect,
        ];
        let document = include_str!("../../../docs/server.md");
        for cause in causes {
            let name = serde_json::to_value(cause).unwrap();
            let name = name.as_str().unwrap();
            assert!(document.contains(&format!("`{name}`")), "{name}");
        }
        let sentences: BTreeSet<_> = causes.iter().map(ToString::to_string).collect();
        assert_eq!(sentences.len(), causes.len());
    }
}
