//! What a server wrote to its standard error before it ended, in as few words as say why.
//!
//! The last lines of a program of Node are a stack trace, and those of npm the place of a log: the line that names the error
//! stands before them. Where there is none, the last lines are all there is.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use neuraxis_ports::CancellationToken;
use tokio::time::timeout;

/// How many of the last lines are told where none names an error.
const LAST_LINES: usize = 3;

/// How many lines may follow a line that names an error for it to say why a program ended: those of a stack trace.
const MAX_LINES_AFTER: u64 = 60;

/// How long the rest is waited for once a program ended. Something that it started may keep its standard error open.
const PATIENCE: Duration = Duration::from_millis(500);

/// The last a server wrote to its standard error.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastWords {
    words: Arc<Mutex<Words>>,
    /// Nobody writes any more. Nothing where nobody ever did.
    ended: Option<CancellationToken>,
}

#[derive(Debug, Default)]
struct Words {
    last: VecDeque<String>,
    /// The line that names the error, how well it does, and which line it is.
    telling: Option<(Telling, String, u64)>,
    count: u64,
}

/// How well a line names an error, from worst to best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Telling {
    /// It speaks of one somewhere.
    Mentions,
    /// It begins with the name of one, as what ends a program does.
    Names,
}

impl LastWords {
    /// Those of a program, which are to come.
    pub(super) fn of_program() -> Self {
        Self {
            ended: Some(CancellationToken::new()),
            ..Self::default()
        }
    }

    /// Returns what it said so far.
    pub(crate) fn said(&self) -> String {
        let words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        match &words.telling {
            Some((_, line, at)) if words.count - at <= MAX_LINES_AFTER => line.trim().to_owned(),
            _ => {
                let lines: Vec<&str> = words.last.iter().map(String::as_str).collect();
                lines.join(" / ")
            }
        }
    }

    /// Returns what a program that ends said, once it said all of it: its end is often seen before.
    pub(crate) async fn said_at_last(&self) -> String {
        if let Some(ended) = &self.ended {
            // What has come by then has to do.
            let _waited = timeout(PATIENCE, ended.cancelled()).await;
        }
        self.said()
    }

    pub(super) fn add(&self, line: String) {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.count += 1;
        if let Some(telling) = telling(&line) {
            let before = words.telling.as_ref().map(|(before, ..)| *before);
            // Of errors that are only mentioned the first tends to be the cause; of those that are named, the last ends it.
            if before.is_none_or(|before| telling > before || telling == Telling::Names) {
                words.telling = Some((telling, line.clone(), words.count));
            }
        }
        if words.last.len() >= LAST_LINES {
            words.last.pop_front();
        }
        words.last.push_back(line);
    }

    /// Says that nothing more will come.
    pub(super) fn end(&self) {
        if let Some(ended) = &self.ended {
            ended.cancel();
        }
    }
}

/// Tells whether a line names an error: `TypeError [CODE]: …` of Node, `package.SomeError: …` of Python, `error: …` of others, and
/// what V8 says as it gives up.
fn telling(line: &str) -> Option<Telling> {
    let lower = line.to_ascii_lowercase();
    let name = lower.split(':').next().unwrap_or_default();
    // Node writes a code behind the name.
    let name = name.split(" [").next().unwrap_or_default().trim_end();
    let is_name = (name.ends_with("error") || name.ends_with("exception"))
        && name.len() < lower.len()
        && name.split_whitespace().count() <= 2
        && !lower.starts_with(' ');
    // V8 says where it gave up first, and why in the next line.
    if is_name || lower.starts_with("# check failed:") {
        return Some(Telling::Names);
    }
    // npm says "npm error code E404" first, and what that means in the next line.
    let of_npm = ["npm error ", "npm err! "]
        .iter()
        .any(|it| lower.starts_with(it));
    let is_sentence = of_npm && lower.split_whitespace().count() > 4;
    let of_v8 = lower.starts_with("# fatal ");
    (is_sentence || of_v8 || lower.contains("error:")).then_some(Telling::Mentions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        let words = LastWords::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            words.add(line.to_owned());
        }
        words.said()
    }

    #[test]
    fn the_line_that_names_the_error_is_told_and_not_the_stack_trace() {
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
    fn where_no_line_names_an_error_the_last_ones_are_told() {
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
