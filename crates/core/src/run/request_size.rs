//! Estimates how much of a model's context a first request takes before any server has counted: instructions, tools and
//! messages; and how many tools fit.
//!
//! The estimates are based on bytes. For a growing conversation, `context` does this.

use std::fmt;
use std::sync::Arc;

use super::context::Gauge;
use crate::message::Message;
use crate::spec::AgentSpec;
use crate::tool::ToolSpec;

/// The percentage of the room that a conversation may fill before something is removed, and that a first request may
/// fill with its tools: results need some room too.
pub(super) const FULL: u64 = 85;

/// Overhead of a tool definition beside its texts, in bytes: braces and field names.
const TOOL_FRAME_BYTES: usize = 60;

/// By how much an estimate may be too high, in percent of the estimate: text that a tokenizer handles well needs fewer
/// tokens.
const TOO_LARGE_BY: u64 = 25;

/// How much of its model's context an agent's first request takes, in estimated tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestSize {
    /// The instructions.
    pub instructions: u64,
    /// The definitions of the tools in the request.
    pub tools: u64,
    /// The number of these tools.
    pub tool_count: usize,
    /// The messages.
    pub messages: u64,
}

impl RequestSize {
    /// Returns whether instructions and messages alone exceed a context, even if the estimate is too high.
    #[must_use]
    pub const fn exceeds(&self, context_tokens: u64) -> bool {
        let least = self.without_tools().saturating_mul(100) / (100 + TOO_LARGE_BY);
        least > context_tokens
    }

    const fn without_tools(&self) -> u64 {
        self.instructions.saturating_add(self.messages)
    }
}

/// Describes the sizes for users.
impl fmt::Display for RequestSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            instructions,
            tools,
            tool_count,
            messages,
        } = self;
        write!(
            f,
            "the instructions take about {instructions} tokens, the definitions of {tool_count} tools about {tools} and \
             the messages about {messages}"
        )
    }
}

impl AgentSpec {
    /// Returns how much room a context has beside the reply.
    pub(super) fn room_in(&self, context: u64) -> u64 {
        context.saturating_sub(self.kept_for_reply(context))
    }

    /// Returns how much of a context is kept free for the reply.
    pub(super) fn kept_for_reply(&self, context: u64) -> u64 {
        self.reply_tokens().min(context / 4)
    }

    /// Estimates the size of the agent's first request with these messages.
    #[must_use]
    pub fn request_size(&self, messages: &[Arc<Message>]) -> RequestSize {
        let gauge = Gauge::of(self);
        let instructions = self.system_prompt.as_deref();
        let tools = self.first_tools();
        RequestSize {
            instructions: instructions.map_or(0, |text| gauge.tokens_of_user(text)),
            tools: tools.iter().map(tool_tokens).sum(),
            tool_count: tools.len(),
            messages: gauge.tokens_of(messages),
        }
    }

    /// Returns how many tokens of the context are left for results, beside the instructions and tool definitions that
    /// every request contains. `None` if the context size is not known.
    #[must_use]
    pub fn room_for_results(&self) -> Option<u64> {
        let context = self.context_tokens?;
        let size = self.request_size(&[]);
        Some(context.saturating_sub(size.instructions.saturating_add(size.tools)))
    }

    /// Leaves out tools that would not fit the context of the agent's model in its first request. Tools stay in the
    /// order in which they are offered, as many as fit. A tool that the profile gathers with always stays, and so do
    /// one that finds others and one that delivers the answer. [`left_out`](Self::left_out) names those that do not
    /// fit, unless the model can find them.
    pub fn fit_tools(&mut self, messages: &[Arc<Message>]) {
        let Some(context) = self.context_tokens else {
            return;
        };
        let size = self.request_size(messages);
        let all = self.room_in(context);
        let taken = size.without_tools();
        // If the messages leave no room for results, they may still have tools beside them.
        let room = match all.saturating_mul(FULL) / 100 {
            share if taken > share => all,
            share => share,
        };
        if taken.saturating_add(size.tools) <= room {
            return;
        }
        let gathered = self.gather_tool().cloned();
        let searches = self.search.as_ref().map(|search| search.tool.clone());
        let delivers = self.answer.as_ref().and_then(|rule| rule.tool.clone());
        let is_needed =
            |tool: &ToolSpec| [&gathered, &searches, &delivers].contains(&&Some(tool.name.clone()));
        let offered = self.first_tools();
        let needed = offered.iter().filter(|tool| is_needed(tool));
        let mut left = room.saturating_sub(taken + needed.map(tool_tokens).sum::<u64>());
        let (mut kept, mut left_out) = (Vec::new(), Vec::new());
        for tool in offered.iter() {
            let takes = tool_tokens(tool);
            if is_needed(tool) {
                kept.push(tool.clone());
            } else if takes <= left {
                left -= takes;
                kept.push(tool.clone());
            } else {
                left_out.push(tool.name.clone());
            }
        }
        if let Some(search) = &mut self.search {
            search.offered = kept.into_iter().map(|tool| tool.name).collect();
        } else {
            self.tools = kept.into();
            self.left_out.extend(left_out);
        }
    }

