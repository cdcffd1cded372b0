//! Cases: expected decisions of a policy, written next to it and run offline, for example in a deployment's CI.

use neuraxis_core::{
    AgentName, Channel, ContentIndex, Decision, JsonText, Mode, PlanName, Role, SERVER_SEPARATOR,
    Taint, ToolClass, ToolName, ToolSpec, Verdict,
};
use serde::{Deserialize, Serialize};

use crate::config::{Layered, Origins, Permission, PolicyConfig};
use crate::error::PolicyError;
use crate::names;
use crate::policy::Policy;
use crate::request::{Call, Request};

/// Checks whether arguments fit the schema of a tool; the error says why not.
type SchemaCheck<'a> = &'a dyn Fn(&ToolName, &JsonText) -> Result<(), String>;

/// A file with cases in `[[case]]`, and possibly the sections of the policy that they test.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseFile {
    /// The policy sections in the file.
    pub policy: PolicyConfig,
    cases: Vec<Case>,
}

/// An expected decision of a policy.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Case {
    /// The name of the case. Defaults to its number.
    name: Option<String>,
    mode: Option<Mode>,
    channel: Option<Channel>,
    /// The requested agent.
    agent: Option<AgentName>,
    plan: Option<PlanName>,
    message: Option<String>,
    tool: Option<ToolName>,
    class: Option<ToolClass>,
    destructive: bool,
    open_world: bool,
    arguments: Option<toml::Table>,
    /// Whether the conversation holds untrusted content.
    untrusted: bool,
    /// The owner of the session.
    owner: Option<String>,
    /// The expected answer to the call.
    expect: Option<Permission>,
    /// The rule that is expected to decide.
    rule: Option<String>,
    /// The role that is expected to serve.
    role: Option<Role>,
    /// A part of the expected reason for refusing the request.
    refused: Option<String>,
}

#[derive(Deserialize)]
struct Cases {
    #[serde(default)]
    case: Vec<Case>,
}

/// The results of running cases.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct CaseReport {
    /// The number of examples and cases that passed.
    pub passed: usize,
    /// The failures, in the order of the file.
    pub failures: Vec<CaseFailure>,
}

/// A case with an unexpected result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaseFailure {
    /// Its name, with the line where it is written.
    pub case: String,
    /// The expected and actual results, as a message for users.
    pub message: String,
}

impl CaseFile {
    /// The sections of a configuration that are not part of a policy, so that a whole `neuraxis.toml` can be tested.
    const OTHERS: [&str; 12] = [
        "case",
        "models",
        "discovery",
        "store",
        "tools",
        "mcp",
        "telemetry",
        "server",
        "driver",
        "web",
        "price_list",
        "prompts",
    ];

    /// Reads a file; `source` is its name in messages.
    ///
    /// # Errors
    ///
    /// [`PolicyError::Syntax`] with line and column.
    pub fn from_toml(source: &str, text: &str) -> Result<Self, PolicyError> {
        let syntax = |error: &toml::de::Error| PolicyError::syntax(text, error);
        let mut table: toml::Table = toml::from_str(text).map_err(|error| syntax(&error))?;
        if table.contains_key("cases") {
            let at = text.lines().position(|line| line.contains("cases"));
            return Err(PolicyError::Syntax {
                line: at.unwrap_or_default() + 1,
                column: 1,
                message: "unknown field `cases`: each case is a section [[case]]".to_owned(),
            });
        }
        let cases: Cases = toml::from_str(text).map_err(|error| syntax(&error))?;
        for other in Self::OTHERS {
            table.remove(other);
        }
        let has_others =
            toml::from_str::<toml::Table>(text).is_ok_and(|whole| whole.len() > table.len());
        // Read from the text if possible, so that an error has its location.
        let mut policy: PolicyConfig = if has_others {
            table
                .try_into()
                .map_err(|error: toml::de::Error| PolicyError::Syntax {
                    line: 1,
                    column: 1,
                    message: error.to_string().trim().to_owned(),
                })?
        } else {
            toml::from_str(text).map_err(|error| syntax(&error))?
        };
        policy.origins = Origins::of_text(source, text);
        Ok(Self {
            policy,
            cases: cases.case,
        })
    }

