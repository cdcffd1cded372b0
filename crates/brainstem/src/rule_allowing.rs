//! The rule that would let similar calls run without asking, as text for a configuration file.
//!
//! A user who is asked repeatedly can copy it from here, or have it stored. It overrides no more than any rule that
//! allows: no denial, no rule that asks, and no ask because of untrusted content.

use crate::remembered::path_pattern;
use crate::request::Call;
use crate::rules::{Facts, rememberable};

/// Returns a rule that allows calls like this one, as a TOML table: commands with the same beginning, addresses at one
/// host, or files below one folder. `None` if no such pattern can describe the call.
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

/// Returns a name for what a call is about, and the condition that matches it.
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

/// Quotes text as a TOML string; `None` if it would need escapes.
fn quoted(text: &str) -> Option<String> {
    let is_plain = |letter: char| !letter.is_control() && !matches!(letter, '"' | '\\');
    text.chars().all(is_plain).then(|| format!("\"{text}\""))
}
