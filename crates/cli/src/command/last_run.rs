//! The settings of a session's last run, for continuing the session.

use std::path::Path;
use std::sync::Arc;

use neuraxis::brainstem::Policy;
use neuraxis::core::log::RunView;
use neuraxis::core::{AgentName, Decision, PlanName};
use neuraxis::engine::Sessions;
use neuraxis::ports::RunSummary;
use neuraxis::{Channel, Mode, Role, SessionId, UserRequest};
use neuraxis_app::App;

use crate::approve::is_folder_of;
use crate::harmless::one_line;
use crate::invocation::quoted;
use crate::progress;

/// The mode, channel, agent, plan and role of a request, if known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RunSettings {
    pub(super) mode: Option<Mode>,
    pub(super) channel: Option<Channel>,
    /// The agent that was asked for; the channel's default if `None`.
    pub(super) agent: Option<AgentName>,
    pub(super) plan: Option<PlanName>,
    /// The role that served it, unless it was chosen because of the message.
    pub(super) role: Option<Role>,
    /// The folder that its tools worked in, if they worked on files.
    pub(super) folder: Option<Arc<str>>,
}

impl RunSettings {
    /// Returns the settings of a session's last run. They are empty if there is no run, or if it was imported, because
    /// then a third party wrote them.
    pub(super) async fn last_of(sessions: &Sessions, session: &SessionId) -> Self {
        // If it cannot be read, the error appears once the conversation continues.
        let runs = sessions.runs(session).await.ok().flatten();
        match runs.and_then(|mut runs| runs.pop()) {
            Some(last) => Self::of(sessions, &last).await,
            None => Self::default(),
        }
    }

    /// Same as [`last_of`](Self::last_of), for a run.
    pub(super) async fn of(sessions: &Sessions, run: &RunSummary) -> Self {
        if run.imported {
            return Self::default();
        }
        let records = sessions.records(run.run_id).await.unwrap_or_default();
        let view = RunView::of(&records);
        let decided = view.decision();
        // A role that the request named was chosen neither because of the message nor by another model.
        let is_fixed = |it: &&Arc<Decision>| it.complexity.is_none() && it.routing.is_none();
        Self {
            mode: decided.map(|decided| decided.mode.clone()),
            channel: decided.map(|decided| decided.channel.clone()),
            agent: decided.and_then(|decided| decided.agent.clone()),
            plan: view.spec().and_then(|spec| spec.plan.clone()),
            role: decided.filter(is_fixed).map(|it| it.role.clone()),
            folder: view.folder().cloned(),
        }
    }

    /// Removes channel and agent if the run's tools worked in a folder other than the project here, so that they do not
    /// get the files here. Returns that folder and what was removed.
    pub(super) fn take_settings_of_other_folder(
        &mut self,
        project: &Path,
    ) -> Option<(Arc<str>, Self)> {
        let folder = self.folder.take();
        let folder = folder.filter(|folder| !is_folder_of(folder, project))?;
        let left = Self {
            channel: self.channel.take(),
            agent: self.agent.take(),
            ..Self::default()
        };
        Some((folder, left))
    }

    /// Removes what belongs to another folder or is not configured here, and a mode that is freer than the default.
    /// Reports what was removed.
    pub(super) fn usable(mut self, policy: &Policy, project: &Path) -> Self {
        if let Some((folder, left)) = self.take_settings_of_other_folder(project) {
            let left = Self::default().options(&left, policy);
            if !left.is_empty() {
                let folder = one_line(&folder);
                progress::notice(&format!(
                    "the session's last run worked in the folder {folder}: here the session continues without{left}, unless you add that"
                ));
            }
        }
        let missing = |what: &str, name: &str, instead: &str| {
            let name = one_line(name);
            progress::warn(&format!(
                "{what} {name}, which the session's last run used, is not configured here: {instead}"
            ));
        };
        if let Some(channel) = self
            .channel
            .take_if(|channel| policy.channels().all(|known| *known != *channel))
        {
            // The agent was meant for requests from that channel.
            let agent = self.agent.take();
            let without = agent.map_or_else(String::new, |agent| {
                format!(", without agent {}", one_line(agent.as_str()))
            });
            missing(
                "channel",
                channel.as_str(),
                &format!("using chat instead{without}"),
            );
        }
        if let Some(agent) = self
            .agent
            .take_if(|agent| policy.agents().all(|known| *known != *agent))
        {
            missing("agent", agent.as_str(), "the channel's own agent answers");
        }
        if let Some(plan) = self
            .plan
            .take_if(|plan| policy.plans().all(|known| *known != *plan))
        {
            missing("plan", plan.as_str(), "its limits do not apply");
        }
        if let Some(mode) = self
            .mode
            .take_if(|mode| policy.modes().all(|known| *known != *mode))
        {
            missing("mode", mode.as_str(), "using moderate instead");
        }
        let usual = policy.modes_no_freer_than(&Mode::MODERATE);
        if let Some(mode) = self.mode.take_if(|mode| !usual.contains(mode)) {
            let mode = one_line(mode.as_str());
            progress::notice(&format!(
                "the session's last run was in mode {mode}; this starts in moderate, and --mode {mode} keeps the earlier mode"
            ));
        }
        self
    }

