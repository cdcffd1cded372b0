//! The commands of the chat.

use std::path::Path;

use anyhow::anyhow;
use neuraxis::brainstem::Outlook;
use neuraxis::core::AgentName;
use neuraxis::{Channel, Mode};

use super::super::approvals::in_text;
use super::super::ask::attached;
use super::super::lookup::{self, Announcing, new_session, session_to_continue};
use super::super::{prompts, tools};
use super::conversation::{Conversation, Flow, unless_interrupted};
use super::slash::{COMMANDS, Slash, takes_argument};
use crate::approve::scope;
use crate::detail::Detail;
use crate::error::CommandError;
use crate::harmless::{harmless, one_line};
use crate::invocation::neuraxis;
use crate::rows::with_real_order;

/// Marks a remembered answer that does not apply here.
const NOT_HERE: &str = " (does not apply here: it was given in another folder, under another policy, or for a tool that has changed or is missing)";

/// Marks all answers after `/undo`.
const NOT_NEXT: &str = " (does not apply to the next message, which starts a new session)";

impl Conversation {
    /// Executes a command.
    pub(super) async fn run_command(
        &mut self,
        command: Slash,
        argument: Option<&str>,
    ) -> Result<Flow, CommandError> {
        if let Some(argument) = argument.filter(|_| !takes_argument(command)) {
            let argument = one_line(argument);
            let error = anyhow!("this command takes no argument: {argument:?}");
            return Err(CommandError::usage(error).hint("/help lists the commands"));
        }
        match command {
            Slash::Help => self.output.lines(&help())?,
            Slash::Mode => self.mode(argument)?,
            Slash::Channel => self.channel(argument)?,
            Slash::Agent => self.agent(argument)?,
            Slash::Attach => self.attach(argument)?,
            Slash::Tools => self.tools()?,
            Slash::Approvals => match argument {
                Some(number) => self.forget(number).await?,
                None => self.approvals().await?,
            },
            Slash::Resume => self.resume_in(argument).await?,
            Slash::Model => self.model(argument).await?,
            Slash::Sessions => self.sessions().await?,
            Slash::Prompts => self.output.text(&prompts::listed(&self.loaded))?,
            Slash::History => self.history().await?,
            Slash::Retry => self.retry().await?,
            Slash::Undo => self.undo().await?,
            Slash::Compact => self.compact().await?,
            Slash::Copy => self.copy().await?,
            Slash::Cost => self.cost().await?,
            Slash::Export => self.export(argument).await?,
            Slash::Session => self.session(argument).await?,
            Slash::Title => self.title(argument).await?,
            Slash::Verbose => self.verbose()?,
            Slash::Reasoning => self.reasoning().await?,
            Slash::New => {
                self.switch_session(new_session()?);
                self.session(None).await?;
            }
            Slash::Quit => return Ok(Flow::Exit),
        }
        Ok(Flow::Continue)
    }

    /// Toggles between full output of calls with the model's thinking, and the usual level of detail.
    fn verbose(&mut self) -> Result<(), CommandError> {
        let (detail, line) = match self.detail {
            Detail::Verbose => (Detail::Usual, "calls and thinking are shown in brief"),
            Detail::Quiet | Detail::Usual => {
                (Detail::Verbose, "calls and thinking are shown in full")
            }
        };
        self.detail = detail;
        Ok(self.output.sentence(line)?)
    }

    fn mode(&mut self, argument: Option<&str>) -> Result<(), CommandError> {
        if let Some(mode) = argument {
            self.set_mode(Mode::new(mode.to_owned()))?;
        }
        let modes = self.loaded.config.policy().modes().map(Mode::as_str);
        let text = list_of("modes", modes, self.mode.as_str());
        Ok(self.output.lines(&text)?)
    }

