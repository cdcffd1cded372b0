//! The dialog about one call: shows the call, reads an answer, and asks again if the answer is not valid.

use std::io;

use neuraxis::core::{GrantScope, JsonText};
use unicode_width::UnicodeWidthStr;

use super::change::edit;
use super::console::{Console, Line};
use super::lasting;
use super::show::{ApprovalView, ArgumentSource, Extent, text};
use crate::glyphs::Glyph;
use crate::rows::with_real_order;

/// The maximum number of characters of a reason for a denial, which the model receives.
const MAX_REASON: usize = 1_000;

/// The maximum width of the list of choices, however wide the terminal is.
const WIDTH: usize = 78;

/// The margin before the rest of a choice that does not fit on one line.
const MARGIN: Glyph = Glyph::new("    │ ", "    | ");

/// Shown if a call would no longer do what was shown.
const CHANGED: &str = "Files have changed: this is no longer what was shown.\n";

/// The gap between two choices on a line.
const GAP: &str = "  ";

/// What applies to a question in addition to the call itself.
pub(super) struct Terms<'a> {
    /// Whether the question may be left for later.
    pub(super) postponing: Postponing,
    /// The other waiting calls, which may be decided together with this one.
    pub(super) others: &'a [ApprovalView],
    /// Checks edited arguments against the tool's schema, and returns what is wrong with them.
    pub(super) check: &'a Check,
}

/// Returns what is wrong with the arguments of a call, if anything.
pub(super) type Check = dyn Fn(&JsonText) -> Result<(), String> + Send + Sync;

/// The user's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The call may run.
    Approve {
        /// The arguments to use instead, if they were edited.
        arguments: Option<JsonText>,
        /// The calls of the tool that may also run for the rest of the session, if any.
        remember: Option<GrantScope>,
    },
    /// The call may run, and so may such calls for the rest of the session and from now on in the project folder.
    ApproveInFolder {
        /// The calls that may run for the rest of the session.
        remember: GrantScope,
        /// The rule that allows them in the project folder.
        rule: String,
    },
    /// The call may not run, with a reason if one was given.
    Deny(Option<String>),
    /// The call may run, and so may the other waiting calls.
    ApproveAll,
    /// None of the calls may run, with a reason if one was given.
    DenyAll(Option<String>),
    /// Not now: the run waits.
    Later,
    /// The call may not run, and the whole run should end.
    StopRun,
}

/// Whether a question may be left for later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Postponing {
    /// Yes: the run waits in its store.
    Offered,
    /// No: the run would be lost with this process.
    NotOffered,
}

/// A possible answer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Choice {
    AllowOnce,
    Remember(usize, GrantScope),
    /// Like [`Remember`](Self::Remember), and also stores a rule that allows such calls in this folder.
    AllowInFolder(GrantScope, String),
    Edit,
    Deny,
    /// Allows all waiting calls, of which there are this many.
    AllowAll(usize),
    /// Denies all waiting calls, of which there are this many.
    DenyAll(usize),
    ViewAll,
    ViewExact,
    /// Shows the rule that would allow such calls.
    ShowRule,
    Later,
}

impl Choice {
    /// Returns the choice's letter, its word and its effect.
    fn words(&self) -> (String, &'static str, String) {
        let (letter, word, what) = match self {
            Self::AllowOnce => ("y", "yes", "allow it once"),
            Self::Edit => ("e", "edit", "edit the arguments"),
            Self::Deny => ("n", "no", "deny it"),
            Self::AllowAll(count) => {
                return ("a".to_owned(), "all", format!("allow all {count}"));
            }
            Self::DenyAll(count) => {
                return ("d".to_owned(), "none", format!("deny all {count}"));
            }
            Self::ViewAll => ("v", "view", "view all of it"),
            Self::ViewExact => ("x", "exact", "exact arguments"),
            Self::ShowRule => ("r", "rule", "the rule that would allow it"),
            Self::Later => ("l", "later", "leave the run waiting"),
            Self::AllowInFolder(scope, _) => {
                let calls = super::show::scope(scope);
                return (
                    "f".to_owned(),
                    "folder",
                    format!("allow in this folder from now on: {calls}"),
                );
            }
            Self::Remember(number, scope) => {
                let calls = super::show::scope(scope);
                return (
                    number.to_string(),
                    "",
                    format!("allow for this session: {calls}"),
                );
            }
        };
        (letter.to_owned(), word, what.to_owned())
    }

    /// Returns whether the choice lets a call run as it was shown.
    const fn allows(&self) -> bool {
        matches!(
            self,
            Self::AllowOnce | Self::Remember(..) | Self::AllowInFolder(..) | Self::AllowAll(_)
        )
    }

