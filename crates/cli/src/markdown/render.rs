//! Renders a block of Markdown.

use anstyle::{AnsiColor, Style};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use unicode_width::UnicodeWidthStr;

use super::code::Code;
use super::lines::Line;
use super::table::Table;
use crate::glyphs::{BAR, BULLET, LINE};
use crate::harmless::{harmless, one_line};

const CODE: Style = AnsiColor::Cyan.on_default();
const DIM: Style = Style::new().dimmed();

/// Returns the enabled extensions of Markdown.
pub(super) const fn options() -> Options {
    Options::ENABLE_TABLES
        .union(Options::ENABLE_STRIKETHROUGH)
        .union(Options::ENABLE_TASKLISTS)
}

/// What to do with Markdown marks that styles can replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marks {
    /// Replace them with styles.
    Styled,
    /// Keep them. The closing mark of a code block is only written once the block is complete.
    Kept { is_complete: bool },
}

/// Renders a block. The result ends with a line break.
pub(super) fn render(markdown: &str, columns: usize, marks: Marks, code: &mut Code) -> String {
    let mut page = Page::new(columns, marks, code);
    for (event, range) in Parser::new_ext(markdown, options()).into_offset_iter() {
        let source = markdown.get(range).unwrap_or_default().trim_start();
        let is_heading = matches!(
            &event,
            Event::Start(Tag::Heading { .. }) | Event::End(TagEnd::Heading(_))
        );
        // A line of text that the next line turned into a heading; it was shown as text before that line arrived.
        if is_heading && !source.starts_with('#') {
            page.underlined(&event);
            continue;
        }
        if let Event::Start(Tag::CodeBlock(kind)) = &event {
            page.fence = fence(kind, source);
        }
        page.read(event);
    }
    page.end_line();
    page.text
}

/// Returns the fence of a code block as in its source, which may be longer than any fence within the block.
fn fence(kind: &CodeBlockKind<'_>, source: &str) -> String {
    match kind {
        CodeBlockKind::Fenced(_) => {
            let first = source.chars().next();
            let marks = source.chars().take_while(|mark| Some(*mark) == first);
            marks.collect()
        }
        CodeBlockKind::Indented => "```".to_owned(),
    }
}

struct Page<'a> {
    text: String,
    columns: usize,
    marks: Marks,
    code: &'a mut Code,
    /// The line being written.
    line: Line,
    /// The styles of the current text, from the outermost; each includes those around it.
    styles: Vec<Style>,
    /// The prefixes of every line, from the outermost.
    margins: Vec<String>,
    /// The next numbers of the open lists; `None` for a list without numbers.
    lists: Vec<Option<u64>>,
    /// The addresses and texts of the open links.
    links: Vec<(String, String)>,
    table: Option<Table>,
    /// The fence of the open code block, if marks are kept.
    fence: String,
    is_in_code: bool,
    is_in_line: bool,
    /// Whether the line contains only the sign of an item.
    is_after_sign: bool,
    /// Whether a block has ended, so the next one needs a gap.
    is_after_block: bool,
}

impl<'a> Page<'a> {
    fn new(columns: usize, marks: Marks, code: &'a mut Code) -> Self {
        Self {
            text: String::new(),
            columns,
            marks,
            code,
            line: Line::default(),
            styles: Vec::new(),
            margins: Vec::new(),
            lists: Vec::new(),
            links: Vec::new(),
            table: None,
            fence: String::new(),
            is_in_code: false,
            is_in_line: false,
            is_after_sign: false,
            is_after_block: false,
        }
    }

