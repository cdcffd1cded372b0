//! From exchanges to lines.

mod lines;

use std::collections::VecDeque;
use std::sync::Arc;

use neuraxis_core::{Message, ModelRequest, ToolSpec, Transcript};

use self::lines::Lines;
use super::VERSION;
use super::line::{CassetteLine, DoneLine, ExchangeLine, Line, SharedMessages};
use crate::exchange::{Exchange, Header};
use crate::recording::StatePolicy;
use crate::redact::Redactor;

/// How many earlier requests are looked at for what a request shares with them.
const REMEMBERED: usize = 16;

/// Turns exchanges into the lines of one file, without secrets.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    redactor: Redactor,
    state: StatePolicy,
    written: VecDeque<(u32, ModelRequest)>,
}

impl Writer {
    pub(crate) fn new(redactor: Redactor, state: StatePolicy) -> Self {
        Self {
            redactor,
            state,
            written: VecDeque::new(),
        }
    }

    /// Returns the first line of the file.
    pub(crate) fn header(&self, header: &Header) -> String {
        let mut lines = Lines::new(&self.redactor);
        lines.add(&Line::Cassette(CassetteLine {
            version: VERSION,
            recorded_at: header.recorded_at,
            recorded_by: header.recorded_by.clone(),
            not_captured: header.not_captured.clone(),
        }));
        lines.text
    }

    /// Returns the lines of an exchange.
    pub(crate) fn exchange(&mut self, exchange: &Exchange) -> String {
        let mut lines = Lines::new(&self.redactor);
        let shared = self.shared_messages(&exchange.request);
        let count = shared.as_ref().map_or(0, |shared| shared.count);
        let tools_from = self.shared_tools(&exchange.request.tools);
        lines.add(&Line::Exchange(ExchangeLine {
            number: exchange.number,
            role: exchange.role.clone(),
            model: exchange.model.clone(),
            context_tokens: exchange.context_tokens,
            mode: exchange.mode,
            started_ms: exchange.started_ms,
            tools_from,
            messages_from: shared,
        }));
        if tools_from.is_none() {
            for tool in exchange.request.tools.iter() {
                lines.tool(&self.redactor.tool(tool));
            }
        }
        for message in exchange.request.messages.since(count) {
            lines.message(&self.redactor.message(message, self.state));
        }
        let settings = ModelRequest {
            messages: Transcript::default(),
            tools: Arc::default(),
            ..exchange.request.clone()
        };
        lines.settings(&self.redactor.request(&settings, self.state));
        let mut events = exchange.events.clone();
        self.redactor.events(&mut events, self.state);
        for (ms, event) in &events {
            lines.event(*ms, event);
        }
        lines.add(&Line::Done(DoneLine {
            ms: exchange.ended_ms,
            how: exchange.ended,
        }));
        let text = lines.text;
        self.remember(exchange);
        text
    }

    fn shared_messages(&self, request: &ModelRequest) -> Option<SharedMessages> {
        let ours = request.messages.messages();
        let shared = self.written.iter().map(|(exchange, earlier)| {
            let pairs = ours.iter().zip(earlier.messages.messages());
            let same = |(a, b): &(&Arc<Message>, &Arc<Message>)| Arc::ptr_eq(a, b) || a == b;
            SharedMessages {
                exchange: *exchange,
                count: pairs.take_while(same).count(),
            }
        });
        let most = shared.max_by_key(|shared| shared.count);
        most.filter(|shared| shared.count > 0)
    }

    fn shared_tools(&self, tools: &Arc<[ToolSpec]>) -> Option<u32> {
        let mut earlier = self.written.iter();
        let same = earlier
            .find(|(_, earlier)| Arc::ptr_eq(&earlier.tools, tools) || earlier.tools == *tools);
        same.filter(|_| !tools.is_empty())
            .map(|(exchange, _)| *exchange)
    }

    fn remember(&mut self, exchange: &Exchange) {
        if self.written.len() == REMEMBERED {
            self.written.pop_front();
        }
        self.written
            .push_back((exchange.number, exchange.request.clone()));
    }
}
