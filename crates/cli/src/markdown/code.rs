//! Colors code line by line. A line's colors do not depend on later lines, since it is shown before they arrive.
//!
//! The grammars are loaded with the first code block in a known language.

use std::sync::LazyLock;

use anstyle::{AnsiColor, Style};
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use crate::harmless::harmless;

/// The style of code in an unknown language.
const PLAIN: Style = AnsiColor::Cyan.on_default();

/// The maximum size in bytes of a line that is colored: parsing a longer one takes too long.
const MAX_LINE_BYTES: usize = 2_000;

static GRAMMARS: LazyLock<SyntaxSet> = LazyLock::new(SyntaxSet::load_defaults_newlines);

/// Languages without a grammar, each with a similar language.
const CLOSE: [(&str, &str); 12] = [
    ("typescript", "js"),
    ("ts", "js"),
    ("tsx", "js"),
    ("jsx", "js"),
    ("javascript", "js"),
    ("jsonc", "json"),
    ("json5", "json"),
    ("shell", "bash"),
    ("zsh", "bash"),
    ("kotlin", "java"),
    ("c++", "cpp"),
    ("golang", "go"),
];

/// The styles of the parts of code; the first match applies.
const STYLES: [(&str, Style); 11] = [
    ("comment", Style::new().dimmed()),
    ("string", AnsiColor::Green.on_default()),
    ("constant", AnsiColor::Yellow.on_default()),
    ("keyword", AnsiColor::Magenta.on_default()),
    ("storage", AnsiColor::Magenta.on_default()),
    ("entity.name", AnsiColor::Blue.on_default()),
    ("support", AnsiColor::Blue.on_default()),
    ("variable.function", AnsiColor::Blue.on_default()),
    ("markup.inserted", AnsiColor::Green.on_default()),
    ("markup.deleted", AnsiColor::Red.on_default()),
    ("meta.diff", AnsiColor::Cyan.on_default()),
];

/// The same, by scope: a scope covers those that begin with it.
static STYLE_OF_SCOPE: LazyLock<Vec<(Scope, Style)>> = LazyLock::new(|| {
    let styles = STYLES.into_iter();
    let styles = styles.filter_map(|(name, style)| Some((Scope::new(name).ok()?, style)));
    styles.collect()
});

/// A code block, as far as it was colored.
#[derive(Debug, Default)]
pub(super) struct Code {
    language: String,
    /// The lines, each as received and as shown.
    lines: Vec<(String, String)>,
    /// The parser's state; `None` for an unknown language.
    reader: Option<(ParseState, ScopeStack)>,
    /// The index of the next line.
    next: usize,
}

impl Code {
    /// Starts a block, which may be the previous one with more lines.
    pub(super) fn begin(&mut self, info: &str) {
        let language = info.split([' ', ',', '{']).next().unwrap_or_default();
        self.next = 0;
        if self.language != language || self.lines.is_empty() {
            language.clone_into(&mut self.language);
            self.restart();
        }
    }

    /// Returns the next line as shown.
    pub(super) fn line(&mut self, line: &str) -> String {
        let place = self.next;
        self.next += 1;
        match self.lines.get(place) {
            Some((before, shown)) if before == line => return shown.clone(),
            Some(_) => {
                // It is a different block than before.
                let begun: Vec<String> = self.lines.drain(..).map(|(line, _)| line).collect();
                self.restart();
                self.next = 0;
                for line in begun.iter().take(place) {
                    self.line(line);
                }
                self.next = place + 1;
            }
            None => {}
        }
        let shown = self.colored(line);
        self.lines.push((line.to_owned(), shown.clone()));
        shown
    }

    fn restart(&mut self) {
        self.lines.clear();
        let grammar = grammar(&self.language);
        self.reader = grammar.map(|grammar| (ParseState::new(grammar), ScopeStack::new()));
    }