    /// Prints a notice if the session's last run named a role and a request does not, so another one serves it.
    pub(super) fn note_other_role(&self, app: &App, request: &UserRequest) {
        let mut like_last = UserRequest::new(request.session_id.clone(), request.message.clone());
        like_last.mode = self.mode.clone().unwrap_or(Mode::MODERATE);
        like_last.channel = self.channel.clone().unwrap_or(Channel::CHAT);
        like_last.agent.clone_from(&self.agent);
        like_last.plan.clone_from(&self.plan);
        let decide = |request: &UserRequest| app.orchestrator.decide(request).ok();
        let (Some(role), Some(now), Some(usual)) =
            (&self.role, decide(request), decide(&like_last))
        else {
            return;
        };
        if *role != now.role && *role != usual.role && now.allowed_roles.contains(role) {
            progress::notice(&format!(
                "role {role} served the session's last run, but {} serves now; -m {} keeps the earlier one",
                now.role,
                quoted(role.as_str())
            ));
        }
    }

    /// Describes what differs from a request without any settings.
    pub(super) fn in_words(&self) -> Option<String> {
        let channel = self.channel.as_ref().filter(|it| **it != Channel::CHAT);
        let mode = self.mode.as_ref().filter(|it| **it != Mode::MODERATE);
        let words = [
            ("channel", channel.map(Channel::as_str)),
            ("mode", mode.map(Mode::as_str)),
            ("agent", self.agent.as_ref().map(AgentName::as_str)),
            ("plan", self.plan.as_ref().map(PlanName::as_str)),
        ];
        let words = words.into_iter();
        let words = words.filter_map(|(what, name)| Some(format!("{what} {}", one_line(name?))));
        let words: Vec<String> = words.collect();
        (!words.is_empty()).then(|| words.join(", "))
    }

    /// Returns the options, each with a leading space, with which `chat --session` continues with the `wanted` settings
    /// in a session whose last run had these.
    pub(super) fn options(&self, wanted: &Self, policy: &Policy) -> String {
        let usual = policy.modes_no_freer_than(&Mode::MODERATE);
        let mode = self.mode.clone().filter(|mode| usual.contains(mode));
        let (mode, channel) = (
            mode.unwrap_or(Mode::MODERATE),
            self.channel.clone().unwrap_or(Channel::CHAT),
        );
        let other_mode = wanted.mode.as_ref().filter(|it| **it != mode);
        let other_channel = wanted.channel.as_ref().filter(|it| **it != channel);
        let other_agent = wanted.agent.as_ref();
        // With another channel, the agent of the last run is not kept.
        let other_agent =
            other_agent.filter(|it| other_channel.is_some() || self.agent.as_ref() != Some(*it));
        let other_plan = wanted.plan.as_ref();
        let other_plan = other_plan.filter(|it| self.plan.as_ref() != Some(*it));
        let options = [
            ("--channel", other_channel.map(Channel::as_str)),
            ("--mode", other_mode.map(Mode::as_str)),
            ("--agent", other_agent.map(AgentName::as_str)),
            ("--plan", other_plan.map(PlanName::as_str)),
        ];
        let options = options.into_iter();
        options
            .filter_map(|(option, name)| Some(format!(" {option} {}", quoted(name?))))
            .collect()
    }
}

/// Returns the command, without the program's name, that continues a session like its last run, with another model if
/// given.
pub(super) async fn continue_command(
    sessions: &Sessions,
    session: &SessionId,
    policy: &Policy,
    model: Option<&str>,
) -> String {
    let last = RunSettings::last_of(sessions, session).await;
    let options = last.options(&last, policy);
    format!("chat --session {session}{options}{}", model_option(model))
}

/// Returns the option that names a model, with a leading space.
pub(super) fn model_option(model: Option<&str>) -> String {
    let option = model.map(|model| format!(" -m {}", quoted(model)));
    option.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_settings(mode: Mode, channel: Channel, agent: Option<AgentName>) -> RunSettings {
        RunSettings {
            mode: Some(mode),
            channel: Some(channel),
            agent,
            plan: None,
            role: None,
            folder: Some("/nowhere/work".into()),
        }
    }

    #[test]
    fn settings_of_the_last_run_are_reused_except_a_more_permissive_mode() {
        let policy = Policy::built_in();
        let lead = || Some(AgentName::new("lead"));
        let free = run_settings(Mode::EXPLORATORY, Channel::CODE_TASK, lead());
        assert_eq!(free.options(&free, &policy), " --mode exploratory");
        let tame = run_settings(Mode::CONSERVATIVE, Channel::CODE_TASK, None);
        assert_eq!(tame.options(&tame, &policy), "");
        let moved = run_settings(Mode::MODERATE, Channel::CHAT, lead());
        assert_eq!(
            free.options(&moved, &policy),
            " --channel chat --agent lead"
        );
        let new = RunSettings::default();
        assert_eq!(
            new.options(&free, &policy),
            " --channel code_task --mode exploratory --agent lead"
        );
        let here = Path::new("/nowhere/work");
        assert_eq!(free.usable(&policy, here).mode, None);
        let taken = tame.usable(&policy, here);
        assert_eq!(taken.mode, Some(Mode::CONSERVATIVE));
        assert_eq!(taken.channel, Some(Channel::CODE_TASK));
    }

    #[test]
    fn in_another_folder_the_last_channel_is_not_reused() {
        let last = run_settings(Mode::CONSERVATIVE, Channel::CODE_TASK, None);
        let taken = last.usable(&Policy::built_in(), Path::new("/elsewhere"));
        assert_eq!(taken.mode, Some(Mode::CONSERVATIVE));
        assert_eq!(taken.channel, None);
    }
}
