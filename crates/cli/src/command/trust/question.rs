//! Shows the user a found file, and asks whether to trust it.
//!
//! The file's content is in a margin, so that none of its lines can be taken for a line of the program. The user is
//! never asked about something that was not shown completely.

use std::io;

use neuraxis_app::{Change, FoundFile, Trust, TrustList};

use crate::confirm::{Answer, ask, can_ask_user};
use crate::error::CommandError;
use crate::glyphs::ELLIPSIS;
use crate::harmless::{one_line, reveal_invisible};
use crate::progress;
use crate::rows::{plain_in_margin, with_real_order};
use crate::setup::{Loaded, Setup};
use crate::terminal;

/// The maximum number of changes shown.
const MAX_SHOWN: usize = 100;

/// How many changes can be seen at a glance. With more, a warning says that the worst ones may have scrolled off the
/// screen.
const AT_A_GLANCE: usize = 5;

/// The number of hash digits shown.
const HASH_DIGITS: usize = 16;

/// Loads the configuration, and asks the user at the terminal whether to trust the file of the working directory,
/// unless this exact content was decided before. Only a clear answer is remembered; the configuration is then loaded
/// again.
pub(in crate::command) fn load_and_ask(setup: &Setup) -> Result<Loaded, CommandError> {
    let loaded = setup.load()?;
    match ask_once(&loaded)? {
        Remembered::Anew => setup.load(),
        Remembered::Nothing => Ok(loaded),
    }
}

/// Whether a new answer was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remembered {
    Anew,
    Nothing,
}

fn ask_once(loaded: &Loaded) -> Result<Remembered, CommandError> {
    if !can_ask_user() {
        return Ok(Remembered::Nothing);
    }
    let Some(found) = loaded.config.found().filter(|found| is_open(found)) else {
        return Ok(Remembered::Nothing);
    };
    let Some(content) = found.content() else {
        return Ok(Remembered::Nothing);
    };
    // If the answer cannot be stored, the question would be asked every time.
    let Ok(list) = TrustList::of(&loaded.environment) else {
        return Ok(Remembered::Nothing);
    };
    if is_too_much(found) {
        progress::warn(
            "not asking whether you trust ./neuraxis.toml, because its changes are too long to show in full, or it starts \
             a program with a possible secret: read the file, then trust it with `neuraxis trust add --yes`",
        );
        return Ok(Remembered::Nothing);
    }
    let columns = terminal::width(io::stderr());
    anstream::eprint!("{}", described(found, columns));
    let answered = match ask("Trust it? Only y or n is remembered; Enter asks again next time.")? {
        Answer::Yes => list.trust(found.folder(), content),
        Answer::No => list.refuse(found.folder(), content),
        Answer::Unclear => return Ok(Remembered::Nothing),
    };
    if let Err(error) = answered {
        let cause = anyhow::Error::new(error);
        progress::warn(&format!("your answer is not remembered: {cause:#}"));
        return Ok(Remembered::Nothing);
    }
    Ok(Remembered::Anew)
}

/// Returns whether there is anything to ask.
fn is_open(found: &FoundFile) -> bool {
    matches!(found.trust(), Trust::Unknown | Trust::Changed)
        && found.fault().is_none()
        && !found.changes().is_empty()
}

/// Returns whether the output would cut, hide or leave out part of what a file would change.
pub(super) fn is_too_much(found: &FoundFile) -> bool {
    let changes = found.changes();
    changes.len() > MAX_SHOWN || changes.iter().any(Change::is_cut)
}

/// Describes what a file would change, the most dangerous first, wrapped to this many columns.
pub(super) fn described(found: &FoundFile, columns: usize) -> String {
    let file = found.folder().join(found.path());
    let standing = match found.trust() {
        Trust::Trusted => "trusted",
        Trust::Refused => "not trusted: you chose not to trust it",
        Trust::Changed if found.covers_prices() => {
            "not trusted: it or its list of prices was changed since you trusted it"
        }
        Trust::Changed => "not trusted: it was changed since you trusted it",
        _ => "not trusted",
    };
    let file = revealed(&file.display().to_string());
    let mut text = own_line(&format!("{file}: {standing}"), columns);
    if let Some(content) = found.content() {
        let hash = content.to_string();
        let hash = hash.get(..HASH_DIGITS).unwrap_or(&hash);
        let whose = match found.covers_prices() {
            true => "a hash of it and its list of prices",
            false => "its SHA-256",
        };
        text.push_str(&own_line(&format!("{whose} begins with {hash}"), columns));
    }
    if let Some(fault) = found.fault() {
        let fault = revealed(&one_line(fault));
        text.push_str(&own_line(&format!("it cannot be read: {fault}"), columns));
        return text;
    }
    let changes = found.changes();
    let title = match (changes.is_empty(), found.trust()) {
        (true, _) => "it sets nothing that needs trust: it only restricts what is allowed",
        (false, Trust::Trusted) => {
            "changes it makes because you trust it, the most dangerous first:"
        }
        (false, _) => "changes it would make if you trusted it, the most dangerous first:",
    };
    text.push_str(&own_line(title, columns));
    for change in changes.iter().take(MAX_SHOWN) {
        text.push_str(&entry(change, columns));
    }
    let more = changes.len().saturating_sub(MAX_SHOWN);
    if more > 0 {
        let line = format!("{ELLIPSIS} and {more} more; read the file itself");
        text.push_str(&own_line(&line, columns));
    } else if changes.len() > AT_A_GLANCE {
        let all = changes.len();
        let line = format!("{all} changes in total, the most dangerous first");
        text.push_str(&own_line(&line, columns));
    }
    text
}

/// Describes what can be done about a file, or returns an empty string if there is nothing to do.
pub(super) fn next_step(found: &FoundFile, columns: usize) -> String {
    let line = match found.trust() {
        _ if found.fault().is_some() || found.changes().is_empty() => return String::new(),
        Trust::Trusted => "`neuraxis trust remove` revokes the trust",
        _ if is_too_much(found) => {
            "not all of it is shown: read the file, then trust it with `neuraxis trust add --yes`"
        }
        _ => "to trust it, run `neuraxis trust add`",
    };
    own_line(line, columns)
}

/// Formats a message that no command works because of a trusted file.
pub(super) fn unusable(why: &str, columns: usize) -> String {
    let why = revealed(why);
    own_line(&format!("commands in this folder fail: {why}"), columns)
}

fn entry(change: &Change, columns: usize) -> String {
    let (key, value) = (revealed(&change.key), revealed(&change.value));
    let meaning = revealed(&change.meaning);
    let value = plain_in_margin(&format!("{key} = {value}"), columns);
    value + &plain_in_margin(&format!("    {meaning}"), columns)
}

/// Formats a line of the program. What does not fit continues on the next line, indented.
fn own_line(line: &str, columns: usize) -> String {
    with_real_order(line, columns, "    ")
}

/// Makes text from the file fit for a line: nothing is hidden, moved or left out.
fn revealed(text: &str) -> String {
    reveal_invisible(&text.replace(['\n', '\t'], " "))
}
