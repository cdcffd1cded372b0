//! The last output of a server to its standard error, reduced to the words that explain why it ended.
//!
//! The last lines of a Node program are a stack trace, and those of npm name a log file: the line that names the error
//! comes before them. If there is no such line, the last lines are used.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use neuraxis_ports::CancellationToken;
use tokio::time::timeout;

/// The number of last lines that are reported if no line names an error.
const LAST_LINES: usize = 3;

/// The maximum number of lines after a line that names an error, such as a stack trace, for that line to still explain
/// the end.
const MAX_LINES_AFTER: u64 = 60;

/// How long to wait for the remaining output of a program that ended. A child process may keep its standard error open.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// The last output of a server to its standard error.
#[derive(Debug, Clone, Default)]
pub(crate) struct StderrTail {
    words: Arc<Mutex<Words>>,
    /// Cancelled when the output has ended. `None` if there is no program.
    ended: Option<CancellationToken>,
}

#[derive(Debug, Default)]
struct Words {
    last: VecDeque<String>,
    /// The line that names the error best, how well it does, and its line number.
    mention: Option<(ErrorMention, String, u64)>,
    count: u64,
}

/// How well a line names an error, from worst to best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ErrorMention {
    /// It mentions an error somewhere.
    Somewhere,
    /// It begins with the name of an error, like the message that ends a program.
    AtStart,
}

impl StderrTail {
    /// Creates an empty record for the output of a program.
    pub(super) fn of_program() -> Self {
        Self {
            ended: Some(CancellationToken::new()),
            ..Self::default()
        }
    }

    /// Returns the explanation from the output so far.
    pub(crate) fn explanation(&self) -> String {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        match &words.mention {
            Some((_, line, at)) if words.count - at <= MAX_LINES_AFTER => line.trim().to_owned(),
            _ => {
                let lines: Vec<&str> = words.last.iter().map(String::as_str).collect();
                lines.join(" / ")
            }
        }
    }

    /// Returns the explanation once all output has arrived: a program's end is often noticed before that.
    pub(crate) async fn final_explanation(&self) -> String {
        if let Some(ended) = &self.ended {
            // After that, the output so far must do.
            let _waited = timeout(DRAIN_TIMEOUT, ended.cancelled()).await;
        }
        self.explanation()
    }

    pub(super) fn add(&self, line: String) {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.count += 1;
        if let Some(mention) = error_mention(&line) {
            let before = words.mention.as_ref().map(|(before, ..)| *before);
            // Among errors that are only mentioned, the first tends to be the cause; among those that are named, the
            // last one ends the program.
            if before.is_none_or(|before| mention > before || mention == ErrorMention::AtStart) {
                words.mention = Some((mention, line.clone(), words.count));
            }
        }
        if words.last.len() >= LAST_LINES {
            words.last.pop_front();
        }
        words.last.push_back(line);
    }

    /// Marks the output as complete.
    pub(super) fn end(&self) {
        if let Some(ended) = &self.ended {
            ended.cancel();
        }
    }
}

/// Returns how well a line names an error, if it does: `TypeError [CODE]: …` of Node, `package.SomeError: …` of Python,
/// `error: …` of others, and V8's last message.
fn error_mention(line: &str) -> Option<ErrorMention> {
    let lower = line.to_ascii_lowercase();
    let name = lower.split(':').next().unwrap_or_default();
    // Node puts a code after the name.
    let name = name.split(" [").next().unwrap_or_default().trim_end();
    let is_name = (name.ends_with("error") || name.ends_with("exception"))
        && name.len() < lower.len()
        && name.split_whitespace().count() <= 2
        && !lower.starts_with(' ');
    // V8 first says where it failed, and in the next line why.
    if is_name || lower.starts_with("# check failed:") {
        return Some(ErrorMention::AtStart);
    }
    // npm first says "npm error code E404", and in the next line what that means.
    let of_npm = ["npm error ", "npm err! "]
        .iter()
        .any(|it| lower.starts_with(it));
    let is_sentence = of_npm && lower.split_whitespace().count() > 4;
    let of_v8 = lower.starts_with("# fatal ");
    (is_sentence || of_v8 || lower.contains("error:")).then_some(ErrorMention::Somewhere)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        let words = StderrTail::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            words.add(line.to_owned());
        }
        words.explanation()
    }

    #[test]
    fn the_line_that_names_the_error_is_reported_without_its_stack_trace() {
        let node = "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\n\
                    Error: Cannot find module '/x/index.js'\n    at Module._resolveFilename (node:internal:1)\n\
                    \x20   at node:internal/main/run_main_module:28:49 {\n  code: 'MODULE_NOT_FOUND',\n  requireStack: []\n}\n\nNode.js v22.0.0\n";
        assert_eq!(said(node), "Error: Cannot find module '/x/index.js'");
        let coded = "TypeError [ERR_INVALID_ARG_TYPE]: The \"path\" argument must be of type string\n    at x\n    [cause]: Error: y\n}\n";
        assert!(said(coded).starts_with("TypeError [ERR_INVALID_ARG_TYPE]: "));
        let python = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'b'\n\n\
                      During handling of the above exception, another exception occurred:\n\n\
                      Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n\
                      \x20   raise pkg.ConfigError(\"no token: set it\")\npkg.ConfigError: no token: set it\n";
        assert_eq!(said(python), "pkg.ConfigError: no token: set it");
        let npm = "npm error code E404\nnpm error 404 Not Found - GET https://registry.example/x - Not found\nnpm error 404\n\
                   npm error 404  'x@*' is not in this registry.\nnpm error A complete log of this run can be found in: /x.log\n";
        assert!(said(npm).contains("Not Found - GET"), "{}", said(npm));
        let v8 = "#\n# Fatal error in , line 0\n# Check failed: 12 == (*__errno_location ()).\n#\n\n\
                  ----- Native stack trace -----\n\n 1: 0x13d1a57  [/usr/bin/node]\n 2: 0x2a47de8 V8_Fatal [/usr/bin/node]\n";
        assert_eq!(said(v8), "# Check failed: 12 == (*__errno_location ()).");
        let unexplained =
            "# Fatal error in , line 0\n# unreachable code\n 1: 0x13d1a57  [/usr/bin/node]\n";
        assert_eq!(said(unexplained), "# Fatal error in , line 0");
        assert_eq!(
            said("starting\nerror: unexpected argument '--port' found\n\nUsage: x [OPTIONS]\n"),
            "error: unexpected argument '--port' found"
        );
    }

    #[test]
    fn the_last_lines_are_reported_if_none_names_an_error() {
        assert_eq!(said("a\nb\nc\nd\n"), "b / c / d");
        assert_eq!(
            said("Listening for errors\nBye\n"),
            "Listening for errors / Bye"
        );
        assert_eq!(said(""), "");
        let long_ago = format!("Error: one client left\n{}", "line\n".repeat(100));
        assert_eq!(said(&long_ago), "line / line / line");
    }
}