    /// Returns whether the file has neither a case nor a section of a policy, so that running it would check only the
    /// base.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cases.is_empty() && self.policy == PolicyConfig::default()
    }

    /// Runs the examples in rules, and the cases, against the policy of the file, laid over `base`. Use
    /// [`PolicyConfig::built_in`] to test what [`Policy::layered`] builds from the same file; an empty base has no
    /// modes and channels.
    ///
    /// `tools` are the available tools, if known. A case then uses the real tool, except for what the case itself sets,
    /// and a case about a tool that does not exist fails. Names of the form `SERVER__TOOL` belong to third-party
    /// servers, which need not be connected, and are never unknown.
    ///
    /// # Errors
    ///
    /// A [`PolicyError`] if the file's sections are not a valid policy for a reason other than an example.
    pub fn run(
        &self,
        base: &PolicyConfig,
        tools: Option<&[ToolSpec]>,
    ) -> Result<CaseReport, PolicyError> {
        self.run_fitting(base, tools, &|_, _| Ok(()))
    }

    /// Like [`run`](Self::run), but a case whose arguments do not fit the schema of its tool fails, since such a call
    /// is refused before it is judged. `fits` checks the arguments; its error says why they do not fit.
    ///
    /// # Errors
    ///
    /// Same as [`run`](Self::run).
    pub fn run_fitting(
        &self,
        base: &PolicyConfig,
        tools: Option<&[ToolSpec]>,
        fits: SchemaCheck<'_>,
    ) -> Result<CaseReport, PolicyError> {
        let mut report = CaseReport::default();
        let mut config = self.policy.clone().over(base.clone());
        let policy = loop {
            match Policy::new(config.clone()) {
                Ok(policy) => break policy,
                Err(error @ PolicyError::Example { .. }) => {
                    report.failures.push(CaseFailure {
                        case: place(&config, &error),
                        message: error.to_string(),
                    });
                    // The other examples are run without it.
                    remove_example(&mut config, &error);
                }
                Err(error) => return Err(error),
            }
        };
        self.policy.unreachable_mode(base).map_or(Ok(()), Err)?;
        let examples = |rule: &crate::config::RuleConfig| {
            rule.r#match.as_ref().map_or(0, Vec::len) + rule.not_match.as_ref().map_or(0, Vec::len)
        };
        report.passed = config.rules.values().map(examples).sum();
        for (index, case) in self.cases.iter().enumerate() {
            match case.run(&policy, tools, fits) {
                Ok(()) => report.passed += 1,
                Err(message) => report.failures.push(CaseFailure {
                    case: case
                        .name
                        .clone()
                        .unwrap_or_else(|| format!("case {}", index + 1)),
                    message,
                }),
            }
        }
        Ok(report)
    }
}

/// Builds the message that no such tool exists, with the tool that was most likely meant.
fn unknown(name: &ToolName, tools: &[ToolSpec]) -> String {
    let known: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let nearest = names::nearest(name.as_str(), known.iter().copied());
    format!(
        "unknown tool \"{name}\"{}",
        names::choices(nearest.as_ref(), &known)
    )
}

fn place(config: &PolicyConfig, error: &PolicyError) -> String {
    let place = config.origins.of(error.key());
    place.map_or_else(
        || error.key().to_owned(),
        |place| format!("{}:{}", place.source, place.line),
    )
}

/// Removes the example that an error is about. Its key is `rules.NAME.LIST[INDEX]`, and names contain no period.
fn remove_example(config: &mut PolicyConfig, error: &PolicyError) {
    let mut names = error.key().split(['.', '[', ']']);
    let (rule, list, index) = (names.nth(1), names.next(), names.next());
    let Some(rule) = rule.and_then(|rule| config.rules.get_mut(rule)) else {
        return;
    };
    let examples = if list == Some("match") {
        &mut rule.r#match
    } else {
        &mut rule.not_match
    };
    let index = index.and_then(|index| index.parse::<usize>().ok());
    if let (Some(examples), Some(index)) = (examples, index)
        && index < examples.len()
    {
        examples.remove(index);
    }
}