    fn colored(&mut self, line: &str) -> String {
        let plain = || {
            let line = harmless(line);
            match line.is_empty() {
                true => String::new(),
                false => format!("{PLAIN}{line}{PLAIN:#}"),
            }
        };
        if line.len() > MAX_LINE_BYTES {
            return plain();
        }
        let Some((state, stack)) = &mut self.reader else {
            return plain();
        };
        let Ok(changes) = state.parse_line(&format!("{line}\n"), &GRAMMARS) else {
            self.reader = None;
            return plain();
        };
        let mut shown = String::new();
        let mut begin = 0;
        for (place, change) in changes {
            let place = place.min(line.len());
            shown.push_str(&set(stack, line.get(begin..place).unwrap_or_default()));
            begin = place.max(begin);
            if stack.apply(&change).is_err() {
                break;
            }
        }
        shown.push_str(&set(stack, line.get(begin..).unwrap_or_default()));
        shown
    }
}

/// Formats a part of a line, harmless and in the style of its kind.
fn set(stack: &ScopeStack, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let text = harmless(text);
    let style = style_of(stack);
    format!("{style}{text}{style:#}")
}

fn style_of(stack: &ScopeStack) -> Style {
    let scopes = stack.as_slice().iter().rev();
    let known = |scope: &Scope| {
        let mut styles = STYLE_OF_SCOPE.iter();
        let fitting = styles.find(|(begin, _)| begin.is_prefix_of(*scope));
        fitting.map(|(_, style)| *style)
    };
    scopes.into_iter().find_map(known).unwrap_or_default()
}

fn grammar(language: &str) -> Option<&'static SyntaxReference> {
    let language = language.trim().to_lowercase();
    if language.is_empty() || ["text", "txt", "plain", "plaintext"].contains(&language.as_str()) {
        return None;
    }
    let close = CLOSE.iter().find(|(name, _)| *name == language);
    let language = close.map_or(language.as_str(), |(_, close)| close);
    GRAMMARS.find_syntax_by_token(language)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_colored_line_by_line_without_losing_text() {
        let lines = ["fn main() {", "\tlet x = \"a", "b\"; // end", "", "}"];
        let mut code = Code::default();
        code.begin("rust");
        let shown: Vec<String> = lines.iter().map(|line| code.line(line)).collect();
        let plain: Vec<String> = shown
            .iter()
            .map(|line| anstream::adapter::strip_str(line).to_string())
            .collect();
        assert_eq!(plain, lines);
        assert!(shown[0].contains("\u{1b}[35mfn\u{1b}[0m"), "{shown:?}");
        // Reading the same lines again gives the same result.
        code.begin("rust");
        let again: Vec<String> = lines.iter().map(|line| code.line(line)).collect();
        assert_eq!(again, shown);
        code.begin("rust");
        assert!(!code.line("fn other() {}").is_empty());
        code.begin("nolanguage");
        assert_eq!(code.line("x"), "\u{1b}[36mx\u{1b}[0m");
    }

    #[test]
    fn a_style_is_for_whole_words_of_a_scope() {
        assert_eq!(STYLE_OF_SCOPE.len(), STYLES.len());
        let style = |name| {
            let mut stack = ScopeStack::new();
            stack.push(Scope::new(name).unwrap());
            style_of(&stack)
        };
        assert_eq!(style("string.quoted.double"), AnsiColor::Green.on_default());
        assert_eq!(style("entity.name.function"), AnsiColor::Blue.on_default());
        assert_eq!(style("stringy.quoted"), Style::new());
        assert_eq!(style("entity"), Style::new());
    }

    #[test]
    fn control_characters_in_code_are_made_visible() {
        let mut code = Code::default();
        code.begin("rust");
        let shown = code.line("let x = \"\u{1b}[2J\u{202e}\";");
        let plain = anstream::adapter::strip_str(&shown).to_string();
        assert!(!plain.contains(['\u{1b}', '\u{202e}']), "{plain:?}");
    }
}
