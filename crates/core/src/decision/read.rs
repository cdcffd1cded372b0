//! How a decision is applied once the run is in progress: which role a model chose, what a check said about a draft,
//! and who takes over after failures.

use super::{Escalation, Routing, SelfCheck};
use crate::ids::Role;

/// The result of a self-check of a draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// The draft is the answer.
    Accepted,
    /// This text replaces the draft.
    Corrected(String),
}

/// Who takes over after consecutive failures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakesOver {
    /// No change yet.
    Nobody,
    /// A larger role.
    Role(Role),
    /// A user, who is asked how to continue.
    Person,
}

impl Routing {
    /// Reads the reply of the model that was asked which role serves. Returns one of the choices, if the reply names
    /// that and nothing else.
    #[must_use]
    pub fn chosen(&self, reply: &str) -> Option<&Role> {
        let said = bare(reply).to_lowercase();
        self.choices.iter().find(|role| role.as_str() == said)
    }
}

impl SelfCheck {
    /// Reads the reply of the model that checked a draft. An empty reply, or a failed call (`None`), accepts the draft:
    /// a check never leaves the user without an answer.
    #[must_use]
    pub fn read(reply: Option<&str>) -> Checked {
        match reply.map(str::trim) {
            None | Some("") => Checked::Accepted,
            Some(said) if bare(said).eq_ignore_ascii_case("accept") => Checked::Accepted,
            Some(corrected) => Checked::Corrected(corrected.to_owned()),
        }
    }
}

impl Escalation {
    /// Returns who takes over after a number of consecutive failures: first the larger role, and after the same number
    /// again a user.
    #[must_use]
    pub fn after(&self, failures: u32) -> TakesOver {
        let steps = failures / self.after_failures.max(1);
        match (steps, &self.role) {
            (0, _) => TakesOver::Nobody,
            (1, Some(role)) => TakesOver::Role(role.clone()),
            _ if self.person => TakesOver::Person,
            (_, Some(role)) => TakesOver::Role(role.clone()),
            (_, None) => TakesOver::Nobody,
        }
    }
}

/// Strips the punctuation and quotes that models often put around a single word.
fn bare(text: &str) -> &str {
    text.trim().trim_matches(['"', '\'', '`', '.', '*'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_accepting_or_empty_check_accepts_the_draft() {
        for accepted in [
            Some("ACCEPT"),
            Some(" accept. "),
            Some("**Accept**"),
            Some(""),
            None,
        ] {
            assert_eq!(SelfCheck::read(accepted), Checked::Accepted, "{accepted:?}");
        }
        for corrected in ["It is 42.", "ACCEPT, but say 42"] {
            let expected = Checked::Corrected(corrected.to_owned());
            assert_eq!(SelfCheck::read(Some(corrected)), expected);
        }
    }

    #[test]
    fn a_model_chooses_a_role_only_by_replying_with_its_name() {
        let routing = Routing {
            asks: Role::ROUTER,
            prompt: String::new(),
            choices: vec![Role::ROUTER, Role::CODING],
            max_output_tokens: 16,
        };
        assert_eq!(routing.chosen(" \"Coding\".\n"), Some(&Role::CODING));
        for nonsense in ["", "I would say coding", "reasoning", "coding coding"] {
            assert_eq!(routing.chosen(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn consecutive_failures_escalate_to_the_larger_role_and_then_to_a_person() {
        let mut escalation = Escalation {
            role: Some(Role::REASONING),
            after_failures: 2,
            person: true,
        };
        let larger = TakesOver::Role(Role::REASONING);
        let after = |escalation: &Escalation| [0, 1, 2, 3, 4, 99].map(|n| escalation.after(n));
        assert_eq!(
            after(&escalation),
            [
                TakesOver::Nobody,
                TakesOver::Nobody,
                larger.clone(),
                larger.clone(),
                TakesOver::Person,
                TakesOver::Person
            ]
        );
        escalation.person = false;
        assert_eq!(escalation.after(99), larger);
        escalation.role = None;
        assert_eq!(escalation.after(99), TakesOver::Nobody);
        escalation.person = true;
        assert_eq!(escalation.after(2), TakesOver::Person);
    }
}