impl Case {
    fn run(
        &self,
        policy: &Policy,
        there_are: Option<&[ToolSpec]>,
        fits: SchemaCheck<'_>,
    ) -> Result<(), String> {
        let mode = self.mode.clone().unwrap_or(Mode::MODERATE);
        let channel = self.channel.clone().unwrap_or(Channel::CHAT);
        let tools = self.tool.iter().map(|name| self.spec(name, there_are));
        let tools: Vec<ToolSpec> = tools.collect::<Result<_, _>>()?;
        let mut taint = Taint::default();
        if self.untrusted {
            let source = "web_fetch"
                .parse()
                .map_err(|_| "invalid tool name".to_owned())?;
            taint.add(&source, Some(ContentIndex(0)));
        }
        let message = self.message.as_deref().unwrap_or("Hello");
        let mut request = Request::new(&mode, &channel, message)
            .with_tools(&tools)
            .with_taint(&taint);
        if let Some(agent) = &self.agent {
            request = request.with_agent(agent);
        }
        if let Some(plan) = &self.plan {
            request = request.with_plan(plan);
        }
        match (policy.evaluate_request(&request), &self.refused) {
            (Err(error), Some(part)) if error.to_string().contains(part) => Ok(()),
            (Err(error), _) => Err(format!("the request is refused: {error}")),
            (Ok(_), Some(_)) => Err("the request is not refused".to_owned()),
            (Ok(decision), None) => self.compare(policy, &decision, &tools, fits),
        }
    }

    fn compare(
        &self,
        policy: &Policy,
        decision: &Decision,
        tools: &[ToolSpec],
        fits: SchemaCheck<'_>,
    ) -> Result<(), String> {
        if let Some(role) = self.role.as_ref().filter(|role| **role != decision.role) {
            return Err(format!(
                "expected role {role}, but {} serves",
                decision.role
            ));
        }
        let (Some(expected), Some(tool)) = (self.expect, tools.first()) else {
            return if self.role.is_some() {
                Ok(())
            } else {
                Err("the case expects nothing".to_owned())
            };
        };
        let table = self.arguments.clone().unwrap_or_default();
        let arguments = JsonText::encode(&table).map_err(|error| error.to_string())?;
        if self.arguments.is_some() {
            let refused = |why| format!("the call is refused before it is judged: {why}");
            fits(&tool.name, &arguments).map_err(refused)?;
        }
        let call = Call::new(tool, &arguments).with_root("/project");
        let judgment = policy.explain(decision, &call.with_owner(self.owner.as_deref()));
        let answer = match judgment.verdict {
            Verdict::Allow => Permission::Allow,
            Verdict::Ask { .. } => Permission::Ask,
            Verdict::Deny { .. } => Permission::Deny,
        };
        let why = judgment.reasons.first().cloned().unwrap_or_default();
        if answer != expected {
            return Err(format!(
                "expected {}, got {}: {why}",
                expected.name(),
                answer.name()
            ));
        }
        let by = judgment.rule.as_ref().map(|rule| rule.name.as_ref());
        match &self.rule {
            Some(rule) if by != Some(rule.as_str()) => {
                Err(format!("expected rule {rule} to decide: {why}"))
            }
            _ => Ok(()),
        }
    }

    fn spec(&self, name: &ToolName, there_are: Option<&[ToolSpec]>) -> Result<ToolSpec, String> {
        let mut tools = there_are.into_iter().flatten();
        let mut spec = match tools.find(|tool| tool.name == *name) {
            Some(tool) => tool.clone(),
            None if there_are.is_none() || name.as_str().contains(SERVER_SEPARATOR) => {
                Self::any_tool(name)
            }
            None => return Err(unknown(name, there_are.unwrap_or_default())),
        };
        spec.class = self.class.unwrap_or(spec.class);
        spec.annotations.destructive |= self.destructive;
        spec.annotations.open_world |= self.open_world;
        Ok(spec)
    }

    /// Returns a tool of which only the name is known.
    fn any_tool(name: &ToolName) -> ToolSpec {
        ToolSpec::new(name.clone(), "").parameters(JsonText::from_text("{}"))
    }
}
