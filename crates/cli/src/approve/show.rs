//! The question as shown to the user.
//!
//! Text from the model is in a margin, so that none of its lines can be taken for a line of the program. What the
//! program says about the call comes last, right above the prompt.

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
use super::conflicting_call::ConflictingCall;
use super::lasting;
use super::subject::{self, Subject};
use crate::glyphs::{ARROW, BAR, BOTTOM, BRANCH, DOT, ELLIPSIS, TOP};
use crate::harmless::{in_order, one_line, reveal_invisible};
use crate::rows::{Mark, Row, in_margin, in_real_order, under};
use crate::wrap::broken;

/// The minimum number of rows for the subject, and for the arguments, if not all of them fit: a title, a line, and a
/// note that there is more.
const LEAST_ROWS: usize = 3;

/// The maximum number of characters shown of a line if not everything fits, unless the user asks for all.
const MAX_LETTERS: usize = 400;

const BOLD: Style = Style::new().bold();
const ALERT: Style = AnsiColor::Yellow.on_default().bold();

/// A call that needs a decision, with everything known about it.
#[derive(Debug, Clone)]
pub(crate) struct ApprovalView {
    pub(super) tool: String,
    pub(super) class: Option<ToolClass>,
    pub(super) annotations: ToolAnnotations,
    /// Whether the call may reach outside this machine with these arguments.
    pub(super) reaches_out: bool,
    pub(super) reason: String,
    /// The rule that requires the question, and where it is written.
    pub(super) rule: Option<String>,
    /// What may be remembered of an approval, the narrowest scope first.
    pub(super) scopes: Vec<GrantScope>,
    /// The causes of the question, each once; empty if unknown.
    pub(super) causes: Vec<AskCause>,
    /// The rule that would allow such calls, if one can be written and would be enough.
    pub(super) rule_allowing: Option<String>,
    /// Whether such a rule can be stored for the project folder.
    pub(super) can_store_rules: bool,
    /// The tools that started the calling agent and the agents above it.
    pub(super) lineage: Vec<String>,
    pub(super) arguments: JsonText,
    pub(super) subject: Subject,
    pub(super) origin: ArgumentSource,
    /// A call that may run before this one and change one of its files.
    pub(super) conflict: Option<ConflictingCall>,
    /// The folder of the call's files; `None` if its run works in another folder.
    folder: Option<Arc<Path>>,
}

/// Where the arguments come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentSource {
    /// The model.
    Model,
    /// The user who decides.
    Edited,
}

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// What fits the available rows.
    Cut {
        /// The number of rows for the question.
        rows: usize,
    },
    /// Everything.
    All,
    /// Everything, with the exact arguments, even those already shown in another form.
    Exact,
}

impl ApprovalView {
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
            can_store_rules: false,
            causes,
            lineage: lineage(records, ask.agent),
            subject: subject::of(&ask.name, ask.arguments.as_str(), folder),
            arguments: ask.arguments.clone(),
            origin: ArgumentSource::Model,
            conflict: None,
            folder: folder.map(Arc::from),
        }
    }

    /// Sets whether rules can be stored for the project folder.
    pub(super) const fn with_rule_storage(mut self, can_store_rules: bool) -> Self {
        self.can_store_rules = can_store_rules;
        self
    }

    /// Sets the call that may run before this one and change one of its files.
    pub(crate) fn with_conflict(mut self, conflict: Option<ConflictingCall>) -> Self {
        self.conflict = conflict;
        self
    }

    /// Reads the files again. Returns the call with its current effect on them if that has changed.
    pub(super) fn refreshed(&self) -> Option<Self> {
        let subject = subject::of(&self.tool, self.arguments.as_str(), self.folder.as_deref());
        (subject != self.subject).then(|| Self {
            subject,
            ..self.clone()
        })
    }

    /// Returns the same call with other arguments.
    pub(crate) fn with_arguments(&self, arguments: JsonText) -> Self {
        Self {
            subject: subject::of(&self.tool, arguments.as_str(), self.folder.as_deref()),
            arguments,
            origin: ArgumentSource::Edited,
            ..self.clone()
        }
    }
}

/// Formats a question for this many columns. Also returns how many lines were left out, cut, or scrolled off the
/// screen.
pub(crate) fn text(view: &ApprovalView, extent: Extent, columns: usize) -> (String, usize) {
    let below = match extent {
        Extent::Cut { .. } | Extent::All => Below::Rest,
        Extent::Exact => Below::Exact,
    };
    let all = Page::of(view, below, None, columns);
    match extent {
        Extent::Cut { rows } if all.rows() > rows => {
            let cut = Page::of(view, below, Some(all.room_within(rows)), columns);
            // However little is cut, something does not fit the screen.
            (cut.text, cut.hidden.max(1))
        }
        Extent::Cut { .. } | Extent::All | Extent::Exact => (all.text, 0),
    }
}

