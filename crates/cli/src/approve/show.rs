//! The question as the person reads it.
//!
//! What the model wrote stands in a margin, so that no line of it can pass for one of ours, and what we say of the call
//! comes last, right above the prompt.

use std::path::Path;
use std::sync::Arc;

use anstyle::{AnsiColor, Style};
use neuraxis::brainstem::reaches_out;
use neuraxis::core::{
    AgentId, AskApproval, AskCause, GrantScope, JsonText, Record, RecordBody, ToolAnnotations,
    ToolClass, ToolSpec,
};

#[cfg(target_os = "linux")]
use neuraxis::tools::{NoSandbox, sandbox_features};

use super::arguments::laid_out;
use super::earlier::Earlier;
use super::lasting;
use super::subject::{self, Subject};
use crate::harmless::{in_order, one_line, plain_to_see};
use crate::rows::{Mark, Row, in_margin, in_real_order, under};
use crate::wrap::broken;

/// The least rows that the subject, and the arguments, take where not all of them fit: a title, a line, and that there is
/// more.
const LEAST_ROWS: usize = 3;

/// The most letters of a line that are shown, where not everything fits, before somebody asks for all.
const MAX_LETTERS: usize = 400;

const BOLD: Style = Style::new().bold();
const ALERT: Style = AnsiColor::Yellow.on_default().bold();

/// A call that somebody has to decide about, with all that is known of it.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(super) tool: String,
    pub(super) class: Option<ToolClass>,
    pub(super) annotations: ToolAnnotations,
    /// Whether it may reach outside this machine with these arguments.
    pub(super) reaches_out: bool,
    pub(super) reason: String,
    /// The rule that asks, and where it is written.
    pub(super) rule: Option<String>,
    /// What may be remembered of an approval, the narrowest first.
    pub(super) scopes: Vec<GrantScope>,
    /// What asks, each kind once; nothing where nobody says.
    pub(super) causes: Vec<AskCause>,
    /// The rule under which such calls would run, if a rule can say so and would do.
    pub(super) rule_allowing: Option<String>,
    /// Whether such a rule can be kept for the folder of the project.
    pub(super) keeps_rules: bool,
    /// The tools by which the agents were started that lead to the one that calls.
    pub(super) lineage: Vec<String>,
    pub(super) arguments: JsonText,
    pub(super) subject: Subject,
    pub(super) origin: Origin,
    /// What may still run before it and change one of its files.
    pub(super) earlier: Option<Earlier>,
    /// The folder that its files are looked for in; none if its run works in another one.
    folder: Option<Arc<Path>>,
}

/// Whose arguments these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The model's.
    Model,
    /// Those of the person who decides.
    Edited,
}

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whole {
    /// What fits into so many rows of the screen.
    Cut {
        /// How many there are for the question.
        rows: usize,
    },
    /// Everything.
    All,
    /// Everything, and the arguments to the letter, also where what they say is shown otherwise.
    Exact,
}

impl Asked {
    /// Describes a call.
    pub(crate) fn new(
        ask: &AskApproval,
        spec: Option<&ToolSpec>,
        records: &[Arc<Record>],
        project: &Path,
    ) -> Self {
        let causes = lasting::causes(records, &ask.tool_call_id);
        let is_here = folder_elsewhere(records, project).is_none();
        let folder = is_here.then_some(project);
        Self {
            tool: ask.name.to_string(),
            class: spec.map(|spec| spec.class),
            annotations: spec.map(|spec| spec.annotations).unwrap_or_default(),
            reaches_out: spec.is_some_and(|spec| reaches_out(spec, &ask.arguments)),
            reason: ask.reason.clone(),
            rule: ask.rule.as_ref().map(ToString::to_string),
            scopes: ask.choices.clone(),
            rule_allowing: spec
                .and_then(|spec| lasting::rule_allowing(spec, &ask.arguments, &causes, project)),
            keeps_rules: false,
            causes,
            lineage: lineage(records, ask.agent),
            subject: subject::of(&ask.name, ask.arguments.as_str(), folder),
            arguments: ask.arguments.clone(),
            origin: Origin::Model,
            earlier: None,
            folder: folder.map(Arc::from),
        }
    }

