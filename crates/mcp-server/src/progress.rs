//! Tells a client how a run gets on, where it wants to hear it.

use neuraxis_core::log::describe;
use neuraxis_core::{AgentId, RecordBody};
use neuraxis_engine::Event;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};

use crate::shown::words;

/// Where a client hears of one call's progress.
#[derive(Debug)]
pub(crate) struct Progress {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    /// How often it heard something, which is the number that has to rise.
    told: u32,
}

impl Progress {
    pub(crate) const fn new(peer: Peer<RoleServer>, token: Option<ProgressToken>) -> Self {
        Self {
            peer,
            token,
            told: 0,
        }
    }

    /// Tells what happened, if it is of interest and the client wants to hear it.
    pub(crate) async fn hear(&mut self, event: &Event) {
        let Event::Record(record) = event else {
            return;
        };
        let said = match &record.body {
            RecordBody::LlmCall(call) if record.agent == AgentId::ROOT => {
                // Also what comes before the first one is told as of it.
                let turn = record.turn.0.max(1);
                let calls = describe::asks_for(call.reply.calls().count());
                let what = calls.unwrap_or_else(|| "answers".to_owned());
                format!("turn {turn}: the model {what}")
            }
            RecordBody::ToolCall(call) => format!("{} is at work", words(&call.name)),
            RecordBody::ToolResult(result) => match result.failure {
                None => format!("{} is done", words(&result.name)),
                Some(failure) => {
                    format!("{}: {}", words(&result.name), describe::failure(failure))
                }
            },
            RecordBody::ApprovalRequested(asked) => {
                format!("{} needs approval", words(&asked.name))
            }
            _ => return,
        };
        self.tell(said).await;
    }

    async fn tell(&mut self, message: String) {
        let Some(token) = self.token.clone() else {
            return;
        };
        self.told += 1;
        let progress = ProgressNotificationParam::new(token, f64::from(self.told));
        let told = self
            .peer
            .notify_progress(progress.with_message(message))
            .await;
        if told.is_err() {
            // Who went away hears of nothing more; what becomes of the run is decided elsewhere.
            self.token = None;
        }
    }
}
