//! The model that is not one: answers by rules, whole or word by word. Also its entry in the configuration.

use std::path::PathBuf;
use std::time::Duration;

use neuraxis_core::{
    LlmError, LlmErrorKind, MediaTypes, ModelRef, ModelRequest, Reply, ReplyDelta, ReplyFinish,
    ReplyPart, Usage,
};
use neuraxis_ports::{
    CallContext, ConnectContext, ConnectError, Connection, LlmClient, ModelInfo, ModelSource,
    OfferedModels, Provider, ProviderKind, ReplyStream, async_trait, whole_reply,
};
use serde::{Deserialize, Serialize};

use crate::answer::{Response, answer};

/// The provider's name in configuration and records.
const PROVIDER: &str = "offline";

/// The model name in replies to messages that a rule matched.
const RULES: &str = "rules";

/// Answers by rules, immediately, from the request alone. Its usage is zero tokens, labeled measured, because no model
/// ran.
#[derive(Debug, Clone, Copy, Default)]
pub struct OfflineModel;

impl OfflineModel {
    /// Creates the model, which has no settings.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }

    fn model() -> ModelRef {
        ModelRef::new(PROVIDER, RULES)
    }
}

#[async_trait]
impl LlmClient for OfflineModel {
    async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError> {
        if ctx.cancellation.is_cancelled() {
            return Err(LlmError::new(
                LlmErrorKind::Cancelled,
                "cancelled by the caller",
            ));
        }
        let reply = |text: String, model| (vec![ReplyPart::text(text)], ReplyFinish::Stop, model);
        let (parts, finish, model) = match answer(request)? {
            Response::Text(text) => reply(text, Self::model()),
            Response::Help(text) => reply(text, ModelRef::no_model()),
            Response::Calls(calls) => {
                let calls = calls.into_iter();
                let parts = calls.map(|call| ReplyPart::ToolCall(call.into()));
                (parts.collect(), ReplyFinish::ToolCalls, Self::model())
            }
        };
        Ok(Reply {
            parts,
            finish,
            usage: Usage::default(),
            model,
            advice: None,
        })
    }

    async fn stream_respond(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        let deltas = self.respond(request, ctx).await?.into_deltas().into_iter();
        let deltas = deltas.flat_map(words).collect();
        Ok(whole_reply(deltas, ctx.cancellation.clone()))
    }

    fn info(&self) -> ModelInfo {
        let mut info = ModelInfo::new(Self::model());
        info.media = MediaTypes::NONE;
        info.notice =
            Some("not a language model: fixed rules that call the offered tools".to_owned());
        info
    }
}

/// Splits a text into words, as a model would stream it.
fn words(delta: ReplyDelta) -> Vec<ReplyDelta> {
    let ReplyDelta::Text { block, text } = delta else {
        return vec![delta];
    };
    let words = text.split_inclusive(char::is_whitespace).map(str::to_owned);
    words.map(|text| ReplyDelta::Text { block, text }).collect()
}

/// The configuration table of the offline model: it has only the keys that every table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OfflineConfig {}

impl Provider for OfflineConfig {
    const NAME: &'static str = PROVIDER;
    const KIND: ProviderKind = ProviderKind::StandIn("rules answer, not a model");

    fn base_url(&self) -> Option<&str> {
        None
    }

    fn file_mut(&mut self) -> Option<(&'static str, &mut PathBuf)> {
        None
    }

    fn connect(self, _ctx: &ConnectContext<'_>) -> Result<Connection, ConnectError> {
        Ok(Connection::new(OfflineModel::new()))
    }
}

#[async_trait]
impl ModelSource for OfflineModel {
    async fn offer(&self, _within: Duration) -> Result<OfferedModels, LlmError> {
        Ok(OfferedModels::new(vec![
            self.info().model.model.to_string(),
        ]))
    }
}