    /// Says that rules can be kept for the folder of the project.
    pub(super) const fn keeping_rules(mut self, keeps_rules: bool) -> Self {
        self.keeps_rules = keeps_rules;
        self
    }

    /// Says what may still run before it and change one of its files.
    pub(crate) fn after(mut self, earlier: Option<Earlier>) -> Self {
        self.earlier = earlier;
        self
    }

    /// Looks at the files once more: the same call with what it would do to them now, if that is not what it was.
    pub(super) fn as_it_is_now(&self) -> Option<Self> {
        let subject = subject::of(&self.tool, self.arguments.as_str(), self.folder.as_deref());
        (subject != self.subject).then(|| Self {
            subject,
            ..self.clone()
        })
    }

    /// The same call with other arguments.
    pub(crate) fn with_arguments(&self, arguments: JsonText) -> Self {
        Self {
            subject: subject::of(&self.tool, arguments.as_str(), self.folder.as_deref()),
            arguments,
            origin: Origin::Edited,
            ..self.clone()
        }
    }
}

/// Writes a question out for so many columns, and tells how many lines were left out, cut, or pushed off the screen.
pub(crate) fn text(asked: &Asked, whole: Whole, columns: usize) -> (String, usize) {
    let below = match whole {
        Whole::Cut { .. } | Whole::All => Below::Rest,
        Whole::Exact => Below::Exact,
    };
    let all = Page::of(asked, below, None, columns);
    match whole {
        Whole::Cut { rows } if all.rows() > rows => {
            let cut = Page::of(asked, below, Some(all.room_within(rows)), columns);
            // However little of it is cut, not all of it stays on the screen.
            (cut.text, cut.hidden.max(1))
        }
        Whole::Cut { .. } | Whole::All | Whole::Exact => (all.text, 0),
    }
}

/// Says what this machine does not keep a command from.
fn gaps(tool: &str) -> Option<String> {
    if tool != "run_command" {
        return None;
    }
    match sandbox_features() {
        Ok(features) => {
            let gaps: Vec<&str> = features.gaps().collect();
            (!gaps.is_empty()).then(|| gaps.join("; "))
        }
        // There is such a tool only where its user lets commands run so.
        Err(NoSandbox::Missing(_)) => {
            Some("nothing confines it: it can do whatever you can".to_owned())
        }
        // Nor is there one where nobody knows what confines it.
        Err(_) => None,
    }
}

/// Says which calls a remembered answer is about, for a line [`with_real_order`](crate::rows::with_real_order).
pub(crate) fn scope(scope: &GrantScope) -> String {
    let plain = |words: &str| one_line(&plain_to_see(words));
    match scope {
        GrantScope::Arguments { .. } => "exactly this call".to_owned(),
        GrantScope::Command { pattern, access } => {
            let names: Vec<&str> = access.iter().map(|access| access.as_str()).collect();
            let with = if names.is_empty() {
                ""
            } else {
                " with access to "
            };
            format!(
                "commands like {}{with}{}",
                plain(pattern),
                names.join(" and ")
            )
        }
        GrantScope::Host { pattern } => format!("addresses at {}", plain(pattern)),
        GrantScope::Path { pattern } => match pattern.strip_suffix("/**") {
            Some(folder) => format!("files beneath {}/", plain(folder)),
            None if pattern.contains(['*', '?', '[', '{']) => {
                format!("paths like {}", plain(pattern))
            }
            None => format!("the path {}", plain(pattern)),
        },
        GrantScope::Tool => "all calls of this tool".to_owned(),
        _ => "calls like this".to_owned(),
    }
}

/// Which arguments stand below the lines that show what a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Below {
    /// Those that the lines do not show.
    Rest,
    /// The exact arguments, every one.
    Exact,
}

/// How many rows of the screen what others wrote may take.
#[derive(Debug, Clone, Copy)]
struct Room {
    subject: usize,
    arguments: usize,
}

/// A question that is being written out.
#[derive(Debug)]
struct Page {
    text: String,
    hidden: usize,
    columns: usize,
    /// How many rows the subject takes.
    subject: usize,
    /// How many rows the arguments take.
    arguments: usize,
}

