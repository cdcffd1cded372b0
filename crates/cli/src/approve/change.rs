//! Lets the user who decides about a call edit its arguments. Arguments that the tool would not accept are not put to
//! the user again.

use std::io;

use neuraxis::core::JsonText;

use super::arguments::{for_editing, for_editing_inline};
use super::console::{Console, Line};
use super::dialog::Check;
use super::show::ApprovalView;
use crate::harmless::one_line;
use crate::wrap::broken;

/// Lets the user edit the arguments. Returns `None` if they stay as they are.
pub(super) fn edit(
    view: &ApprovalView,
    check: &Check,
    console: &mut impl Console,
) -> io::Result<Option<ApprovalView>> {
    let before = view.arguments.as_str();
    let edited = match console.edit(&for_editing(before)) {
        Ok(Some(edited)) => edited,
        Ok(None) => match console.line("arguments: ", &for_editing_inline(before))? {
            Line::Text(edited) => edited,
            Line::Interrupted | Line::End => return unchanged(console),
        },
        Err(error) => {
            let error = one_line(&error.to_string());
            show_line(
                console,
                &format!("The arguments could not be edited: {error}"),
            )?;
            return Ok(None);
        }
    };
    // If the line cannot be edited, an empty line keeps the arguments.
    if edited.trim().is_empty() {
        return unchanged(console);
    }
    let (old, new): (Result<serde_json::Value, _>, Result<serde_json::Value, _>) =
        (serde_json::from_str(before), serde_json::from_str(&edited));
    match (old, new) {
        (_, Err(error)) => {
            let error = one_line(&error.to_string());
            show_line(
                console,
                &format!("This is not JSON ({error}): nothing was changed."),
            )?;
            Ok(None)
        }
        (Ok(old), Ok(new)) if old == new => unchanged(console),
        (_, Ok(new)) => {
            let edited = JsonText::from_text(new.to_string());
            match check(&edited) {
                Ok(()) => Ok(Some(view.with_arguments(edited))),
                Err(fault) => {
                    let fault = one_line(&fault);
                    let refusal = format!(
                        "The tool does not accept these arguments ({fault}): nothing was changed."
                    );
                    show_line(console, &refusal)?;
                    Ok(None)
                }
            }
        }
    }
}

fn unchanged(console: &mut impl Console) -> io::Result<Option<ApprovalView>> {
    show_line(console, "The arguments were not changed.")?;
    Ok(None)
}

/// Prints a line, wrapped to the screen.
fn show_line(console: &mut impl Console, line: &str) -> io::Result<()> {
    let line = broken(line, console.width(), "  ");
    console.show(&format!("{line}\n"))
}
