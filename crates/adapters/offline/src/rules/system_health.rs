//! When to check the state of this machine, and which part of it.

use serde_json::{Map, Value};

use super::{Rule, arguments};
use crate::question::{ParsedMessage, is_among};

pub(super) const RULE: Rule = Rule {
    tool: "system_health",
    channel: "system_health",
    fits,
    arguments: read,
};

/// Words that ask for the whole machine.
const AT_LARGE: &str = "health healthy slow sluggish machine computer laptop pc server host hardware system performance \
    diagnose";

/// Words that ask for one section each.
const SECTIONS: [(&str, &str); 8] = [
    ("cpu", "cpu cpus processor processors cores"),
    ("memory", "memory ram swap"),
    (
        "disks",
        "disk disks drive drives ssd storage space filesystem filesystems",
    ),
    (
        "temperatures",
        "temperature temperatures hot overheating thermal",
    ),
    ("load", "load busy"),
    ("uptime", "uptime boot booted reboot rebooted"),
    ("processes", "process processes"),
    ("errors", "log logs journal syslog"),
];

pub(super) fn is_keyword(word: &str) -> bool {
    is_among(word, AT_LARGE) || SECTIONS.iter().any(|(_, words)| is_among(word, words))
}

fn fits(question: &ParsedMessage) -> bool {
    question.words.iter().any(|word| is_keyword(&word.lower))
}

fn read(question: &ParsedMessage) -> Map<String, Value> {
    let named = SECTIONS.iter().filter(|(_, words)| question.has_any(words));
    let mut sections: Vec<&str> = named.map(|(section, _)| *section).collect();
    // "Error" alone may mean anything; here it means the machine's errors.
    if fits(question) && question.has_any("error errors") && !sections.contains(&"errors") {
        sections.push("errors");
    }
    arguments([("sections", (!sections.is_empty()).then(|| sections.into()))])
}
