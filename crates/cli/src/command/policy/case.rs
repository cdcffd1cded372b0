//! `neuraxis policy test`: runs examples and cases offline.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use clap::Args;
use neuraxis::brainstem::CaseFile;
use neuraxis::core::{JsonText, ToolName};
use neuraxis::engine::ToolCallError;

use crate::error::CommandError;
use crate::output::Output;
use crate::progress;
use crate::setup::{Setup, close};

const EXAMPLES: &str = "\
Examples:
  neuraxis policy test policy-cases.toml
  neuraxis policy test --config team-policy.toml policy-cases.toml

A case in the file:
  [[case]]
  name = \"pushing needs approval\"
  mode = \"exploratory\"
  channel = \"code_task\"
  tool = \"run_command\"
  arguments = { command = \"git status && git push\" }
  expect = \"ask\"";

/// Run the examples in the rules of a file, and its cases, against the policy
///
/// The file may contain sections of a policy, which are applied on top of the effective one, and cases in [[case]]. The
/// examples of the built-in rules are run, too. No model is called and no tool runs. A case about a tool that does not
/// exist fails, unless the tool belongs to an MCP server (SERVER__TOOL), and so does a case with arguments that do not
/// fit the tool's schema. The exit code is 1 if an example or a case does not have the expected result.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Test {
    /// The file
    file: PathBuf,
}

impl Test {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let file = self.file.display().to_string();
        let text = fs::read_to_string(&self.file).with_context(|| format!("cannot read {file}"));
        let text = text.map_err(|error| CommandError::usage(error).hint("check the path"))?;
        let wrong =
            |error| CommandError::configuration(anyhow::Error::new(error).context(file.clone()));
        let cases = CaseFile::from_toml(&file, &text).map_err(wrong)?;
        if cases.is_empty() {
            progress::notice(&format!(
                "{file} contains no cases and no rules: only the examples of the current policy are run (`neuraxis \
                 help policy` shows a case)"
            ));
        }
        let loaded = setup.load()?;
        let app = loaded.app_without_sessions().await?;
        let known = app.orchestrator.tools();
        close(&app).await;
        let tools: Vec<_> = known.specs().cloned().collect();
        let base = loaded.config.policy().config();
        let fits =
            |tool: &ToolName, arguments: &JsonText| match known.check(tool.as_str(), arguments) {
                Err(error @ ToolCallError::InvalidArguments(_)) => Err(error.to_string()),
                // The tools of a server that is not connected are unknown here.
                _ => Ok(()),
            };
        let report = cases.run_fitting(base, Some(&tools), &fits);
        let report = report.map_err(wrong)?;
        let mut shown = String::new();
        for failure in &report.failures {
            shown.push_str(&format!("FAILED {}: {}\n", failure.case, failure.message));
        }
        let (passed, failed) = (report.passed, report.failures.len());
        shown.push_str(&format!("{passed} passed, {failed} failed\n"));
        Output::new().text(&shown)?;
        if failed == 0 {
            return Ok(());
        }
        Err(CommandError::failed(anyhow!(
            "the policy does not decide as {file} expects"
        )))
    }
}