    fn read(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.begin(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.write(&text),
            Event::Code(text) => {
                self.styles.push(self.style().fg_color(CODE.get_fg_color()));
                self.mark("`");
                self.write(&text);
                self.mark("`");
                self.styles.pop();
            }
            Event::SoftBreak | Event::HardBreak => self.line_break(),
            Event::Rule => {
                self.begin_block();
                self.rule();
                self.end_block();
            }
            Event::TaskListMarker(is_done) => self.write(if is_done { "[x] " } else { "[ ] " }),
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.write(&text);
            }
        }
    }

    fn begin(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                let style = Style::new().bold();
                let is_top = level == HeadingLevel::H1;
                self.styles
                    .push(if is_top { style.underline() } else { style });
                self.mark(&format!("{} ", "#".repeat(level as usize)));
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.margins.push(format!("{DIM}{BAR}{DIM:#} "));
            }
            Tag::CodeBlock(kind) => self.begin_code(&kind),
            Tag::List(first) => {
                self.end_line();
                self.lists.push(first);
            }
            Tag::Item => self.begin_item(),
            Tag::Emphasis => {
                self.styles.push(self.style().italic());
                self.mark("*");
            }
            Tag::Strong => {
                self.styles.push(self.style().bold());
                self.mark("**");
            }
            Tag::Strikethrough => {
                self.styles.push(self.style().strikethrough());
                self.mark("~~");
            }
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push((one_line(&dest_url), String::new()));
                self.styles.push(self.style().underline());
            }
            Tag::Table(alignments) => {
                self.begin_block();
                self.table = Some(Table::new(alignments));
            }
            Tag::TableHead | Tag::TableRow => self.tabled(Table::begin_row),
            Tag::TableCell => self.tabled(Table::begin_cell),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_block(),
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_block();
            }
            TagEnd::BlockQuote(_) => {
                self.margins.pop();
                self.end_block();
            }
            TagEnd::CodeBlock => {
                self.end_line();
                self.is_in_code = false;
                if self.marks == (Marks::Kept { is_complete: true }) {
                    let fence = std::mem::take(&mut self.fence);
                    self.write(&fence);
                }
                self.end_block();
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.end_block();
            }
            TagEnd::Item => {
                self.end_line();
                self.margins.pop();
                self.is_after_block = false;
            }
            TagEnd::Emphasis => self.end_style("*"),
            TagEnd::Strong => self.end_style("**"),
            TagEnd::Strikethrough => self.end_style("~~"),
            TagEnd::Link | TagEnd::Image => self.end_link(),
            TagEnd::Table => {
                let table = self.table.take();
                // If an item begins with a table, the item's sign is on a separate line.
                self.end_line();
                let margins = self.margins.concat();
                let margin = anstream::adapter::strip_str(&margins).to_string();
                let columns = self.columns.saturating_sub(margin.width());
                for line in table.iter().flat_map(|table| table.lines(columns)) {
                    let line = format!("{margins}{line}");
                    self.text.push_str(line.trim_end());
                    self.text.push('\n');
                }
                self.end_block();
            }
            _ => {}
        }
    }

    /// Writes a text with a line below it.
    fn underlined(&mut self, event: &Event<'_>) {
        if matches!(event, Event::Start(_)) {
            return self.begin_block();
        }
        self.end_line();
        self.rule();
        self.end_block();
    }

    /// Writes a mark that no style replaces. It is not part of a link's text.
    fn mark(&mut self, mark: &str) {
        if self.marks != Marks::Styled {
            let links = std::mem::take(&mut self.links);
            self.write(mark);
            self.links = links;
        }
    }

    fn end_style(&mut self, mark: &str) {
        self.mark(mark);
        self.styles.pop();
    }

    fn rule(&mut self) {
        self.write(&LINE.as_str().repeat(20));
    }

    fn begin_code(&mut self, kind: &CodeBlockKind<'_>) {
        self.begin_block();
        let language = match kind {
            CodeBlockKind::Fenced(language) => language.as_ref(),
            CodeBlockKind::Indented => "",
        };
        if self.marks != Marks::Styled || !language.trim().is_empty() {
            self.styles.push(DIM);
            let fence = self.fence.clone();
            self.mark(&fence);
            self.write(&one_line(language));
            self.styles.pop();
            self.end_line();
        }
        self.code.begin(language);
        self.is_in_code = true;
    }

    fn begin_item(&mut self) {
        self.end_line();
        let sign = match self.lists.last_mut() {
            Some(Some(number)) => {
                let sign = format!("{number}. ");
                *number = number.saturating_add(1);
                sign
            }
            _ => format!("{BULLET} "),
        };
        self.is_after_block = false;
        self.write(&sign);
        self.is_after_sign = true;
        self.margins.push(" ".repeat(sign.chars().count()));
    }

    /// Writes a link's address, unless it is the link's text: an address is never hidden behind a text.
    fn end_link(&mut self) {
        self.styles.pop();
        let Some((address, said)) = self.links.pop() else {
            return;
        };
        if said.trim() != address && !address.is_empty() {
            self.write(&format!(" <{address}>"));
        }
    }

    fn tabled(&mut self, change: impl FnOnce(&mut Table)) {
        self.table.as_mut().map(change);
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    /// Writes text, harmless and in the current style.
    fn write(&mut self, text: &str) {
        let style = self.style();
        if let Some(table) = &mut self.table {
            let text = harmless(text);
            table.write(style, &text);
            for (_, said) in &mut self.links {
                said.push_str(&text);
            }
            return;
        }
        let mut lines = text.split('\n').peekable();
        while let Some(line) = lines.next() {
            if !line.is_empty() {
                // Text of an item is not a paragraph, but still needs a gap to what is above it.
                if !self.is_in_line && self.is_after_block {
                    self.begin_block();
                }
                self.begin_line();
                self.write_in_line(line);
            }
            if lines.peek().is_some() {
                self.line_break();
            }
        }
    }

    fn begin_line(&mut self) {
        if !self.is_in_line {
            self.is_in_line = true;
            self.line.margin = self.margins.concat();
        }
    }

    fn write_in_line(&mut self, text: &str) {
        self.is_after_sign = false;
        for (_, said) in &mut self.links {
            said.push_str(&harmless(text));
        }
        match self.is_in_code {
            // The style of a code line is known once the line is complete; it is made harmless then, too.
            true => self.line.push(Style::new(), text),
            false => self.line.push(self.style(), &harmless(text)),
        }
    }

    /// Writes the current line: code unchanged, and text wrapped at the width of the screen.
    fn set_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = match self.is_in_code {
            true => format!("{}{}", line.margin, self.code.line(&line.text)),
            false => line.broken(self.columns, &self.margins.concat()),
        };
        self.text.push_str(&line);
    }

    /// Ends the line, even if it is an empty line of code.
    fn line_break(&mut self) {
        if self.is_in_code {
            self.begin_line();
        }
        if self.is_in_line {
            self.set_line();
        }
        self.text.push('\n');
        self.is_in_line = false;
    }

    fn end_line(&mut self) {
        if self.is_in_line {
            self.set_line();
            self.text.push('\n');
            self.is_in_line = false;
        }
    }

    fn begin_block(&mut self) {
        if self.is_after_block {
            self.end_line();
            let margin: String = self.margins.concat();
            self.text.push_str(margin.trim_end());
            self.text.push('\n');
        } else if !self.is_after_sign {
            // In a list without empty lines, no event marks the end of an item's text.
            self.end_line();
        }
        self.is_after_block = false;
    }

    fn end_block(&mut self) {
        self.end_line();
        self.is_after_block = true;
    }
}
