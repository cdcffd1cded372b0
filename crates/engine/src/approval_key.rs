//! The key of an installation. An engine uses it to tell approvals that it received itself from those that another
//! party wrote into its store.
//!
//! The key proves that an approval came in through this installation, not who gave it. Who decided is only a note,
//! supplied by the party that decided.

use std::fmt;
use std::io;

use hmac::{Hmac, KeyInit, Mac};
use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{
    AdvisedCall, ApprovalDecided, ApprovalDecision, Approved, CallToVet, ContentHash, Grant,
    GrantScope, Input, JsonText, RunId, SessionId,
};
use sha2::Sha256;

/// A 32-byte secret. Engines that share a store should share the key. Otherwise each asks again for what another engine
/// was allowed.
#[derive(Clone)]
pub struct ApprovalKey([u8; Self::BYTES]);

impl ApprovalKey {
    /// The length of a key, in bytes.
    pub const BYTES: usize = 32;

    /// Creates a key from bytes, which must not be guessable.
    #[must_use]
    pub const fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Creates a new random key.
    ///
    /// # Errors
    ///
    /// Returns an error if the system provides no randomness.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; Self::BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Returns the key's bytes. Store them where no other party can read them.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// Signs an approval, which makes it count. A decision that is not an approval stays unchanged: a denial needs no
    /// signature.
    pub(crate) fn sign(&self, run: RunId, decided: &mut ApprovalDecided) {
        let ApprovalDecision::Approve { remember, .. } = &decided.decision else {
            decided.code = None;
            return;
        };
        let arguments = decided.final_arguments();
        let by = decided.by.as_deref();
        let call = decided.tool_call_id.as_str();
        let given_before = decided.given_before;
        let parts = approval(run, call, arguments, remember.as_ref(), by, given_before);
        decided.code = self.code(&parts);
    }

    /// Signs an approval that was received within this process.
    pub(crate) fn sign_input(&self, run: RunId, input: &mut Input) {
        if let Input::ApprovalDecided(decided) = input
            && decided.code.is_none()
        {
            self.sign(run, decided);
        }
    }

    /// Returns `true` if the approval of a call was signed with this key.
    pub(crate) fn approves(&self, run: RunId, call: &CallToVet, approved: &Approved) -> bool {
        let (remember, by) = (approved.remember.as_ref(), approved.by.as_deref());
        let id = call.tool_call_id.as_str();
        let arguments = call.arguments.hash();
        let parts = approval(run, id, arguments, remember, by, approved.given_before);
        self.fits(&parts, approved.code)
    }

    /// Signs a grant.
    pub(crate) fn sign_grant(&self, session: &SessionId, grant: &mut Grant) {
        grant.code = self.code(&remembered(session, grant));
    }

    /// Returns `true` if a grant was signed with this key.
    pub(crate) fn grants(&self, session: &SessionId, grant: &Grant) -> bool {
        self.fits(&remembered(session, grant), grant.code)
    }

    /// Signs what hooks said about a call with these arguments.
    pub(crate) fn sign_advice(&self, run: RunId, arguments: &JsonText, advised: &mut AdvisedCall) {
        advised.code = self.code(&advice(run, arguments, advised));
    }

    /// Returns `true` if what hooks said about a call was signed with this key.
    pub(crate) fn advises(&self, run: RunId, call: &CallToVet, advised: &AdvisedCall) -> bool {
        let is_its = advised.tool_call_id == call.tool_call_id;
        is_its && self.fits(&advice(run, &call.arguments, advised), advised.code)
    }

    fn code(&self, parts: &[Vec<u8>]) -> Option<ContentHash> {
        ContentHash::from_bytes(&self.mac(parts)?.finalize().into_bytes())
    }

    fn fits(&self, parts: &[Vec<u8>], code: Option<ContentHash>) -> bool {
        let (Some(mac), Some(code)) = (self.mac(parts), code) else {
            return false;
        };
        // Compares in constant time.
        mac.verify_slice(code.as_bytes()).is_ok()
    }

