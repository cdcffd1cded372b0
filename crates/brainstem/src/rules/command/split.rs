//! Splits a command line into simple commands, in one pass and without recursion.
//!
//! It understands plain syntax: words, quotes that contain only text, comments, redirections that reach no file, and
//! `&&`, `||`, `;`, `|`, `&` and line breaks between commands. Everything else is marked as unclear. The content of
//! substitutions and groups is still split, for the rules that ask and deny. It expands nothing and runs nothing.

mod level;

use super::letters::Letters;
use super::redirection;
use level::{Ends, Level, Operator};

/// Substitutions and groups nested deeper than this are not split.
const MAX_DEPTH: usize = 6;

/// More commands than this are not split.
const MAX_PARTS: usize = 64;

pub(super) const NOT_COMPLETE: &str = "it is not complete";
const GROUPS: &str = "it groups commands";
const ESCAPES: &str = "it has escapes";
const REDIRECTS: &str = "it redirects";
const EXPANDS: &str = "it has expansions";
const PATTERNS: &str = "it has patterns or expansions";

/// One simple command.
#[derive(Debug, Default)]
pub(super) struct Simple {
    /// Its words, without quotes. The last ones are the targets of its redirections.
    pub(super) words: Vec<String>,
    /// The source text.
    pub(super) source: String,
    /// What was not understood; `None` if the command is plain.
    pub(super) unclear: Option<&'static str>,
    /// Whether it is unknown which of its words is the program, so that each of them may be.
    pub(super) runs_others: bool,
    /// Whether escapes in a `$'…'` stand for other characters in its words.
    pub(super) has_escapes: bool,
    /// Whether its quotes contain quotes or backslashes: text to the shell, but not to a program that parses its words
    /// again.
    pub(super) has_inner_quotes: bool,
}

/// The result of splitting a text.
#[derive(Debug)]
pub(super) struct Split {
    pub(super) commands: Vec<Simple>,
    /// Why the text as a whole is not understood, and possibly not read to its end.
    pub(super) flaw: Option<&'static str>,
    /// Whether text that was read as quoted may contain commands, since a quote may start or end elsewhere.
    pub(super) may_hide: bool,
}

/// Splits a command line.
pub(super) fn split(text: &str) -> Split {
    let mut splitter = Splitter {
        letters: Letters::of(text),
        at: 0,
        comment: None,
        commands: Vec::new(),
        outer: Vec::new(),
        now: Level::new(Ends::Text, 0),
        flaw: None,
        has_here_document: false,
        may_hide: false,
    };
    while splitter.flaw.is_none() {
        splitter.at = splitter.letters.position();
        let Some(letter) = splitter.letters.next() else {
            break;
        };
        splitter.read(letter);
    }
    splitter.end()
}

struct Splitter<'a> {
    letters: Letters<'a>,
    /// The position of the current character.
    at: usize,
    /// The position of the comment that ends the command.
    comment: Option<usize>,
    commands: Vec<Simple>,
    /// The commands that enclose the current one, the outermost first.
    outer: Vec<Level>,
    now: Level,
    flaw: Option<&'static str>,
    /// Whether lines may be the text of a here-document. They are read as commands, but a quote in them is not a quote.
    has_here_document: bool,
    may_hide: bool,
}

