//! The instructions that a project's own files, such as `AGENTS.md`, give to the answering agent. The user at the
//! terminal is asked once per content whether to use it, and each time a notice says which files are used.

use neuraxis_app::{InstructionFile, Trust, TrustList, instruction_files, instructions_of};

use crate::approve::safe_words;
use crate::confirm::{Answer, ask, can_ask_user};
use crate::glyphs::ELLIPSIS;
use crate::harmless::one_line;
use crate::progress;
use crate::rows::plain_in_margin;
use crate::setup::Loaded;
use crate::terminal;
use crate::wrap::broken;

/// The maximum number of lines shown of a file that the user is asked about.
const MAX_LINES: usize = 20;

/// Who may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asking {
    /// The user at the terminal.
    User,
    /// Nobody: a program reads the output.
    Nobody,
}

/// Returns the agent's instructions from the project's trusted files, and prints which files these are.
pub(super) fn instructions(loaded: &Loaded, asking: Asking) -> Option<String> {
    let mut files = instruction_files(&loaded.environment);
    for file in &mut files {
        let is_open = matches!(file.trust, Trust::Unknown | Trust::Changed);
        if is_open && file.fault.is_none() && asking == Asking::User && can_ask_user() {
            ask_about(file, loaded);
        }
        match (&file.fault, file.trust) {
            (Some(fault), _) => {
                let fault = one_line(fault);
                progress::warn(&format!("{} is ignored: {fault}", name(file)));
            }
            (None, Trust::Trusted) => {
                progress::notice(&format!("following {} ({})", name(file), size(file)));
            }
            // The user who refused it knows.
            (None, Trust::Refused) => {}
            (None, _) => progress::notice(&format!(
                "{} ({}) is not trusted and is ignored (to trust it: `neuraxis trust add`)",
                name(file),
                size(file)
            )),
        }
    }
    instructions_of(&files)
}

/// Asks whether to use a file. Only a clear answer is remembered.
fn ask_about(file: &mut InstructionFile, loaded: &Loaded) {
    // If the answer cannot be stored, the question would be asked every time.
    let Ok(list) = TrustList::of(&loaded.environment) else {
        return;
    };
    let columns = terminal::width(std::io::stderr());
    anstream::eprint!("{}", described(file, columns));
    let question = "Follow it? Only y or n is remembered; Enter asks again next time.";
    let answered = match ask(question) {
        Ok(Answer::Yes) => {
            file.trust = Trust::Trusted;
            list.trust(&file.path, file.content)
        }
        Ok(Answer::No) => {
            file.trust = Trust::Refused;
            list.refuse(&file.path, file.content)
        }
        Ok(Answer::Unclear) | Err(_) => return,
    };
    if let Err(error) = answered {
        let cause = anyhow::Error::new(error);
        progress::warn(&format!("your answer was not saved: {cause:#}"));
    }
}

/// Describes a file with instructions for agents, with its first lines in a margin, wrapped to this many columns.
pub(super) fn described(file: &InstructionFile, columns: usize) -> String {
    let (name, size) = (name(file), size(file));
    if let Some(fault) = &file.fault {
        let ignored = format!("{name} is ignored: {}", one_line(fault));
        return broken(&ignored, columns, "    ") + "\n";
    }
    let changed = match file.trust {
        Trust::Changed => "; it was changed since you trusted it",
        Trust::Trusted => "; you trusted it",
        Trust::Refused => "; you declined it",
        _ => "",
    };
    let title = format!(
        "{name} ({size}) tells agents how to work in this project{changed}. The policy still decides what they may do."
    );
    let mut text = broken(&title, columns, "    ") + "\n";
    let lines = file.text.lines().take(MAX_LINES);
    text.extend(lines.map(|line| plain_in_margin(line, columns)));
    let more = file.text.lines().count().saturating_sub(MAX_LINES);
    if more > 0 {
        text.push_str(&format!(
            "{ELLIPSIS} and {more} more lines; read the file first\n"
        ));
    }
    text
}

fn name(file: &InstructionFile) -> String {
    safe_words(&file.path.display().to_string())
}

fn size(file: &InstructionFile) -> String {
    let bytes = file.text.len();
    match bytes {
        ..1_024 => format!("{bytes} bytes"),
        _ => format!("{}.{} KiB", bytes / 1_024, bytes % 1_024 * 10 / 1_024),
    }
}
