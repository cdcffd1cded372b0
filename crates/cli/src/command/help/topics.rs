//! The documents that are part of the program, with their names and descriptions.
//!
//! Documents for developers of the program, such as the rules of the loop, are not included.

/// A document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Topic {
    /// Its name for `neuraxis help`.
    pub(super) name: &'static str,
    /// Its description; empty for a page of a listed document.
    pub(super) about: &'static str,
    /// Its file below `docs`, which links lead to.
    pub(super) file: &'static str,
    /// Its text, in Markdown.
    pub(super) text: &'static str,
}

// They are linked into this crate's folder, since a package contains only files inside it.
macro_rules! topic {
    ($name:literal, $about:literal, $file:literal) => {
        Topic {
            name: $name,
            about: $about,
            file: $file,
            text: include_str!(concat!("../../../docs/", $file)),
        }
    };
}

macro_rules! page {
    ($folder:literal, $name:literal) => {
        Topic {
            name: concat!($folder, "/", $name),
            about: "",
            file: concat!($folder, "/", $name, ".md"),
            text: include_str!(concat!("../../../docs/", $folder, "/", $name, ".md")),
        }
    };
}

/// The listed documents.
pub(super) static TOPICS: [Topic; 29] = [
    topic!(
        "models",
        "choosing models, and fixing those that do not answer",
        "models.md"
    ),
    topic!(
        "chat",
        "chatting in a terminal: keys, commands, approvals",
        "chat.md"
    ),
    topic!(
        "pipes",
        "data from pipes and files, exit codes, scripts",
        "pipes.md"
    ),
    topic!(
        "policy",
        "what may run, and who is asked first",
        "policy.md"
    ),
    topic!(
        "rules",
        "writing rules, and the sandbox for commands",
        "rules.md"
    ),
    topic!(
        "sessions",
        "continuing, verifying, moving and branching conversations",
        "sessions.md"
    ),
    topic!(
        "storage",
        "where sessions are stored, and what survives a failure",
        "storage.md"
    ),
    topic!(
        "security",
        "which attacks are defended against, and how",
        "security.md"
    ),
    topic!(
        "privacy",
        "where personal data is, and how to export and erase it",
        "privacy.md"
    ),
    topic!(
        "agents",
        "defining agents in code (in a file: policy)",
        "agents.md"
    ),
    topic!("answers", "JSON answers that match a schema", "answers.md"),
    topic!("web", "reading and searching the web", "web.md"),
    topic!("mcp", "tools of MCP servers", "mcp.md"),
    topic!("mcp-server", "acting as an MCP server", "mcp-server.md"),
    topic!(
        "long-results",
        "tool results that are too long for a model",
        "long-results.md"
    ),
    topic!(
        "reliability",
        "failures, retries, crashes",
        "reliability.md"
    ),
    topic!("server", "neuraxis-server and its HTTP API", "server.md"),
    topic!(
        "evals",
        "testing that agents still do what they should",
        "evals.md"
    ),
    topic!(
        "observability",
        "traces, metrics and where they go",
        "observability.md"
    ),
    topic!(
        "scale",
        "many servers, and runs driven by workers",
        "scale.md"
    ),
    topic!(
        "runs",
        "what a run did, what it cost, where its time went",
        "runs.md"
    ),
    topic!("openai", "the server's OpenAI-compatible API", "openai.md"),
    topic!("agui", "front ends that speak AG-UI", "agui.md"),
    topic!(
        "deploy",
        "systemd, containers, probes, replicas",
        "deploy.md"
    ),
    topic!(
        "operating",
        "metrics, logs, TLS and changes while the server runs",
        "operating.md"
    ),
    topic!(
        "many-tools",
        "working with hundreds of tools",
        "many-tools.md"
    ),
    topic!("performance", "measured costs", "performance.md"),
    topic!(
        "embedding",
        "using the crate in your own programs; its pages: embedding/hello-world, …",
        "embedding/README.md"
    ),
    topic!(
        "errors",
        "problems that the server answers with, one page each: errors/no-model, …",
        "errors/README.md"
    ),
];