/// Returns what this machine does not protect against when running a command.
fn gaps(tool: &str) -> Option<String> {
    if tool != "run_command" {
        return None;
    }
    match sandbox_features() {
        Ok(features) => {
            let gaps: Vec<&str> = features.gaps().collect();
            (!gaps.is_empty()).then(|| gaps.join("; "))
        }
        // Without a sandbox the tool exists only if the user allowed commands to run unconfined.
        Err(NoSandbox::Missing(_)) => {
            Some("nothing confines it: it can do whatever you can".to_owned())
        }
        // The tool does not exist if it is unknown what confines it.
        Err(_) => None,
    }
}

/// Describes the calls that a remembered answer covers, for [`with_real_order`](crate::rows::with_real_order).
pub(crate) fn scope(scope: &GrantScope) -> String {
    let plain = |words: &str| one_line(&reveal_invisible(words));
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
            Some(folder) => format!("files below {}/", plain(folder)),
            None if pattern.contains(['*', '?', '[', '{']) => {
                format!("paths like {}", plain(pattern))
            }
            None => format!("the path {}", plain(pattern)),
        },
        GrantScope::Tool => "all calls of this tool".to_owned(),
        _ => "calls like this".to_owned(),
    }
}

/// Which arguments are shown below the lines about the call's subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Below {
    /// Those that the subject does not show.
    Rest,
    /// All arguments, exactly as they are.
    Exact,
}

/// The number of rows that quoted text may take.
#[derive(Debug, Clone, Copy)]
struct Room {
    subject: usize,
    arguments: usize,
}

/// A question being formatted.
#[derive(Debug)]
struct Page {
    text: String,
    hidden: usize,
    columns: usize,
    /// The number of rows of the subject.
    subject: usize,
    /// The number of rows of the arguments.
    arguments: usize,
}

impl Page {
    /// Formats a question, in full or as far as there is room.
    fn of(view: &ApprovalView, below: Below, room: Option<Room>, columns: usize) -> Self {
        let mut page = Self {
            text: String::new(),
            hidden: 0,
            columns,
            subject: 0,
            arguments: 0,
        };
        let tool = safe_words(&view.tool);
        page.push_own_line(ALERT, &format!("{TOP} {tool} asks for your approval"));
        let arguments = arguments(view, below);
        let subject = &view.subject.rows;
        page.subject = page.push_quoted(subject, room.map(|room| room.subject));
        if !subject.is_empty() && !arguments.is_empty() {
            page.push_in_margin(Style::new(), "");
        }
        page.arguments = page.push_quoted(&arguments, room.map(|room| room.arguments));
        if view.origin == ArgumentSource::Edited {
            let line = format!("{BRANCH} with arguments that you edited");
            page.push_own_line(Style::new(), &line);
        }
        page.push_own_line(BOLD, &format!("{BRANCH} {tool}{DOT}{}", nature(view)));
        if let Some(gaps) = gaps(&view.tool) {
            page.push_own_line(ALERT, &format!("{BRANCH} on this machine {gaps}"));
        }
        if let Some(ConflictingCall { tool, file }) = &view.conflict {
            let (tool, file) = (safe_words(tool), safe_words(file));
            let line = format!(
                "{BRANCH} when this was asked, {tool} could still change {file} before this call"
            );
            page.push_own_line(ALERT, &line);
        }
        if let Some(agent) = describe_lineage(&view.lineage) {
            page.push_own_line(Style::new(), &format!("{BRANCH} {agent}"));
        }
        if let Some(rule) = &view.rule {
            let rule = safe_words(rule);
            page.push_own_line(Style::new(), &format!("{BRANCH} rule: {rule}"));
        }
        let reason = safe_words(&view.reason);
        page.push_own_line(Style::new(), &format!("{BOTTOM} why: {reason}"));
        page
    }

    /// Returns the number of rows on the screen.
    fn rows(&self) -> usize {
        rows_of(&self.text)
    }

    /// Divides the rows that the program's own lines leave between the subject and the arguments. Each gets at least
    /// half, if it needs that.
    fn room_within(&self, rows: usize) -> Room {
        let quoted = self.subject + self.arguments;
        let rows = rows.saturating_sub(self.rows().saturating_sub(quoted));
        let half = (rows / 2).max(LEAST_ROWS);
        Room {
            subject: rows.saturating_sub(self.arguments).max(half),
            arguments: rows.saturating_sub(self.subject).max(half),
        }
    }

    /// Adds a line of the program. The last one closes the margin, so its continuation lines are outside the margin.
    fn push_own_line(&mut self, style: Style, line: &str) {
        let margin = match line.starts_with(BOTTOM.as_str()) {
            true => "    ".to_owned(),
            false => format!("{BAR}   "),
        };
        let line = broken(line, self.columns, &margin);
        self.text.push_str(&format!("{style}{line}{style:#}\n"));
    }

