//! Converts exchanges to lines.

mod lines;

use std::collections::VecDeque;
use std::sync::Arc;

use neuraxis_core::{Message, ModelRequest, ToolSpec, Transcript};

use self::lines::Lines;
use super::line::{ExchangeLine, Line, SharedMessages};
use super::{VERSION, shared_bytes};
use crate::exchange::{Exchange, Header};
use crate::recording::StatePolicy;
use crate::redact::Redactor;

/// How many earlier requests are searched for parts that a request shares.
const REMEMBERED: usize = 16;

/// Converts exchanges to the lines of one file, without secrets.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    redactor: Redactor,
    state: StatePolicy,
    written: VecDeque<WrittenRequest>,
    /// How many bytes the requests share so far.
    shared_bytes: usize,
}

/// A written request, for later ones that share parts of it.
#[derive(Debug)]
struct WrittenRequest {
    exchange: u32,
    request: ModelRequest,
    /// The bytes that each of its messages adds when it is shared.
    bytes: Vec<usize>,
}

impl Writer {
    pub(crate) fn new(redactor: Redactor, state: StatePolicy) -> Self {
        Self {
            redactor,
            state,
            written: VecDeque::new(),
            shared_bytes: 0,
        }
    }

    /// Returns the first line of the file.
    pub(crate) fn header(&self, header: &Header) -> String {
        let mut lines = Lines::new(&self.redactor);
        lines.add(&Line::Cassette {
            version: VERSION,
            recorded_at: header.recorded_at,
            recorded_by: header.recorded_by.clone(),
            not_captured: header.not_captured.clone(),
        });
        lines.text
    }

    /// Returns how many bytes the written requests share; readers accept at most [`most_shared`](super::most_shared).
    pub(crate) const fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    /// Returns the lines of an exchange.
    pub(crate) fn exchange(&mut self, exchange: &Exchange) -> String {
        let mut lines = Lines::new(&self.redactor);
        let shared = self.shared_messages(&exchange.request);
        let mut bytes = shared
            .as_ref()
            .map_or_else(Vec::new, |it| self.bytes_of(it));
        let count = bytes.len();
        let sum = bytes.iter().sum();
        self.shared_bytes = self.shared_bytes.saturating_add(sum);
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
            let begin = lines.text.len();
            lines.message(&self.redactor.message(message, self.state));
            bytes.push(shared_bytes(message, lines.text.len() - begin));
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
        lines.add(&Line::Done {
            ms: exchange.ended_ms,
            how: exchange.ended,
        });
        let text = lines.text;
        self.remember(exchange, bytes);
        text
    }

    fn shared_messages(&self, request: &ModelRequest) -> Option<SharedMessages> {
        let ours = request.messages.messages();
        let shared = self.written.iter().map(|earlier| {
            let pairs = ours.iter().zip(earlier.request.messages.messages());
            let same = |(a, b): &(&Arc<Message>, &Arc<Message>)| Arc::ptr_eq(a, b) || a == b;
            SharedMessages {
                exchange: earlier.exchange,
                count: pairs.take_while(same).count(),
            }
        });
        let most = shared.max_by_key(|shared| shared.count);
        most.filter(|shared| shared.count > 0)
    }

    fn bytes_of(&self, shared: &SharedMessages) -> Vec<usize> {
        let mut earlier = self.written.iter();
        let earlier = earlier.find(|earlier| earlier.exchange == shared.exchange);
        let bytes = earlier.and_then(|earlier| earlier.bytes.get(..shared.count));
        bytes.unwrap_or_default().to_vec()
    }

    fn shared_tools(&self, tools: &Arc<[ToolSpec]>) -> Option<u32> {
        let mut earlier = self.written.iter();
        let same = earlier.find(|earlier| {
            let theirs = &earlier.request.tools;
            Arc::ptr_eq(theirs, tools) || theirs == tools
        });
        same.filter(|_| !tools.is_empty())
            .map(|earlier| earlier.exchange)
    }

    fn remember(&mut self, exchange: &Exchange, bytes: Vec<usize>) {
        if self.written.len() == REMEMBERED {
            self.written.pop_front();
        }
        self.written.push_back(WrittenRequest {
            exchange: exchange.number,
            request: exchange.request.clone(),
            bytes,
        });
    }
}
