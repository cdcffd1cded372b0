//! What a person is shown of a found file, and asked.

use neuraxis_app::{Change, FoundFile, Trust, TrustList};

use crate::confirm::{is_somebody_there, says_yes};
use crate::error::CommandError;
use crate::harmless::{one_line, plain_to_see};
use crate::progress::Progress;
use crate::setup::Setup;

/// The most changes that are shown.
const MAX_SHOWN: usize = 100;

/// How many digits of the hash are shown.
const HASH_DIGITS: usize = 16;

/// Asks whoever sits here whether the file of the working directory is trusted, unless that was said before about this
/// very content.
pub(in crate::command) fn ask_once(setup: &Setup) -> Result<(), CommandError> {
    if !is_somebody_there() {
        return Ok(());
    }
    let (environment, config) = setup.surroundings()?;
    let Some(found) = config.found().filter(|found| is_open(found)) else {
        return Ok(());
    };
    let Some(content) = found.content() else {
        return Ok(());
    };
    // Without a place for the answer the question would come each time.
    let Ok(list) = TrustList::of(&environment) else {
        return Ok(());
    };
    anstream::eprint!("{}", described(found));
    let answered = match says_yes("Trust it? You are asked once for this content.")? {
        true => list.trust(found.folder(), content),
        false => list.refuse(found.folder(), content),
    };
    if let Err(error) = answered {
        let cause = anyhow::Error::new(error);
        Progress::new().warn(&format!("your answer is not remembered: {cause:#}"));
    }
    Ok(())
}

/// Tells whether there is something to ask.
fn is_open(found: &FoundFile) -> bool {
    matches!(found.trust(), Trust::Unknown | Trust::Changed)
        && found.fault().is_none()
        && !found.changes().is_empty()
}

/// Describes what a file would change, the most dangerous first.
pub(super) fn described(found: &FoundFile) -> String {
    let file = found.folder().join(found.path());
    let standing = match found.trust() {
        Trust::Trusted => "trusted",
        Trust::Refused => "not trusted: you did not want it",
        Trust::Changed => "not trusted: it was changed since you trusted it",
        _ => "not trusted",
    };
    let mut text = format!("{}: {standing}\n", seen(&file.display().to_string()));
    if let Some(content) = found.content() {
        let hash = content.to_string();
        let hash = hash.get(..HASH_DIGITS).unwrap_or(&hash);
        text.push_str(&format!("its SHA-256 begins with {hash}\n"));
    }
    if let Some(fault) = found.fault() {
        text.push_str(&format!("it cannot be read: {}\n", seen(fault)));
        return text;
    }
    let changes = found.changes();
    text.push_str(match (changes.is_empty(), found.trust()) {
        (true, _) => "it says nothing that needs trust: it only tightens what is allowed\n",
        (false, Trust::Trusted) => {
            "what it changes because you trust it, the most dangerous first:\n"
        }
        (false, _) => "what it would change if you trusted it, the most dangerous first:\n",
    });
    for change in changes.iter().take(MAX_SHOWN) {
        text.push_str(&line(change));
    }
    let more = changes.len().saturating_sub(MAX_SHOWN);
    if more > 0 {
        text.push_str(&format!("  … and {more} more; read the file itself\n"));
    }
    text
}

fn line(change: &Change) -> String {
    let (key, value) = (seen(&change.key), seen(&change.value));
    format!("  {key} = {value}\n      {}\n", seen(&change.meaning))
}

/// Makes a text of the file fit for a line of ours: nothing in it hides or moves anything.
fn seen(text: &str) -> String {
    plain_to_see(&one_line(text))
}
