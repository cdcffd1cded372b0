//! A case as written in a file.

use std::path::{Path, PathBuf};

use neuraxis_core::{AgentName, Channel, Mode, PlanName, Role};
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::FileFault;
use crate::case::{Case, HistoryMessage, Source};
use crate::check::{CheckTable, json_of, toml_of};
use crate::matching::CallPattern;

/// The keys of a case. `[defaults]` supplies those that are not set.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CaseTable {
    name: Option<String>,
    message: Option<String>,
    channel: Option<Channel>,
    mode: Option<Mode>,
    agent: Option<AgentName>,
    role: Option<Role>,
    plan: Option<PlanName>,
    cassette: Option<PathBuf>,
    run: Option<String>,
    log: Option<PathBuf>,
    repeat: Option<u32>,
    pass_rate: Option<f64>,
    // TOML requires tables to come after all other values.
    #[serde(skip_serializing_if = "Option::is_none")]
    approve: Option<Vec<toml::Value>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    history: Vec<HistoryMessage>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    check: Vec<Spanned<CheckTable>>,
}

/// What is wrong with a case, and on which line if that is known more precisely than the line of the case.
#[derive(Debug)]
pub(super) struct Fault {
    message: String,
    line: Option<usize>,
}

impl Fault {
    pub(super) const fn new(message: String) -> Self {
        Self {
            message,
            line: None,
        }
    }

    /// Returns the fault for this line.
    pub(super) fn at(self, line: usize) -> FileFault {
        FileFault::Line {
            line,
            message: self.message,
        }
    }

    /// Returns the fault for this line, unless a more precise line is known.
    pub(super) fn or_at(self, line: usize) -> FileFault {
        let line = self.line.unwrap_or(line);
        self.at(line)
    }
}

impl CaseTable {
    /// Refuses defaults for keys that no two cases can share.
    pub(super) fn refuse_as_defaults(&self) -> Result<(), Fault> {
        let own = [
            ("name", self.name.is_some()),
            ("run", self.run.is_some()),
            ("log", self.log.is_some()),
            ("cassette", self.cassette.is_some()),
            ("message", self.message.is_some()),
            ("history", !self.history.is_empty()),
        ];
        match own.into_iter().find(|(_, is_there)| *is_there) {
            Some((key, _)) => Err(Fault::new(format!(
                "`{key}` belongs to a single case: it cannot be set in [defaults]"
            ))),
            None => Ok(()),
        }
    }

    /// Builds the case.
    pub(super) fn case(
        self,
        defaults: &Self,
        folder: Option<&Path>,
        line: impl Fn(std::ops::Range<usize>) -> usize,
    ) -> Result<Case, Fault> {
        let name = self.name.clone().unwrap_or_default();
        if name.trim().is_empty() {
            return Err(Fault::new("the case has no `name`".to_owned()));
        }
        let source = self.source(&name, folder)?;
        let message = self.message.unwrap_or_default();
        if source.begins_a_run() && message.trim().is_empty() {
            return Err(Fault::new(format!(
                "case {name:?} has no `message`; a case about an existing run has `run` or `log` instead"
            )));
        }
        let approve = self.approve.as_ref().or(defaults.approve.as_ref());
        let approve = approve.into_iter().flatten().map(approved);
        let approve = approve.collect::<Result<_, _>>()?;
        let pass_rate = self.pass_rate.or(defaults.pass_rate).unwrap_or(1.0);
        let is_share = pass_rate > 0.0 && pass_rate <= 1.0;
        if !is_share {
            return Err(Fault::new(format!(
                "case {name:?}: `pass_rate` is {pass_rate}; it must be above 0 and at most 1"
            )));
        }
        let repeat = self.repeat.or(defaults.repeat).unwrap_or(1);
        if repeat == 0 {
            return Err(Fault::new(format!(
                "case {name:?}: `repeat` must be at least 1"
            )));
        }
        // The checks that apply to all cases come first.
        let tables = defaults.check.iter().cloned().chain(self.check);
        let checks = tables.map(|table| {
            let line = line(table.span());
            table.into_inner().check(folder).map_err(|fault| Fault {
                message: fault.to_string(),
                line: Some(line),
            })
        });
        let checks: Vec<_> = checks.collect::<Result<_, _>>()?;
        if checks.is_empty() {
            return Err(Fault::new(format!(
                "case {name:?} checks nothing: add check = [{{ contains = \"…\" }}]"
            )));
        }
        Ok(Case {
            message,
            history: self.history,
            channel: self
                .channel
                .or_else(|| defaults.channel.clone())
                .unwrap_or(Channel::CHAT),
            mode: self
                .mode
                .or_else(|| defaults.mode.clone())
                .unwrap_or(Mode::MODERATE),
            agent: self.agent.or_else(|| defaults.agent.clone()),
            role: self.role.or_else(|| defaults.role.clone()),
            plan: self.plan.or_else(|| defaults.plan.clone()),
            source,
            approve,
            checks,
            repeat,
            pass_rate,
            line: None,
            name,
        })
    }