    /// Returns the choice as shown on the screen.
    fn shown(&self) -> String {
        let (letter, _, what) = self.words();
        format!("[{letter}] {what}")
    }
}

/// Asks the user about a call until there is an answer.
///
/// Only a clear yes allows the call: an empty line, a word that is not a choice, and the end of input do not.
pub(crate) fn ask(
    view: &ApprovalView,
    terms: &Terms<'_>,
    console: &mut impl Console,
) -> io::Result<Answer> {
    let (mut view, mut others) = (view.clone(), terms.others.to_vec());
    let mut hidden = show_what_fits(&view, terms, console)?;
    loop {
        let choices = choices(&view, hidden, terms);
        let why = lasting::why_not_rememberable(&view, console.width());
        console.show(&(legend(&choices, console.width()) + &why))?;
        let typed = match console.line("your answer: ", "")? {
            Line::Text(typed) => typed,
            Line::Interrupted => return Ok(Answer::StopRun),
            Line::End => return Ok(Answer::Deny(None)),
        };
        let Some(choice) = parse_choice(&typed, &choices) else {
            if !typed.trim().is_empty() {
                console.show("That is not one of the choices.\n")?;
            }
            continue;
        };
        if choice.allows()
            && let Some(now) = view.refreshed()
        {
            view = now;
            console.show(CHANGED)?;
            console.show("Here is the call as it is now; answer again.\n")?;
            hidden = show_what_fits(&view, terms, console)?;
            continue;
        }
        match choice {
            allowing if allowing.allows() && hidden > 0 => {
                console
                    .show("Not all of it was on the screen. Here is all of it; answer again.\n")?;
                hidden = show(&view, Extent::All, console)?;
            }
            Choice::AllowOnce => {
                let arguments =
                    (view.origin == ArgumentSource::Edited).then(|| view.arguments.clone());
                let remember = None;
                return Ok(Answer::Approve {
                    arguments,
                    remember,
                });
            }
            Choice::Remember(_, scope) => {
                let (arguments, remember) = (None, Some(scope));
                return Ok(Answer::Approve {
                    arguments,
                    remember,
                });
            }
            Choice::AllowInFolder(remember, rule) => {
                return Ok(Answer::ApproveInFolder { remember, rule });
            }
            Choice::AllowAll(_) => {
                if let Some(answer) = allow_all(&mut view, &mut others, console)? {
                    return Ok(answer);
                }
            }
            Choice::DenyAll(_) => {
                return Ok(match reason(console)? {
                    Answer::Deny(reason) => Answer::DenyAll(reason),
                    other => other,
                });
            }
            Choice::Later => return Ok(Answer::Later),
            Choice::Deny => return reason(console),
            Choice::ViewAll => hidden = show(&view, Extent::All, console)?,
            Choice::ViewExact => hidden = show(&view, Extent::Exact, console)?,
            Choice::ShowRule => console.show(&lasting::rule(&view, console.width()))?,
            Choice::Edit => {
                if let Some(edited) = edit(&view, terms.check, console)? {
                    view = edited;
                    hidden = show_what_fits(&view, terms, console)?;
                }
            }
        }
    }
}

/// Shows the other calls and asks again, so that the user allows only what was on the screen. If one of the calls would
/// no longer do what was shown, shows all of them as they are now and asks again. Returns `None` if the answer is no.
fn allow_all(
    view: &mut ApprovalView,
    others: &mut [ApprovalView],
    console: &mut impl Console,
) -> io::Result<Option<Answer>> {
    let count = others.len() + 1;
    let prompt = format!("allow all {count} calls as shown above? [y/N] ");
    loop {
        for other in others.iter_mut() {
            if let Some(now) = other.refreshed() {
                *other = now;
            }
            show(other, Extent::All, console)?;
        }
        match console.line(&prompt, "")? {
            Line::Text(typed) if ["y", "yes"].contains(&typed.trim().to_lowercase().as_str()) => {}
            Line::Text(_) => return Ok(None),
            Line::Interrupted => return Ok(Some(Answer::StopRun)),
            Line::End => return Ok(Some(Answer::Deny(None))),
        }
        let mut calls = std::iter::once(&*view).chain(others.iter());
        if calls.all(|call| call.refreshed().is_none()) {
            return Ok(Some(Answer::ApproveAll));
        }
        if let Some(now) = view.refreshed() {
            *view = now;
        }
        console.show(CHANGED)?;
        console.show("Here are all the calls as they are now; answer again.\n")?;
        show(view, Extent::All, console)?;
    }
}

