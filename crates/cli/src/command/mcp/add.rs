//! `neuraxis mcp add`: writes the section of a server to the user's file.

use std::path::{Path, PathBuf, absolute};

use anyhow::anyhow;
use clap::Args;
use neuraxis::brainstem::Permission;
use neuraxis_app::{Config, McpFault, McpServerSection, Origin};
use toml_edit::{Array, InlineTable, Table, value};

use super::edit::Edited;
use crate::error::CommandError;
use crate::invocation;
use crate::output::Output;
use crate::progress;
use crate::setup::Setup;

const EXAMPLES: &str = "\
Examples:
  neuraxis mcp add everything -- npx -y @modelcontextprotocol/server-everything
  neuraxis mcp add github --pass-env GITHUB_TOKEN --tool search_issues -- github-mcp-server stdio
  neuraxis mcp add shop --url https://shop.example/mcp --token-env SHOP_TOKEN
  neuraxis mcp add shop --url https://shop.example/mcp --header-env x-api-key=SHOP_KEY";

/// Add a server to your own configuration
///
/// The section [mcp.servers.NAME] goes into your own neuraxis.toml, or into the file given by --config; everything else
/// in that file stays unchanged. The program only gets the variables named here, PATH, HOME and a few like them.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Add {
    /// The prefix of its tools: 1 to 32 of A-Z a-z 0-9 _ -
    name: String,

    /// The program and its arguments, after two hyphens
    #[arg(
        last = true,
        value_name = "COMMAND",
        required_unless_present = "url",
        conflicts_with = "url"
    )]
    command: Vec<String>,

    /// The address of a service, instead of a program
    #[arg(long)]
    url: Option<String>,

    /// A variable for the program
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, conflicts_with = "url")]
    env: Vec<(String, String)>,

    /// A variable for the program, with its value from the environment: use this for secrets
    #[arg(long, value_name = "NAME", conflicts_with = "url")]
    pass_env: Vec<String>,

    /// The variable that contains the service's token
    #[arg(long, value_name = "NAME", requires = "url")]
    token_env: Option<String>,

    /// The file that contains the service's token, readable only by you
    #[arg(
        long,
        value_name = "FILE",
        requires = "url",
        conflicts_with = "token_env"
    )]
    token_file: Option<PathBuf>,

    /// A header for the service
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, requires = "url")]
    header: Vec<(String, String)>,

    /// A header whose value is in a variable: use this for secrets
    #[arg(long, value_name = "NAME=VARIABLE", value_parser = pair, requires = "url")]
    header_env: Vec<(String, String)>,

    /// A tool to offer; default: all of its tools
    #[arg(long = "tool", value_name = "TOOL")]
    tools: Vec<String>,
}

/// Returns another file that already defines a server of this name.
fn other_definition(config: &Config, name: &str) -> Option<Origin> {
    let section = config.mcp().servers.get(name);
    // Without either, the section only turns the server off.
    let is_there = section.is_some_and(|it| it.command.is_some() || it.url.is_some());
    let at = config.mcp_origin(name);
    (is_there && matches!(at, Origin::File { .. })).then_some(at)
}