impl Page {
    /// Writes a question out, all of it or what there is room for.
    fn of(asked: &Asked, below: Below, room: Option<Room>, columns: usize) -> Self {
        let mut page = Self {
            text: String::new(),
            hidden: 0,
            columns,
            subject: 0,
            arguments: 0,
        };
        let tool = said(&asked.tool);
        page.ours(ALERT, &format!("╭ {tool} asks for your approval"));
        let arguments = arguments(asked, below);
        let subject = &asked.subject.rows;
        page.subject = page.theirs(subject, room.map(|room| room.subject));
        if !subject.is_empty() && !arguments.is_empty() {
            page.margin(Style::new(), "");
        }
        page.arguments = page.theirs(&arguments, room.map(|room| room.arguments));
        if asked.origin == Origin::Edited {
            page.ours(Style::new(), "├ with arguments which you edited");
        }
        page.ours(BOLD, &format!("├ {tool} · {}", nature(asked)));
        if let Some(gaps) = gaps(&asked.tool) {
            page.ours(ALERT, &format!("├ on this machine {gaps}"));
        }
        if let Some(Earlier { tool, file }) = &asked.earlier {
            let (tool, file) = (said(tool), said(file));
            let line = format!("├ when this was asked, {tool} might still change {file} before it");
            page.ours(ALERT, &line);
        }
        if let Some(agent) = descent(&asked.lineage) {
            page.ours(Style::new(), &format!("├ {agent}"));
        }
        if let Some(rule) = &asked.rule {
            let rule = said(rule);
            page.ours(Style::new(), &format!("├ rule: {rule}"));
        }
        let reason = said(&asked.reason);
        page.ours(Style::new(), &format!("╰ why: {reason}"));
        page
    }

    /// Returns how many rows of the screen it takes.
    fn rows(&self) -> usize {
        rows_of(&self.text)
    }

    /// Shares so many rows between the subject and the arguments, beside what we say. Neither takes what the other needs
    /// of its half.
    fn room_within(&self, rows: usize) -> Room {
        let theirs = self.subject + self.arguments;
        let rows = rows.saturating_sub(self.rows().saturating_sub(theirs));
        let half = (rows / 2).max(LEAST_ROWS);
        Room {
            subject: rows.saturating_sub(self.arguments).max(half),
            arguments: rows.saturating_sub(self.subject).max(half),
        }
    }

    /// Writes a line of ours. The last one closes the margin, so that what follows of it stands in none.
    fn ours(&mut self, style: Style, line: &str) {
        let margin = if line.starts_with('╰') {
            "    "
        } else {
            "│   "
        };
        let line = broken(line, self.columns, margin);
        self.text.push_str(&format!("{style}{line}{style:#}\n"));
    }

    /// Writes a line in the margin.
    fn margin(&mut self, style: Style, line: &str) {
        self.text.push_str(&in_margin(line, self.columns, style));
    }

    /// Writes lines of somebody else's, as many as there is room for and at least the first; returns how many rows they
    /// take.
    fn theirs(&mut self, rows: &[Row], room: Option<usize>) -> usize {
        let mut taken = 0;
        for (shown, row) in rows.iter().enumerate() {
            let before = self.text.len();
            self.row(row, room);
            let took = rows_of(self.text.get(before..).unwrap_or_default());
            let more = rows.len().saturating_sub(shown);
            // All but the last line leave a row to say that there is more.
            let needed = taken + took + usize::from(more > 1);
            if shown > 0 && room.is_some_and(|room| needed > room) {
                self.text.truncate(before);
                self.hidden += more;
                let lines = if more == 1 { "line" } else { "lines" };
                self.margin(ALERT, &format!("… {more} more {lines}: v shows all of it"));
                return taken + 1;
            }
            taken += took;
        }
        taken
    }

    /// Writes a line of somebody else's, cut if there is only so much room.
    fn row(&mut self, row: &Row, room: Option<usize>) {
        let plain = plain_to_see(&row.text);
        let line = self.cut(&plain, room);
        self.margin(row.mark.style(), &line);
        if let Some(line) = in_order(&plain) {
            let line = self.cut(line.trim_start(), room);
            self.text
                .push_str(&in_real_order(&line, self.columns, ALERT));
        }
    }

