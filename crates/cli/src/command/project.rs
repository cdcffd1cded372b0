//! What the project's own files tell the agent that answers: `AGENTS.md` and the like. Whoever sits here is asked once about
//! each content whether it counts, and each time it is said which files do.

use neuraxis_app::{InstructionFile, Trust, TrustList, instruction_files, instructions_of};

use crate::approve::said;
use crate::confirm::{Answer, ask, is_somebody_there};
use crate::harmless::one_line;
use crate::progress;
use crate::rows::plain_in_margin;
use crate::setup::Loaded;
use crate::terminal;
use crate::wrap::broken;

/// How many lines of a file are shown where somebody is asked about it.
const MAX_LINES: usize = 20;

/// Who may be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asking {
    /// Whoever sits at the terminal.
    Person,
    /// Nobody: a program reads what is printed.
    Nobody,
}

/// Returns what an agent is told of the project's files that count, and says which these are.
pub(super) fn instructions(loaded: &Loaded, asking: Asking) -> Option<String> {
    let mut files = instruction_files(&loaded.environment);
    for file in &mut files {
        let is_open = matches!(file.trust, Trust::Unknown | Trust::Changed);
        if is_open && file.fault.is_none() && asking == Asking::Person && is_somebody_there() {
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
            // Whoever said so knows it.
            (None, Trust::Refused) => {}
            (None, _) => progress::notice(&format!(
                "{} ({}) is not trusted and is ignored (`neuraxis trust add` trusts it)",
                name(file),
                size(file)
            )),
        }
    }
    instructions_of(&files)
}

/// Asks whether a file counts. Only a clear answer is remembered.
fn ask_about(file: &mut InstructionFile, loaded: &Loaded) {
    // Without a place for the answer the question would come each time.
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
        progress::warn(&format!("your answer is not remembered: {cause:#}"));
    }
}

/// Describes a file that tells agents about its project, with its first lines in a margin, in lines of so many columns.
pub(super) fn described(file: &InstructionFile, columns: usize) -> String {
    let (name, size) = (name(file), size(file));
    if let Some(fault) = &file.fault {
        let ignored = format!("{name} is ignored: {}", one_line(fault));
        return broken(&ignored, columns, "    ") + "\n";
    }
    let changed = match file.trust {
        Trust::Changed => "; it was changed since you trusted it",
        Trust::Trusted => "; you trusted it",
        Trust::Refused => "; you did not want it",
        _ => "",
    };
    let title = format!(
        "{name} ({size}) tells agents how to work in this project{changed}. What they may do is for the policy to decide."
    );
    let mut text = broken(&title, columns, "    ") + "\n";
    let lines = file.text.lines().take(MAX_LINES);
    text.extend(lines.map(|line| plain_in_margin(line, columns)));
    let more = file.text.lines().count().saturating_sub(MAX_LINES);
    if more > 0 {
        text.push_str(&format!("… and {more} more lines; read the file first\n"));
    }
    text
}

fn name(file: &InstructionFile) -> String {
    said(&file.path.display().to_string())
}

fn size(file: &InstructionFile) -> String {
    let bytes = file.text.len();
    match bytes {
        ..1_024 => format!("{bytes} bytes"),
        _ => format!("{}.{} KiB", bytes / 1_024, bytes % 1_024 * 10 / 1_024),
    }
}