    fn source(&self, name: &str, folder: Option<&Path>) -> Result<Source, Fault> {
        let beside =
            |file: &PathBuf| folder.map_or_else(|| file.clone(), |folder| folder.join(file));
        match (&self.cassette, &self.run, &self.log) {
            (None, None, None) => Ok(Source::Models),
            (Some(file), None, None) => Ok(Source::Cassette(beside(file))),
            (None, Some(run), None) => Ok(Source::Run(run.clone())),
            (None, None, Some(file)) => Ok(Source::Log(beside(file))),
            _ => Err(Fault::new(format!(
                "case {name:?} has more than one of `cassette`, `run` and `log`: keep one"
            ))),
        }
    }

    /// Returns a case in its written form, or `None` if it holds something that TOML cannot express.
    pub(crate) fn of(case: &Case) -> Option<Self> {
        let default = Case::new("", "");
        // If a key were left out, the [defaults] of the file the case is added to would apply.
        let begins_a_run = case.begins_a_run();
        let (mut cassette, mut run, mut log) = (None, None, None);
        match &case.source {
            Source::Models => {}
            Source::Cassette(file) => cassette = Some(file.clone()),
            Source::Run(id) => run = Some(id.clone()),
            Source::Log(file) => log = Some(file.clone()),
        }
        let approve: Vec<_> = case.approve.iter().map(written).collect::<Option<_>>()?;
        let checks = case.checks.iter().map(|check| {
            let table = CheckTable::of(check)?;
            Some(Spanned::new(0..0, table))
        });
        Some(Self {
            name: Some(case.name.clone()),
            message: Some(case.message.clone()).filter(|text| !text.is_empty()),
            channel: Some(case.channel.clone())
                .filter(|channel| begins_a_run || *channel != default.channel),
            mode: Some(case.mode.clone()).filter(|mode| begins_a_run || *mode != default.mode),
            agent: case.agent.clone(),
            role: case.role.clone(),
            plan: case.plan.clone(),
            cassette,
            run,
            log,
            repeat: Some(case.repeat).filter(|repeat| *repeat != 1),
            pass_rate: Some(case.pass_rate).filter(|rate| *rate < 1.0),
            approve: Some(approve).filter(|calls| !calls.is_empty()),
            history: case.history.clone(),
            check: checks.collect::<Option<_>>()?,
        })
    }
}

/// Reads which calls are approved: a tool's name, or a table with the name and arguments.
fn approved(value: &toml::Value) -> Result<CallPattern, Fault> {
    let wrong = || {
        Fault::new(format!(
            "`approve` accepts names of tools, and tables such as {{ tool = \"write_file\", arguments = {{ path = \"notes.txt\" }} }}, not {value}"
        ))
    };
    match value {
        toml::Value::String(tool) => Ok(CallPattern::of(tool)),
        toml::Value::Table(table) => {
            let known = table.keys().all(|key| key == "tool" || key == "arguments");
            let tool = table.get("tool").and_then(toml::Value::as_str);
            let (true, Some(tool)) = (known, tool) else {
                return Err(wrong());
            };
            let arguments = table.get("arguments").cloned();
            let arguments = arguments
                .map(|value| json_of(value, "arguments"))
                .transpose();
            Ok(CallPattern {
                tool: tool.to_owned(),
                arguments: arguments.map_err(|fault| Fault::new(fault.to_string()))?,
            })
        }
        _ => Err(wrong()),
    }
}

fn written(pattern: &CallPattern) -> Option<toml::Value> {
    let Some(arguments) = &pattern.arguments else {
        return Some(toml::Value::String(pattern.tool.clone()));
    };
    let mut table = toml::Table::new();
    table.insert("tool".to_owned(), pattern.tool.clone().into());
    table.insert("arguments".to_owned(), toml_of(arguments)?);
    Some(table.into())
}
