//! The rule under which calls like one run without a question, as text for a configuration file.
//!
//! A person who is asked again and again reads here what to write down, or has it kept. It lifts no more than any rule that
//! allows: no denial, no rule that asks, and nothing that untrusted content makes ask.

use crate::remembered::path_pattern;
use crate::request::Call;
use crate::rules::{Facts, rememberable};

/// Returns the rule that allows calls like this one, as a table of TOML: commands that begin alike, addresses at one host, files
/// beneath one folder. `None` where what the call does can be said by no such pattern.
#[must_use]
pub fn rule_allowing(call: &Call<'_>) -> Option<String> {
    let facts = Facts::new(call.arguments, call.root);
    let (name, condition) = condition(&facts)?;
    let tool = call.tool.name.as_str();
    let name: String = name
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '-'
            }
        })
        .collect();
    let name = name.trim_matches('-').to_lowercase();
    Some(format!(
        "[rules.allow-{name}]\nanswer = \"allow\"\ntools = [\"{tool}\"]\n{condition}\n"
    ))
}

/// Returns a name for what a call is about, and the condition that describes it.
fn condition(facts: &Facts<'_>) -> Option<(String, String)> {
    let hosts = facts.hosts(None);
    if let Some(parts) = facts.parts() {
        let [only] = parts else {
            return None;
        };
        let asked = facts.access();
        let pattern = rememberable(only).filter(|_| !asked.is_unclear && facts.runs_at_root())?;
        let access: Vec<String> = asked
            .items
            .iter()
            .map(|access| format!("\"{access}\""))
            .collect();
        let access = match access.is_empty() {
            true => String::new(),
            false => format!("\naccess = [{}]", access.join(", ")),
        };
        let condition = format!("commands = [{}]{access}", quoted(&pattern)?);
        return Some((pattern.replace(" **", ""), condition));
    }
    match (hosts.items.as_slice(), hosts.is_unclear) {
        ([host], false) => {
            let condition = format!("hosts = [{}]", quoted(host)?);
            return Some((host.clone(), condition));
        }
        ([], false) => {}
        _ => return None,
    }
    let pattern = path_pattern(facts)?;
    let condition = format!("paths = [{}]", quoted(&pattern)?);
    Some((pattern, condition))
}

/// Writes a text as a string of TOML; nothing of what would have to be escaped.
fn quoted(text: &str) -> Option<String> {
    let is_plain = |letter: char| !letter.is_control() && !matches!(letter, '"' | '\\');
    text.chars().all(is_plain).then(|| format!("\"{text}\""))
}