    fn channel(&mut self, argument: Option<&str>) -> Result<(), CommandError> {
        if let Some(channel) = argument {
            self.set_channel(Channel::new(channel.to_owned()))?;
        }
        let channels = self.loaded.config.policy().channels().map(Channel::as_str);
        let text = list_of("channels", channels, self.channel.as_str());
        Ok(self.output.lines(&text)?)
    }

    fn agent(&mut self, argument: Option<&str>) -> Result<(), CommandError> {
        if let Some(agent) = argument {
            self.set_agent(AgentName::new(agent.to_owned()))?;
        }
        let policy = self.loaded.config.policy();
        let of_channel = policy.config().channels.get(&self.channel);
        let of_channel = of_channel.and_then(|channel| channel.agent.clone());
        let current = self.agent.clone().or(of_channel);
        let current = current.unwrap_or(AgentName::MAIN_THREAD);
        let agents = policy.agents().map(AgentName::as_str);
        let text = list_of("agents", agents, current.as_str());
        Ok(self.output.lines(&text)?)
    }

    /// Lists the models, or switches to another one.
    async fn model(&mut self, argument: Option<&str>) -> Result<(), CommandError> {
        if let Some(name) = argument {
            unless_interrupted(self.set_model(name).await)?;
        }
        let decided = self.app.orchestrator.decide(&self.request("Hello?"))?;
        let serving = self.role.clone().unwrap_or(decided.role);
        let models: Vec<_> = self.app.orchestrator.models().collect();
        let names = models
            .iter()
            .map(|(role, info)| (role.as_str(), format!("{role} ({})", info.model)));
        let names: Vec<String> = names
            .map(|(role, name)| match role == serving.as_str() {
                true => name + "*",
                false => name,
            })
            .collect();
        let line = format!("models: {}", names.join(", "));
        Ok(self.output.lines(&(one_line(&line) + "\n"))?)
    }

    /// Resumes the waiting run, here or in another session. Switches to that session only if it has one.
    async fn resume_in(&mut self, argument: Option<&str>) -> Result<(), CommandError> {
        if let Some(name) = argument {
            let sessions = self.app.orchestrator.sessions();
            let there = lookup::session(&sessions, name).await?;
            lookup::check_unaltered(&sessions, &there).await?;
            let unfinished = sessions.unfinished_run(&there).await;
            if unfinished.ok().flatten().is_none() {
                let error = anyhow!("session {there} has no run to resume");
                return Err(CommandError::usage(error)
                    .hint(format!("/session {there} switches to it anyway")));
            }
            self.switch_session(there);
            self.session(None).await?;
        }
        self.resume().await
    }

    /// Attaches a file to the next message, or discards all attachments.
    fn attach(&mut self, argument: Option<&str>) -> Result<(), CommandError> {
        match argument {
            Some("none") => self.attachments.clear(),
            Some(file) => {
                let (name, part) = (one_line(file), attached(Path::new(file))?);
                // A file that is attached again replaces its earlier content.
                self.attachments.retain(|(other, _)| *other != name);
                self.attachments.push((name, part));
            }
            None => {}
        }
        let names: Vec<&str> = self
            .attachments
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        let line = match names.is_empty() {
            true => "nothing is attached to the next message".to_owned(),
            false => format!("attached to the next message: {}", names.join(", ")),
        };
        Ok(self.output.lines(&format!("{line}\n"))?)
    }

    /// Lists the tools that policy offers in the current mode and channel.
    fn tools(&mut self) -> Result<(), CommandError> {
        let request = self.request("What tools are there?");
        let offered = self.app.orchestrator.decide(&request)?.tools;
        if offered.is_empty() {
            let none = format!("{}/{} offers no tools", self.channel, self.mode);
            return Ok(self.output.sentence(&none)?);
        }
        let tools_of = self.app.orchestrator.tools();
        let offered = tools_of.specs().filter(|spec| offered.contains(&spec.name));
        let policy = self.loaded.config.policy();
        let lines: String = offered
            .map(|spec| tools::in_text(spec, policy, &self.mode))
            .collect();
        let denied = tools_of
            .specs()
            .filter(|spec| policy.outlook_in(&self.mode, spec) == Outlook::Denied)
            .map(|spec| spec.name.as_str());
        let denied: Vec<&str> = denied.collect();
        let denied = match denied.is_empty() {
            true => String::new(),
            false => format!("denied in mode {}: {}\n", self.mode, denied.join(", ")),
        };
        Ok(self.output.lines(&harmless(&(lines + &denied)))?)
    }