    /// Encodes the parts so that no two different lists of parts have the same encoding.
    fn mac(&self, parts: &[Vec<u8>]) -> Option<Hmac<Sha256>> {
        // A key of any length is accepted, so this does not fail.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        for part in parts {
            mac.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            mac.update(part);
        }
        Some(mac)
    }
}

impl fmt::Debug for ApprovalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApprovalKey(***)")
    }
}

fn approval(
    run: RunId,
    call: &str,
    arguments: ContentHash,
    remember: Option<&GrantScope>,
    by: Option<&str>,
    given_before: Option<Timestamp>,
) -> Vec<Vec<u8>> {
    let optional = |text: Option<String>| {
        let text = text.map(|text| [b"+", text.as_bytes()].concat());
        text.unwrap_or_default()
    };
    let remember = remember.and_then(|scope| JsonText::encode(scope).ok());
    let mut parts = vec![
        b"approval".to_vec(),
        run.0.as_bytes().to_vec(),
        call.as_bytes().to_vec(),
        arguments.as_bytes().to_vec(),
        optional(remember.map(|scope| scope.as_str().to_owned())),
        optional(by.map(str::to_owned)),
    ];
    // Added only if present: codes of approvals without this field stay as they were.
    parts.extend(given_before.map(|end| end.to_string().into_bytes()));
    parts
}

fn advice(run: RunId, arguments: &JsonText, advised: &AdvisedCall) -> Vec<Vec<u8>> {
    // Advice consists of a tag and a sentence, so encoding it cannot fail.
    let encoded = JsonText::encode(&advised.advice);
    vec![
        b"advice".to_vec(),
        run.0.as_bytes().to_vec(),
        advised.tool_call_id.as_str().as_bytes().to_vec(),
        arguments.hash().as_bytes().to_vec(),
        encoded
            .map(|encoded| encoded.as_str().as_bytes().to_vec())
            .unwrap_or_default(),
    ]
}

