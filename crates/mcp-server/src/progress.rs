//! Reports a run's progress to a client that asked for it.

use neuraxis_core::log::describe;
use neuraxis_core::{AgentId, RecordBody};
use neuraxis_engine::Event;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};

use crate::shown::one_line;

/// Where the progress of one call is reported.
#[derive(Debug)]
pub(crate) struct Progress {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    /// How many notifications were sent; the protocol requires this number to increase.
    sent_count: u32,
}

impl Progress {
    pub(crate) const fn new(peer: Peer<RoleServer>, token: Option<ProgressToken>) -> Self {
        Self {
            peer,
            token,
            sent_count: 0,
        }
    }

    /// Reports an event, if it is of interest and the client asked for progress.
    pub(crate) async fn report(&mut self, event: &Event) {
        let Event::Record(record) = event else {
            return;
        };
        let message = match &record.body {
            RecordBody::LlmCall(call) if record.agent == AgentId::ROOT => {
                // What precedes the first turn is reported as part of it.
                let turn = record.turn.0.max(1);
                let calls = describe::asks_for(call.reply.calls().count());
                let what = calls.unwrap_or_else(|| "answers".to_owned());
                format!("turn {turn}: the model {what}")
            }
            RecordBody::ToolCall(call) => format!("{} is running", one_line(&call.name)),
            RecordBody::ToolResult(result) => match result.failure {
                None => format!("{} is done", one_line(&result.name)),
                Some(failure) => {
                    format!("{}: {}", one_line(&result.name), describe::failure(failure))
                }
            },
            RecordBody::ApprovalRequested(asked) => {
                format!("{} needs approval", one_line(&asked.name))
            }
            _ => return,
        };
        self.notify(message).await;
    }

    async fn notify(&mut self, message: String) {
        let Some(token) = self.token.clone() else {
            return;
        };
        self.sent_count += 1;
        let progress = ProgressNotificationParam::new(token, f64::from(self.sent_count));
        let sent = self
            .peer
            .notify_progress(progress.with_message(message))
            .await;
        if sent.is_err() {
            // A client that has disconnected receives nothing more. What happens to the run is decided elsewhere.
            self.token = None;
        }
    }
}