/// Returns the settings for tools of a server with this name that let them do more, such as those of a removed server.
fn permissive_settings(config: &Config, name: &str) -> Vec<String> {
    let (policy, prefix) = (config.policy().config(), format!("{name}__"));
    let is_about = |tools: Option<&Vec<String>>| {
        let mut tools = tools.into_iter().flatten();
        tools.any(|pattern| pattern.starts_with(&prefix))
    };
    let trust = policy
        .trust
        .iter()
        .filter(|(_, it)| is_about(it.tools.as_ref()));
    let trust = trust.map(|(name, _)| format!("trust.{name}"));
    let rules = policy.rules.iter();
    let rules =
        rules.filter(|(_, it)| it.answer == Some(Permission::Allow) && is_about(it.tools.as_ref()));
    let rules = rules.map(|(name, _)| format!("rules.{name}"));
    let named = |key: String| match config.origin(&key) {
        Origin::Default => format!("[{key}]"),
        at => format!("[{key}] at {at}"),
    };
    trust.chain(rules).map(named).collect()
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

impl Add {
    pub(crate) fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let environment = setup.environment()?;
        let token_file = self.token_file(environment.working_dir())?;
        // Checks what can be checked before anything is written. A variable may be set later.
        if let Err(fault @ McpFault::Config(_)) = self.section().resolved(&self.name, &environment)
        {
            return Err(CommandError::usage(fault));
        }
        let mut file = Edited::open(setup, &environment)?;
        let path = file.path().display().to_string();
        if !file
            .add(&self.name, self.table(token_file.as_deref()))
            .map_err(CommandError::configuration)?
        {
            let error = anyhow!("{path} already has a server named {}", self.name);
            let hint = format!("remove it first with `neuraxis mcp remove {}`", self.name);
            return Err(CommandError::usage(error).hint(hint));
        }
        // Errors in it are reported by the commands that use it.
        let config = setup.config_without_tool_check(&environment).ok();
        if let Some(at) = config
            .as_ref()
            .and_then(|it| other_definition(it, &self.name))
        {
            let error = anyhow!("a server named {} already exists in {at}", self.name);
            let hint =
                "choose another name: in that folder the two would be merged into one server";
            return Err(CommandError::usage(error).hint(hint));
        }
        file.save().map_err(CommandError::failed)?;
        Output::new().line(&format!("added {} to {path}", self.name))?;
        for entry in config
            .iter()
            .flat_map(|it| permissive_settings(it, &self.name))
        {
            progress::notice(&format!("{entry} now applies to its tools"));
        }
        let test = format!("try it with `neuraxis mcp test {}`", self.name);
        progress::notice(&invocation::again(&test));
        Ok(())
    }

    /// Returns the token file by a path that does not depend on where the section is written.
    fn token_file(&self, working_dir: &Path) -> Result<Option<String>, CommandError> {
        let Some(file) = &self.token_file else {
            return Ok(None);
        };
        let file = absolute(working_dir.join(file)).map_err(CommandError::failed)?;
        if !file.is_file() {
            let error = anyhow!("--token-file: file {} does not exist", file.display());
            return Err(CommandError::usage(error));
        }
        let name = file.to_str().map(str::to_owned);
        let error = || anyhow!("--token-file: {} is not Unicode", file.display());
        Ok(Some(name.ok_or_else(|| CommandError::usage(error()))?))
    }

    fn section(&self) -> McpServerSection {
        let mut section = McpServerSection::default();
        let mut command = self.command.iter().cloned();
        section.command = command.next();
        section.args = command.collect();
        section.url.clone_from(&self.url);
        section.headers = self.header.iter().cloned().collect();
        section
    }

    fn table(&self, token_file: Option<&str>) -> Table {
        let mut table = Table::new();
        let list = |items: &[String]| value(items.iter().collect::<Array>());
        let pairs = |pairs: &[(String, String)]| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()));
            value(pairs.collect::<InlineTable>())
        };
        if let Some((command, args)) = self.command.split_first() {
            table.insert("command", value(command));
            if !args.is_empty() {
                table.insert("args", list(args));
            }
        }
        if let Some(url) = &self.url {
            table.insert("url", value(url));
        }
        if let Some(name) = &self.token_env {
            table.insert("token_env", value(name));
        }
        if let Some(file) = token_file {
            table.insert("token_file", value(file));
        }
        for (key, items) in [
            ("env", &self.env),
            ("headers", &self.header),
            ("headers_env", &self.header_env),
        ] {
            if !items.is_empty() {
                table.insert(key, pairs(items));
            }
        }
        for (key, items) in [("pass_env", &self.pass_env), ("tools", &self.tools)] {
            if !items.is_empty() {
                table.insert(key, list(items));
            }
        }
        table
    }
}