/// The pages of documents that are folders.
pub(super) static PAGES: [Topic; 66] = [
    page!("embedding", "approvals"),
    page!("embedding", "guardrails"),
    page!("embedding", "hello-world"),
    page!("embedding", "policy"),
    page!("embedding", "provider"),
    page!("embedding", "sessions"),
    page!("embedding", "streaming"),
    page!("embedding", "sub-agents"),
    page!("embedding", "testing"),
    page!("embedding", "tools"),
    page!("embedding", "typed-answers"),
    page!("errors", "agent-not-allowed"),
    page!("errors", "at-work-elsewhere"),
    page!("errors", "body-timeout"),
    page!("errors", "body-too-large"),
    page!("errors", "cannot-go-on"),
    page!("errors", "channel-not-allowed"),
    page!("errors", "encoded-body"),
    page!("errors", "foreign-host"),
    page!("errors", "foreign-origin"),
    page!("errors", "idempotency-key-reused"),
    page!("errors", "internal"),
    page!("errors", "invalid-body"),
    page!("errors", "invalid-field"),
    page!("errors", "invalid-host"),
    page!("errors", "invalid-idempotency-key"),
    page!("errors", "invalid-json"),
    page!("errors", "invalid-last-event-id"),
    page!("errors", "invalid-query"),
    page!("errors", "invalid-session-id"),
    page!("errors", "key-needed"),
    page!("errors", "method-not-allowed"),
    page!("errors", "mode-not-allowed"),
    page!("errors", "no-decisions"),
    page!("errors", "no-model"),
    page!("errors", "no-such-event"),
    page!("errors", "no-such-model"),
    page!("errors", "no-such-question"),
    page!("errors", "no-such-response"),
    page!("errors", "no-such-run"),
    page!("errors", "no-such-session"),
    page!("errors", "not-asked"),
    page!("errors", "not-found"),
    page!("errors", "not-json"),
    page!("errors", "not-local"),
    page!("errors", "not-waiting"),
    page!("errors", "other-question"),
    page!("errors", "question-altered"),
    page!("errors", "question-expired"),
    page!("errors", "refused"),
    page!("errors", "run-ended"),
    page!("errors", "run-unrecorded"),
    page!("errors", "scope-needed"),
    page!("errors", "session-altered"),
    page!("errors", "session-busy"),
    page!("errors", "session-exists"),
    page!("errors", "shutting-down"),
    page!("errors", "store-failed"),
    page!("errors", "store-unavailable"),
    page!("errors", "token-needed"),
    page!("errors", "too-many-own-runs"),
    page!("errors", "too-many-requests"),
    page!("errors", "too-many-runs"),
    page!("errors", "unknown-channel"),
    page!("errors", "unknown-field"),
    page!("errors", "unknown-mode"),
];

/// Finds a document by its name, or by its file as other documents cite it: `docs/policy.md`.
pub(super) fn find(name: &str) -> Option<&'static Topic> {
    let file = name.strip_prefix("docs/").unwrap_or(name);
    let mut all = TOPICS.iter().chain(&PAGES);
    all.find(|topic| topic.name == name || topic.file == file)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// Documents for developers of the program.
    const OF_THE_CODE: [&str; 5] = [
        "architecture.md",
        "comparison.md",
        "loop-rules.md",
        "state-transitions.md",
        "wire.md",
    ];

    fn files(folder: &str) -> BTreeSet<String> {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let entries = std::fs::read_dir(docs.join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let names = names.filter(|name| name.ends_with(".md"));
        names.map(|name| format!("{folder}{name}")).collect()
    }

    #[test]
    fn every_document_for_users_is_part_of_the_program() {
        let mut there = files("");
        there.extend(files("embedding/"));
        there.extend(files("errors/"));
        there.retain(|name| !OF_THE_CODE.contains(&name.as_str()));
        let ours = TOPICS.iter().chain(&PAGES);
        let ours: BTreeSet<String> = ours.map(|topic| topic.file.to_owned()).collect();
        assert_eq!(ours, there);
    }
}