    /// Adds a line in the margin.
    fn push_in_margin(&mut self, style: Style, line: &str) {
        self.text.push_str(&in_margin(line, self.columns, style));
    }

    /// Adds quoted lines, as many as there is room for and at least the first. Returns the number of rows they take.
    fn push_quoted(&mut self, rows: &[Row], room: Option<usize>) -> usize {
        let mut taken = 0;
        for (shown, row) in rows.iter().enumerate() {
            let before = self.text.len();
            self.row(row, room);
            let took = rows_of(self.text.get(before..).unwrap_or_default());
            let more = rows.len().saturating_sub(shown);
            // Every line except the last must leave a row for the note that there is more.
            let needed = taken + took + usize::from(more > 1);
            if shown > 0 && room.is_some_and(|room| needed > room) {
                self.text.truncate(before);
                self.hidden += more;
                let lines = if more == 1 { "line" } else { "lines" };
                self.push_in_margin(
                    ALERT,
                    &format!("{ELLIPSIS} {more} more {lines}: v shows all of it"),
                );
                return taken + 1;
            }
            taken += took;
        }
        taken
    }

    /// Adds a quoted line, cut if room is limited.
    fn row(&mut self, row: &Row, room: Option<usize>) {
        let plain = reveal_invisible(&row.text);
        let line = self.cut(&plain, room);
        self.push_in_margin(row.mark.style(), &line);
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
                format!("{shown}{ELLIPSIS} ({rest} more characters: v shows all of it)")
            }
            _ => line.to_owned(),
        }
    }
}

/// Returns the arguments as lines below their title. Empty if the subject shows all of them.
fn arguments(view: &ApprovalView, below: Below) -> Vec<Row> {
    let Subject { rows, rest } = &view.subject;
    let (title, json) = match (below, rest) {
        (Below::Rest, Some(rest)) if !rows.is_empty() => ("and these arguments:", rest.as_str()),
        (Below::Rest, None) if !rows.is_empty() => return Vec::new(),
        (Below::Rest | Below::Exact, _) => ("exactly these arguments:", view.arguments.as_str()),
    };
    let plain = |line: &str| Row::new(Mark::Plain, line);
    under(title, laid_out(json).split('\n').map(plain))
}

/// Returns the number of rows of a text whose lines are already wrapped to the screen.
fn rows_of(text: &str) -> usize {
    text.matches('\n').count()
}

/// Makes quoted words safe for a line of the program: nothing in them is hidden or changes their order.
pub(crate) fn safe_words(words: &str) -> String {
    let plain = reveal_invisible(words);
    one_line(&in_order(&plain).unwrap_or(plain))
}

/// Describes what running the tool may do.
fn nature(view: &ApprovalView) -> String {
    let mut phrases = match view.class {
        None => vec!["what it changes is unknown"],
        Some(ToolClass::ReadOnly) => vec!["changes nothing"],
        Some(ToolClass::Idempotent) => vec!["changes something; safe to repeat"],
        Some(ToolClass::Irreversible) => vec!["irreversible"],
    };
    if view.annotations.destructive {
        phrases.push("may destroy something");
    }
    if view.reaches_out {
        phrases.push("reaches outside this machine");
    }
    phrases.join(DOT.as_str())
}

/// Returns the folder that a run works in, if it is recorded and is not this one.
pub(crate) fn folder_elsewhere(records: &[Arc<Record>], folder: &Path) -> Option<Arc<str>> {
    let started = records.first().and_then(|first| first.run_started())?;
    let named = started.spec.folder.clone();
    named.filter(|named| !is_folder_of(named, folder))
}

/// Returns whether a run's folder is the project folder here.
pub(crate) fn is_folder_of(named: &str, project: &Path) -> bool {
    let real = project.canonicalize();
    let real = real.as_deref().unwrap_or(project).to_string_lossy();
    *named == *real
}

/// Describes the sub-agent that asks, from its run's records. `None` if it is the agent the user talks to.
pub(crate) fn asking_agent(records: &[Arc<Record>], agent: AgentId) -> Option<String> {
    describe_lineage(&lineage(records, agent))
}

/// Describes the sub-agent that asks. `None` if it is the agent the user talks to.
fn describe_lineage(lineage: &[String]) -> Option<String> {
    let depth = lineage.len();
    let names: Vec<String> = lineage.iter().map(|name| safe_words(name)).collect();
    (depth > 0).then(|| {
        format!(
            "asked by a sub-agent at depth {depth}: {}",
            names.join(&format!(" {ARROW} "))
        )
    })
}

/// Returns the tools that started an agent and the agents above it, the topmost first.
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