    /// Returns whether another tool may join those in the agent's requests: together they may take at most half of the
    /// context, as estimated.
    #[must_use]
    pub fn has_room_for(&self, offered: &[ToolSpec], another: &ToolSpec) -> bool {
        let tokens: u64 = offered.iter().chain([another]).map(tool_tokens).sum();
        self.context_tokens
            .is_none_or(|context| tokens <= context / 2)
    }
}

/// Returns the size of tool definitions in a request, in bytes.
pub(super) fn definition_bytes(tools: &[ToolSpec]) -> u64 {
    let bytes = tools.iter().map(tool_bytes).sum::<usize>();
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn tool_tokens(tool: &ToolSpec) -> u64 {
    Gauge::tokens_of_new(tool_bytes(tool))
}

fn tool_bytes(tool: &ToolSpec) -> usize {
    let texts = tool.name.as_str().len() + tool.description.len() + tool.parameters.as_str().len();
    texts + TOOL_FRAME_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Role, ToolName};
    use crate::json::JsonText;
    use crate::profile::{Opening, Profile};
    use crate::tool::{ToolAnnotations, ToolClass, ToolKind};

    /// Creates a tool whose definition takes this many tokens.
    fn tool(name: &str, tokens: usize) -> ToolSpec {
        let filled = name.len() + "{}".len() + TOOL_FRAME_BYTES;
        ToolSpec {
            name: name.parse().unwrap(),
            description: "x".repeat(tokens * 4 - filled).into(),
            parameters: JsonText::from_text("{}"),
            class: ToolClass::ReadOnly,
            annotations: ToolAnnotations::default(),
            kind: ToolKind::Server,
            non_iterative: false,
            timeout: None,
        }
    }

    fn agent(context: u64, tools: &[(&str, usize)]) -> AgentSpec {
        let mut agent = AgentSpec::new(Profile::main_thread(), Role::REASONING);
        agent.context_tokens = Some(context);
        agent.max_output_tokens = Some(100);
        agent.system_prompt = Some("x".repeat(4 * 96).into());
        agent.tools = tools.iter().map(|(name, size)| tool(name, *size)).collect();
        agent
    }

    fn message(tokens: usize) -> Vec<Arc<Message>> {
        vec![Arc::new(Message::user("x".repeat((tokens - 4) * 4)))]
    }

    fn names(agent: &AgentSpec) -> (Vec<&str>, Vec<&str>) {
        let kept = agent.tools.iter().map(|tool| tool.name.as_str());
        let left = agent.left_out.iter().map(ToolName::as_str);
        (kept.collect(), left.collect())
    }

    #[test]
    fn the_size_of_a_request_is_described_by_its_parts() {
        let size = agent(1_100, &[("a", 100), ("b", 200)]).request_size(&message(50));
        assert_eq!(
            size.to_string(),
            "the instructions take about 100 tokens, the definitions of 2 tools about 300 and the messages about 50"
        );
    }

    #[test]
    fn tools_that_do_not_fit_are_left_out_in_order() {
        // 85 % of the 1,000 tokens beside the reply are 850: 700 for tools.
        let tools = [("a", 400), ("b", 301), ("c", 200), ("d", 100)];
        let mut small = agent(1_100, &tools);
        small.fit_tools(&message(50));
        assert_eq!(names(&small), (vec!["a", "c", "d"], vec!["b"]));
        assert_eq!(small.request_size(&message(50)).tool_count, 3);
        let mut large = agent(2_000, &tools);
        large.fit_tools(&message(50));
        assert_eq!(names(&large), (vec!["a", "b", "c", "d"], vec![]));
        let mut unknown = agent(1_100, &tools);
        unknown.context_tokens = None;
        unknown.fit_tools(&message(50));
        assert_eq!(names(&unknown).0.len(), 4);
    }

    #[test]
    fn the_tool_of_a_gathering_opening_is_always_kept() {
        let mut agent = agent(1_100, &[("a", 400), ("b", 400)]);
        agent.profile.opening = Opening::Gather {
            role: Role::ROUTER,
            tool: "b".parse().unwrap(),
            default_arguments: JsonText::from_text("{}"),
        };
        agent.fit_tools(&message(50));
        assert_eq!(names(&agent), (vec!["b"], vec!["a"]));
    }

    #[test]
    fn tools_that_fit_are_kept_next_to_a_message_that_leaves_no_room_for_results() {
        // With 100 tokens of instructions, out of 1,000 in all.
        for (tokens, kept, left_out) in [
            (800, vec!["a", "b"], vec![]),
            (840, vec!["a"], vec!["b"]),
            (2_000, vec![], vec!["a", "b"]),
        ] {
            let mut agent = agent(1_100, &[("a", 40), ("b", 60)]);
            agent.fit_tools(&message(tokens));
            assert_eq!(names(&agent), (kept, left_out), "{tokens}");
        }
        let agent = agent(1_100, &[]);
        assert!(agent.request_size(&message(2_000)).exceeds(1_100));
        assert!(!agent.request_size(&message(1_100)).exceeds(1_100));
    }
}