/// Shows as much of the call as fits on the screen above the choices. Returns the number of hidden lines.
fn show_what_fits(
    view: &ApprovalView,
    terms: &Terms<'_>,
    console: &mut impl Console,
) -> io::Result<usize> {
    let legend = legend(&choices(view, 0, terms), console.width());
    // The answer takes a row, too.
    let why = lasting::why_not_rememberable(view, console.width());
    let below = legend.lines().count() + why.lines().count() + 1;
    let rows = console.height().saturating_sub(below);
    show(view, Extent::Cut { rows }, console)
}

fn show(view: &ApprovalView, extent: Extent, console: &mut impl Console) -> io::Result<usize> {
    let (text, hidden) = text(view, extent, console.width());
    console.show(&text)?;
    Ok(hidden)
}

/// Returns the possible answers. No other code decides which they are.
fn choices(view: &ApprovalView, hidden: usize, terms: &Terms<'_>) -> Vec<Choice> {
    let mut choices = vec![Choice::AllowOnce];
    // What may be remembered applies to the original arguments.
    if view.origin == ArgumentSource::Model {
        let scopes = (1..).zip(view.scopes.iter().cloned());
        choices.extend(scopes.map(|(number, scope)| Choice::Remember(number, scope)));
        choices.extend(
            lasting::folder_rule(view).map(|(scope, rule)| Choice::AllowInFolder(scope, rule)),
        );
    }
    choices.extend([Choice::Deny, Choice::Edit]);
    if hidden > 0 {
        choices.push(Choice::ViewAll);
    }
    if !view.subject.rows.is_empty() {
        choices.push(Choice::ViewExact);
    }
    if view.origin == ArgumentSource::Model && view.rule_allowing.is_some() {
        choices.push(Choice::ShowRule);
    }
    if !terms.others.is_empty() && view.origin == ArgumentSource::Model {
        let count = terms.others.len() + 1;
        choices.extend([Choice::AllowAll(count), Choice::DenyAll(count)]);
    }
    if terms.postponing == Postponing::Offered {
        choices.push(Choice::Later);
    }
    choices
}

/// Lists the choices: those that are remembered each on its own line and never cut, and the others on lines that fit a
/// small screen.
fn legend(choices: &[Choice], columns: usize) -> String {
    let mut text = String::new();
    let mut line = String::new();
    let end = "(Ctrl-C stops the run)".to_owned();
    let (lasting, once): (Vec<_>, Vec<_>) = choices
        .iter()
        .partition(|choice| matches!(choice, Choice::Remember(..) | Choice::AllowInFolder(..)));
    let once = once.into_iter().map(Choice::shown).chain([end]);
    for choice in once {
        if !line.is_empty() && line.width() + GAP.len() + choice.width() > WIDTH.min(columns) {
            text.push_str(&format!("{line}\n"));
            line.clear();
        }
        let gap = if line.is_empty() { "" } else { GAP };
        line.push_str(&format!("{gap}{choice}"));
    }
    text.push_str(&format!("{line}\n"));
    text.extend(
        lasting
            .into_iter()
            .map(|choice| with_real_order(&choice.shown(), columns, MARGIN.as_str())),
    );
    text
}

#[cfg(test)]
impl Terms<'_> {
    pub(super) fn alone(postponing: Postponing) -> Self {
        Self {
            postponing,
            others: &[],
            check: &|_| Ok(()),
        }
    }
}

#[cfg(test)]
pub(super) fn legend_of(view: &ApprovalView, columns: usize) -> String {
    legend(
        &choices(view, 1, &Terms::alone(Postponing::Offered)),
        columns,
    )
}

/// Returns the choice whose letter or word the user typed.
fn parse_choice(typed: &str, choices: &[Choice]) -> Option<Choice> {
    let typed = typed.trim().to_lowercase();
    let mut choices = choices.iter();
    let choice = choices.find(|choice| {
        let (letter, word, _) = choice.words();
        !typed.is_empty() && (typed == letter || typed == word)
    });
    choice.cloned()
}

/// Asks for the reason of a denial, which the model receives.
fn reason(console: &mut impl Console) -> io::Result<Answer> {
    let typed = console.line("reason for the model (Enter for none): ", "")?;
    Ok(match typed {
        Line::Text(typed) if !typed.trim().is_empty() => {
            Answer::Deny(Some(typed.trim().chars().take(MAX_REASON).collect()))
        }
        Line::Interrupted => Answer::StopRun,
        Line::Text(_) | Line::End => Answer::Deny(None),
    })
}
