//! Checks whether cases can be run as written, before anything runs.

use std::error::Error;
use std::fmt;
use std::fs::File;

use neuraxis_core::with_causes;
use neuraxis_engine::{Orchestrator, UserRequest};

use super::Evals;
use super::attempt::new_session;
use crate::case::{Case, Source};
use crate::check::Check;

/// Names the setting that says which roles may judge.
const JUDGED: &str =
    "judges run in mode conservative: `roles` in [modes.conservative] lists which may serve";

/// Why a case cannot be run as written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaseFault {
    /// The case's name.
    pub case: String,
    /// The line on which the case begins, from 1, if it comes from a file.
    pub line: Option<usize>,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for CaseFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "case {:?}: {}", self.case, self.why)
    }
}

impl Error for CaseFault {}

impl Evals {
    /// Checks whether cases can be run as written: whether the policy knows and allows the names in them, whether the
    /// tools that they forbid or approve exist, and whether their files of records can be read. Runs nothing.
    /// `knows_tool` returns whether a tool has this name.
    ///
    /// # Errors
    ///
    /// A [`CaseFault`] about the first case that cannot be run.
    pub fn check(
        &self,
        cases: &[Case],
        knows_tool: impl Fn(&str) -> bool,
    ) -> Result<(), CaseFault> {
        for case in cases {
            let found = self.check_case(case, &knows_tool);
            found.map_err(|why| CaseFault {
                case: case.name.clone(),
                line: case.line,
                why,
            })?;
        }
        Ok(())
    }

    fn check_case(&self, case: &Case, knows_tool: &impl Fn(&str) -> bool) -> Result<(), String> {
        let starter = match &case.source {
            Source::Models => Some(self.orchestrator(None)?),
            Source::Cassette(file) => Some(self.orchestrator(Some(file))?),
            Source::Run(_) => None,
            Source::Log(file) => {
                let opened = File::open(file);
                opened.map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
                None
            }
        };
        // Which tools existed when a stored run was made is unknown.
        if let Some(orchestrator) = starter {
            let request = case.request(new_session()?);
            check_admitted(orchestrator, &request)?;
            // A typo in a forbidden tool would never be noticed, and one in an approved tool would be reported as a
            // denied call.
            let forbidden = case.checks.iter().filter_map(Check::forbidden_tool);
            let approved = case.approve.iter().map(|calls| calls.tool.as_str());
            let mut named = forbidden.chain(approved.map(|tool| ("approve", tool)));
            if let Some((key, tool)) = named.find(|(_, tool)| *tool != "*" && !knows_tool(tool)) {
                return Err(format!("{key} {tool:?}: there is no such tool"));
            }
        }
        if case.needs_a_judge() {
            let request = self
                .judge
                .base_request(new_session()?, case.message.clone());
            let found = check_admitted(self.orchestrator(None)?, &request);
            found.map_err(|why| match &self.judge.role {
                Some(_) => format!("the judge: {why} ({JUDGED})"),
                None => format!("the judge: {why}"),
            })?;
        }
        Ok(())
    }
}

/// Checks whether policy admits a request.
fn check_admitted(orchestrator: &Orchestrator, request: &UserRequest) -> Result<(), String> {
    let decision = orchestrator.decide(request);
    decision.map(drop).map_err(|error| with_causes(&error))
}