impl Splitter<'_> {
    fn read(&mut self, letter: char) {
        match self.now.quote {
            Some(quote) if letter == quote => self.now.quote = None,
            Some('\'') => self.read_quoted(letter),
            Some(_) => match letter {
                '$' => self.expand(),
                '`' => self.backquote(),
                '\\' => self.escape_in_quotes(),
                '!' => self.now.push_marked(letter, PATTERNS),
                _ => self.read_quoted(letter),
            },
            None => self.read_unquoted(letter),
        }
    }

    /// Reads a character that stands for itself.
    fn read_quoted(&mut self, letter: char) {
        self.now.command.has_inner_quotes |= matches!(letter, '\'' | '"' | '\\');
        self.mark_separator(letter);
        self.may_hide |= self.has_here_document && letter == '\n';
        self.now.push(letter);
    }

    fn read_unquoted(&mut self, letter: char) {
        match letter {
            '<' | '>' | '1' | '2' if self.skip_harmless(letter) => {}
            ' ' | '\t' => self.now.end_word(),
            '\n' => self.operate(Operator::Line),
            '\'' | '"' => {
                self.now.word.get_or_insert_default();
                self.now.quote = Some(letter);
            }
            '$' => self.expand(),
            '`' => self.backquote(),
            '\\' => self.escape(),
            '(' => {
                self.now.end_word();
                self.now.mark(GROUPS);
                self.finish();
                self.open(Ends::Parenthesis);
            }
            ')' => self.close_parenthesis(),
            '<' | '>' => self.redirect(letter),
            '&' | '|' | ';' => self.read_operator(letter),
            '#' if self.now.word.is_none() => self.skip_comment(),
            '!' if self.now.word.is_none() => self.now.mark(PATTERNS),
            '~' | '^' if self.now.is_within_word() => self.now.push(letter),
            '{' if self.read_reference() => {}
            '*' | '?' | '[' | ']' | '{' | '}' | '~' | '!' | '#' | '^' => {
                self.now.push_marked(letter, PATTERNS);
            }
            _ if letter.is_control() => self.now.end_word(),
            _ if letter.is_whitespace() => {
                self.now
                    .mark("it has whitespace that not all shells treat as whitespace");
                self.now.end_word();
            }
            _ => self.now.push(letter),
        }
    }

    /// Reads braces after an `@` or `^`, as in `HEAD@{1}` and `HEAD^{tree}`: no shell expands them around a single
    /// name.
    fn read_reference(&mut self) -> bool {
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        let word = self.now.word.as_deref().unwrap_or_default();
        let mut ahead = self.letters.clone();
        let from = ahead.position();
        while ahead.next_if(is_of_name).is_some() {}
        let name = ahead.between(from, ahead.position());
        if !word.ends_with(['@', '^']) || ahead.next() != Some('}') {
            return false;
        }
        self.letters = ahead;
        let word = self.now.word.get_or_insert_default();
        word.extend(["{", name, "}"]);
        true
    }

    fn escape(&mut self) {
        self.now.mark(ESCAPES);
        if let Some(letter) = self.letters.next()
            && letter != '\n'
        {
            self.now.push(letter);
        }
    }

    /// Reads what follows a backslash in double quotes: the backslash is kept before all but a few characters.
    fn escape_in_quotes(&mut self) {
        let Some(letter) = self.letters.next_if(|letter| !matches!(letter, '\n' | '!')) else {
            self.escape();
            return;
        };
        if !matches!(letter, '$' | '`' | '"' | '\\') {
            self.now.push('\\');
        }
        self.mark_separator('\\');
        self.now.push(letter);
        self.now.command.has_inner_quotes = true;
    }

    /// Marks a backslash as unclear where programs treat it as a slash, because a word that contains it may name
    /// another file.
    fn mark_separator(&mut self, letter: char) {
        if cfg!(windows) && letter == '\\' {
            self.now.mark(ESCAPES);
        }
    }

    fn expand(&mut self) {
        if self.now.quote.is_none() && self.letters.peek() == Some('\'') {
            self.begin_escaped_quote();
            return;
        }
        self.now.push_marked('$', EXPANDS);
        if self.skip_shift() {
            self.now.word.get_or_insert_default().push_str("((…))");
        } else if self.letters.next_if_eq('(').is_some() {
            self.open_within_word("(…)", Ends::Parenthesis);
        }
    }

    /// Examines the quote that follows a `$`. The `$` is not part of the word: where it would be, no program has that
    /// name.
    fn begin_escaped_quote(&mut self) {
        self.now.mark(EXPANDS);
        let quoted = self.letters.clone().skip(1);
        let quoted: String = quoted.take_while(|letter| *letter != '\'').collect();
        self.now.command.has_escapes |= quoted.contains('\\');
        // Some shells read `$'\''` as a quote with an escape in it, others as a `$` before two quotes.
        self.may_hide |= quoted.ends_with('\\');
    }

    /// Skips `((…))` after a `$` if all shells read it as arithmetic: a `<<` in it then starts no here-document.
    fn skip_shift(&mut self) -> bool {
        let mut ahead = self.letters.clone();
        if ahead.next() != Some('(') || ahead.next() != Some('(') {
            return false;
        }
        let is_plain =
            |letter: char| letter.is_alphanumeric() || "_$ +-*/%<>=!~?:,".contains(letter);
        let mut inside = String::new();
        while let Some(letter) = ahead.next_if(is_plain) {
            inside.push(letter);
        }
        let is_closed = ahead.next() == Some(')') && ahead.next() == Some(')');
        let is_shift = is_closed && inside.contains("<<");
        if is_shift {
            self.letters = ahead;
        }
        is_shift
    }

    fn backquote(&mut self) {
        let of_backquote = |level: &Level| level.ends == Ends::Backquote;
        if !of_backquote(&self.now) && !self.outer.iter().any(of_backquote) {
            self.now.mark(EXPANDS);
            self.open_within_word("`…`", Ends::Backquote);
            return;
        }
        while !of_backquote(&self.now) {
            self.now.mark(NOT_COMPLETE);
            self.close();
        }
        self.close();
    }

    /// Skips a redirection that starts with a character, if it is harmless. Inside a word, its number is part of the
    /// word.
    fn skip_harmless(&mut self, first: char) -> bool {
        if self.now.word.is_some() || self.now.is_target {
            return false;
        }
        let Some(behind) = redirection::after_harmless(&self.letters, first) else {
            return false;
        };
        self.letters = behind;
        self.now.has_harmless = true;
        true
    }

    /// Skips `/dev/null` after `&>`, if the command ends with it. Some shells end the command at the `&` and start an
    /// empty one there, which then makes no difference.
    fn skip_null(&mut self) -> bool {
        if self.now.command.words.is_empty() || self.now.is_target {
            return false;
        }
        let Some(behind) = redirection::after_last_null(&self.letters) else {
            return false;
        };
        self.letters = behind;
        true
    }

    fn redirect(&mut self, letter: char) {
        self.now.end_descriptor();
        self.now.mark(REDIRECTS);
        if self.letters.next_if_eq('(').is_some() {
            self.now.push(letter);
            self.open_within_word("(…)", Ends::Parenthesis);
            return;
        }
        let second = self
            .letters
            .next_if(|letter| matches!(letter, '<' | '>' | '&' | '|'));
        if (letter, second) == ('<', Some('<')) {
            let third = self.letters.next_if(|letter| matches!(letter, '<' | '-'));
            self.has_here_document |= third != Some('<');
        }
        self.now.is_target = true;
        if second == Some('&') {
            while self
                .letters
                .next_if(|letter| matches!(letter, ' ' | '\t'))
                .is_some()
            {}
            // It closes the descriptor, and some shells treat what follows as the next word even without a blank.
            self.now.is_target = self.letters.next_if_eq('-').is_none();
        }
    }

    fn skip_comment(&mut self) {
        self.comment = Some(self.at);
        while self.letters.next_if(|letter| letter != '\n').is_some() {}
    }

    fn read_operator(&mut self, first: char) {
        let doubled = self.letters.next_if_eq(first).is_some();
        match (first, doubled) {
            (';', true) => {
                self.now.mark(GROUPS);
                self.operate(Operator::Ends);
            }
            (';', false) => {
                if self.letters.next_if_eq('&').is_some() {
                    self.now.mark(GROUPS);
                }
                self.operate(Operator::Ends);
            }
            ('|', false) => {
                if self.letters.next_if_eq('&').is_some() {
                    self.now.mark(REDIRECTS);
                }
                self.operate(Operator::Joins);
            }
            ('&', false) if self.letters.next_if_eq('>').is_some() => {
                self.now.end_word();
                if !self.skip_null() {
                    // Some shells redirect here; others end the preceding command and start another.
                    self.now.command.runs_others = true;
                    self.redirect('>');
                }
            }
            ('&', false) => self.operate(Operator::Ends),
            _ => self.operate(Operator::Joins),
        }
    }

    fn operate(&mut self, operator: Operator) {
        self.now.end_words();
        let command = &self.now.command;
        let is_empty = command.words.is_empty() && command.unclear.is_none();
        if operator == Operator::Line && is_empty {
            self.begin();
            return;
        }
        if is_empty {
            self.now.mark(NOT_COMPLETE);
        }
        self.finish();
        self.now.after = Some(operator);
    }

    /// Stores the current command and starts another.
    fn finish(&mut self) {
        self.now.end_word();
        let mut command = std::mem::take(&mut self.now.command);
        command.words.append(&mut self.now.targets);
        let end = self.comment.unwrap_or(self.at);
        let source = self.letters.between(self.now.from, end);
        source.trim().clone_into(&mut command.source);
        self.begin();
        self.now.is_target = false;
        self.now.has_harmless = false;
        if !command.words.is_empty() || command.unclear.is_some() {
            self.commands.push(command);
            self.now.after = None;
        }
        if self.commands.len() > MAX_PARTS {
            self.flaw.get_or_insert("it has too many parts");
        }
    }

    /// Starts a command with what follows.
    fn begin(&mut self) {
        self.comment = None;
        self.now.from = self.letters.position();
    }

    fn open_within_word(&mut self, shown: &str, ends: Ends) {
        self.now.word.get_or_insert_default().push_str(shown);
        self.open(ends);
    }

    fn open(&mut self, ends: Ends) {
        if self.outer.len() >= MAX_DEPTH {
            self.flaw.get_or_insert("it is nested too deeply");
            return;
        }
        let level = Level::new(ends, self.letters.position());
        let level = std::mem::replace(&mut self.now, level);
        self.outer.push(level);
    }

    fn close_parenthesis(&mut self) {
        self.now.end_word();
        if self.now.ends == Ends::Parenthesis {
            self.close();
        } else {
            self.now.mark(GROUPS);
            self.finish();
        }
    }

    /// Returns to the command that encloses the current one.
    fn close(&mut self) {
        self.now.end_words();
        if self.now.after == Some(Operator::Joins) && self.now.command.words.is_empty() {
            self.now.mark(NOT_COMPLETE);
        }
        self.finish();
        if let Some(level) = self.outer.pop() {
            self.now = level;
            // The content of a group is not part of the enclosing command.
            if self.now.word.is_none() && self.now.command.words.is_empty() {
                self.begin();
            }
        }
    }

    fn end(mut self) -> Split {
        self.at = self.letters.position();
        if self.now.quote.is_some() || !self.outer.is_empty() {
            self.flaw.get_or_insert(NOT_COMPLETE);
        }
        while !self.outer.is_empty() {
            self.now.mark(NOT_COMPLETE);
            self.close();
        }
        if self.now.quote.is_some() {
            self.now.mark(NOT_COMPLETE);
        }
        self.close();
        Split {
            commands: self.commands,
            flaw: self.flaw,
            may_hide: self.may_hide,
        }
    }
}
