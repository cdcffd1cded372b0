//! `neuraxis chat`: a conversation.

mod commands;
mod conversation;
mod editor;
mod history;
mod input;
mod slash;

use anyhow::anyhow;
use clap::Args;
use neuraxis::core::PlanName;
use neuraxis::{Channel, Mode, SessionId};
use neuraxis_app::Tape;

use super::ask::Reception;
use super::lookup::{self, new_session};
use crate::approve::WhenAway;
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::setup::Setup;
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
/// exit code is 1 if a message was not answered.
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

    /// The limits they have beside those of mode and channel: one of [plans.NAME]
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,
}

impl Chat {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let config = setup.config()?;
        let reception = Reception::new(setup, WhenAway::Deny)?;
        let app = reception.app(setup, Tape::Off).await?;
        let session = match self.session {
            Some(session) => lookup::continued(app.store.as_ref(), session).await?,
            None => new_session()?,
        };
        let (mode, channel) = (Mode::new(self.mode), Channel::new(self.channel));
        let mut conversation = Conversation::new(app, reception, config, session);
        conversation.plan = self.plan.map(PlanName::new);
        conversation.set_mode(mode)?;
        conversation.set_channel(channel)?;
        conversation.check()?;
        Interrupt::disarm();
        let mut input = Input::open(&conversation);
        conversation.greet(input.is_interactive()).await;
        let talked = talk(&mut conversation, &mut input).await;
        conversation.app.close().await;
        match talked? {
            0 => Ok(()),
            _ if input.is_interactive() => Ok(()),
            1 => Err(CommandError::failed(anyhow!("a message was not answered"))),
            count => {
                let error = anyhow!("{count} messages were not answered");
                Err(CommandError::failed(error))
            }
        }
    }
}

/// Takes what is said, one after the other, and returns how many messages were not answered.
async fn talk(conversation: &mut Conversation, input: &mut Input) -> Result<u32, CommandError> {
    let mut unanswered = 0;
    loop {
        let heard = match input.next(&conversation.prompt()).await? {
            Said::Text(text) => conversation.hear(&text).await,
            Said::Unreadable(why) => Err(CommandError::usage(anyhow!(why))),
            Said::Interrupted(signal) => return Err(CommandError::interrupted(signal)),
            Said::End => return Ok(unanswered),
        };
        match heard {
            Ok(Flow::GoOn) => {}
            Ok(Flow::Leave) => return Ok(unanswered),
            Err(error) if error.is_output_closed() || error.interruption().is_some() => {
                return Err(error);
            }
            Err(error) => {
                unanswered += 1;
                // Whoever cannot be told finds it in the exit code.
                let _ = error.write(&mut anstream::stderr());
            }
        }
    }
}
