//! Who answers when a run asks: the user at this terminal, or nobody.

use std::sync::Arc;

use anyhow::anyhow;
use neuraxis::RunHandle;
use neuraxis::core::{ApprovalDecision, AskCause, RecordBody};
use neuraxis::ports::Approver;
use neuraxis_app::{App, AppBuilder, CassetteUse, Config};

use super::waiting;
use crate::approve::{self, IfUnattended, Postponing, Prompter};
use crate::error::CommandError;
use crate::setup::{Loaded, poll_for_messages};

/// Who answers when a run asks.
#[derive(Debug)]
pub(in crate::command) struct Attended {
    /// The approver of runs; nobody if `None`.
    approver: Option<Arc<dyn Approver>>,
    pub(in crate::command) prompter: Prompter,
    /// Whether the store outlives this process.
    is_persistent: bool,
    /// How to postpone a decision here.
    pub(super) how_to_postpone: &'static str,
}

/// Fails if a run cannot wait until it is decided from elsewhere.
pub(in crate::command) fn require_persistent_runs(config: &Config) -> Result<(), CommandError> {
    if !config.store().is_in_memory() {
        return Ok(());
    }
    let error = anyhow!("a run cannot wait in memory: it would be lost when this command ends");
    Err(CommandError::usage(error).hint("configure a store: --set store.url=sqlite://sessions.db"))
}

impl Attended {
    /// Determines whether a user is at the terminal, and what happens to questions otherwise.
    pub(in crate::command) fn new(
        config: &Config,
        if_unattended: IfUnattended,
    ) -> Result<Self, CommandError> {
        let is_persistent = !config.store().is_in_memory();
        if if_unattended == IfUnattended::Wait {
            require_persistent_runs(config)?;
        }
        let postponing = if is_persistent {
            Postponing::Offered
        } else {
            Postponing::NotOffered
        };
        let (approver, prompter) = approve::prompter(if_unattended, postponing, config);
        Ok(Self {
            approver,
            prompter,
            is_persistent,
            how_to_postpone: waiting::WITH_OPTION,
        })
    }

    /// Builds an engine that asks here.
    pub(in crate::command) async fn app(
        &self,
        loaded: &Loaded,
        cassette: CassetteUse,
    ) -> Result<App, CommandError> {
        let app = self
            .with_approver(loaded.app().cassette(cassette))
            .build()
            .await?;
        poll_for_messages(&app);
        Ok(app)
    }

    /// Makes an engine ask here about calls.
    pub(in crate::command) fn with_approver<'a>(&self, app: AppBuilder<'a>) -> AppBuilder<'a> {
        match &self.approver {
            Some(approver) => app.approver(Arc::clone(approver)),
            None => app,
        }
    }

    /// Returns whether sessions and runs outlive this process.
    pub(in crate::command) const fn is_persistent(&self) -> bool {
        self.is_persistent
    }

    /// Sets that the command is a conversation, which has no option to decide later.
    #[must_use]
    pub(in crate::command) const fn in_conversation(mut self) -> Self {
        self.how_to_postpone = waiting::WITHOUT_OPTION;
        self
    }

    /// Returns why governance asked about a call that was denied because nobody is at the terminal. If there are
    /// several such calls, this is about the last one.
    pub(in crate::command) fn denied_unattended(&self, run: &RunHandle) -> Option<Vec<AskCause>> {
        if self.prompter.is_attended() {
            return None;
        }
        let records = run.records();
        let denied = records.iter().rev().find_map(|record| match &record.body {
            RecordBody::ApprovalDecided(decided) => {
                let is_denial = matches!(decided.decision, ApprovalDecision::Deny { .. });
                (decided.by.is_none() && is_denial).then_some(&decided.tool_call_id)
            }
            _ => None,
        })?;
        Some(approve::causes(&records, denied))
    }
}