    async fn approvals(&mut self) -> Result<(), CommandError> {
        let approvals = self.app.orchestrator.approvals();
        let waiting = approvals.of_session(&self.session).await?;
        let text = if waiting.is_empty() {
            "nothing is waiting for you in this session\n".to_owned()
        } else {
            let columns = self.output.width();
            let list = in_text(&self.app, &waiting, columns).await;
            list + "/resume continues, and asks you about each\n"
        };
        let remembered = approvals.grants(&self.session).await;
        let remembered: String = remembered
            .unwrap_or_default()
            .grants()
            .iter()
            .map(|grant| {
                let line = format!("{}: {}, {}", grant.id, grant.tool, scope(&grant.scope));
                match self.continues_from {
                    Some(_) => line + NOT_NEXT,
                    None if approvals.counts(grant) => line,
                    None => line + NOT_HERE,
                }
            })
            .map(|line| with_real_order(&line, self.output.width(), "    "))
            .collect();
        let text = match remembered.as_str() {
            "" => text,
            _ => text + "allowed for this session; /approvals NUMBER revokes one:\n" + &remembered,
        };
        Ok(self.output.text(&text)?)
    }

    /// Revokes a remembered answer.
    async fn forget(&mut self, number: &str) -> Result<(), CommandError> {
        let none = || CommandError::usage(anyhow!("no answer {number:?} is remembered"));
        let id = number.parse().map_err(|_| none())?;
        let approvals = self.app.orchestrator.approvals();
        let revoked = approvals.revoke(&self.session, id).await;
        if !revoked.map_err(CommandError::failed)? {
            return Err(none());
        }
        Ok(self
            .output
            .line(&format!("answer {id} is no longer remembered"))?)
    }

    async fn session(&mut self, argument: Option<&str>) -> Result<(), CommandError> {
        if let Some(session) = argument {
            let session = session.parse().map_err(CommandError::usage)?;
            let sessions = self.app.orchestrator.sessions();
            self.switch_session(session_to_continue(&sessions, session, Announcing::Caller).await?);
            if sessions.runs(&self.session).await?.is_none() {
                let line = format!(
                    "session {} is new: your next message starts it",
                    self.session
                );
                return Ok(self.output.sentence(&line)?);
            }
            if self.output.is_terminal() {
                self.show_last_exchange().await;
            }
        }
        let session = self.session_in_words().await;
        let is_kept = self.attended.is_persistent();
        let line = match self.fork_command().await {
            _ if !is_kept => format!("{session}, in memory: it ends with this program"),
            Some(command) => format!(
                "{session}; to continue without what was undone: `{} {command}`",
                neuraxis()
            ),
            None => {
                let command = self.reopen_command().await;
                format!(
                    "{session}; to continue it later: `{} {command}`",
                    neuraxis()
                )
            }
        };
        Ok(self.output.sentence(&line)?)
    }
}

fn help() -> String {
    let lines = COMMANDS.iter().map(|(_, name, argument, what)| {
        let command = format!("/{name} {argument}");
        format!("{command:<22} {what}\n")
    });
    let lines: String = lines.collect();
    lines
        + "A line that ends with \\ continues on the next one. Type // to begin a message with a slash.\n"
}

fn list_of<'a>(what: &str, names: impl Iterator<Item = &'a str>, current: &str) -> String {
    let names = names.map(|name| {
        let mark = if name == current { "*" } else { "" };
        format!("{name}{mark}")
    });
    let names: Vec<String> = names.collect();
    format!("{what}: {}\n", names.join(", "))
}