fn remembered(session: &SessionId, grant: &Grant) -> Vec<Vec<u8>> {
    let bare = Grant {
        code: None,
        ..grant.clone()
    };
    // What cannot be written as JSON is treated as absent: a store cannot keep it either.
    let bare = JsonText::encode(&bare).map(|text| text.as_str().as_bytes().to_vec());
    vec![
        b"grant".to_vec(),
        session.as_str().as_bytes().to_vec(),
        bare.unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use neuraxis_core::uuid::Uuid;
    use neuraxis_core::{CallAdvice, InputId, ToolCallId};

    use super::*;

    const RUN: RunId = RunId(Uuid::from_u128(7));

    fn decided(decision: ApprovalDecision) -> ApprovalDecided {
        ApprovalDecided {
            id: InputId::new("a"),
            tool_call_id: ToolCallId::from_text("call"),
            arguments_hash: JsonText::from_text("{}").hash(),
            decision,
            by: Some("alice".to_owned()),
            code: None,
            given_before: None,
        }
    }

    fn call(decided: &ApprovalDecided, arguments: &str) -> (CallToVet, Approved) {
        let remember = match &decided.decision {
            ApprovalDecision::Approve { remember, .. } => remember.clone(),
            _ => None,
        };
        let approved = Approved {
            remember,
            by: decided.by.clone(),
            code: decided.code,
            given_before: decided.given_before,
        };
        let call = CallToVet {
            tool_call_id: decided.tool_call_id.clone(),
            name: "pay".into(),
            arguments: JsonText::from_text(arguments),
            approved: Some(Box::new(approved.clone())),
            is_rechecked: false,
            advised: None,
        };
        (call, approved)
    }

    #[test]
    fn an_approval_is_valid_only_for_the_approved_call_and_its_signing_key() {
        let key = ApprovalKey::new([7; 32]);
        let mut decided = decided(ApprovalDecision::APPROVE);
        key.sign(RUN, &mut decided);
        let (shown, approved) = call(&decided, "{}");
        assert!(key.approves(RUN, &shown, &approved));
        assert!(!ApprovalKey::new([8; 32]).approves(RUN, &shown, &approved));
        assert!(!key.approves(RunId(Uuid::from_u128(8)), &shown, &approved));
        assert!(!key.approves(RUN, &call(&decided, "{ }").0, &approved));
        for other in [
            Approved {
                remember: Some(GrantScope::Tool),
                ..approved.clone()
            },
            Approved {
                by: None,
                ..approved.clone()
            },
            Approved {
                given_before: Some(Timestamp::UNIX_EPOCH),
                ..approved.clone()
            },
            Approved {
                code: None,
                ..approved
            },
        ] {
            assert!(!key.approves(RUN, &shown, &other), "{other:?}");
        }
    }

    #[test]
    fn the_deadline_of_an_approval_is_covered_by_its_signature() {
        let key = ApprovalKey::new([7; 32]);
        let mut decided = decided(ApprovalDecision::APPROVE);
        decided.given_before = Some(Timestamp::UNIX_EPOCH);
        key.sign(RUN, &mut decided);
        let (shown, approved) = call(&decided, "{}");
        assert!(key.approves(RUN, &shown, &approved));
        for given_before in [None, Some(Timestamp::MAX)] {
            let other = Approved {
                given_before,
                ..approved.clone()
            };
            assert!(!key.approves(RUN, &shown, &other), "{other:?}");
        }
    }

    #[test]
    fn an_approval_with_edited_arguments_is_valid_only_for_those() {
        let key = ApprovalKey::new([7; 32]);
        let edited = ApprovalDecision::approve_with(JsonText::from_text("[1]"));
        let mut decided = decided(edited);
        key.sign(RUN, &mut decided);
        let (edited, approved) = call(&decided, "[1]");
        assert!(key.approves(RUN, &edited, &approved));
        assert!(!key.approves(RUN, &call(&decided, "{}").0, &approved));
    }

    #[test]
    fn a_denial_needs_no_code() {
        let mut denied = decided(ApprovalDecision::Deny { reason: None });
        ApprovalKey::new([7; 32]).sign(RUN, &mut denied);
        assert_eq!(denied.code, None);
    }

    #[test]
    fn a_remembered_answer_is_valid_only_in_its_session() {
        let key = ApprovalKey::new([7; 32]);
        let mut grant = Grant {
            id: 1,
            tool: "pay".parse().unwrap(),
            definition: ContentHash::EMPTY,
            scope: GrantScope::Tool,
            at: Timestamp::UNIX_EPOCH,
            by: None,
            policy_hash: ContentHash::EMPTY,
            code: None,
        };
        let [ours, other] = ["ours", "other"].map(|id| -> SessionId { id.parse().unwrap() });
        assert!(!key.grants(&ours, &grant));
        key.sign_grant(&ours, &mut grant);
        assert!(key.grants(&ours, &grant));
        assert!(!key.grants(&other, &grant));
        grant.id = 2;
        assert!(!key.grants(&ours, &grant));
    }

    #[test]
    fn advice_of_a_hook_is_valid_only_for_its_call_and_arguments() {
        let key = ApprovalKey::new([7; 32]);
        let (mut shown, _) = call(&decided(ApprovalDecision::APPROVE), "{}");
        let mut said = AdvisedCall {
            tool_call_id: shown.tool_call_id.clone(),
            arguments: None,
            advice: CallAdvice::Continue,
            code: None,
        };
        assert!(!key.advises(RUN, &shown, &said));
        key.sign_advice(RUN, &shown.arguments, &mut said);
        assert!(key.advises(RUN, &shown, &said));
        assert!(!ApprovalKey::new([8; 32]).advises(RUN, &shown, &said));
        assert!(!key.advises(RunId(Uuid::from_u128(8)), &shown, &said));
        let reason = "no".to_owned();
        let other = AdvisedCall {
            advice: CallAdvice::Refuse { reason },
            ..said.clone()
        };
        assert!(!key.advises(RUN, &shown, &other));
        shown.arguments = JsonText::from_text("[1]");
        assert!(!key.advises(RUN, &shown, &said));
    }

    #[test]
    fn the_debug_output_hides_the_key() {
        assert_eq!(
            format!("{:?}", ApprovalKey::new([7; 32])),
            "ApprovalKey(***)"
        );
    }
}
