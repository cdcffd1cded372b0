//! `neuraxis chat`: a conversation.

mod commands;
mod conversation;
mod editor;
mod input;
mod slash;

use anyhow::anyhow;
use clap::Args;
use neuraxis::core::{AgentName, PlanName};
use neuraxis::{Channel, Mode, SessionId};
use neuraxis_app::Tape;

use super::ask::Attended;
use super::lookup::{self, new_session};
use super::trust;
use crate::approve::WhenAway;
use crate::error::CommandError;
use crate::setup::{Setup, close};
use conversation::{Conversation, Flow};
use input::{Input, Said};

const EXAMPLES: &str = "\
Examples:
  neuraxis chat
  neuraxis chat --session trip --channel code_task --mode exploratory
  printf 'What time is it?\\n/tools\\n' | neuraxis chat

In the chat, /help lists the commands. A line that ends with \\ goes on in the next one, and so does code between
lines of ```. Ctrl-C stops what is being answered; twice at the prompt, or Ctrl-D, leaves. Calls that need approval are
shown, and you decide.";

/// Talk, message after message
///
/// Where standard input is no terminal, each line of it is a message, and the answers stand on standard output; then the
/// exit code is 1 if a message was not answered or a command failed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Chat {
    /// The session to go on with, or the name of a new one; the beginning of an id will do. Left out: a new session
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,

    /// Where requests come from: chat, code_task, system_health, deep_research or one of your own
    #[arg(long, default_value = "chat")]
    channel: String,

    /// How much freedom they have: conservative, moderate, exploratory or one of your own
    #[arg(long, default_value = "moderate")]
    mode: String,

    /// The agent that answers, in place of the channel's own: one of [agents.NAME]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,

    /// The limits they have beside those of mode and channel: one of [plans.NAME]
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,
}

impl Chat {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let loaded = trust::load_and_ask(setup)?;
        let attended = Attended::new(&loaded.config, WhenAway::Deny)?.in_conversation();
        let app = attended.app(&loaded, Tape::Off).await?;
        let session = match self.session {
            Some(session) => lookup::continued(&app.orchestrator.sessions(), session).await?,
            None => new_session()?,
        };
        let (mode, channel) = (Mode::new(self.mode), Channel::new(self.channel));
        let mut conversation = Conversation::new(app, attended, loaded, session);
        conversation.agent = self.agent.map(AgentName::new);
        conversation.plan = self.plan.map(PlanName::new);
        conversation.set_mode(mode)?;
        conversation.set_channel(channel)?;
        conversation.check()?;
        let mut input = Input::open(&conversation)?;
        conversation.greet(input.is_interactive()).await;
        let talked = talk(&mut conversation, &mut input).await;
        close(&conversation.app).await;
        match talked?.in_words() {
            Some(what) if !input.is_interactive() => Err(CommandError::failed(anyhow!(what))),
            _ => Ok(()),
        }
    }
}

/// What did not go as it was wished.
#[derive(Debug, Default, PartialEq, Eq)]
struct Missed {
    /// Messages without an answer.
    messages: u32,
    /// Commands that were refused or failed.
    commands: u32,
}

impl Missed {
    fn in_words(&self) -> Option<String> {
        let messages = match self.messages {
            0 => None,
            1 => Some("a message was not answered".to_owned()),
            count => Some(format!("{count} messages were not answered")),
        };
        let commands = match self.commands {
            0 => None,
            1 => Some("a command failed".to_owned()),
            count => Some(format!("{count} commands failed")),
        };
        let missed: Vec<String> = messages.into_iter().chain(commands).collect();
        (!missed.is_empty()).then(|| missed.join(", and "))
    }
}

/// Takes what is said, one after the other, and returns what did not go as it was wished.
async fn talk(conversation: &mut Conversation, input: &mut Input) -> Result<Missed, CommandError> {
    let mut missed = Missed::default();
    loop {
        let (heard, is_command) = match input.next(&conversation.prompt()).await? {
            Said::Text(text) => (conversation.hear(&text).await, slash::is_command(&text)),
            Said::Unreadable(why) => (Err(CommandError::usage(anyhow!(why))), false),
            Said::Interrupted(signal) => return Err(CommandError::interrupted(signal)),
            Said::End => return Ok(missed),
        };
        match heard {
            Ok(Flow::GoOn) => {}
            Ok(Flow::Leave) => return Ok(missed),
            Err(error) if error.is_output_closed() || error.interruption().is_some() => {
                return Err(error);
            }
            Err(error) => {
                match is_command {
                    true => missed.commands += 1,
                    false => missed.messages += 1,
                }
                // Whoever cannot be told finds it in the exit code.
                let _ = error.write(&mut anstream::stderr());
            }
        }
    }
}
