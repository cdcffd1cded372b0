//! The server commands in README and the documentation, run verbatim against the program on a free port. Each must end
//! with code 0 unless the table here says otherwise. Other commands are run by the tests of `neuraxis-cli`.

use std::path::Path;
use std::process::Command;

use neuraxis_testkit::documents::{Block, blocks, run_all};
use serde_json::{Value, json};

use crate::support::Program;
use crate::support::program::folder_with;

/// Commands that are not run, by their beginning, with the reason.
const NOT_RUN: [(&str, &str, &str); 16] = [
    (
        "README.md",
        "cargo run -p neuraxis-server",
        "the test starts the program",
    ),
    (
        "docs/server.md",
        "neuraxis-server &",
        "the test starts the program",
    ),
    (
        "docs/scale.md",
        "neuraxis-server --config",
        "it serves until it is stopped",
    ),
    (
        "docs/scale.md",
        "neuraxis-server worker",
        "it takes a server of Restate",
    ),
    (
        "docs/scale.md",
        "neuraxis doctor",
        "it is another program's",
    ),
    (
        "docs/server.md",
        "curl http://127.0.0.1:8787/api/v1/runs/$RUN/tools/",
        "it takes a run that waits for a client's tool",
    ),
    (
        "docs/server.md",
        "curl http://127.0.0.1:8787/api/v1/runs/$RUN/questions/",
        "it takes a tool that asks",
    ),
    (
        "docs/server.md",
        "curl -N http://127.0.0.1:8787/api/v1/sessions/r1/turns",
        "it takes a server whose clients may choose the mode exploratory",
    ),
    (
        "docs/scale.md",
        "NEURAXIS_KILL_ROUNDS=",
        "it builds the workspace",
    ),
    ("docs/deploy.md", "cargo build", "it builds the workspace"),
    ("docs/deploy.md", "systemd-run ", "it changes the system"),
    ("docs/deploy.md", "install ", "it changes the system"),
    ("docs/deploy.md", "systemctl ", "it changes the system"),
    (
        "docs/deploy.md",
        "podman build",
        "no engine of containers is at hand",
    ),
    (
        "docs/deploy.md",
        "podman run",
        "no engine of containers is at hand",
    ),
    (
        "docs/observability.md",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        "it serves until it is stopped",
    ),
];

const CONFIGURATION: &str = "[plans.basic]\nmax_turns = 5\n";

const ASKS: &str = "[modes.moderate.tools]\nread_only = \"ask\"\n";

const PRELUDE: &str = r#"
neuraxis-server() { "$SERVER" "$@"; }
curl() { command curl -sS --fail-with-body --max-time 60 "${@//127.0.0.1:8787/$ADDRESS}"; }
"#;

/// The data of a waiting run, for the placeholders in the documentation.
struct Waiting {
    run: String,
    call: String,
    question: String,
}

fn is_of_server(block: &Block) -> bool {
    ["neuraxis-server", "127.0.0.1:8787"]
        .iter()
        .any(|word| block.text.contains(word))
}

fn why_not_run(document: &str, command: &str) -> Option<usize> {
    NOT_RUN
        .iter()
        .position(|(of, begins, _)| *of == document && command.starts_with(begins))
}

async fn one_that_waits(program: &Program) -> Waiting {
    let body = json!({"message": "What time is it?"});
    let reply = program.client().turn("waits", &body).send().await.unwrap();
    let result: Value = serde_json::from_str(&reply.text().await.unwrap()).unwrap();
    assert_eq!(result["status"], "waiting", "{result}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let pending = &result["pending"][0];
    Waiting {
        run: text(&result["run_id"]),
        call: text(&pending["tool_call_id"]),
        question: text(&pending["question"]),
    }
}

fn filled_in(command: &str, waiting: Option<&Waiting>) -> String {
    let key = "$(neuraxis-server keys list | grep -oE '[0-9a-f]{12}' | tail -1)";
    let command = command.replace("5c1f0a9b7d21", key);
    let Some(waiting) = waiting else {
        return command;
    };
    command
        .replace("$RUN", &waiting.run)
        .replace("$CALL", &waiting.call)
        .replace("4f0c…", &waiting.question)
}

async fn wrong_of(document: &str, commands: &[String]) -> Vec<String> {
    // If a document decides about calls, a call must be waiting.
    let decides = commands.iter().any(|command| command.contains("$RUN"));
    let asks = if decides { ASKS } else { "" };
    let configuration = format!("{CONFIGURATION}{asks}");
    let folder = folder_with(&configuration);
    std::fs::write(folder.path().join("report.pdf"), "All is well.\n").unwrap();
    let program = Program::start_in(folder, |_| {}).await;
    let waiting = match decides {
        true => Some(one_that_waits(&program).await),
        false => None,
    };
    let mut shell = Command::new("bash");
    shell
        .current_dir(program.folder())
        .env_clear()
        .env("HOME", program.folder())
        .env("PATH", "/usr/bin:/bin")
        .env("SERVER", env!("CARGO_BIN_EXE_neuraxis-server"))
        .env("ADDRESS", program.address());
    let filled: Vec<String> = commands
        .iter()
        .map(|it| filled_in(it, waiting.as_ref()))
        .collect();
    let scratch = tempfile::tempdir().unwrap();
    let ran = tokio::task::spawn_blocking(move || {
        run_all(&mut shell, PRELUDE, &filled, scratch.path()).unwrap()
    });
    let ran = ran.await.unwrap();
    let failed = ran.iter().filter(|ran| ran.code != 0);
    failed.map(|ran| format!("{document}: {ran:?}")).collect()
}

#[tokio::test]
async fn every_documented_server_command_exits_with_code_0() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let blocks = blocks(&root).unwrap();
    let ours = || blocks.iter().filter(|block| is_of_server(block));
    let mut documents: Vec<&str> = ours().map(|block| block.document.as_str()).collect();
    documents.dedup();
    let mut used = [false; NOT_RUN.len()];
    let mut wrong = Vec::new();
    let mut count = 0;
    for document in documents {
        let of_document = ours().filter(|block| block.document == document);
        let mut commands: Vec<String> = of_document.flat_map(Block::commands).collect();
        commands.retain(|command| match why_not_run(document, command) {
            Some(place) => {
                used[place] = true;
                false
            }
            None => true,
        });
        if !commands.is_empty() {
            count += commands.len();
            wrong.extend(wrong_of(document, &commands).await);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(count >= 12, "{count} commands were run");
    let unused = NOT_RUN.iter().zip(used).filter(|(_, used)| !used);
    assert_eq!(unused.count(), 0, "no document has some of {NOT_RUN:?}");
}
