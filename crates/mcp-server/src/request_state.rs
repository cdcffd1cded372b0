//! The state that a client carries from a call that needs an answer to the call that supplies it: the waiting run,
//! sealed so that no client can name another client's run.

use std::fmt;
use std::sync::Arc;

use neuraxis_core::RunId;
use rmcp::model::{RequestStateCodec, SealOptions};

/// Seals and opens the state that clients send back with their answers, using a random key that ends with the process.
/// Clones share the key. If the operating system supplies no random bytes, there is no key and nothing is sealed.
#[derive(Clone)]
pub struct RequestStates(Option<Arc<RequestStateCodec>>);

impl Default for RequestStates {
    fn default() -> Self {
        let mut key = [0_u8; 32];
        let random = getrandom::fill(&mut key).ok();
        let codec = random.and_then(|()| RequestStateCodec::try_new(key).ok());
        Self(codec.map(Arc::new))
    }
}

impl RequestStates {
    /// Seals the id of the waiting run, for calls of the same tool by the same owner.
    pub(crate) fn seal(&self, run: RunId, tool: &str, owner: Option<&str>) -> Option<String> {
        let bound = bound_to(tool, owner);
        let options = SealOptions::new().associated_data(&bound);
        self.0.as_ref()?.seal_json_with(&run, &options).ok()
    }

    /// Opens a sealed state. Returns `None` if it was sealed elsewhere, or for another tool or owner.
    pub(crate) fn open(&self, sealed: &str, tool: &str, owner: Option<&str>) -> Option<RunId> {
        let codec = self.0.as_ref()?;
        codec.open_json_with(sealed, &bound_to(tool, owner)).ok()
    }
}

/// Neither value can contain the separator.
fn bound_to(tool: &str, owner: Option<&str>) -> Vec<u8> {
    [tool.as_bytes(), &[0], owner.unwrap_or_default().as_bytes()].concat()
}

impl fmt::Debug for RequestStates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestStates")
    }
}

#[cfg(test)]
mod tests {
    use neuraxis_engine::UuidV7;
    use neuraxis_ports::Ids;

    use super::*;

    #[test]
    fn a_request_state_opens_only_for_the_same_tool_owner_and_process() {
        let states = RequestStates::default();
        let run = RunId(UuidV7.new_id());
        let sealed = states.seal(run, "ask", Some("ada")).unwrap();
        assert_eq!(states.open(&sealed, "ask", Some("ada")), Some(run));
        assert_eq!(states.open(&sealed, "researcher", Some("ada")), None);
        assert_eq!(states.open(&sealed, "ask", Some("bob")), None);
        assert_eq!(states.open(&sealed, "ask", None), None);
        assert_eq!(states.open(&run.to_string(), "ask", Some("ada")), None);
        let others = RequestStates::default();
        assert_eq!(others.open(&sealed, "ask", Some("ada")), None);
    }
}