    fn cut(&mut self, line: &str, room: Option<usize>) -> String {
        let end = line.char_indices().nth(MAX_LETTERS);
        match end {
            Some((end, _)) if room.is_some() => {
                self.hidden += 1;
                let (shown, rest) = line.split_at(end);
                let rest = rest.chars().count();
                format!("{shown}… ({rest} more characters: v shows all of it)")
            }
            _ => line.to_owned(),
        }
    }
}

/// Returns the arguments as lines, below their title; nothing where others show all that they say.
fn arguments(asked: &Asked, below: Below) -> Vec<Row> {
    let Subject { rows, rest } = &asked.subject;
    let (title, json) = match (below, rest) {
        (Below::Rest, Some(rest)) if !rows.is_empty() => ("and these arguments:", rest.as_str()),
        (Below::Rest, None) if !rows.is_empty() => return Vec::new(),
        (Below::Rest | Below::Exact, _) => ("exactly these arguments:", asked.arguments.as_str()),
    };
    let plain = |line: &str| Row::new(Mark::Plain, line);
    under(title, laid_out(json).split('\n').map(plain))
}

/// Returns how many rows a text takes whose lines are broken where the screen ends.
fn rows_of(text: &str) -> usize {
    text.matches('\n').count()
}

/// Writes somebody's words into a line of ours: nothing in them hides, or changes their order.
pub(crate) fn said(words: &str) -> String {
    let plain = plain_to_see(words);
    one_line(&in_order(&plain).unwrap_or(plain))
}

/// Says what running the tool may do.
fn nature(asked: &Asked) -> String {
    let mut said = match asked.class {
        None => vec!["nothing is known of what it changes"],
        Some(ToolClass::ReadOnly) => vec!["changes nothing"],
        Some(ToolClass::Idempotent) => vec!["changes something; safe to repeat"],
        Some(ToolClass::Irreversible) => vec!["irreversible"],
    };
    if asked.annotations.destructive {
        said.push("may destroy something");
    }
    if asked.reaches_out {
        said.push("reaches outside this machine");
    }
    said.join(" · ")
}

/// Returns the folder that a run works in, if it says so and that is another one than this.
pub(crate) fn folder_elsewhere(records: &[Arc<Record>], folder: &Path) -> Option<Arc<str>> {
    let started = records.first().and_then(|first| first.run_started())?;
    let named = started.spec.folder.clone();
    named.filter(|named| !is_folder_of(named, folder))
}

/// Tells whether a folder that a run works in is that of the project here.
pub(crate) fn is_folder_of(named: &str, project: &Path) -> bool {
    let real = project.canonicalize();
    let real = real.as_deref().unwrap_or(project).to_string_lossy();
    *named == *real
}

/// Says which sub-agent asks, by the records of its run, unless it is the one that the user talks to.
pub(crate) fn asker(records: &[Arc<Record>], agent: AgentId) -> Option<String> {
    descent(&lineage(records, agent))
}

/// Says which sub-agent asks, unless it is the one that the user talks to.
fn descent(lineage: &[String]) -> Option<String> {
    let depth = lineage.len();
    let names: Vec<String> = lineage.iter().map(|name| said(name)).collect();
    (depth > 0).then(|| {
        format!(
            "asked by a sub-agent at depth {depth}: {}",
            names.join(" → ")
        )
    })
}

/// Returns the tools that started an agent and those above it, the topmost first.
fn lineage(records: &[Arc<Record>], agent: AgentId) -> Vec<String> {
    let mut names = Vec::new();
    let mut agent = agent;
    while agent != AgentId::ROOT {
        let started = records.iter().find_map(|record| match &record.body {
            RecordBody::ToolCall(call) if call.agents.contains(&agent) => {
                Some((record.agent, call.name.clone()))
            }
            _ => None,
        });
        let Some((parent, name)) = started.filter(|(parent, _)| *parent < agent) else {
            names.push(format!("{agent}, of unknown origin"));
            break;
        };
        names.push(name.to_string());
        agent = parent;
    }
    names.reverse();
    names
}
