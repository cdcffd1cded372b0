//! The model that is none: answers by rules, whole or word by word; and how a configuration chooses it.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use neuraxis_core::{
    BlockIndex, LlmError, LlmErrorKind, MediaTypes, ModelRef, ModelRequest, Reply, ReplyDelta,
    ReplyEnd, ReplyFinish, ReplyPart, RequestedCall, TextPart, Usage,
};
use neuraxis_ports::{
    CallContext, CancellationToken, ConnectContext, ConnectError, Connection, LlmClient, ModelInfo,
    ModelSource, Offer, Provider, ProviderKind, ReplyStream, async_trait,
};
use serde::{Deserialize, Serialize};

use crate::answer::{Response, answer};

/// The provider's name in configuration and records.
const PROVIDER: &str = "offline";

/// The name of what replies where a rule fitted.
const RULES: &str = "rules";

/// The name of what replies where none did.
const NO_RULE: &str = "no-rule";

/// Answers by rules, at once, with nothing but the request. Its usage is zero tokens, measured: no model ran.
#[derive(Debug, Clone, Copy, Default)]
pub struct OfflineModel;

impl OfflineModel {
    /// Makes the model, which has no settings.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }

    /// Tells whether a reply only says that no rule fits and how to get a model: it answers nothing, and programs should not
    /// take it for an answer. Its [`model`](Reply::model) says so, so that a record of it does.
    #[must_use]
    pub fn is_no_answer(reply: &Reply) -> bool {
        reply.model == ModelRef::new(PROVIDER, NO_RULE)
    }

    fn model() -> ModelRef {
        ModelRef::new(PROVIDER, RULES)
    }
}

#[async_trait]
impl LlmClient for OfflineModel {
    async fn respond(&self, request: &ModelRequest, ctx: &CallContext) -> Result<Reply, LlmError> {
        check(&ctx.cancellation)?;
        let answer = answer(request)?;
        let end = end(&answer);
        let parts = match answer {
            Response::Text(text) | Response::Help(text) => {
                vec![ReplyPart::Text(TextPart { text, state: None })]
            }
            Response::Calls(calls) => calls
                .into_iter()
                .map(|call| ReplyPart::ToolCall(call.into()))
                .collect(),
        };
        Ok(Reply {
            parts,
            finish: end.finish,
            usage: end.usage,
            model: end.model,
            advice: None,
        })
    }

    async fn stream_respond(
        &self,
        request: &ModelRequest,
        ctx: &CallContext,
    ) -> Result<ReplyStream, LlmError> {
        check(&ctx.cancellation)?;
        let cancellation = ctx.cancellation.clone();
        let mut cut = false;
        let deltas = stream::iter(deltas(answer(request)?))
            .map(move |delta| check(&cancellation).map(|()| delta));
        // The error that says so is the last item of a cancelled stream.
        let deltas = deltas.take_while(move |delta| {
            let goes_on = !cut;
            cut = delta.is_err();
            std::future::ready(goes_on)
        });
        Ok(deltas.boxed())
    }

    fn info(&self) -> ModelInfo {
        let mut info = ModelInfo::new(Self::model());
        info.media = MediaTypes::NONE;
        info.notice =
            Some("not a language model: fixed rules that call the offered tools".to_owned());
        info
    }
}

fn check(cancellation: &CancellationToken) -> Result<(), LlmError> {
    if cancellation.is_cancelled() {
        return Err(LlmError::new(
            LlmErrorKind::Cancelled,
            "given up by its caller",
        ));
    }
    Ok(())
}

fn end(answer: &Response) -> ReplyEnd {
    let (finish, model) = match answer {
        Response::Text(_) => (ReplyFinish::Stop, OfflineModel::model()),
        Response::Help(_) => (ReplyFinish::Stop, ModelRef::new(PROVIDER, NO_RULE)),
        Response::Calls(_) => (ReplyFinish::ToolCalls, OfflineModel::model()),
    };
    ReplyEnd {
        finish,
        usage: Usage::default(),
        model,
    }
}

fn deltas(answer: Response) -> Vec<ReplyDelta> {
    let end = ReplyDelta::End(Box::new(end(&answer)));
    let deltas: Vec<ReplyDelta> = match answer {
        Response::Text(text) | Response::Help(text) => {
            let words = text.split_inclusive(char::is_whitespace);
            words
                .map(|word| ReplyDelta::Text {
                    block: BlockIndex(0),
                    text: word.to_owned(),
                })
                .collect()
        }
        Response::Calls(calls) => {
            let calls = calls.into_iter().map(RequestedCall::from).zip(0..);
            calls
                .map(|(call, block)| call_delta(call, BlockIndex(block)))
                .collect()
        }
    };
    deltas.into_iter().chain([end]).collect()
}

fn call_delta(call: RequestedCall, block: BlockIndex) -> ReplyDelta {
    let arguments = call.arguments.as_str().to_owned();
    ReplyDelta::ToolCall {
        block,
        provider_id: None,
        name: Some(call.name),
        arguments,
    }
}

/// The table of rules: it has no keys but those that every table has.
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
    async fn offer(&self, _within: Duration) -> Result<Offer, LlmError> {
        Ok(Offer::new(vec![self.info().model.model.to_string()]))
    }
}
